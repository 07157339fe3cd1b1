"""Calls of ``Rounds``: escrow, the way of a round, balances."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum

from verillm.chain.calls import answered
from verillm.chain.connection import POLL_SECONDS, Receipt
from verillm.chain.proofs import RecordProof
from verillm.chain.randomness import RandomnessCalls
from verillm.chain.roundlog import RoundInfo, RoundLog
from verillm.errors import ChainError, SeedExpired
from verillm.settlement import round_values
from verillm.types import Line, SettlementRecord

LINES_PER_CALL = 400
"""Lines that one transaction pays or refunds."""


class JobState(IntEnum):
    """What challenges did to a job of a round."""

    STANDING = 0
    VOIDED = 1
    DEDUCTED = 2


@dataclass(frozen=True)
class PendingInfo:
    """What challenges did to a round. ``cursor`` counts the lines that were paid or refunded."""

    holds: int
    voids_open: int
    voids: int
    cursor: int
    refuted: bool


class RoundsCalls(RandomnessCalls):
    """Escrow of clients, rounds of schedulers, balances."""

    _round_log: RoundLog

    # Escrow

    def deposit_escrow(self, scheduler: str, amount: int) -> Receipt:
        """Move token wei of the account into escrow with a scheduler."""
        return self._spend(amount, "rounds", "depositEscrow", scheduler, amount)

    def request_escrow_withdrawal(self, scheduler: str, amount: int) -> Receipt:
        """Announce leaving; ``withdraw_escrow`` pays after ``escrow_delay_blocks``."""
        return self._send("rounds", "requestEscrowWithdrawal", scheduler, amount)

    def withdraw_escrow(self, scheduler: str) -> Receipt:
        """Pay out what was announced, or what is left of it."""
        return self._send("rounds", "withdrawEscrow", scheduler)

    def escrow(self, client: str, scheduler: str) -> int:
        """A client's escrow with a scheduler that is not leaving."""
        return self._call("rounds", "escrowOf", client, scheduler)[0]

    # A round's way

    def commit_round(self, model_id: bytes, root: bytes, jobs: int) -> int:
        """Post the root over a round's worker commitments; returns the round id."""
        receipt = self._send("rounds", "commitRound", model_id, root, jobs)
        round_id: int = self._emitted(receipt, "rounds", "RoundCommitted")["roundId"]
        self._round_log.note(round_id, receipt["blockNumber"])
        return round_id

    def commit_verifications(self, round_id: int, root: bytes, count: int) -> Receipt:
        """Post the root over the verifiers' commitments, and show the verifiers' seed. Raises SeedExpired."""
        info = self.round(round_id)
        header = self._header(info.verifier_block)
        return self._send("rounds", "commitVerifications", round_id, round_values(info), root, count, header)

    def settle_round(
        self, round_id: int, root: bytes, debits: Sequence[Line], credits: Sequence[Line]
    ) -> Receipt:
        """Post the root over the linked settlement records and their ``round_lines``, and show the positions'
        seed. The clients pay at once. Raises SeedExpired."""
        info = self.round(round_id)
        lines = [[astuple(line) for line in side] for side in (debits, credits)]
        header = self._header(info.position_block)
        return self._send("rounds", "settleRound", round_id, round_values(info), root, *lines, header)

    def requeue(self, round_id: int) -> Receipt:
        """Give a round whose seed nobody showed in time a new block. Anyone may."""
        return self._send("rounds", "requeue", round_id, round_values(self.round(round_id)))

    def round(self, round_id: int) -> RoundInfo:
        """A round, rebuilt from events and checked against the chain's hash. Raises ChainError."""
        return self._round_log.round(round_id)

    def verifier_seed(self, round_id: int, timeout: float = 600.0) -> bytes:
        """The 32 bytes that draw a round's verifiers. Waits for their block; if the seed expired, the round's
        own scheduler requeues, anybody else waits for that. Raises ChainError."""
        return self._seed(round_id, timeout, positions=False)

    def position_seed(self, round_id: int, timeout: float = 600.0) -> bytes:
        """The 32 bytes that pick a round's opened positions; like ``verifier_seed``."""
        return self._seed(round_id, timeout, positions=True)

    def wait_final(self, round_id: int, stop: threading.Event | None = None, timeout: float = 3600.0) -> bool:
        """Wait until a settled round's challenge window is over.

        False if ``stop`` was set, ``timeout`` passed, or the round is not settled.
        """
        last = self.round(round_id).final_block
        deadline = time.monotonic() + timeout
        while last and self.connection.block_number() <= last:
            if time.monotonic() > deadline or (stop or threading.Event()).wait(POLL_SECONDS):
                return False
        return last > 0

    def pay_round(self, round_id: int, lines_per_call: int = LINES_PER_CALL) -> list[Receipt]:
        """Credit a final round's earnings, in as many transactions as needed, from where an earlier call
        stopped. Anyone may."""
        info = self.round(round_id)
        return self._by_lines("payRound", info, info.credits, lines_per_call)

    def refund_round(self, round_id: int, lines_per_call: int = LINES_PER_CALL) -> list[Receipt]:
        """Give every client of a refuted round its money back, like ``pay_round``. Anyone may."""
        info = self.round(round_id)
        return self._by_lines("refundRound", info, info.debits, lines_per_call)

    def deduct_job(
        self, round_id: int, index: int, record: SettlementRecord, proof: Sequence[bytes]
    ) -> Receipt:
        """Take a voided job out of a settled round; its client gets back what it paid. Anyone may."""
        info = self.round(round_id)
        place = astuple(RecordProof(index, record, tuple(proof)))
        lines = [[astuple(line) for line in side] for side in (info.debits, info.credits)]
        return self._send("rounds", "deductJob", round_id, round_values(info), place, *lines)

    def pending(self, round_id: int) -> PendingInfo:
        """What challenges did to a round; all zero for an unknown one."""
        return PendingInfo(*self._call("rounds", "pending", round_id))

    def job_state(self, round_id: int, index: int) -> JobState:
        """What challenges did to job ``index`` of a round."""
        return answered(JobState, self._call("rounds", "jobState", round_id, index))

    def voided(self, round_id: int, index: int) -> bool:
        """Was job ``index`` of the round proven false? Then it is never paid."""
        return self.job_state(round_id, index) is not JobState.STANDING

    def held(self, round_id: int) -> bool:
        """Has the round an open dispute or demand? Until that ends it is not paid."""
        return self.pending(round_id).holds > 0

    # Balances

    def balance(self, account: str) -> int:
        """Token wei of fees, shares and returned bonds that ``account`` has not withdrawn."""
        return self._call("rounds", "balances", account)

    def withdraw(self) -> Receipt:
        """Pull the account's balance."""
        return self._send("rounds", "withdraw")

    def _by_lines(self, name: str, info: RoundInfo, lines: Sequence[Line], per_call: int) -> list[Receipt]:
        values = [astuple(line) for line in lines]
        cursor = self.pending(info.round_id).cursor
        receipts: list[Receipt] = []
        while not receipts or cursor < len(values):
            cursor = min(cursor + per_call, len(values))
            receipts.append(self._send("rounds", name, info.round_id, round_values(info), values, cursor))
        return receipts

    def _seed(self, round_id: int, timeout: float, positions: bool) -> bytes:
        deadline = time.monotonic() + timeout
        while True:
            info = self.round(round_id)
            if positions and not info.verified:
                raise ChainError(f"round: the verifications of round {round_id} are not committed yet")
            if info.settled if positions else info.verified:
                return info.position_seed if positions else info.verifier_seed
            block = info.position_block if positions else info.verifier_block
            try:
                return self.wait_seed(block, max(0.0, deadline - time.monotonic()))
            except SeedExpired:
                if self.connection.account is not None and self.address == info.scheduler:
                    self._requeue_unless_done(info)
                elif time.monotonic() > deadline:
                    raise
                else:
                    time.sleep(POLL_SECONDS)

    def _requeue_unless_done(self, info: RoundInfo) -> None:
        try:
            self.requeue(info.round_id)
        except ChainError:  # another party may have requeued in the same moment
            if self.round(info.round_id) == info:
                raise
