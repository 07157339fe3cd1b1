"""Rounds on anvil: draws equal Python's, one job paid to the wei, and what cannot be claimed."""

from __future__ import annotations

import random

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
from verillm import draw, eip712
from verillm.constants import Role, Verdict
from verillm.errors import ChainError, NotEnoughOperators


def test_domain_epoch_seed_and_params_equal_the_contracts(world: World) -> None:
    chain = world.client
    assert chain._call("rounds", "domainSeparator") == world.domain.separator
    assert chain._call("rounds", "params") == world.params.as_tuple()
    epoch = chain.current_epoch()
    assert chain._call("staking", "epoch") == epoch
    assert chain.epoch_seed(epoch) == draw.epoch_seed(chain.chain_id, world.book.staking, epoch)
    job = world.job()
    assert chain._call("rounds", "jobId", tuple(vars(job).values())) == eip712.job_id(job, world.domain)


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
            try:
                expected = draw.draw_operators(beta, count, stakes, excluded)
            except NotEnoughOperators:
                with pytest.raises(ChainError, match="NotEnoughOperators"):
                    world.client.draw(MODEL_ID, epoch, beta, count, excluded)
                continue
            assert world.client.draw(MODEL_ID, epoch, beta, count, excluded) == expected
    assert OPERATORS[2].address in dict(stakes)
    assert dict(stakes)[OPERATORS[2].address] == 0


def test_one_job_is_paid_to_the_wei(world: World) -> None:
    job = world.job()
    tokens = world.generate(job)
    worker = world.commit(world.worker_key(job), job, tokens, Role.WORKER)
    round_id, tree = world.post(worker)
    keys = world.draw_verifiers(round_id, worker, job)
    assert worker.key not in keys
    assert len({key.address for key in keys}) == 2
    verifiers = [world.commit(key, job, tokens, Role.VERIFIER) for key in keys]
    verifier_tree = world.post_verifiers(round_id, verifiers)
    record, settled = world.settle(round_id, job, worker, verifiers, Verdict.ACCEPT)
    signature = eip712.sign_job(job, CLIENT, world.domain)
    claim = (round_id, 0, record, settled.proof(0), job, signature)

    info = world.client.round(round_id)
    assert (info.scheduler, info.model_id, info.jobs) == (SCHEDULER.address, MODEL_ID, 1)
    assert (info.root, info.verification_root) == (tree.root, verifier_tree.root)
    assert (info.settlement_root, info.total_paid) == (settled.root, record.client_pays)
    with pytest.raises(ChainError, match=r"claim: WindowOpen\("):
        world.client.claim(*claim)
    world.devnet.mine(world.params.challenge_window_blocks + 1)
    assert world.client.wait_claimable(round_id)
    assert not world.client.claimed(record.job_id)
    world.as_account(DEPLOYER).claim(*claim)

    fee = len(PROMPT) * 10**15 + OUTPUT_TOKENS * (3 * 10**15 + 1)
    each, cut = fee // 10, fee * 2 // 100
    expected = {worker.key.address: fee, SCHEDULER.address: cut, **{k.address: each for k in keys}}
    for key in (worker.key, *keys, SCHEDULER):
        chain = world.as_account(key)
        before = chain.token_balance(key.address)
        assert chain.balance(key.address) == expected[key.address]
        chain.withdraw()
        assert chain.token_balance(key.address) - before == expected[key.address]
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE - fee - 2 * each - cut
    assert world.client.token_balance(world.book.rounds) == STAKE - fee - 2 * each - cut
    assert world.client.claimed(record.job_id)
    assert world.client.nonce_used(CLIENT.address, job.nonce)
    with pytest.raises(ChainError, match=r"claim: NonceUsed\("):
        world.client.claim(*claim)


def test_claim_needs_the_clients_signature_and_the_settled_record(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    keys = world.draw_verifiers(round_id, worker, job)
    verifiers = [world.commit(key, job, worker.committed.tokens, Role.VERIFIER) for key in keys]
    world.post_verifiers(round_id, verifiers)
    record, tree = world.settle(round_id, job, worker, verifiers, Verdict.ACCEPT)
    world.devnet.mine(world.params.challenge_window_blocks + 1)
    forged = eip712.sign_job(job, SCHEDULER, world.domain)
    with pytest.raises(ChainError, match=r"claim: SignatureInvalid\("):
        world.scheduler.claim(round_id, 0, record, tree.proof(0), job, forged)
    signature = eip712.sign_job(job, CLIENT, world.domain)
    other = world.job(nonce=2)
    with pytest.raises(ChainError, match=r"claim: JobMismatch\("):
        world.scheduler.claim(round_id, 0, record, tree.proof(0), other, signature)


def test_refused_job_costs_nothing(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, _ = world.post(worker)
    keys = world.draw_verifiers(round_id, worker, job)
    verifiers = [world.commit(key, job, worker.committed.tokens, Role.VERIFIER) for key in keys]
    world.post_verifiers(round_id, verifiers)
    record, tree = world.settle(round_id, job, worker, verifiers, Verdict.REJECT)
    world.devnet.mine(world.params.challenge_window_blocks + 1)
    world.scheduler.claim(round_id, 0, record, tree.proof(0), job, eip712.sign_job(job, CLIENT, world.domain))
    assert world.client.escrow(CLIENT.address, SCHEDULER.address) == STAKE


def test_randomness_is_the_blocks_and_moves_when_too_old(world: World) -> None:
    job = world.job()
    round_id, _ = world.post(world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER))
    request = world.scheduler.round(round_id).verifier_request
    target = world.scheduler._call("randomness", "targetBlock", request)
    assert world.scheduler.randomness(request) is None
    world.devnet.mine(300)
    world.scheduler.poke(request)
    assert world.scheduler.randomness(request) is None
    moved = world.scheduler._call("randomness", "targetBlock", request)
    assert moved > target + 300
    value = world.random(request)
    assert value == bytes(world.scheduler.connection.block(moved)["mixHash"])
    with pytest.raises(ChainError, match=r"poke: AlreadyKnown\("):
        world.scheduler.poke(request)


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
