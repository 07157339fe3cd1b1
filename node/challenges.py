"""Turn a verdict's evidence into challenges that the contracts decide: token fraud, else diverging rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from node.held import HeldJob
from node.log import NodeLog
from verillm.chain import ChainClient
from verillm.chain.proofs import CommitmentProof, MatrixRow, TokenFraudProof
from verillm.commitment import OutputMatrix, RowOpening, keccak256
from verillm.comparator.compare import exceeds
from verillm.comparator.observation import JobObservation, compare_pairs
from verillm.comparator.verdict import judge
from verillm.constants import Dtype, Verdict
from verillm.errors import VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.verification import TokenFraud

TURN_BLOCKS = 2


@dataclass(frozen=True)
class Party:
    """One signed commitment of a job in a round: its leaf there and its opened rows, all checked."""

    signed: codec.SignedCommitment
    leaf: codec.LeafProof
    opening: codec.Opening

    @property
    def operator(self) -> str:
        return self.signed.commitment.operator

    @property
    def proof(self) -> CommitmentProof:
        """The commitment as the court takes it."""
        s = self.signed
        return CommitmentProof(
            s.commitment, s.signature, self.leaf.index, self.leaf.proof, self.opening.parts
        )


@dataclass(frozen=True)
class Evidence:
    """What one Judge call was about. ``others`` are all parties but this operator."""

    job: HeldJob
    round_id: int
    mine: Party
    worker: Party
    others: tuple[Party, ...]
    manifest: Manifest
    fraud: TokenFraud | None


Rows = tuple[RowOpening, RowOpening]


def find_divergence(mine: Party, other: Party, manifest: Manifest) -> Rows | None:
    """My row and theirs at the first (position, boundary) at which theirs is out of tolerance.

    None if all their opened rows together would not be rejected: now and then a single honest row is out of
    tolerance (``BoundaryTolerance``), and no dispute may rest on that.
    """
    own = {(row.position, row.boundary): row for row in mine.opening.rows}
    theirs = {(row.position, row.boundary): row for row in other.opening.rows}
    seen, shared = compare_pairs(
        ((b, t, row.token, own[t, b].row, row.row) for (t, b), row in sorted(theirs.items())),
        Dtype(manifest.spec.row_dtype),
    )
    if judge(JobObservation(seen, (), shared), manifest.table).verdict is not Verdict.REJECT:
        return None
    limits = manifest.spec.row_tolerance_q40
    beyond = sorted((c.position, c.boundary) for c in seen if exceeds(c.d, c.n, limits[c.boundary]))
    return (own[beyond[0]], theirs[beyond[0]]) if beyond else None


class HasMatrix(Protocol):
    """A served model, as far as token fraud proofs need it."""

    @property
    def output_matrix(self) -> OutputMatrix: ...


class Challenger:
    """Challenges from this node's own key, one at a time in the background.

    Others may be first: a challenge that the contract refuses is logged, not an error.
    """

    def __init__(
        self,
        chain: ChainClient,
        models: Mapping[bytes, HasMatrix],
        log: NodeLog,
    ) -> None:
        self._chain = chain
        self._models = models
        self._log = log
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="challenger")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def consider(self, evidence: Evidence) -> None:
        """Queue the evidence; returns at once."""
        self._pool.submit(self._guarded, evidence, self._chain.block_number())

    def _guarded(self, evidence: Evidence, start: int) -> None:
        try:
            self._consider(evidence, start)
        except Exception:  # the pool would swallow it
            self._log.exception("challenge_crashed", job=evidence.job.job_id)

    def _consider(self, evidence: Evidence, start: int) -> None:
        fraud = evidence.fraud
        found = {o.operator: find_divergence(evidence.mine, o, evidence.manifest) for o in evidence.others}
        allies = {operator for operator, rows in found.items() if rows is None}
        if fraud is not None:
            with self._turn("token_fraud", evidence, evidence.worker, start):
                self._prove(evidence, fraud)
        for other in evidence.others:
            rows = found[other.operator]
            if rows is not None and (fraud is None or other is not evidence.worker):
                with self._turn("dispute", evidence, other, start):
                    self._dispute(evidence, other, *rows, allies)

    @contextmanager
    def _turn(self, kind: str, evidence: Evidence, accused: Party, start: int) -> Iterator[None]:
        """Accusers go one after another, TURN_BLOCKS apart in an order that the job id gives, so that one
        challenge usually is enough; a silent accuser only delays the next."""
        job = evidence.job.job_id
        accusers = {p.operator for p in (evidence.mine, *evidence.others)} - {accused.operator}
        order = sorted(accusers, key=lambda operator: keccak256(job + operator.encode()))
        try:
            self._chain.wait_block(start + TURN_BLOCKS * order.index(evidence.mine.operator))
            yield
        except VeriLLMError as error:
            self._log.warning("challenge_failed", job=job, kind=kind, accused=accused.operator, reason=error)

    def _prove(self, evidence: Evidence, fraud: TokenFraud) -> None:
        """Tribunal.proveTokenFraud: the worker's own row, and the output matrix's rows of both tokens."""
        job = evidence.job
        if self._chain.voided(evidence.round_id, evidence.worker.leaf.index):
            self._log.info("already_proven", job=job.job_id)
            return
        matrix = self._models[job.submission.job.model_id].output_matrix
        last = len(evidence.manifest.boundaries) - 1
        row = next(
            o for o in evidence.worker.opening.rows if (o.boundary, o.position) == (last, fraud.position)
        )
        self._chain.prove_token_fraud(
            evidence.round_id,
            TokenFraudProof(
                worker=evidence.worker.proof,
                job=job.submission.job,
                final_row=row,
                claimed_token=fraud.claimed,
                token_proof=job.committed.token_proof(fraud.position + 1),
                claimed=_matrix_row(matrix, fraud.claimed),
                better=_matrix_row(matrix, fraud.better),
            ),
        )
        worker = evidence.worker.operator
        self._log.info("fraud_proven", job=job.job_id, worker=worker, position=fraud.position)

    def _dispute(
        self, evidence: Evidence, other: Party, mine: RowOpening, theirs: RowOpening, allies: set[str]
    ) -> None:
        """Court.openDispute: my committed row against theirs; a jury decides. Not if a party whose rows agree
        with mine is in dispute with it already."""
        for event in self._chain.events("court", "DisputeOpened", jobId=evidence.job.job_id):
            pair = {event.args["first"], event.args["second"]}
            if other.operator in pair and pair & allies:
                self._log.info("already_disputed", job=evidence.job.job_id, accused=other.operator)
                return
        number = self._chain.open_dispute(evidence.round_id, evidence.mine.proof, mine, other.proof, theirs)
        self._log.info("dispute_opened", job=evidence.job.job_id, accused=other.operator, dispute=number)


def _matrix_row(matrix: OutputMatrix, token: int) -> MatrixRow:
    return MatrixRow(token, matrix.row(token), matrix.proof(token))
