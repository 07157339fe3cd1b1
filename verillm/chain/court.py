"""Calls of ``Court``: disputes about two rows, juries, appeals."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from enum import IntEnum

from eth_hash.auto import keccak

from verillm.chain.calls import answered
from verillm.chain.connection import Receipt
from verillm.chain.proofs import CommitmentProof
from verillm.chain.roundlog import on_round
from verillm.chain.rounds import RoundsCalls
from verillm.commitment.opening import RowOpening
from verillm.constants import Tag
from verillm.eip712 import address_bytes
from verillm.errors import ChainError
from verillm.settlement import round_values

SEATS_PER_CALL = 20
"""Seats that one transaction settles: a fine costs some 100,000 gas."""


class DisputeState(IntEnum):
    """Where a dispute stands."""

    NONE = 0
    AWAITING_JURY = 1
    VOTING = 2
    APPEALABLE = 3
    SETTLING = 4
    ENDED = 5


@dataclass(frozen=True)
class DisputeParty:
    """One side of a dispute."""

    operator: str
    is_worker: bool
    leaf_index: int


@dataclass(frozen=True)
class DisputeInfo:
    """A dispute as the contract holds it.

    ``standing`` is the side that the juries so far support: 0 nobody, 1 first, 2 second; ``winning_level``
    the level whose jury made it so, ``share`` what each juror of that side earns, ``settled`` counts seats.
    """

    state: DisputeState
    level: int
    standing: int
    winning_level: int
    row_dtype: int
    boundary: int
    settled: int
    position: int
    params_version: int
    epoch: int
    tolerance_q40: int
    target_block: int
    """Its prevrandao draws the jury of this level."""
    commit_deadline: int
    """Last block for votes' hashes; ``reveal_deadline`` the last for the votes."""
    reveal_deadline: int
    appeal_deadline: int
    share: int
    round_id: int
    job_id: bytes
    model_id: bytes
    token_root: bytes
    first: DisputeParty
    second: DisputeParty
    first_row_hash: bytes
    second_row_hash: bytes


@dataclass(frozen=True)
class JuryInfo:
    """One level's jury: who paid for it, the side that stood then, and its counts."""

    opener: str
    contested: int
    drawn: int
    committed: int
    unable: int
    revealed: int
    votes_first: int
    votes_second: int
    start: int


@dataclass(frozen=True)
class VoteInfo:
    """A juror's seat; ``near`` is 1 if its row is close to the first party's, plus 2 if to the second's."""

    juror: str
    unable: bool
    revealed: bool
    near: int
    commitment: bytes


class CourtCalls(RoundsCalls):
    """Disputes and jury duty. A level costs ``params.dispute_bond << level``, taken from the account."""

    @on_round
    def open_dispute(
        self,
        round_id: int,
        first: CommitmentProof,
        first_row: RowOpening,
        second: CommitmentProof,
        second_row: RowOpening,
    ) -> int:
        """Two commitments of one job whose rows diverge; pays the bond and returns the dispute id."""
        info = self.round(round_id)
        parties = [astuple(value) for value in (first, first_row, second, second_row)]
        bond = self.params_at(info.params_version).dispute_bond
        receipt = self._spend(bond, "court", "openDispute", round_id, round_values(info), *parties)
        return self._emitted(receipt, "court", "DisputeOpened")["disputeId"]

    def draw_jury(self, dispute_id: int) -> Receipt:
        """Draw the awaited jury once its target block is past. Raises SeedExpired."""
        header = self._header(self.dispute(dispute_id).target_block)
        return self._send("court", "drawJury", dispute_id, header)

    def requeue_jury(self, dispute_id: int) -> Receipt:
        """Give a dispute whose seed nobody showed in time a new block. Anyone may."""
        return self._send("court", "requeueJury", dispute_id)

    def dispute(self, dispute_id: int) -> DisputeInfo:
        """A dispute's state. Raises ChainError if there is no such dispute."""
        info = DisputeInfo(*self._call("court", "dispute", dispute_id))
        if info.state == DisputeState.NONE:
            raise ChainError(f"dispute: there is no dispute {dispute_id}")
        return replace(
            info,
            state=answered(DisputeState, info.state),
            first=DisputeParty(*info.first),  # type: ignore[misc]  # until here a tuple
            second=DisputeParty(*info.second),  # type: ignore[misc]
        )

    def dispute_rows(self, dispute_id: int) -> tuple[bytes, bytes]:
        """The first and the second party's rows (storage bytes), as published when the dispute was opened."""
        event = self._newest("court", "DisputeOpened", disputeId=dispute_id)
        if event is None:
            raise ChainError(f"dispute: there is no dispute {dispute_id}")
        return event.args["firstRow"], event.args["secondRow"]

    def jury(self, dispute_id: int, level: int) -> JuryInfo:
        """The jury of a level, all zero if it was not drawn."""
        return JuryInfo(*self._call("court", "jury", dispute_id, level))

    def jurors(self, dispute_id: int, level: int) -> list[str]:
        """Who sits in the jury of a level, in draw order."""
        return list(self._call("court", "jurors", dispute_id, level))

    def vote(self, dispute_id: int, level: int, juror: str) -> VoteInfo:
        """A juror's seat. Raises ChainError if it has none."""
        return VoteInfo(*self._call("court", "vote", dispute_id, level, juror))

    def vote_hash(self, dispute_id: int, level: int, juror: str, row: bytes, salt: bytes) -> bytes:
        """H(0x0c || chainId u256 || court(20) || disputeId u256 || u8 level || juror(20) || H(row) || salt),
        32 bytes."""
        return keccak(
            bytes([Tag.JURY_VOTE])
            + self.connection.chain_id.to_bytes(32, "big")
            + address_bytes(self.addresses.court)
            + dispute_id.to_bytes(32, "big")
            + bytes([level])
            + address_bytes(juror)
            + keccak(row)
            + salt
        )

    def commit_vote(self, dispute_id: int, row: bytes, salt: bytes) -> Receipt:
        """Commit to the account's own row at the disputed place; ``salt`` is 32 secret random bytes."""
        level = self.dispute(dispute_id).level
        commitment = self.vote_hash(dispute_id, level, self.address, row, salt)
        return self._send("court", "commitVote", dispute_id, commitment)

    def declare_unable(self, dispute_id: int) -> Receipt:
        """Say that the account cannot compute the row: no pay, no fine."""
        return self._send("court", "declareUnable", dispute_id)

    def reveal_vote(self, dispute_id: int, row: bytes, salt: bytes) -> Receipt:
        """Reveal after the commit deadline, or once every juror has answered."""
        return self._send("court", "revealVote", dispute_id, row, salt, *self.dispute_rows(dispute_id))

    def tally(self, dispute_id: int) -> Receipt:
        """Count the votes of a jury once no more can come."""
        return self._send("court", "tally", dispute_id)

    def appeal(self, dispute_id: int) -> Receipt:
        """Pay for a jury of twice the size."""
        info = self.dispute(dispute_id)
        bond = self.params_at(info.params_version).dispute_bond << (info.level + 1)
        return self._spend(bond, "court", "appeal", dispute_id)

    def resolve(self, dispute_id: int, seats_per_call: int = SEATS_PER_CALL) -> list[Receipt]:
        """End a dispute once nobody can appeal: slash the loser, pay challenger and jurors, in as many
        transactions as the seats need."""
        receipts: list[Receipt] = []
        while not receipts or self.dispute(dispute_id).state is DisputeState.SETTLING:
            receipts.append(self._send("court", "resolve", dispute_id, seats_per_call))
        return receipts
