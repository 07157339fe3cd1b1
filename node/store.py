"""What a scheduler must not forget: jobs, signatures, transcripts and rounds in progress. SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verillm.errors import ConfigError
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  job_id BLOB PRIMARY KEY, state TEXT NOT NULL, client TEXT NOT NULL, nonce TEXT NOT NULL,
  max_cost TEXT NOT NULL, request BLOB NOT NULL, transcript BLOB, draw TEXT, receipt TEXT,
  error TEXT NOT NULL DEFAULT '',
  UNIQUE (client, nonce));
CREATE TABLE IF NOT EXISTS rounds (
  id INTEGER PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL);
"""

OPEN_STATES = ("running", "committed", "verifying", "settled")
"""States of jobs that may still be charged to their client's escrow."""


@dataclass
class StoredJob:
    """One job. ``draw`` says how the worker was drawn: epoch, attempt, VRF proof (hex)."""

    job_id: bytes
    state: str
    client: str
    nonce: int
    max_cost: int
    request: pb.SubmitRequest
    transcript: pb.Transcript | None = None
    draw: dict[str, Any] = field(default_factory=dict)
    receipt: str = ""
    error: str = ""


class Store:
    """One SQLite file, one connection, one lock. Every write is committed before the call returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigError(f"--state: {path} is not a usable SQLite file: {error}") from error
        self._lock = threading.Lock()

    def _run(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, args).fetchall()

    def insert_job(self, job: StoredJob) -> bool:
        """Add a job; False if its id, or its client's nonce, is already known."""
        try:
            self._run(
                "INSERT INTO jobs (job_id, state, client, nonce, max_cost, request) VALUES (?,?,?,?,?,?)",
                job.job_id, job.state, job.client, str(job.nonce), str(job.max_cost),
                job.request.SerializeToString(),
            )
        except sqlite3.IntegrityError:
            return False
        return True

    def set_state(self, job_id: bytes, state: str, error: str = "") -> None:
        self._run("UPDATE jobs SET state = ?, error = ? WHERE job_id = ?", state, error, job_id)

    def set_committed(self, job_id: bytes, transcript: pb.Transcript, draw: dict[str, Any]) -> None:
        self._run(
            "UPDATE jobs SET state = 'committed', transcript = ?, draw = ? WHERE job_id = ?",
            transcript.SerializeToString(), json.dumps(draw), job_id,
        )

    def set_receipt(self, job_id: bytes, receipt: str) -> None:
        self._run("UPDATE jobs SET receipt = ? WHERE job_id = ?", receipt, job_id)

    def job(self, job_id: bytes) -> StoredJob | None:
        rows = self._run(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", job_id)
        return _stored(rows[0]) if rows else None

    def jobs_in(self, state: str) -> list[StoredJob]:
        """Jobs in one state, oldest first."""
        rows = self._run(f"SELECT {_COLUMNS} FROM jobs WHERE state = ? ORDER BY rowid", state)
        return [_stored(r) for r in rows]

    def outstanding(self, client: str) -> int:
        """Sum of the maximal costs of the client's jobs that may still be charged, in token wei."""
        marks = ",".join("?" * len(OPEN_STATES))
        sql = f"SELECT max_cost FROM jobs WHERE client = ? AND state IN ({marks})"
        rows = self._run(sql, client, *OPEN_STATES)
        return sum(int(r[0]) for r in rows)

    def add_round(self, state: dict[str, Any]) -> int:
        return int(self._run("INSERT INTO rounds (state) VALUES (?) RETURNING id", json.dumps(state))[0][0])

    def save_round(self, key: int, state: dict[str, Any], done: bool = False) -> None:
        self._run("UPDATE rounds SET state = ?, done = ? WHERE id = ?", json.dumps(state), int(done), key)

    def open_rounds(self) -> list[tuple[int, dict[str, Any]]]:
        rows = self._run("SELECT id, state FROM rounds WHERE done = 0 ORDER BY id")
        return [(int(r[0]), json.loads(r[1])) for r in rows]

    def rounds(self) -> list[dict[str, Any]]:
        """All rounds, newest first."""
        return [json.loads(r[0]) for r in self._run("SELECT state FROM rounds ORDER BY id DESC")]

    def close(self) -> None:
        with self._lock:
            self._db.close()


_COLUMNS = "job_id, state, client, nonce, max_cost, request, transcript, draw, receipt, error"


def _stored(row: tuple[Any, ...]) -> StoredJob:
    job_id, state, client, nonce, max_cost, request, transcript, draw, receipt, error = row
    return StoredJob(
        job_id, state, client, int(nonce), int(max_cost), parse(pb.SubmitRequest, request, "state: request"),
        parse(pb.Transcript, transcript, "state: transcript") if transcript else None,
        json.loads(draw) if draw else {}, receipt or "", error,
    )
