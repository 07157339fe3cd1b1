"""Turn a verdict's evidence into challenges that the contracts decide: token fraud, else diverging rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from node.held import HeldJob
from node.log import NodeLog
from verillm.chain import ChainClient
from verillm.chain.court import CommitmentProof, MatrixRow, TokenFraudProof
from verillm.commitment import OutputMatrix, RowOpening
from verillm.comparator.compare import exceeds, row_statistics
from verillm.constants import Dtype
from verillm.errors import ChainError, VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.verification import TokenFraud


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
    """My row and theirs at the first (position, boundary) at which theirs is out of tolerance."""
    own = {(row.position, row.boundary): row for row in mine.opening.rows}
    dtype = Dtype(manifest.spec.row_dtype)
    for row in sorted(other.opening.rows, key=lambda r: (r.position, r.boundary)):
        against = own[row.position, row.boundary]
        d, n = row_statistics(against.row, row.row, dtype)
        if exceeds(d, n, manifest.spec.row_tolerance_q40[row.boundary]):
            return against, row
    return None


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
        self._pool.submit(self._guarded, evidence)

    def _guarded(self, evidence: Evidence) -> None:
        try:
            self._consider(evidence)
        except Exception:  # the pool would swallow it
            self._log.exception("challenge_crashed", job=evidence.job.job_id)

    def _consider(self, evidence: Evidence) -> None:
        accused = None
        fraud = evidence.fraud
        if fraud is not None and evidence.worker is not evidence.mine:
            accused = evidence.worker
            self._try("token_fraud", evidence, accused, lambda: self._prove(evidence, fraud))
        for other in evidence.others:
            if other is accused:
                continue
            rows = find_divergence(evidence.mine, other, evidence.manifest)
            if rows is not None:
                mine, theirs = rows
                self._try("dispute", evidence, other, lambda o=other, m=mine, t=theirs:  # type: ignore[misc]
                          self._dispute(evidence, o, m, t))  # fmt: skip

    def _try(self, kind: str, evidence: Evidence, accused: Party, send: Callable[[], None]) -> None:
        job = evidence.job.job_id
        try:
            send()
        except ChainError as error:
            self._log.warning("challenge_refused", job=job, kind=kind, accused=accused.operator, reason=error)
        except VeriLLMError as error:
            self._log.warning("challenge_failed", job=job, kind=kind, accused=accused.operator, reason=error)
        else:
            self._log.info("challenged", job=job, kind=kind, accused=accused.operator)

    def _prove(self, evidence: Evidence, fraud: TokenFraud) -> None:
        """Court.proveTokenFraud: the worker's own row, and the output matrix's rows of both tokens."""
        job = evidence.job
        matrix = self._models[job.submission.job.model_id].output_matrix
        last = len(evidence.manifest.boundaries) - 1
        row = next(
            o
            for o in evidence.worker.opening.rows
            if (o.boundary, o.position) == (last, fraud.position)
        )
        self._chain.prove_token_fraud(
            TokenFraudProof(
                round_id=evidence.round_id,
                worker=evidence.worker.proof,
                job=job.submission.job,
                final_row=row,
                claimed_token=fraud.claimed,
                token_proof=job.committed.token_proof(fraud.position + 1),
                claimed=_matrix_row(matrix, fraud.claimed),
                better=_matrix_row(matrix, fraud.better),
            )
        )

    def _dispute(self, evidence: Evidence, other: Party, mine: RowOpening, theirs: RowOpening) -> None:
        """Court.openDispute: my committed row against theirs; a jury decides. One accuser is enough."""
        for event in self._chain.events("court", "DisputeOpened", jobId=evidence.job.job_id):
            if other.operator in (event.args["first"], event.args["second"]):
                self._log.info("already_disputed", job=evidence.job.job_id, accused=other.operator)
                return
        self._chain.open_dispute(evidence.round_id, evidence.mine.proof, mine, other.proof, theirs)


def _matrix_row(matrix: OutputMatrix, token: int) -> MatrixRow:
    return MatrixRow(token, matrix.row(token), matrix.proof(token))
