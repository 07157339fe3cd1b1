"""Rounds on anvil: draws equal Python's, jobs paid to the wei, and every way a round may end without pay."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import astuple, replace

import pytest

from tests.chain.world import (
    CLIENT,
    DEPLOYER,
    MODEL_ID,
    OPERATORS,
    OUTPUT_TOKENS,
    PROMPT,
    SCHEDULER,
    STAKE,
    World,
)
from verillm import draw, eip712, settlement
from verillm.chain.rounds import JobState
from verillm.constants import Role, Verdict
from verillm.errors import ChainError, SeedExpired
from verillm.types import Line

FEE = len(PROMPT) * 10**15 + OUTPUT_TOKENS * (3 * 10**15 + 1)
EACH, CUT = FEE // 10, FEE * 2 // 100
COST = FEE + 2 * EACH + CUT


def earned(world: World) -> dict[str, int]:
    """What each party's balance holds before it is withdrawn; zeros left out."""
    amounts = {key.address: world.client.balance(key.address) for key in (*OPERATORS, SCHEDULER, CLIENT)}
    return {address: amount for address, amount in amounts.items() if amount}


def withdraw_all(world: World) -> None:
    """Everybody withdraws exactly its balance."""
    for key in (*OPERATORS, SCHEDULER):
        chain = world.as_account(key)
        if amount := chain.balance(key.address):
            before = chain.token_balance(key.address)
            chain.withdraw()
            assert chain.token_balance(key.address) - before == amount
            assert chain.balance(key.address) == 0


def test_domain_epoch_seed_and_params_equal_the_contracts(world: World) -> None:
    chain = world.client
    assert chain._call("rounds", "domainSeparator") == world.domain.separator
    assert chain.params == chain.params_at(1) == world.params
    assert chain.params_version() == 1
    assert not chain.paused()
    epoch = chain.current_epoch()
    assert chain._call("staking", "epoch") == epoch
    assert chain.epoch_seed(epoch) == draw.epoch_seed(chain.chain_id, world.book.staking, epoch)
    job = world.job()
    assert chain._call("rounds", "jobId", astuple(job)) == eip712.job_id(job, world.domain)
    with pytest.raises(ChainError, match=r"at: VersionUnknown\(2\)"):
        chain.params_at(2)


def test_draws_equal_python(world: World) -> None:
    rng = random.Random(5)
    for i, key in enumerate(OPERATORS[:4]):
        if i != 2:
            world.as_account(key).increase_stake(MODEL_ID, (i + 1) * 10**18 + i)
    world.as_account(OPERATORS[2]).request_unbond(MODEL_ID, STAKE)
    old = world.client.current_epoch()
    world.devnet.mine(2 * world.params.epoch_blocks)
    for epoch in (0, old, world.client.current_epoch()):
        stakes = world.client.stakes(MODEL_ID, epoch)
        for _ in range(8):
            beta = rng.randbytes(32)
            excluded = rng.sample([key.address for key in OPERATORS], 2)
            count = rng.randrange(1, 6)
            expected = draw.draw_operators(beta, count, stakes, excluded)
            assert world.client.draw(MODEL_ID, epoch, beta, count, excluded) == expected
    assert dict(stakes)[OPERATORS[2].address] == 0


def test_one_job_is_paid_to_the_wei(world: World) -> None:
    settled = world.settled(world.job())
    (record,), (worker,), (committee,) = settled.records, settled.workers, settled.committees
    assert worker.key not in [verifier.key for verifier in committee]

    info = world.client.round(settled.round_id)
    assert (info.scheduler, info.model_id, info.jobs) == (SCHEDULER.address, MODEL_ID, 1)
    assert (info.root, info.verification_root) == (settled.tree.root, settled.verifier_tree.root)
    assert info.settlement_root == settlement.record_leaf(record)
    assert (info.total, info.closed) == (COST, False)
    assert info.debits == (Line(CLIENT.address, 0, COST),)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - COST
    with pytest.raises(ChainError, match=r"payRound: WindowOpen\("):
        world.client.pay_round(settled.round_id)
    world.finish()
    assert world.client.wait_final(settled.round_id)
    assert len(world.as_account(DEPLOYER).pay_round(settled.round_id)) == 1

    verifiers = {v.key.address: EACH for v in committee}
    assert earned(world) == {worker.key.address: FEE, SCHEDULER.address: CUT, **verifiers}
    withdraw_all(world)
    assert world.client.token_balance(world.book.rounds) == STAKE - COST
    assert world.client.round(settled.round_id).closed
    with pytest.raises(ChainError, match=r"payRound: RoundClosed\("):
        world.client.pay_round(settled.round_id)


@pytest.mark.parametrize("lines_per_call", [400, 1])
def test_several_jobs_are_paid_by_line(world: World, lines_per_call: int) -> None:
    """Workers and verifiers of many jobs get one sum each, in pages that another call may go on with."""
    settled = world.settled(*(world.job(nonce) for nonce in range(1, 5)))
    expected: Counter[str] = Counter({SCHEDULER.address: 4 * CUT})
    for worker, committee in zip(settled.workers, settled.committees, strict=True):
        expected[worker.key.address] += FEE
        expected.update({verifier.key.address: EACH for verifier in committee})
    world.finish()
    pages = world.client.pay_round(settled.round_id, lines_per_call)
    assert len(pages) == (1 if lines_per_call == 400 else len(expected) - 1)
    assert earned(world) == dict(expected)
    withdraw_all(world)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - 4 * COST
    assert world.client.token_balance(world.book.rounds) == STAKE - 4 * COST


def test_payment_goes_on_where_it_stopped(world: World) -> None:
    settled = world.settled(world.job())
    world.finish()
    info = world.client.round(settled.round_id)
    credits = [astuple(line) for line in info.credits]
    chain = world.client
    chain._send("rounds", "payRound", settled.round_id, settlement.round_values(info), credits, 2)
    assert chain.pending(settled.round_id).cursor == 2
    assert not chain.round(settled.round_id).closed
    chain.pay_round(settled.round_id)
    assert sum(earned(world).values()) == COST


@pytest.mark.parametrize("verdict", [Verdict.REJECT, Verdict.UNABLE])
def test_refused_job_costs_nothing(world: World, verdict: Verdict) -> None:
    settled = world.settled(world.job(), verdict=verdict)
    world.finish()
    world.client.pay_round(settled.round_id)
    assert earned(world) == {}
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE


def test_settlement_is_limited_by_escrow_and_by_its_own_debits(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    world.pass_seed()
    world.post_verifiers(round_id, [worker])
    record = world.record(job, worker, [], Verdict.ACCEPT)
    with pytest.raises(ChainError, match=r"settleRound: EscrowInsufficient\(0x\w+, 5, 0\)"):
        world.settle(round_id, [record], ([Line(DEPLOYER.address, 0, 5)], []))
    with pytest.raises(ChainError, match=r"settleRound: CreditsExceedDebits\(6, 5\)"):
        world.settle(round_id, [record], ([Line(CLIENT.address, 0, 5)], [Line(worker.key.address, 0, 6)]))
    twice = [Line(CLIENT.address, 0, 5)] * 2
    with pytest.raises(ChainError, match=r"settleRound: LinesNotSorted\(1\)"):
        world.settle(round_id, [record], (twice, []))


def test_seed_is_the_blocks_and_a_poked_one_outlives_it(world: World) -> None:
    job = world.job()
    round_id, _ = world.post(world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER))
    target = world.scheduler.round(round_id).verifier_block
    with pytest.raises(ChainError, match=f"{target + 1}; is the chain alive"):
        world.client.wait_seed(target, timeout=0)
    world.pass_seed()
    seed = world.client.wait_seed(target)
    assert seed == bytes(world.client.connection.block(target)["mixHash"])
    assert world.client.randomness(target) is None
    world.client.poke(target)
    with pytest.raises(ChainError, match=r"poke: AlreadyKnown\("):
        world.client.poke(target)
    world.devnet.mine(300)
    assert world.client.wait_seed(target) == world.client.randomness(target) == seed
    world.scheduler.commit_verifications(round_id, bytes(32), 0)
    assert world.client.verifier_seed(round_id) == seed


def test_expired_seeds_are_requeued_by_the_scheduler(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    first = world.scheduler.round(round_id).verifier_block
    with pytest.raises(ChainError, match=r"requeue: SeedStillAvailable\("):
        world.client.requeue(round_id)
    world.devnet.mine(300)
    with pytest.raises(SeedExpired, match="requeue what waits for it"):
        world.scheduler.commit_verifications(round_id, bytes(32), 0)
    with pytest.raises(SeedExpired):
        world.client.verifier_seed(round_id, timeout=0)
    with pytest.raises(ChainError, match="is the chain alive"):  # it requeues, and then waits for the block
        world.scheduler.verifier_seed(round_id, timeout=0.5)
    moved = world.client.round(round_id).verifier_block
    assert moved > first + 300
    world.pass_seed()
    seed = world.client.verifier_seed(round_id)
    assert seed == bytes(world.client.connection.block(moved)["mixHash"])

    world.scheduler.commit_verifications(round_id, bytes(32), 0)
    world.devnet.mine(300)
    world.client.requeue(round_id)  # anyone may
    info = world.client.round(round_id)
    assert (info.verifier_block, info.verifier_seed) == (moved, seed)
    assert info.position_block > moved + 300


def test_late_settlement_is_refused(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    world.pass_seed()
    world.post_verifiers(round_id, [worker])
    world.pass_seed()
    world.client.poke(world.client.round(round_id).position_block)
    world.devnet.mine(world.params.settle_blocks)
    with pytest.raises(ChainError, match=r"settleRound: SettleTooLate\("):
        world.settle(round_id, [world.record(job, worker, [], Verdict.UNABLE)])
    world.client.request_escrow_withdrawal(SCHEDULER.address, STAKE)
    world.devnet.mine(world.params.escrow_delay_blocks)
    world.client.withdraw_escrow(SCHEDULER.address)  # nothing of it is tied to the round
    assert world.client.token_balance(CLIENT.address) == 2 * STAKE


def test_only_a_staked_scheduler_commits_and_escrow_leaves_late(world: World) -> None:
    with pytest.raises(ChainError, match=r"commitRound: SchedulerNotStaked\(0x"):
        world.client.commit_round(MODEL_ID, bytes(32), 1)
    world.client.request_escrow_withdrawal(SCHEDULER.address, STAKE)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == 0
    with pytest.raises(ChainError, match="withdrawEscrow"):
        world.client.withdraw_escrow(SCHEDULER.address)
    world.devnet.mine(world.params.escrow_delay_blocks)
    before = world.client.token_balance(CLIENT.address)
    world.client.withdraw_escrow(SCHEDULER.address)
    assert world.client.token_balance(CLIENT.address) - before == STAKE


def test_voided_jobs_are_deducted_and_refuted_rounds_refunded(world: World) -> None:
    """What challenges do to pay."""
    settled = world.settled(world.job(1), world.job(2))
    held = settled.round_id
    world.as_court("hold", held)
    world.as_court("voidJob", held, 1)
    assert world.client.held(held)
    assert world.client.voided(held, 1)
    assert not world.client.voided(held, 0)
    world.finish()
    with pytest.raises(ChainError, match=r"payRound: RoundHeld\("):
        world.client.pay_round(held)
    world.as_court("release", held)
    with pytest.raises(ChainError, match=r"payRound: VoidsNotDeducted\("):
        world.client.pay_round(held)
    proof = settled.proofs[1]
    world.client.deduct_job(held, proof.index, proof.record, proof.proof)
    assert world.client.job_state(held, 1) is JobState.DEDUCTED
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - COST
    with pytest.raises(ChainError, match=r"deductJob: JobNotVoided\(1\)"):
        world.client.deduct_job(held, proof.index, proof.record, proof.proof)
    world.client.pay_round(held)
    verifiers = {v.key.address: EACH for v in settled.committees[0]}
    expected = Counter({settled.workers[0].key.address: FEE, SCHEDULER.address: CUT}) + Counter(verifiers)
    assert earned(world) == dict(expected)

    refuted = world.settled(world.job(3), world.job(4)).round_id
    world.as_court("refute", refuted)
    world.finish()
    with pytest.raises(ChainError, match=r"payRound: RoundIsRefuted\("):
        world.client.pay_round(refuted)
    assert len(world.client.refund_round(refuted, lines_per_call=1)) == 1  # one client, one line
    assert world.client.round(refuted).closed
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - COST
    withdraw_all(world)
    assert world.client.token_balance(world.book.rounds) == STAKE - COST


def test_a_record_larger_than_its_line_refutes_the_round(world: World) -> None:
    settled = world.settled(world.job(1))
    job = world.job(2)
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    world.pass_seed()
    world.post_verifiers(round_id, [worker])
    record = replace(world.record(job, worker, [], Verdict.UNABLE), worker_fee=FEE, outcome=Verdict.ACCEPT)
    (proof,) = world.settle(round_id, [record], ([Line(CLIENT.address, 0, 5)], []))
    world.as_court("voidJob", round_id, 0)
    world.client.deduct_job(round_id, 0, proof.record, proof.proof)
    assert world.client.pending(round_id).refuted
    world.client.refund_round(round_id)
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - COST
    assert world.client.round(settled.round_id).total == COST
