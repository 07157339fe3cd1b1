"""Rounds rebuilt from events: by a client that has seen nothing, on bad endpoints, after a reorganisation."""

from __future__ import annotations

import pytest

from tests.chain.world import CLIENT, MODEL_ID, OPERATORS, SCHEDULER, World
from verillm import settlement
from verillm.chain import ChainClient
from verillm.constants import Role, Verdict
from verillm.errors import ChainError


def test_a_restarted_client_rebuilds_every_phase(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has seen nothing finds rounds by searching back, a few blocks at a time."""
    seen: list[ChainClient] = []

    def check(round_id: int) -> None:
        fresh = world.as_account(CLIENT)
        with monkeypatch.context() as patch:
            patch.setattr("verillm.chain.connection.LOG_BLOCKS", 7)
            info = fresh.round(round_id)
        assert settlement.round_hash(info) in (
            state := fresh._call("rounds", "stateOf", round_id),
            bytes(255 - byte for byte in state),
        )
        assert world.scheduler.round(round_id) == info
        assert all(chain.round(round_id) == info for chain in seen)  # these go on from what they know
        seen.append(fresh)

    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    world.post(worker)
    round_id, _ = world.post(worker)
    world.post(worker)
    check(round_id)
    world.pass_seed()
    world.post_verifiers(round_id, [worker])
    check(round_id)
    world.settle(round_id, [world.record(job, worker, [], Verdict.UNABLE)])
    check(round_id)
    world.finish()
    world.client.pay_round(round_id)
    check(round_id)
    assert seen[-1].round(round_id).closed

    requeued, _ = world.post(worker)
    check(requeued)
    world.devnet.mine(300)  # past settleBy, too
    world.scheduler.requeue(requeued)
    check(requeued)


def test_rounds_that_do_not_exist_or_do_not_match(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChainError, match="there is no round 7"):
        world.client.round(7)
    settled = world.settled(world.job())
    fresh = world.as_account(CLIENT)
    with monkeypatch.context() as patch:
        patch.setattr(fresh, "_history", lambda *_: [])  # an endpoint that has lost logs
        with pytest.raises(ChainError, match=r"events of round \d+ do not give the hash"):
            fresh.round(settled.round_id)
    fresh = world.as_account(CLIENT)
    with monkeypatch.context() as patch:
        patch.setattr(fresh, "events", lambda *_, **__: iter(()))
        with pytest.raises(ChainError, match=r"found no event of round \d+ since block"):
            fresh.round(settled.round_id)
    assert fresh.round(settled.round_id).settled


def test_a_reorganised_chain_is_followed(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    snapshot = world.devnet.rpc("evm_snapshot")
    round_id, _ = world.post(worker)
    world.pass_seed()
    world.scheduler.commit_verifications(round_id, b"\1" * 32, 1)
    before = world.scheduler.round(round_id)
    world.devnet.rpc("evm_revert", snapshot)
    world.devnet.mine(3)
    again = world.as_account(SCHEDULER)
    assert again.commit_round(MODEL_ID, b"\2" * 32, 2) == round_id
    after = world.scheduler.round(round_id)
    assert (before.root, after.root, after.jobs, after.verified) == (worker.leaf, b"\2" * 32, 2, False)
