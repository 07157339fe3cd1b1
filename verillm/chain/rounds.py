"""Calls of ``Rounds``: escrow, rounds, claims."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import POLL_SECONDS, Receipt
from verillm.types import Job, SettlementRecord


@dataclass(frozen=True)
class RoundInfo:
    """A round as the contract holds it; requests, blocks and roots are 0 until they are made."""

    scheduler: str
    epoch: int
    final_block: int
    """Last block in which a settled round can be challenged; 0 before settlement."""
    model_id: bytes
    jobs: int
    verifications: int
    verifier_request: int
    position_request: int
    root: bytes
    verification_root: bytes
    settlement_root: bytes
    total_paid: int
    claimed: int


class RoundsCalls(ContractCalls):
    """Escrow of clients, rounds of schedulers, claims and balances."""

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

    def nonce_used(self, client: str, nonce: int) -> bool:
        """Was a job of this client with this nonce claimed?"""
        return self._call("rounds", "nonceUsed", client, nonce)

    def commit_round(self, model_id: bytes, root: bytes, jobs: int) -> int:
        """Post the root over a round's worker commitments; returns the round id."""
        receipt = self._send("rounds", "commitRound", model_id, root, jobs)
        return self._emitted(receipt, "rounds", "RoundCommitted")["roundId"]

    def commit_verifications(self, round_id: int, root: bytes, count: int) -> Receipt:
        """Post the root over the verifiers' commitments."""
        return self._send("rounds", "commitVerifications", round_id, root, count)

    def settle_round(self, round_id: int, root: bytes, total_paid: int) -> Receipt:
        """Post the root over the settlement records and the most that they pay together."""
        return self._send("rounds", "settleRound", round_id, root, total_paid)

    def round(self, round_id: int) -> RoundInfo:
        """A round's state. Raises ChainError if there is no such round."""
        return RoundInfo(*self._call("rounds", "round", round_id))

    def wait_claimable(
        self, round_id: int, stop: threading.Event | None = None, timeout: float = 3600.0
    ) -> bool:
        """Wait until a settled round's challenge window is over.

        False if ``stop`` was set, ``timeout`` passed, or the round is not settled.
        """
        last = self.round(round_id).final_block
        deadline = time.monotonic() + timeout
        while last and self.connection.block_number() <= last:
            if time.monotonic() > deadline or (stop or threading.Event()).wait(POLL_SECONDS):
                return False
        return last > 0

    def claim(
        self,
        round_id: int,
        index: int,
        record: SettlementRecord,
        proof: Sequence[bytes],
        job: Job,
        job_signature: bytes,
    ) -> Receipt:
        """Pay one job of a final round out of its client's escrow into ``balances``. Anyone may call."""
        arguments = (round_id, index, astuple(record), list(proof), astuple(job), job_signature)
        return self._send("rounds", "claim", *arguments)

    def claimed(self, job_id: bytes) -> bool:
        """Was this job paid (or refunded) by a claim?"""
        return any(self.events("rounds", "JobClaimed", jobId=job_id))

    def voided(self, scheduler: str, job_id: bytes) -> bool:
        """Was this job's worker or settlement proven false in a round of its scheduler?"""
        return self._call("rounds", "voided", scheduler, job_id)

    def held(self, scheduler: str, job_id: bytes) -> bool:
        """Is this job part of an open dispute or demand? Until that ends it cannot be claimed."""
        return self._call("rounds", "holds", scheduler, job_id) > 0

    def balance(self, account: str) -> int:
        """Token wei that claims credited to ``account`` and that it has not withdrawn."""
        return self._call("rounds", "balances", account)

    def withdraw(self) -> Receipt:
        """Pull the account's balance."""
        return self._send("rounds", "withdraw")
