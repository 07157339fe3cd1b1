"""Schedulers' faults on anvil: what the auditor finds is what the contract punishes, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from eth_utils import to_checksum_address

from tests.chain.world import CLIENT, DEPLOYER, OPERATORS, SCHEDULER, STAKE, Settled, World
from verillm import settlement
from verillm.audit import ChainFault, Fault, LineFault, RecordFault, find_settlement_fault
from verillm.chain.staking import SCHEDULER_POOL
from verillm.constants import Role, Verdict
from verillm.errors import ChainError
from verillm.types import NO_JOB, Line, Link, SettlementRecord

BURN = "0x000000000000000000000000000000000000dEaD"


@dataclass
class Honest:
    """A round of four jobs that is verified and not yet settled."""

    world: World
    settled: Settled
    records: list[SettlementRecord]
    debits: tuple[Line, ...]
    credits: tuple[Line, ...]


@pytest.fixture
def honest(world: World) -> Honest:
    jobs = [world.job(nonce) for nonce in range(1, 5)]
    settled = world.verified(*jobs)
    records = settlement.link_records(
        [
            world.record(job, worker, committee, Verdict.ACCEPT)
            for job, worker, committee in zip(jobs, settled.workers, settled.committees, strict=True)
        ]
    )
    return Honest(world, settled, records, *settlement.round_lines(records))


def fault_of(case: Honest) -> Fault | None:
    """What an auditor with all data finds in the round as the chain has it."""
    chain, settled = case.world.client, case.settled
    info = chain.round(settled.round_id)
    return find_settlement_fault(
        info,
        settled.records,
        info.debits,
        info.credits,
        chain.params_at(info.params_version),
        settled.jobs,
        [worker.commitment for worker in settled.workers],
    )


def challenge(case: Honest, fault: Fault) -> None:
    """The challenge that fits, by an account that is no party."""
    chain, settled = case.world.as_account(DEPLOYER), case.settled
    round_id, proofs = settled.round_id, settled.proofs
    if isinstance(fault, RecordFault):
        worker = settled.workers[fault.index].proof(settled.tree, fault.index)
        chain.challenge_record(round_id, proofs[fault.index], settled.jobs[fault.index], worker)
    elif isinstance(fault, ChainFault):
        earlier = None if fault.earlier is None else proofs[fault.earlier]
        chain.challenge_chain(round_id, proofs[fault.index], fault.slot, earlier)
    elif isinstance(fault, LineFault):
        shown = None if fault.index is None else proofs[fault.index]
        chain.challenge_line(round_id, fault.paying, fault.account, shown)
    else:
        raise AssertionError(fault)


def settle(case: Honest, **changes: object) -> None:
    """Settle with the honest records and lines, or others."""
    known = {**vars(case), **changes}
    lines = (known["debits"], known["credits"])
    case.settled.proofs[:] = case.world.settle(case.settled.round_id, known["records"], lines)


def punished(world: World) -> None:
    """The scheduler's stake is gone: the challenger's share is credited, the rest burned."""
    taken = STAKE * world.params.slash_bps_settlement // 10_000
    share = taken * world.params.challenger_share_bps // 10_000
    assert world.client.stake_of(SCHEDULER_POOL, SCHEDULER.address) == STAKE - taken
    assert world.client.balance(DEPLOYER.address) == share
    assert world.client.token_balance(BURN) == taken - share


def test_a_true_settlement_stands(honest: Honest) -> None:
    settle(honest)
    assert fault_of(honest) is None
    with pytest.raises(ChainError, match=r"challengeRecord: RecordFollows\(0\)"):
        challenge(honest, RecordFault(0, "worker_fee"))
    for index in range(1, 4):
        with pytest.raises(ChainError, match=rf"challengeChain: ChainFollows\({index}\)"):
            challenge(honest, ChainFault(index, 0, index - 1))
    for paying, lines in ((True, honest.debits), (False, honest.credits)):
        for line in lines:
            with pytest.raises(ChainError, match=r"challengeLine: LineFollows\("):
                challenge(honest, LineFault(paying, line.account, line.last_job))


@pytest.mark.parametrize(
    "changes",
    [{"worker_fee": 1}, {"output_tokens": 1}, {"outcome": Verdict.REJECT}, {"worker": SCHEDULER.address}],
)
def test_a_false_record_voids_its_job(honest: Honest, changes: dict[str, object]) -> None:
    world, records = honest.world, list(honest.records)
    records[2] = replace(records[2], **changes)  # type: ignore[arg-type]
    settle(honest, records=records)
    fault = fault_of(honest)
    assert isinstance(fault, RecordFault)
    assert fault.index == 2
    challenge(honest, fault)
    punished(world)
    assert world.client.voided(honest.settled.round_id, 2)
    with pytest.raises(ChainError, match="AlreadyPunished"):
        challenge(honest, fault)


def links_of(record: SettlementRecord, slot: int, link: Link) -> SettlementRecord:
    links = list(record.links)
    links[slot] = link
    return replace(record, links=tuple(links))


@pytest.mark.parametrize("kind", ["total", "skips", "forward", "stranger", "first total", "first", "none"])
def test_a_broken_chain_refutes_the_round(honest: Honest, kind: str) -> None:
    """The client is in all four jobs, so its chain is 0, 1, 2, 3."""
    world, records = honest.world, list(honest.records)
    true = records[2].links[0]
    index, slot, link = {
        "none": (2, 0, None),
        "total": (2, 0, replace(true, total=true.total - 1)),
        "skips": (2, 0, Link(0, records[0].links[0].total + records[2].client_pays)),
        "forward": (2, 0, replace(true, previous=3)),
        "stranger": (2, 1, Link(_without(records, 2), records[2].worker_fee)),
        "first total": (0, 0, replace(records[0].links[0], total=0)),
        "first": (2, 0, Link(NO_JOB, records[2].client_pays)),
    }[kind]
    records[index] = (
        replace(records[index], links=()) if link is None else links_of(records[index], slot, link)
    )
    settle(honest, records=records)
    fault = fault_of(honest)
    assert isinstance(fault, ChainFault)
    assert (fault.index, fault.slot) == (index, slot)
    challenge(honest, fault)
    punished(world)
    assert world.client.pending(honest.settled.round_id).refuted
    world.client.refund_round(honest.settled.round_id)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE


def _without(records: list[SettlementRecord], index: int) -> int:
    """A former record in which the record's worker is not; NO_JOB's opposite if it is in all."""
    worker = records[index].worker
    for i in range(index):
        if worker not in (records[i].worker, *records[i].verifiers):
            return i
    return index  # forward to itself is wrong as well


@pytest.mark.parametrize("kind", ["less", "more", "missing", "stranger", "no such job", "earlier job"])
def test_a_false_line_refutes_the_round(honest: Honest, kind: str) -> None:
    world, (line, *rest) = honest.world, honest.credits
    stranger = Line(to_checksum_address("0x" + "f" * 40), 0, 5)
    records = honest.records
    earlier = next(
        i
        for i, record in enumerate(records)
        if line.account in (record.worker, *record.verifiers) or i == len(records) - 1
    )
    credits = {
        "less": [replace(line, amount=line.amount - 1), *rest],
        "more": [replace(line, amount=line.amount + 1), *rest],
        "missing": rest,
        "stranger": [line, *rest, stranger],
        "no such job": [replace(line, last_job=4), *rest],
        "earlier job": [replace(line, last_job=earlier, amount=1), *rest],
    }[kind]
    settle(honest, credits=credits)
    fault = fault_of(honest)
    assert isinstance(fault, LineFault)
    challenge(honest, fault)
    punished(world)
    world.finish()
    world.client.refund_round(honest.settled.round_id)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE
    assert world.client.token_balance(world.book.rounds) == STAKE + world.client.balance(DEPLOYER.address)


def test_a_client_that_pays_too_much_gets_it_back(honest: Honest) -> None:
    (debit,) = honest.debits
    settle(honest, debits=[replace(debit, amount=debit.amount + 10**18)])
    fault = fault_of(honest)
    assert fault == LineFault(True, CLIENT.address, 3)
    challenge(honest, fault)
    honest.world.client.refund_round(honest.settled.round_id)
    assert honest.world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE


def test_a_job_paid_twice_is_voided_in_its_later_round(world: World) -> None:
    job = world.job()
    first, second = world.settled(job), world.settled(job)
    chain = world.as_account(DEPLOYER)
    info = chain.round(second.round_id)
    paid = {(job.client, job.nonce): (first.round_id, 0)}
    fault = find_settlement_fault(
        info, second.records, info.debits, info.credits, chain.params, [job], paid=paid
    )
    assert fault is not None
    assert vars(fault) == {"index": 0, "earlier_round": first.round_id, "earlier_index": 0}
    ids, proofs = (first.round_id, second.round_id), (first.proofs[0], second.proofs[0])
    with pytest.raises(ChainError, match="challengeDuplicate: NotDuplicates"):
        chain.challenge_duplicate(ids[::-1], proofs[::-1], (job, job))
    chain.challenge_duplicate(ids, proofs, (job, job))
    punished(world)
    assert chain.voided(second.round_id, 0)
    proof = second.proofs[0]
    chain.deduct_job(second.round_id, 0, proof.record, proof.proof)
    cost = proof.record.client_pays
    assert chain.escrow(CLIENT.address, SCHEDULER.address) == STAKE - cost
    world.finish()
    chain.pay_round(first.round_id)
    chain.pay_round(second.round_id)
    assert chain.balance(first.workers[0].key.address) == proof.record.worker_fee


def test_an_abandoned_round_costs_its_scheduler(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    chain = world.as_account(DEPLOYER)
    with pytest.raises(ChainError, match=r"slashAbandoned: SettledInTime\("):
        chain.slash_abandoned(round_id)
    world.devnet.mine(world.params.settle_blocks + 1)
    chain.slash_abandoned(round_id)
    taken = STAKE * world.params.slash_bps_withheld // 10_000
    assert chain.stake_of(SCHEDULER_POOL, SCHEDULER.address) == STAKE - taken
    with pytest.raises(ChainError, match="AlreadyPunished"):
        chain.slash_abandoned(round_id)
