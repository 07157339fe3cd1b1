"""Fees, outcomes, links and lines of settlements, and the faults that an auditor finds in them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain.settlement_cases import SCHEDULER, sample_job, sample_records, sample_round
from verillm import settlement
from verillm.audit import ChainFault, DuplicateFault, Fault, LineFault, RecordFault, find_settlement_fault
from verillm.constants import FinishReason, Role, Verdict
from verillm.errors import InvalidRequest
from verillm.params import load_params
from verillm.types import NO_JOB, Commitment, Job, Line, Link, Round, SettlementRecord

PARAMS = load_params("devnet")
OPERATORS = ["0x" + f"{i + 1:02x}" * 20 for i in range(6)]


@given(st.integers(0, 2**64), st.integers(0, 2**64), st.integers(1, 100), st.integers(1, 256))
@settings(max_examples=50, deadline=None)
def test_record_pays_what_the_formula_says(price_in: int, price_out: int, prompt: int, output: int) -> None:
    job = sample_job(input_price=price_in, output_price=price_out, prompt_tokens=prompt, verifiers=2)
    verdicts = [Verdict.ACCEPT, Verdict.UNABLE]
    record = settlement.make_record(
        job, bytes(32), OPERATORS[0], prompt, output, OPERATORS[1:3], verdicts, PARAMS
    )
    worker = prompt * price_in + output * price_out
    assert record.worker_fee == worker
    assert record.verifier_fee == worker * PARAMS.verifier_fee_bps // 10_000
    assert record.scheduler_fee == worker * PARAMS.scheduler_fee_bps // 10_000
    assert record.client_pays == settlement.job_cost(job, prompt, output, PARAMS)
    assert record.client_pays <= settlement.max_job_cost(job, PARAMS)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("A", "ACCEPT"),
        ("AAR", "ACCEPT"),
        ("AR", "REJECT"),
        ("RRU", "REJECT"),
        ("AUU", "ACCEPT"),
        ("UU", "UNABLE"),
        ("", "UNABLE"),
    ],
)
def test_outcome(verdicts: str, expected: str) -> None:
    names = {"A": Verdict.ACCEPT, "R": Verdict.REJECT, "U": Verdict.UNABLE}
    assert settlement.outcome([names[v] for v in verdicts]) is Verdict[expected]


def test_refused_job_costs_nothing_and_lists_must_match() -> None:
    arguments = (sample_job(), bytes(32), OPERATORS[0], 64, 1, OPERATORS[1:3])
    record = settlement.make_record(*arguments, [Verdict.REJECT, Verdict.REJECT], PARAMS)
    assert record.client_pays == 0
    with pytest.raises(InvalidRequest, match="verdicts"):
        settlement.make_record(*arguments, [Verdict.ACCEPT], PARAMS)


def test_links_follow_each_account_through_both_sides() -> None:
    """CASES: operator 0 works on jobs 0, 2, 5 and verifies 1 and 4; client 0 pays for 0, 2, 4, 5."""
    records = sample_records()
    assert [record.links[0].previous for record in records] == [NO_JOB, NO_JOB, 0, 1, 2, 4]
    assert records[0].links[1] == Link(NO_JOB, records[0].worker_fee)
    assert records[1].links[2] == Link(0, records[0].worker_fee + records[1].verifier_fee)
    assert records[2].links[1] == Link(1, records[1].links[2].total)  # refused, so it earns nothing
    assert records[3].links == (
        Link(1, records[1].client_pays),
        Link(2, records[0].verifier_fee),
    )
    debits, credits = settlement.round_lines(records)
    assert [line.last_job for line in debits] == [5, 3]
    assert [line.account[2:4] for line in credits] == ["70", "71", "72", "73"]
    assert credits[0] == Line(records[0].worker, 5, records[5].links[1].total)


def test_accounts_that_get_nothing_have_no_line() -> None:
    refused = settlement.link_records([sample_records()[2], sample_records()[3]])
    assert settlement.round_lines(refused) == ((), ())


@dataclass(frozen=True)
class Ledger:
    """A settled round and everything that an auditor may know of it."""

    round: Round
    records: list[SettlementRecord]
    debits: tuple[Line, ...]
    credits: tuple[Line, ...]
    jobs: list[Job]
    commitments: list[Commitment]

    def fault(self, **changes: object) -> Fault | None:
        known = {**vars(self), "params": PARAMS, **changes}
        return find_settlement_fault(**known)  # type: ignore[arg-type]

    def with_record(self, index: int, **changes: object) -> list[SettlementRecord]:
        records = list(self.records)
        records[index] = replace(records[index], **changes)  # type: ignore[arg-type]
        return records


def ledger(seed: int, count: int = 12) -> Ledger:
    """Honest jobs of 3 clients, done by 6 operators."""
    rng = random.Random(seed)
    jobs, records, commitments = [], [], []
    for i in range(count):
        job_id = bytes([i + 1]) * 32
        job = sample_job(
            client="0x" + f"c{rng.randrange(3)}" * 20,
            output_price=10**15 + i,
            verifiers=3,
            nonce=i,
            model_id=b"\x11" * 32,
        )
        worker, *verifiers = rng.sample(OPERATORS, rng.randrange(1, 4))
        verdicts = rng.choices(list(Verdict), (6, 1, 1), k=len(verifiers))
        output = rng.randrange(1, 200)
        records.append(settlement.make_record(job, job_id, worker, 64, output, verifiers, verdicts, PARAMS))
        commitment = Commitment(job_id, Role.WORKER, 0, bytes(32), 64, output, FinishReason.EOS, worker)
        jobs.append(job)
        commitments.append(commitment)
    records = settlement.link_records(records)
    debits, credits = settlement.round_lines(records)
    return Ledger(sample_round(records), records, debits, credits, jobs, commitments)


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_lines_add_up_and_an_honest_settlement_has_no_fault(seed: int) -> None:
    honest = ledger(seed)
    assert honest.fault() is None
    assert honest.fault(jobs=(), commitments=()) is None
    paid = sum(line.amount for line in honest.debits)
    cut = sum(record.scheduler_fee for record in honest.records)
    assert paid == honest.round.total == sum(record.client_pays for record in honest.records)
    assert sum(line.amount for line in honest.credits) == paid - cut
    for lines in (honest.debits, honest.credits):
        accounts = [int(line.account, 16) for line in lines]
        assert accounts == sorted(set(accounts))
        assert all(line.amount > 0 for line in lines)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"job_id": bytes(32)}, "job_id"),
        ({"worker": OPERATORS[5]}, "worker"),
        ({"prompt_tokens": 65}, "prompt_tokens"),
        ({"output_tokens": 300}, "output_tokens"),
        ({"client": SCHEDULER}, "client"),
        ({"worker_fee": 1}, "worker_fee"),
        ({"verifier_fee": 1}, "verifier_fee"),
        ({"scheduler_fee": 1}, "scheduler_fee"),
        ({"outcome": Verdict.REJECT}, "outcome"),
        ({"verdicts": (Verdict.ACCEPT,)}, "verdicts"),
    ],
)
def test_records_that_contradict_their_job_are_found(changes: dict[str, object], field: str) -> None:
    job = sample_job(model_id=b"\x11" * 32, output_price=10**15)
    record = settlement.make_record(
        job, b"\1" * 32, OPERATORS[0], 64, 10, OPERATORS[1:3], [Verdict.ACCEPT] * 2, PARAMS
    )
    (record,) = settlement.link_records([record])
    commitment = Commitment(record.job_id, Role.WORKER, 0, bytes(32), 64, 10, FinishReason.EOS, record.worker)
    debits, credits = settlement.round_lines([record])
    whole = Ledger(sample_round([record]), [record], debits, credits, [job], [commitment])
    assert whole.fault() is None
    assert whole.fault(records=whole.with_record(0, **changes)) == RecordFault(0, field)


@pytest.mark.parametrize("verifiers", [(OPERATORS[1], OPERATORS[1]), (OPERATORS[1], OPERATORS[0])])
def test_a_record_that_pays_an_account_twice_breaks_its_chain(verifiers: tuple[str, str]) -> None:
    honest = ledger(1)
    index = next(i for i, record in enumerate(honest.records) if len(record.verifiers) == 2)
    worker = honest.records[index].worker
    pair = (verifiers[0], worker if verifiers[1] == OPERATORS[0] else verifiers[1])
    fault = honest.fault(records=honest.with_record(index, verifiers=pair))
    assert fault == ChainFault(index, 0, None)


def test_records_of_late_or_foreign_jobs_are_found() -> None:
    honest = ledger(1)
    accepted = next(i for i, r in enumerate(honest.records) if r.outcome is Verdict.ACCEPT)
    for change, field in (
        ({"deadline": honest.round.committed_at - 1}, "outcome"),
        ({"scheduler": OPERATORS[0]}, "job_id"),
        ({"model_id": bytes(32)}, "job_id"),
        ({"max_output_tokens": 0}, "output_tokens"),
        ({"verifiers": 0}, "verifiers"),
    ):
        jobs = list(honest.jobs)
        jobs[accepted] = replace(jobs[accepted], **change)  # type: ignore[arg-type]
        assert honest.fault(jobs=jobs) == RecordFault(accepted, field)


def test_jobs_paid_twice_are_found() -> None:
    honest = ledger(2)
    first, second = [i for i, r in enumerate(honest.records) if r.outcome is Verdict.ACCEPT][:2]
    client, nonce = honest.jobs[first].client, honest.jobs[first].nonce
    assert honest.fault(paid={(client, nonce): (3, 4)}) == DuplicateFault(first, 3, 4)
    assert honest.fault(paid={(client, 10**9): (3, 4)}) is None
    jobs, records = list(honest.jobs), list(honest.records)
    jobs[second] = replace(jobs[second], client=client, nonce=nonce)
    records[second] = replace(records[second], client=client)
    records = settlement.link_records(records)
    assert honest.fault(jobs=jobs, records=records) == DuplicateFault(second, None, first)


def chain_of(honest: Ledger) -> list[int]:
    """Three records in a row of one client that has paid by the last one."""
    for client in {record.client for record in honest.records}:
        indices = [i for i, record in enumerate(honest.records) if record.client == client]
        if len(indices) > 3:
            return indices[:3]
    raise AssertionError


@pytest.mark.parametrize(
    ("previous", "total", "earlier"),
    [
        ("b", 1, "b"),  # the right record, a wrong total
        ("a", 0, "b"),  # leaves out b
        ("none", 0, "b"),
        ("other", 0, "other"),  # names a record that the client is not in
        ("c", 0, "none"),  # itself
        ("later", 0, "none"),
    ],
)
def test_wrong_links_are_found(previous: str, total: int, earlier: str) -> None:
    honest = ledger(6)
    a, b, c = chain_of(honest)
    other = next(
        i for i in range(c) if honest.records[i].client != honest.records[c].client and i not in (a, b)
    )
    places = {"a": a, "b": b, "c": c, "other": other, "later": c + 1, "none": None}
    target = NO_JOB if previous == "none" else places[previous]
    link = honest.records[c].links[0]
    assert target is not None
    links = (Link(target, link.total + total), *honest.records[c].links[1:])
    expected = b if previous == "other" and other < b else places[earlier]
    assert honest.fault(records=honest.with_record(c, links=links)) == ChainFault(c, 0, expected)


def test_a_record_without_one_link_for_each_party_breaks_the_chains_of_all() -> None:
    honest = ledger(6)
    links = honest.records[3].links
    for wrong in ((), links[:-1], (*links, links[0])):
        assert honest.fault(records=honest.with_record(3, links=wrong), jobs=()) == ChainFault(3, 0, None)


def test_wrong_first_links_are_found() -> None:
    honest = ledger(6)
    a, *_ = chain_of(honest)
    link = honest.records[a].links[0]
    assert link.previous == NO_JOB
    links = (Link(NO_JOB, link.total + 1), *honest.records[a].links[1:])
    assert honest.fault(records=honest.with_record(a, links=links)) == ChainFault(a, 0, None)


def test_wrong_lines_are_found() -> None:
    honest = ledger(5)
    line, *rest = honest.credits
    stranger = Line("0x" + "99" * 20, 0, 7)
    for lines, fault in (
        ([replace(line, amount=line.amount + 1), *rest], (line.account, line.last_job)),
        ([replace(line, amount=line.amount - 1), *rest], (line.account, line.last_job)),
        (rest, (line.account, line.last_job)),
        ([line, *rest, stranger], (stranger.account, 0)),
        ([replace(line, last_job=len(honest.records)), *rest], (line.account, None)),
        ([replace(line, last_job=NO_JOB), *rest], (line.account, None)),
    ):
        assert honest.fault(credits=lines) == LineFault(False, *fault)
    debit, *others = honest.debits
    fault = LineFault(True, debit.account, debit.last_job)
    assert honest.fault(debits=[replace(debit, amount=0), *others]) == fault


def test_a_line_that_names_an_earlier_job_is_found_only_if_it_is_wrong() -> None:
    honest = ledger(6)
    a, *_ = chain_of(honest)
    lines = [line for line in honest.debits if line.account == honest.records[a].client]
    rest = [line for line in honest.debits if line not in lines]
    short = replace(lines[0], last_job=a, amount=honest.records[a].links[0].total)
    assert honest.fault(debits=sorted([short, *rest], key=lambda line: line.account)) == LineFault(
        True, short.account, lines[0].last_job
    )
