"""What only a scheduler can show, on anvil: answers earn the bond, silence costs the stake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chain.world import CLIENT, MODEL_ID, OPERATORS, SCHEDULER, STAKE, Settled, World
from verillm import draw, eip712, vrf
from verillm.chain.audit import Grounds, Matter
from verillm.chain.proofs import RecordProof
from verillm.chain.staking import SCHEDULER_POOL
from verillm.constants import Verdict
from verillm.errors import ChainError
from verillm.types import SignedVerdict


def grounds(world: World, settled: Settled) -> tuple[RecordProof, Grounds]:
    """What an honest scheduler holds of job 0."""
    job, worker, committee = settled.jobs[0], settled.workers[0], settled.committees[0]
    verdicts = []
    for verifier in committee:
        verdict = SignedVerdict(worker.commitment.job_id, Verdict.ACCEPT, 0, 0, verifier.key.address)
        signature = eip712.sign_verdict(verdict, verifier.key, world.domain)
        verdicts.append(replace(verdict, signature=signature))
    proofs = tuple(v.proof(settled.verifier_tree, i) for i, v in enumerate(committee))
    signature = eip712.sign_job(job, CLIENT, world.domain)
    answer = Grounds(job, signature, worker.proof(settled.tree, 0), proofs, tuple(verdicts))
    return settled.proofs[0], answer


def test_a_scheduler_that_answers_earns_the_bonds(world: World) -> None:
    settled = world.settled(world.job())
    round_id, bond = settled.round_id, world.params.dispute_bond
    watcher, scheduler = world.client, world.scheduler
    ids = {matter: watcher.demand_grounds(round_id, matter, 0) for matter in Matter}
    assert watcher.held(round_id)
    record, answer = grounds(world, settled)
    forged = replace(answer, job_signature=eip712.sign_job(answer.job, SCHEDULER, world.domain))
    with pytest.raises(ChainError, match=r"answerRecord: SignatureInvalid\("):
        scheduler.answer_record(ids[Matter.RECORD], record, forged)
    scheduler.answer_record(ids[Matter.RECORD], record, answer)

    info = scheduler.round(round_id)
    secret, job_id = bytes(SCHEDULER.key), record.record.job_id
    public = vrf.public_key(secret)
    epoch = settled.epoch
    alpha = draw.worker_alpha(scheduler.epoch_seed(epoch), job_id, 0)
    proof = vrf.hints(public, alpha, vrf.prove(secret, alpha))
    scheduler.answer_worker(ids[Matter.WORKER], answer.worker, epoch, proof)
    alpha = draw.verifier_alpha(info.verifier_seed, job_id)
    proof = vrf.hints(public, alpha, vrf.prove(secret, alpha))
    scheduler.answer_committee(ids[Matter.COMMITTEE], record, answer.job, proof)

    assert scheduler.balance(SCHEDULER.address) == 3 * bond
    assert not watcher.held(round_id)
    assert all(watcher.inquiry(demand) is None for demand in ids.values())
    world.finish()
    scheduler.pay_round(round_id)
    assert scheduler.balance(SCHEDULER.address) == 3 * bond + record.record.scheduler_fee


@pytest.mark.parametrize("matter", list(Matter))
def test_a_silent_scheduler_is_slashed(world: World, matter: Matter) -> None:
    settled = world.settled(world.job())
    round_id = settled.round_id
    watcher = world.client
    before = watcher.token_balance(CLIENT.address)
    demand = watcher.demand_grounds(round_id, matter, 0)
    info = watcher.inquiry(demand)
    assert info is not None
    assert (info.round_id, info.matter, info.index, info.challenger) == (round_id, matter, 0, CLIENT.address)
    with pytest.raises(ChainError, match=r"slashSilent: TooEarly\("):
        watcher.slash_silent(demand)
    world.devnet.mine(info.deadline + 1 - watcher.block_number())
    watcher.slash_silent(demand)
    taken = STAKE * world.params.slash_bps_settlement // 10_000
    share = taken * world.params.challenger_share_bps // 10_000
    assert watcher.stake_of(SCHEDULER_POOL, SCHEDULER.address) == STAKE - taken
    assert watcher.balance(CLIENT.address) == world.params.dispute_bond + share
    assert watcher.token_balance(CLIENT.address) == before - world.params.dispute_bond
    assert watcher.pending(round_id).refuted == (matter is Matter.RECORD)
    assert watcher.voided(round_id, 0) == (matter is not Matter.RECORD)
    proof = settled.proofs[0]
    if matter is Matter.RECORD:
        watcher.refund_round(round_id)
    else:
        watcher.deduct_job(round_id, 0, proof.record, proof.proof)
    assert watcher.escrow(CLIENT.address, SCHEDULER.address) == STAKE
    assert watcher.stake_of(MODEL_ID, OPERATORS[0].address) == STAKE
