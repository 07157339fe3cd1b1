"""Calls of ``Court`` (disputes) and ``Tribunal`` (token fraud, withheld openings, settlements)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from eth_hash.auto import keccak

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import Receipt
from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.constants import Tag
from verillm.eip712 import address_bytes
from verillm.errors import ChainError
from verillm.types import Commitment, Job, SettlementRecord


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

    round_id: int
    worker: CommitmentProof
    job: Job
    final_row: RowOpening
    """The worker's row after the final norm, at the position before the claimed token's."""
    claimed_token: int
    token_proof: tuple[bytes, ...]
    """Of the token leaf at ``final_row.position + 1``."""
    claimed: MatrixRow
    better: MatrixRow


class DisputeState(IntEnum):
    """Where a dispute stands."""

    NONE = 0
    AWAITING_JURY = 1
    VOTING = 2
    RESOLVED = 3


@dataclass(frozen=True)
class DisputeInfo:
    """A dispute as the contract holds it."""

    state: DisputeState
    boundary: int
    position: int
    epoch: int
    commit_deadline: int
    """Last block for votes' hashes; ``reveal_deadline`` the last for the votes."""
    reveal_deadline: int
    randomness_request: int
    job_id: bytes
    model_id: bytes
    token_root: bytes
    first: str
    second: str
    first_row_hash: bytes
    second_row_hash: bytes
    challenger: str
    first_is_worker: bool
    second_is_worker: bool
    jurors: tuple[str, ...]


@dataclass(frozen=True)
class VoteInfo:
    """A juror's vote; ``side`` is 1 for the first party, 2 for the second, 0 for neither."""

    commitment: bytes
    revealed: bool
    side: int


class CourtCalls(ContractCalls):
    """Challenges and jury duty. Each bond is ``params.dispute_bond``."""

    def prove_token_fraud(self, proof: TokenFraudProof) -> Receipt:
        """Show a token that scores higher than the claimed one; slashes the worker and voids the job."""
        return self._send("tribunal", "proveTokenFraud", astuple(proof))

    def open_dispute(
        self,
        round_id: int,
        first: CommitmentProof,
        first_row: RowOpening,
        second: CommitmentProof,
        second_row: RowOpening,
    ) -> int:
        """Two commitments of one job whose rows diverge; pays the bond and returns the dispute id."""
        parties = [astuple(value) for value in (first, first_row, second, second_row)]
        bond = self.addresses.params.dispute_bond
        receipt = self._spend(bond, "court", "openDispute", round_id, *parties)
        return self._emitted(receipt, "court", "DisputeOpened")["disputeId"]

    def draw_jury(self, dispute_id: int) -> Receipt:
        """Draw the jury once the dispute's randomness is known (see ``wait_randomness``)."""
        return self._send("court", "drawJury", dispute_id)

    def dispute(self, dispute_id: int) -> DisputeInfo:
        """A dispute's state. Raises ChainError if there is no such dispute."""
        values = list(self._call("court", "dispute", dispute_id))
        values[0], values[-1] = DisputeState(values[0]), tuple(values[-1])
        if values[0] is DisputeState.NONE:
            raise ChainError(f"dispute: there is no dispute {dispute_id}")
        return DisputeInfo(*values)

    def dispute_rows(self, dispute_id: int) -> tuple[bytes, bytes]:
        """The first and the second party's rows (storage bytes), as published when the dispute was opened."""
        for event in self.events("court", "DisputeOpened", disputeId=dispute_id):
            return event.args["firstRow"], event.args["secondRow"]
        raise ChainError(f"dispute: there is no dispute {dispute_id}")

    def vote(self, dispute_id: int, juror: str) -> VoteInfo:
        """A juror's vote so far."""
        return VoteInfo(*self._call("court", "vote", dispute_id, juror))

    def vote_hash(self, dispute_id: int, juror: str, row: bytes, salt: bytes) -> bytes:
        """H(0x0c || chainId u256 || court(20) || disputeId u256 || juror(20) || H(row) || salt)."""
        return keccak(
            bytes([Tag.JURY_VOTE])
            + self.connection.chain_id.to_bytes(32, "big")
            + address_bytes(self.addresses.court)
            + dispute_id.to_bytes(32, "big")
            + address_bytes(juror)
            + keccak(row)
            + salt
        )

    def commit_vote(self, dispute_id: int, row: bytes, salt: bytes) -> Receipt:
        """Commit to the account's own row at the disputed place; ``salt`` is 32 secret random bytes."""
        return self._send(
            "court", "commitVote", dispute_id, self.vote_hash(dispute_id, self.address, row, salt)
        )

    def reveal_vote(self, dispute_id: int, row: bytes, salt: bytes) -> Receipt:
        """Reveal after the commit deadline, or once every juror has committed."""
        return self._send("court", "revealVote", dispute_id, row, salt, *self.dispute_rows(dispute_id))

    def resolve(self, dispute_id: int) -> Receipt:
        """End a vote: slash the loser, pay challenger and majority jurors."""
        return self._send("court", "resolve", dispute_id)

    def demand_opening(self, round_id: int, proof: CommitmentProof, boundary: int, position: int) -> int:
        """Make an operator publish a row or be slashed; pays the bond and returns the demand id."""
        arguments: tuple[Any, ...] = (round_id, astuple(proof), boundary, position)
        receipt = self._spend(self.addresses.params.dispute_bond, "tribunal", "demandOpening", *arguments)
        return self._emitted(receipt, "tribunal", "OpeningDemanded")["demandId"]

    def answer_opening(self, demand_id: int, parts: JobRootParts, opening: RowOpening) -> Receipt:
        """Publish a demanded row; the bond goes to its operator."""
        return self._send("tribunal", "answerOpening", demand_id, astuple(parts), astuple(opening))

    def slash_withheld(self, demand_id: int) -> Receipt:
        """Slash an operator that let the deadline of a demand pass."""
        return self._send("tribunal", "slashWithheld", demand_id)

    def challenge_settlement(
        self,
        round_id: int,
        index: int,
        record: SettlementRecord,
        proof: Sequence[bytes],
        job: Job,
        worker: CommitmentProof,
    ) -> Receipt:
        """Show a settlement record that does not follow; slashes the scheduler and voids the job."""
        arguments = (round_id, index, astuple(record), list(proof), astuple(job), astuple(worker))
        return self._send("tribunal", "challengeSettlement", *arguments)

    def rewards(self, account: str) -> int:
        """Token wei of bonds and shares that ``account`` can withdraw from both courts."""
        return sum(self._call(court, "rewards", account) for court in ("court", "tribunal"))

    def withdraw_rewards(self) -> int:
        """Pull the account's rewards from both courts; returns their sum. Raises ChainError if it is 0."""
        total = 0
        for court in ("court", "tribunal"):
            if self._call(court, "rewards", self.address):
                total += self._emitted(self._send(court, "withdrawRewards"), court, "RewardPaid")["amount"]
        if not total:
            raise ChainError(f"rewards: {self.address} has none to withdraw")
        return total
