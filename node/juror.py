"""Jury duty: watch the chain for disputes whose jury includes me, recompute the row, commit, reveal, resolve."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
from eth_account.signers.local import LocalAccount

from node.checks import check_submission
from node.judging import ServedModel
from node.log import NodeLog
from node.remote import CHANNEL_OPTIONS
from verillm.chain import ChainClient
from verillm.commitment.hashing import token_root
from verillm.errors import ConfigError, ProofError, SchedulerError, VeriLLMError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc

TRANSCRIPT_SECONDS = 20.0


@dataclass(frozen=True)
class Vote:
    """A vote that was, or is about to be, committed: the row (storage bytes) and its 32-byte salt."""

    row: bytes
    salt: bytes


class VoteStore:
    """Votes by dispute in one SQLite file. A vote is on disk before its hash goes out, so that a restart
    between commit and reveal loses nothing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("CREATE TABLE IF NOT EXISTS votes (dispute TEXT PRIMARY KEY, row BLOB, salt BLOB)")
        except sqlite3.Error as error:
            raise ConfigError(f"--state: {path} is not a usable SQLite file: {error}") from error
        self._lock = threading.Lock()

    def get(self, dispute: int) -> Vote | None:
        with self._lock:
            found = self._db.execute("SELECT row, salt FROM votes WHERE dispute = ?", (str(dispute),)).fetchone()
        return Vote(*found) if found else None

    def put(self, dispute: int, vote: Vote) -> None:
        with self._lock:
            self._db.execute("INSERT INTO votes VALUES (?, ?, ?)", (str(dispute), vote.row, vote.salt))

    def close(self) -> None:
        with self._lock:
            self._db.close()
