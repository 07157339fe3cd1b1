"""Jury duty: watch for disputes, recompute the row, commit, reveal; draw, tally and resolve for everybody."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from eth_account.signers.local import LocalAccount

from node.checks import check_submission
from node.held import HeldJobs
from node.judging import ServedModel
from node.log import NodeLog
from node.remote import CHANNEL_OPTIONS
from verillm.chain import ChainClient
from verillm.chain.court import DisputeInfo, DisputeState
from verillm.commitment.hashing import token_root
from verillm.errors import (
    ChainError,
    ConfigError,
    ProofError,
    SchedulerError,
    SeedExpired,
    VeriLLMError,
)
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc

TRANSCRIPT_SECONDS = 20.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS ballots
  (dispute TEXT, level INTEGER, row BLOB, salt BLOB, PRIMARY KEY (dispute, level))"""


@dataclass(frozen=True)
class Vote:
    """A vote that was, or is about to be, committed: the row (storage bytes) and its 32-byte salt."""

    row: bytes
    salt: bytes


class VoteStore:
    """Votes by dispute and level in one SQLite file. A vote is on disk before its hash goes out, so that a
    restart between commit and reveal loses nothing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigError(f"--state: {path} is not a usable SQLite file: {error}") from error
        self._lock = threading.Lock()

    def get(self, dispute: int, level: int) -> Vote | None:
        with self._lock:
            sql = "SELECT row, salt FROM ballots WHERE dispute = ? AND level = ?"
            found = self._db.execute(sql, (str(dispute), level)).fetchone()
        return Vote(*found) if found else None

    def put(self, dispute: int, level: int, vote: Vote) -> None:
        with self._lock:
            self._db.execute(
                "INSERT INTO ballots VALUES (?, ?, ?, ?)", (str(dispute), level, vote.row, vote.salt)
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()


class Juror:
    """Polls the chain every ``poll`` seconds in a thread of its own: jury duty, and demands for my rows.

    What another node did first (poke, draw, resolve) is refused by the contract and not an error.
    """

    def __init__(
        self,
        key: LocalAccount,
        chain: ChainClient,
        models: Mapping[bytes, ServedModel],
        held: HeldJobs,
        scheduler: str,
        votes: VoteStore,
        poll: float,
        log: NodeLog,
    ) -> None:
        self._me = key.address
        self._chain = chain
        self._models = models
        self._held = held
        self._votes = votes
        self._poll = poll
        self._log = log
        self._channel = grpc.insecure_channel(scheduler, options=CHANNEL_OPTIONS)
        self._scheduler = rpc.SchedulerStub(self._channel)
        self._next_block = chain.addresses.deploy_block
        self._open: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="juror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)
        self._channel.close()
        self._votes.close()

    def _loop(self) -> None:
        while not self._stop.wait(self._poll):
            try:
                self._look()
            except VeriLLMError as error:
                self._log.warning("juror_retry", reason=error)
            except Exception:
                self._log.exception("juror_crashed")

    def _look(self) -> None:
        latest = self._chain.block_number()
        if latest >= self._next_block:
            for event in self._chain.events("court", "DisputeOpened", self._next_block, latest):
                self._open.add(event.args["disputeId"])
            demands = self._chain.events(
                "tribunal", "OpeningDemanded", self._next_block, latest, operator=self._me
            )
            for event in demands:
                self._answer(event.args["demandId"], event.args["demand"])
            self._next_block = latest + 1
        for dispute_id in sorted(self._open):
            dispute = self._chain.dispute(dispute_id)
            if dispute.state is DisputeState.ENDED:
                self._open.discard(dispute_id)
            else:
                self._advance(dispute_id, dispute, latest)

    def _advance(self, dispute_id: int, dispute: DisputeInfo, latest: int) -> None:
        """The next step of a dispute, if it is my own or due for anyone."""
        chain = self._chain
        match dispute.state:
            case DisputeState.AWAITING_JURY if latest > dispute.target_block:
                self._race(dispute_id, "draw_jury", self._draw)
            case DisputeState.VOTING:
                self._vote(dispute_id, dispute, latest)
            case DisputeState.APPEALABLE if latest > dispute.appeal_deadline:
                self._race(dispute_id, "resolve", chain.resolve)
            case DisputeState.SETTLING:
                self._race(dispute_id, "resolve", chain.resolve)

    def _draw(self, dispute_id: int) -> None:
        try:
            self._chain.draw_jury(dispute_id)
        except SeedExpired:
            self._chain.requeue_jury(dispute_id)

    def _vote(self, dispute_id: int, dispute: DisputeInfo, latest: int) -> None:
        jury = self._chain.jury(dispute_id, dispute.level)
        voting_over = latest > dispute.commit_deadline or jury.committed + jury.unable == jury.drawn
        if self._me in self._chain.jurors(dispute_id, dispute.level):
            mine = self._chain.vote(dispute_id, dispute.level, self._me)
            if not any(mine.commitment) and not mine.unable:
                if latest < dispute.commit_deadline:
                    self._commit(dispute_id, dispute)
                return
            if any(mine.commitment) and not mine.revealed and voting_over:
                if latest < dispute.reveal_deadline:
                    self._reveal(dispute_id, dispute.level)
                return
        if (voting_over and jury.revealed == jury.committed) or latest > dispute.reveal_deadline:
            self._race(dispute_id, "tally", self._chain.tally)

    def _race(self, dispute_id: int, step: str, send: Callable[[int], object]) -> None:
        try:
            send(dispute_id)
        except ChainError as error:
            self._log.debug("race_lost", dispute=dispute_id, step=step, reason=error)
        else:
            self._log.info(step, dispute=dispute_id)

    def _commit(self, dispute_id: int, dispute: DisputeInfo) -> None:
        vote = self._votes.get(dispute_id, dispute.level)
        if vote is None:
            try:
                row = self._row(dispute)
            except VeriLLMError as error:
                self._chain.declare_unable(dispute_id)
                self._log.warning("vote_unable", dispute=dispute_id, job=dispute.job_id, reason=error)
                return
            vote = Vote(row, secrets.token_bytes(32))
            self._votes.put(dispute_id, dispute.level, vote)
        self._chain.commit_vote(dispute_id, vote.row, vote.salt)
        self._log.info("vote_committed", dispute=dispute_id, job=dispute.job_id)

    def _reveal(self, dispute_id: int, level: int) -> None:
        vote = self._votes.get(dispute_id, level)
        if vote is None:
            raise ConfigError(f"--state: the vote on dispute {dispute_id} was committed but is not here")
        self._chain.reveal_vote(dispute_id, vote.row, vote.salt)
        self._log.info("vote_revealed", dispute=dispute_id)

    def _row(self, dispute: DisputeInfo) -> bytes:
        """My own row at the disputed place. Raises a typed error if I do not have model or transcript."""
        model = self._models.get(dispute.model_id)
        if model is None:
            raise ConfigError(f"--manifest: model 0x{dispute.model_id.hex()} of a jury is not served here")
        try:
            query = pb.JobQuery(job_id=dispute.job_id)
            transcript = self._scheduler.GetTranscript(query, timeout=TRANSCRIPT_SECONDS)
        except grpc.RpcError as error:
            raise SchedulerError(f"scheduler: gave no transcript: {error.code().name}") from error
        submission = codec.submission_from_proto(transcript.request)
        tokens = [*submission.prompt, *transcript.output]
        if check_submission(submission, self._chain.domain) != dispute.job_id:
            raise ProofError("transcript: is of another job than the dispute")
        if token_root(tokens) != dispute.token_root:
            raise ProofError("transcript: does not hash to the disputed token root")
        engine = model.runner.behaviour.engine
        state = model.runner.call(lambda: engine.prefill(tokens[: dispute.position + 1])).result()
        return state.store.rows(dispute.boundary)[dispute.position].tobytes()

    def _answer(self, demand_id: int, demand: Mapping[str, Any]) -> None:
        """Publish a demanded row before the deadline, if I still hold the job."""
        job = self._held.get(demand["commitment"]["jobId"])
        if job is None:
            self._log.warning("demand_unknown_job", job=demand["commitment"]["jobId"])
            return
        opening = job.committed.open_row(demand["boundary"], demand["position"])
        self._chain.answer_opening(demand_id, job.committed.parts, opening)
        self._log.info("demand_answered", job=job.job_id, position=demand["position"])
