"""What is wrong with a settlement, as data for the challenge that proves it (contract ``Audit``).

Whoever has all records of a round, and its lines, which the settling transaction publishes, finds every wrong
sum; with the signed jobs and commitments also every wrong record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verillm.constants import Verdict
from verillm.eip712 import address_bytes
from verillm.params import Params
from verillm.settlement import fees, outcome, parties
from verillm.types import NO_JOB, Commitment, Job, Line, Round, SettlementRecord


@dataclass(frozen=True)
class RecordFault:
    """Record ``index`` contradicts its job or commitment in ``field``: ``challenge_record``."""

    index: int
    field: str


@dataclass(frozen=True)
class ChainFault:
    """The link of party ``slot`` of record ``index`` is wrong, as record ``earlier`` proves (None: the link
    alone does): ``challenge_chain``."""

    index: int
    slot: int
    earlier: int | None


@dataclass(frozen=True)
class LineFault:
    """The line of ``account``, or that it has none, is wrong, as record ``index`` proves (None: the line
    alone does): ``challenge_line``. ``paying``: a debit."""

    paying: bool
    account: str
    index: int | None


@dataclass(frozen=True)
class DuplicateFault:
    """Record ``index`` is of the job of record ``earlier_index`` in round ``earlier_round`` (None: in this
    one), or both pay and have the same client and nonce: ``challenge_duplicate``."""

    index: int
    earlier_round: int | None
    earlier_index: int


Fault = RecordFault | ChainFault | LineFault | DuplicateFault
Nonce = tuple[str, int]
"""A client and its job's nonce."""


def find_settlement_fault(
    round: Round,
    records: Sequence[SettlementRecord],
    debits: Sequence[Line],
    credits: Sequence[Line],
    params: Params,
    jobs: Sequence[Job | None] = (),
    commitments: Sequence[Commitment | None] = (),
    paid: Mapping[Nonce, tuple[int, int]] | None = None,
) -> Fault | None:
    """The first fault of a settled round, None if there is none.

    ``records`` are all of the round's, in leaf order; ``params`` those of its version; ``jobs`` (with the
    records' job ids) and ``commitments`` (of the round's leaves) the signed ones, None where unknown;
    ``paid`` says in which (round, index) an earlier round of the scheduler paid for a job. Faults of records
    come first: the other challenges need records of the right shape.
    """
    jobs = jobs or [None] * len(records)
    commitments = commitments or [None] * len(records)
    for index, record in enumerate(records):
        if not _sound(record):
            return ChainFault(index, 0, None)
        field = _record_fault(record, round, params, jobs[index], commitments[index])
        if field:
            return RecordFault(index, field)
    return (
        _find_duplicate(records, jobs, paid or {})
        or _find_chain_fault(records)
        or _find_line_fault(records, debits, True)
        or _find_line_fault(records, credits, False)
    )


def _sound(record: SettlementRecord) -> bool:
    """Can sums be followed through the record? One link for each party, and nobody earns in it twice."""
    accounts = {address_bytes(account) for account in (record.worker, *record.verifiers)}
    return len(record.links) == len(record.verifiers) + 2 and len(accounts) == len(record.verifiers) + 1


def _record_fault(
    record: SettlementRecord, round: Round, params: Params, job: Job | None, commitment: Commitment | None
) -> str | None:
    """The first field of a record that is wrong."""
    if commitment is not None:
        for field, committed in (
            ("job_id", commitment.job_id),
            ("worker", commitment.operator),
            ("prompt_tokens", commitment.prompt_tokens),
            ("output_tokens", commitment.output_tokens),
        ):
            if getattr(record, field) != committed:
                return field
    checks = [
        ("verdicts", len(record.verdicts) == len(record.verifiers)),
        ("outcome", record.outcome is outcome(record.verdicts)),
    ]
    if job is not None:
        accepted = record.outcome is Verdict.ACCEPT
        due = fees(job, record.prompt_tokens, record.output_tokens, params) if accepted else (0, 0, 0)
        checks += [
            ("client", record.client == job.client),
            ("prompt_tokens", record.prompt_tokens == job.prompt_tokens),
            ("job_id", (job.scheduler, job.model_id) == (round.scheduler, round.model_id)),
            ("verifiers", len(record.verifiers) <= job.verifiers),
            ("output_tokens", not accepted or record.output_tokens <= job.max_output_tokens),
            ("outcome", not accepted or round.committed_at <= job.deadline),
            ("worker_fee", record.worker_fee == due[0]),
            ("verifier_fee", record.verifier_fee == due[1]),
            ("scheduler_fee", record.scheduler_fee == due[2]),
        ]
    return next((field for field, holds in checks if not holds), None)


def _find_duplicate(
    records: Sequence[SettlementRecord], jobs: Sequence[Job | None], paid: Mapping[Nonce, tuple[int, int]]
) -> DuplicateFault | None:
    ids: dict[bytes, int] = {}
    here: dict[Nonce, int] = {}
    for index, (record, job) in enumerate(zip(records, jobs, strict=True)):
        if job is None:
            continue
        if record.job_id in ids:
            return DuplicateFault(index, None, ids[record.job_id])
        ids[record.job_id] = index
        if record.outcome is not Verdict.ACCEPT:
            continue
        nonce = (job.client, job.nonce)
        if nonce in paid:
            return DuplicateFault(index, *paid[nonce])
        if nonce in here:
            return DuplicateFault(index, None, here[nonce])
        here[nonce] = index
    return None


def _find_chain_fault(records: Sequence[SettlementRecord]) -> ChainFault | None:
    last: dict[tuple[bool, bytes], tuple[int, int]] = {}
    """(side, account) to its last record so far, and its total there by the links."""
    for index, record in enumerate(records):
        for slot, (pays, account, amount) in enumerate(parties(record)):
            side, link = (pays, address_bytes(account)), record.links[slot]
            former, total = last.get(side, (NO_JOB, 0))
            last[side] = (index, link.total)
            if link.previous == former:
                if link.total != total + amount:
                    return ChainFault(index, slot, None if former == NO_JOB else former)
            elif link.previous != NO_JOB and link.previous >= index:
                return ChainFault(index, slot, None)
            elif former == NO_JOB or former < link.previous < index:
                return ChainFault(index, slot, link.previous)  # the account is not in that record
            else:
                return ChainFault(index, slot, former)  # the link leaves out that record
    return None


def _find_line_fault(
    records: Sequence[SettlementRecord], lines: Sequence[Line], paying: bool
) -> LineFault | None:
    totals: list[dict[bytes, int]] = []
    """By record: account to its total there, of this side."""
    last: dict[bytes, tuple[str, int]] = {}
    for index, record in enumerate(records):
        totals.append({})
        for (pays, account, _), link in zip(parties(record), record.links, strict=True):
            if pays is paying:
                totals[index][address_bytes(account)] = link.total
                last[address_bytes(account)] = (account, index)
    listed = {address_bytes(line.account): line for line in lines}
    for key, line in listed.items():
        if line.last_job >= len(records):
            return LineFault(paying, line.account, None)
        if totals[line.last_job].get(key) != line.amount:
            return LineFault(paying, line.account, line.last_job)
    for key, (account, index) in last.items():
        if totals[index][key] > (listed[key].amount if key in listed else 0):
            return LineFault(paying, account, index)
    return None
