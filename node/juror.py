"""Jury duty: watch for disputes whose jury includes me, recompute the row, commit, reveal, resolve."""

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
from verillm.errors import ChainError, ConfigError, ProofError, SchedulerError, VeriLLMError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc

TRANSCRIPT_SECONDS = 20.0
_SCHEMA = "CREATE TABLE IF NOT EXISTS votes (dispute TEXT PRIMARY KEY, row BLOB, salt BLOB)"


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
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigError(f"--state: {path} is not a usable SQLite file: {error}") from error
        self._lock = threading.Lock()

    def get(self, dispute: int) -> Vote | None:
        with self._lock:
            sql = "SELECT row, salt FROM votes WHERE dispute = ?"
            found = self._db.execute(sql, (str(dispute),)).fetchone()
        return Vote(*found) if found else None

    def put(self, dispute: int, vote: Vote) -> None:
        with self._lock:
            self._db.execute("INSERT INTO votes VALUES (?, ?, ?)", (str(dispute), vote.row, vote.salt))

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
                self._answer(event.args)
            self._next_block = latest + 1
        for dispute_id in sorted(self._open):
            dispute = self._chain.dispute(dispute_id)
            if dispute.state is DisputeState.RESOLVED:
                self._open.discard(dispute_id)
            elif self._me in (*dispute.jurors, dispute.first, dispute.second, dispute.challenger):
                self._advance(dispute_id, dispute, latest)

    def _advance(self, dispute_id: int, dispute: DisputeInfo, latest: int) -> None:
        """The next step of a dispute that concerns me."""
        if dispute.state is DisputeState.AWAITING_JURY:
            self._chain.wait_randomness(dispute.randomness_request)
            self._race(dispute_id, "draw_jury", self._chain.draw_jury)
            return
        votes = {juror: self._chain.vote(dispute_id, juror) for juror in dispute.jurors}
        mine = votes.get(self._me)
        if mine is not None and not any(mine.commitment):
            if latest < dispute.commit_deadline:
                self._commit(dispute_id, dispute)
            return
        everybody = all(any(vote.commitment) for vote in votes.values())
        voting_over = latest > dispute.commit_deadline or everybody
        if mine is not None and not mine.revealed and voting_over and latest < dispute.reveal_deadline:
            vote = self._votes.get(dispute_id)
            if vote is None:
                raise ConfigError(f"--state: the vote on dispute {dispute_id} was committed but is not here")
            self._chain.reveal_vote(dispute_id, vote.row, vote.salt)
            self._log.info("vote_revealed", dispute=dispute_id)
        elif all(vote.revealed for vote in votes.values()) or latest > dispute.reveal_deadline:
            self._race(dispute_id, "resolve", self._chain.resolve)

    def _race(self, dispute_id: int, step: str, send: Callable[[int], object]) -> None:
        try:
            send(dispute_id)
        except ChainError as error:
            self._log.debug("race_lost", dispute=dispute_id, step=step, reason=error)
        else:
            self._log.info(step, dispute=dispute_id)

    def _commit(self, dispute_id: int, dispute: DisputeInfo) -> None:
        vote = self._votes.get(dispute_id)
        if vote is None:
            vote = Vote(self._row(dispute), secrets.token_bytes(32))
            self._votes.put(dispute_id, vote)
        self._chain.commit_vote(dispute_id, vote.row, vote.salt)
        self._log.info("vote_committed", dispute=dispute_id, job=dispute.job_id)

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

    def _answer(self, demand: Mapping[str, Any]) -> None:
        """Publish a demanded row before the deadline, if I still hold the job."""
        job = self._held.get(demand["jobId"])
        if job is None:
            self._log.warning("demand_unknown_job", job=demand["jobId"])
            return
        opening = job.committed.open_row(demand["boundary"], demand["position"])
        self._chain.answer_opening(demand["demandId"], job.committed.parts, opening)
        self._log.info("demand_answered", job=job.job_id, position=demand["position"])
