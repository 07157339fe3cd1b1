"""Calls of ``Audit`` and ``Inquiry``: false settlements, and what only a scheduler can show."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from verillm.chain.calls import answered
from verillm.chain.connection import Receipt
from verillm.chain.proofs import CommitmentProof, RecordProof
from verillm.chain.roundlog import on_round
from verillm.chain.rounds import RoundsCalls
from verillm.errors import ChainError
from verillm.settlement import round_values
from verillm.types import Job, SettlementRecord, SignedVerdict

NO_RECORD = RecordProof(0, SettlementRecord(bytes(32), *["0x" + 40 * "0"] * 2, *[0] * 6), ())  # type: ignore[arg-type]
"""Where a contract ignores the record."""


class Matter(IntEnum):
    """What a scheduler is asked to show about a job."""

    RECORD = 0
    WORKER = 1
    COMMITTEE = 2


@dataclass(frozen=True)
class Grounds:
    """All that a settlement record rests on; verdict i is of verifier i."""

    job: Job
    job_signature: bytes
    worker: CommitmentProof
    verifiers: tuple[CommitmentProof, ...]
    verdicts: tuple[SignedVerdict, ...]


@dataclass(frozen=True)
class InquiryInfo:
    """A demand on a scheduler; ``deadline`` is the last block for the answer."""

    round_id: int
    matter: Matter
    index: int
    deadline: int
    challenger: str


class AuditCalls(RoundsCalls):
    """Faults of schedulers. ``settlement.find_settlement_fault`` says which challenge fits. An inquiry costs
    ``params.dispute_bond``."""

    def challenge_record(
        self, round_id: int, record: RecordProof, job: Job, worker: CommitmentProof
    ) -> Receipt:
        """Show a record that contradicts job or commitment; slashes the scheduler and voids the job."""
        evidence = (astuple(record), astuple(job), astuple(worker))
        return self._audit("challengeRecord", round_id, *evidence)

    def challenge_chain(
        self, round_id: int, at: RecordProof, slot: int, earlier: RecordProof | None
    ) -> Receipt:
        """Show a record whose link of party ``slot`` is wrong, with the earlier record that proves it (None
        if the link alone does); refutes the round and slashes the scheduler."""
        evidence = (astuple(at), slot, earlier is None, astuple(earlier or NO_RECORD))
        return self._audit("challengeChain", round_id, *evidence)

    def challenge_line(
        self, round_id: int, paying: bool, account: str, record: RecordProof | None
    ) -> Receipt:
        """Show that an account's line (a debit if ``paying``) is not the total of its last record, with the
        record that proves it (None if the line names no job of the round); like ``challenge_chain``."""
        info = self.round(round_id)
        lines = [astuple(line) for line in (info.debits if paying else info.credits)]
        return self._audit("challengeLine", round_id, lines, paying, account, astuple(record or NO_RECORD))

    def challenge_duplicate(
        self, round_ids: tuple[int, int], records: tuple[RecordProof, RecordProof], jobs: tuple[Job, Job]
    ) -> Receipt:
        """Show one job, or two of one client with the same nonce, paid twice; the later one is voided and the
        scheduler slashed."""
        rounds = [round_values(self.round(round_id)) for round_id in round_ids]
        evidence = ([astuple(record) for record in records], [astuple(job) for job in jobs])
        return self._send("audit", "challengeDuplicate", list(round_ids), rounds, *evidence)

    def slash_abandoned(self, round_id: int) -> Receipt:
        """Slash the scheduler of a round that was not settled in time."""
        return self._audit("slashAbandoned", round_id)

    @on_round
    def demand_grounds(self, round_id: int, matter: Matter, index: int) -> int:
        """Make the scheduler show what job ``index`` of a settled round rests on, or be slashed; pays the
        bond and returns the demand id."""
        info = self.round(round_id)
        bond = self.params_at(info.params_version).dispute_bond
        receipt = self._spend(bond, "inquiry", "demand", round_id, round_values(info), matter, index)
        return self._emitted(receipt, "inquiry", "Demanded")["demandId"]

    def inquiry(self, demand_id: int) -> InquiryInfo | None:
        """An open demand on a scheduler; None if it was answered or slashed."""
        if self._call("inquiry", "demandHash", demand_id) == bytes(32):
            return None
        round_id, matter, *rest = self._inquiry_demand(demand_id).values()
        return InquiryInfo(round_id, answered(Matter, matter), *rest)

    def answer_record(self, demand_id: int, record: RecordProof, grounds: Grounds) -> Receipt:
        """Show a record and every signature that it rests on; the bond goes to the scheduler."""
        values = astuple(grounds)
        verdicts = [verdict[:-1] for verdict in values[-1]]
        signatures = [verdict[-1] for verdict in values[-1]]
        return self._answer("answerRecord", demand_id, astuple(record), (*values[:-1], verdicts, signatures))

    def answer_worker(self, demand_id: int, worker: CommitmentProof, epoch: int, proof: Any) -> Receipt:
        """Show the VRF proof (``vrf.hints``) by which a job's worker was drawn from an epoch's stakes."""
        return self._answer("answerWorker", demand_id, astuple(worker), epoch, astuple(proof))

    def answer_committee(self, demand_id: int, record: RecordProof, job: Job, proof: Any) -> Receipt:
        """Show the VRF proof (``vrf.hints``) by which a record's verifiers were drawn."""
        return self._answer("answerCommittee", demand_id, astuple(record), astuple(job), astuple(proof))

    def slash_silent(self, demand_id: int) -> Receipt:
        """Slash a scheduler that let the deadline of an inquiry pass."""
        return self._answer("slashSilent", demand_id)

    @on_round
    def _audit(self, name: str, round_id: int, *evidence: Any) -> Receipt:
        return self._send("audit", name, round_id, round_values(self.round(round_id)), *evidence)

    @on_round
    def _answer(self, name: str, demand_id: int, *evidence: Any) -> Receipt:
        demand = self._inquiry_demand(demand_id)
        info = self.round(demand["roundId"])
        return self._send("inquiry", name, demand_id, demand, round_values(info), *evidence)

    def _inquiry_demand(self, demand_id: int) -> Any:
        event = self._newest("inquiry", "Demanded", demandId=demand_id)
        if event is None:
            raise ChainError(f"inquiry: there is no demand {demand_id}")
        return event.args["demand"]
