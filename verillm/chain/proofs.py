"""What the courts take as evidence, in the field order of the Solidity structs."""

from __future__ import annotations

from dataclasses import dataclass

from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.types import Commitment, Job, SettlementRecord


@dataclass(frozen=True)
class RecordProof:
    """A settlement record with its place under the round's settlement root."""

    index: int
    record: SettlementRecord
    proof: tuple[bytes, ...]


@dataclass(frozen=True)
class CommitmentProof:
    """A signed commitment, its place in the round's tree of its role, and the rest of its job root."""

    commitment: Commitment
    signature: bytes
    leaf_index: int
    leaf_proof: tuple[bytes, ...]
    parts: JobRootParts


@dataclass(frozen=True)
class MatrixRow:
    """A row of the output matrix (weight dtype) with its proof against the model's root."""

    token: int
    row: bytes
    proof: tuple[bytes, ...]


@dataclass(frozen=True)
class TokenFraudProof:
    """Everything from which the contract sees that the claimed token was not sampled."""

    worker: CommitmentProof
    job: Job
    final_row: RowOpening
    """The worker's row after the final norm, at the position before the claimed token's."""
    claimed_token: int
    token_proof: tuple[bytes, ...]
    """Of the token leaf at ``final_row.position + 1``."""
    claimed: MatrixRow
    better: MatrixRow
