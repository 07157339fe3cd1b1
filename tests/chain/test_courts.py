"""Challenges on anvil: disputes with both outcomes, token fraud, withheld openings, false settlements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chain.world import (
    BOUNDARIES,
    CLIENT,
    DEPLOYER,
    MODEL_ID,
    OPERATORS,
    PROMPT,
    SCHEDULER,
    STAKE,
    VOCAB,
    WEIGHTS,
    Party,
    World,
    row,
)
from verillm import draw, eip712
from verillm.chain.court import DisputeState
from verillm.chain.staking import SCHEDULER_POOL
from verillm.commitment import MerkleTree
from verillm.constants import Role, Verdict
from verillm.errors import ChainError
from verillm.sampling.sampler import logits_q24, scores_q24
from verillm.types import Job

BAD = 0.05
"""Relative error far outside the synthetic model's tolerance."""
BURN = "0x000000000000000000000000000000000000dEaD"
PLACE = (1, 2)
"""Boundary and position in dispute."""


def posted(world: World, job: Job, error: float) -> tuple[int, Party, MerkleTree, list[Party], MerkleTree]:
    """A verified round whose worker (operator 0) has this error and whose verifiers have none."""
    tokens = world.generate(job)
    worker = world.commit(OPERATORS[0], job, tokens, Role.WORKER, error)
    round_id, tree = world.post(worker)
    keys = world.draw_verifiers(round_id, worker, job)
    verifiers = [world.commit(key, job, tokens, Role.VERIFIER) for key in keys]
    return round_id, worker, tree, verifiers, world.post_verifiers(round_id, verifiers)


def vote(world: World, dispute_id: int, voters: int = 3) -> list[str]:
    """Draw the jury; the first ``voters`` jurors vote with honest rows, then the dispute is resolved."""
    chain = world.client
    request = chain.dispute(dispute_id).randomness_request
    randomness = world.random(request)
    chain.draw_jury(dispute_id)
    info = chain.dispute(dispute_id)
    stakes = chain.stakes(MODEL_ID, info.epoch)
    expected = draw.draw_operators(randomness, world.params.jury_size, stakes, [info.first, info.second])
    assert list(info.jurors) == expected
    tokens = world.generate(world.job())
    boundary, position = info.boundary, info.position
    honest = row(boundary, tokens[: position + 1]).tobytes()
    jurors = [world.as_account(k) for name in info.jurors for k in OPERATORS if k.address == name]
    for i, juror in enumerate(jurors[:voters]):
        juror.commit_vote(dispute_id, honest, bytes([i]) * 32)
    if voters < len(jurors):
        with pytest.raises(ChainError, match=r"revealVote: TooEarly\("):
            jurors[0].reveal_vote(dispute_id, honest, bytes(32))
        world.devnet.mine(world.params.jury_commit_blocks)
    with pytest.raises(ChainError, match="VoteMismatch"):
        jurors[0].reveal_vote(dispute_id, honest, b"\xff" * 32)
    for i, juror in enumerate(jurors[:voters]):
        juror.reveal_vote(dispute_id, honest, bytes([i]) * 32)
        assert chain.vote(dispute_id, juror.address).revealed
    if voters < len(jurors):
        with pytest.raises(ChainError, match=r"resolve: TooEarly\("):
            chain.resolve(dispute_id)
        world.devnet.mine(world.params.jury_reveal_blocks + 1)
    chain.resolve(dispute_id)
    assert chain.dispute(dispute_id).state is DisputeState.RESOLVED
    return list(info.jurors)


def test_dispute_against_a_cheating_worker(world: World) -> None:
    job = world.job()
    round_id, worker, tree, verifiers, verifier_tree = posted(world, job, BAD)
    accuser = verifiers[0]
    chain = world.as_account(accuser.key)
    before = chain.token_balance(accuser.key.address)
    dispute_id = chain.open_dispute(
        round_id,
        accuser.proof(verifier_tree, 0),
        accuser.committed.open_row(*PLACE),
        worker.proof(tree, 0),
        worker.committed.open_row(*PLACE),
    )
    assert before - chain.token_balance(accuser.key.address) == world.params.dispute_bond
    info = chain.dispute(dispute_id)
    assert (info.first, info.second) == (accuser.key.address, worker.key.address)
    assert (info.boundary, info.position) == PLACE
    record, settled = world.settle(round_id, job, worker, verifiers, Verdict.ACCEPT)
    jurors = vote(world, dispute_id)

    slashed = STAKE * world.params.slash_bps_divergence // 10_000
    assert chain.stake_of(MODEL_ID, worker.key.address) == STAKE - slashed
    share = slashed * world.params.challenger_share_bps // 10_000
    each = slashed * world.params.juror_share_bps // 10_000 // 3
    assert chain.rewards(accuser.key.address) == world.params.dispute_bond + share
    assert [chain.rewards(juror) for juror in jurors] == [each] * 3
    assert chain.token_balance(BURN) == slashed - share - 3 * each
    assert chain.withdraw_rewards() == world.params.dispute_bond + share
    assert chain.token_balance(accuser.key.address) == before + share

    assert chain.voided(SCHEDULER.address, record.job_id)
    world.devnet.mine(world.params.challenge_window_blocks + 1)
    with pytest.raises(ChainError, match=r"claim: JobIsVoided\("):
        world.scheduler.claim(
            round_id, 0, record, settled.proof(0), job, eip712.sign_job(job, CLIENT, world.domain)
        )
    assert chain.escrow(CLIENT.address, SCHEDULER.address) == STAKE


def test_dispute_by_a_lying_verifier_with_a_juror_missing(world: World) -> None:
    job = world.job()
    tokens = world.generate(job)
    worker = world.commit(OPERATORS[0], job, tokens, Role.WORKER)
    round_id, tree = world.post(worker)
    liar_key, other_key = world.draw_verifiers(round_id, worker, job)
    liar = world.commit(liar_key, job, tokens, Role.VERIFIER, BAD)
    other = world.commit(other_key, job, tokens, Role.VERIFIER)
    verifier_tree = world.post_verifiers(round_id, [liar, other])
    chain = world.as_account(liar_key)
    dispute_id = chain.open_dispute(
        round_id,
        liar.proof(verifier_tree, 0),
        liar.committed.open_row(*PLACE),
        worker.proof(tree, 0),
        worker.committed.open_row(*PLACE),
    )
    jurors = vote(world, dispute_id, voters=2)
    slashed = STAKE * world.params.slash_bps_divergence // 10_000
    assert chain.stake_of(MODEL_ID, liar_key.address) == STAKE - slashed
    assert chain.stake_of(MODEL_ID, worker.key.address) == STAKE
    absent = STAKE * world.params.slash_bps_no_show // 10_000
    assert chain.stake_of(MODEL_ID, jurors[2]) == STAKE - absent
    assert not chain.voided(SCHEDULER.address, worker.commitment.job_id)
    record, settled = world.settle(round_id, job, worker, [liar, other], Verdict.ACCEPT)
    world.devnet.mine(world.params.challenge_window_blocks + 1)
    signature = eip712.sign_job(job, CLIENT, world.domain)
    world.scheduler.claim(round_id, 0, record, settled.proof(0), job, signature)
    assert chain.balance(worker.key.address) == record.worker_fee


def test_rows_within_tolerance_cannot_be_disputed(world: World) -> None:
    round_id, worker, tree, verifiers, verifier_tree = posted(world, world.job(), 1e-6)
    with pytest.raises(ChainError, match="openDispute: RowsAgree"):
        world.client.open_dispute(
            round_id,
            verifiers[0].proof(verifier_tree, 0),
            verifiers[0].committed.open_row(*PLACE),
            worker.proof(tree, 0),
            worker.committed.open_row(*PLACE),
        )


@pytest.mark.parametrize("temperature_ppm", [0, 700_000])
def test_token_fraud_is_proven_and_honest_tokens_are_safe(world: World, temperature_ppm: int) -> None:
    job = world.job(temperature_ppm=temperature_ppm)
    tokens = world.generate(job)
    position = len(PROMPT)
    scores = scores_q24(
        logits_q24(WEIGHTS @ row(BOUNDARIES - 1, tokens[: position + 1])), job.sampling, position
    )
    assert int(scores.argmax()) == tokens[position + 1]
    worst = int(scores.argmin())
    forged = (*tokens[: position + 1], worst, *tokens[position + 2 :])
    honest = world.commit(OPERATORS[0], job, tokens, Role.WORKER)
    cheat = world.commit(OPERATORS[1], job, forged, Role.WORKER)
    honest_round, honest_tree = world.post(honest)
    cheat_round, cheat_tree = world.post(cheat)

    for better in range(VOCAB):
        if better != tokens[position + 1]:
            with pytest.raises(ChainError, match=r"TokenFollows\(-"):
                world.client.prove_token_fraud(
                    world.fraud(honest_round, job, honest, honest_tree, position, better)
                )
    proof = world.fraud(cheat_round, job, cheat, cheat_tree, position, tokens[position + 1])
    world.client.prove_token_fraud(proof)
    (event,) = world.client.events("tribunal", "TokenFraudProven")
    assert event.args["gapQ24"] == pytest.approx(int(scores.max() - scores.min()), abs=2**10)
    taken = STAKE * world.params.slash_bps_token_fraud // 10_000
    assert world.client.stake_of(MODEL_ID, cheat.key.address) == STAKE - taken
    assert world.client.rewards(CLIENT.address) == taken * world.params.challenger_share_bps // 10_000
    assert world.client.voided(SCHEDULER.address, cheat.commitment.job_id)
    with pytest.raises(ChainError, match="AlreadyPunished"):
        world.client.prove_token_fraud(proof)


def test_token_fraud_needs_the_committed_rows_and_tokens(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, tree = world.post(worker)
    good = world.fraud(round_id, job, worker, tree, len(PROMPT), 0)
    row_bytes = bytes(4) + good.final_row.row[4:]
    weights = bytes(4) + good.better.row[4:]
    for bad, error in (
        (replace(good, final_row=replace(good.final_row, row=row_bytes)), r"RowNotCommitted\("),
        (replace(good, better=replace(good.better, row=weights)), r"WeightsNotInModel\("),
        (replace(good, final_row=worker.committed.open_row(0, len(PROMPT))), r"FinalBoundaryNeeded\("),
        (replace(good, job=world.job(nonce=9)), r"JobMismatch\("),
        (replace(good, worker=replace(good.worker, signature=b"\1" * 65)), "ECDSAInvalidSignature"),
    ):
        with pytest.raises(ChainError, match=error):
            world.client.prove_token_fraud(bad)


def test_withheld_opening_is_slashed_and_an_answer_earns_the_bond(world: World) -> None:
    round_id, worker, tree, verifiers, verifier_tree = posted(world, world.job(), 0.0)
    bond = world.params.dispute_bond
    first = world.client.demand_opening(round_id, worker.proof(tree, 0), *PLACE)
    operator = world.as_account(worker.key)
    with pytest.raises(ChainError, match=r"slashWithheld: TooEarly\("):
        world.client.slash_withheld(first)
    operator.answer_opening(first, worker.committed.parts, worker.committed.open_row(*PLACE))
    assert operator.rewards(worker.key.address) == bond

    silent = verifiers[1]
    second = world.client.demand_opening(round_id, silent.proof(verifier_tree, 1), *PLACE)
    world.devnet.mine(world.params.opening_deadline_blocks + 1)
    with pytest.raises(ChainError, match=r"answerOpening: TooLate\("):
        world.as_account(silent.key).answer_opening(
            second, silent.committed.parts, silent.committed.open_row(*PLACE)
        )
    world.client.slash_withheld(second)
    taken = STAKE * world.params.slash_bps_withheld // 10_000
    assert world.client.stake_of(MODEL_ID, silent.key.address) == STAKE - taken
    share = taken * world.params.challenger_share_bps // 10_000
    assert world.client.rewards(CLIENT.address) == bond + share


@pytest.mark.parametrize(
    "changes",
    [{"worker_fee": 1}, {"output_tokens": 1}, {"outcome": Verdict.REJECT}, {"worker": SCHEDULER.address}],
)
def test_false_settlement_slashes_the_scheduler(world: World, changes: dict[str, object]) -> None:
    job = world.job()
    round_id, worker, tree, verifiers, _ = posted(world, job, 0.0)
    record, settled = world.settle(round_id, job, worker, verifiers, Verdict.ACCEPT, changes)
    watcher = world.as_account(DEPLOYER)
    watcher.challenge_settlement(round_id, 0, record, settled.proof(0), job, worker.proof(tree, 0))
    taken = STAKE * world.params.slash_bps_settlement // 10_000
    assert watcher.stake_of(SCHEDULER_POOL, SCHEDULER.address) == STAKE - taken
    assert watcher.rewards(DEPLOYER.address) == taken * world.params.challenger_share_bps // 10_000
    assert watcher.voided(SCHEDULER.address, record.job_id)


def test_true_settlement_stands(world: World) -> None:
    job = world.job()
    round_id, worker, tree, verifiers, _ = posted(world, job, 0.0)
    record, settled = world.settle(round_id, job, worker, verifiers, Verdict.ACCEPT)
    with pytest.raises(ChainError, match="SettlementFollows"):
        world.client.challenge_settlement(round_id, 0, record, settled.proof(0), job, worker.proof(tree, 0))
