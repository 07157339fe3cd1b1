"""Operators' faults on anvil: token fraud, withheld openings, contradicting verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chain.world import (
    BOUNDARIES,
    CLIENT,
    MODEL_ID,
    OPERATORS,
    PROMPT,
    STAKE,
    VOCAB,
    WEIGHTS,
    World,
    row,
)
from verillm import eip712
from verillm.chain.devnet import account
from verillm.constants import Role, Verdict
from verillm.errors import ChainError
from verillm.sampling.sampler import logits_q24, scores_q24
from verillm.types import SignedVerdict

BURN = "0x000000000000000000000000000000000000dEaD"
PLACE = (1, 2)


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
                    honest_round, world.fraud(job, honest, honest_tree, position, better)
                )
    proof = world.fraud(job, cheat, cheat_tree, position, tokens[position + 1])
    world.client.prove_token_fraud(cheat_round, proof)
    (event,) = world.client.events("tribunal", "TokenFraudProven")
    assert event.args["gapQ24"] == pytest.approx(int(scores.max() - scores.min()), abs=2**10)
    taken = STAKE * world.params.slash_bps_token_fraud // 10_000
    share = taken * world.params.challenger_share_bps // 10_000
    assert world.client.stake_of(MODEL_ID, cheat.key.address) == STAKE - taken
    assert world.client.balance(CLIENT.address) == share
    assert world.client.token_balance(BURN) == taken - share
    assert world.client.voided(cheat_round, 0)
    with pytest.raises(ChainError, match="AlreadyPunished"):
        world.client.prove_token_fraud(cheat_round, proof)


def test_token_fraud_needs_the_committed_rows_and_tokens(world: World) -> None:
    job = world.job()
    worker = world.commit(OPERATORS[0], job, world.generate(job), Role.WORKER)
    round_id, tree = world.post(worker)
    good = world.fraud(job, worker, tree, len(PROMPT), 0)
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
            world.client.prove_token_fraud(round_id, bad)


def test_withheld_opening_is_slashed_and_an_answer_earns_the_bond(world: World) -> None:
    job = world.job()
    settled = world.settled(job)
    round_id, (worker,), ((_, silent),) = settled.round_id, settled.workers, settled.committees
    bond = world.params.dispute_bond
    before = world.client.token_balance(CLIENT.address)
    first = world.client.demand_opening(round_id, worker.proof(settled.tree, 0), job, *PLACE)
    operator = world.as_account(worker.key)
    with pytest.raises(ChainError, match=r"slashWithheld: TooEarly\("):
        world.client.slash_withheld(first)
    assert operator.opening_demanded(first)
    operator.answer_opening(first, worker.committed.parts, worker.committed.open_row(*PLACE))
    assert not operator.opening_demanded(first)
    assert operator.balance(worker.key.address) == bond
    with pytest.raises(ChainError, match="there is no open demand 1"):
        world.client.slash_withheld(first)

    second = world.client.demand_opening(round_id, silent.proof(settled.verifier_tree, 1), job, *PLACE)
    assert world.client.held(round_id)
    world.devnet.mine(world.params.opening_deadline_blocks + 1)
    with pytest.raises(ChainError, match=r"answerOpening: TooLate\("):
        world.as_account(silent.key).answer_opening(
            second, silent.committed.parts, silent.committed.open_row(*PLACE)
        )
    world.client.slash_withheld(second)
    taken = STAKE * world.params.slash_bps_withheld // 10_000
    share = taken * world.params.challenger_share_bps // 10_000
    assert world.client.stake_of(MODEL_ID, silent.key.address) == STAKE - taken
    assert world.client.balance(CLIENT.address) == bond + share
    assert world.client.token_balance(CLIENT.address) == before - 2 * bond
    assert world.client.token_balance(BURN) == taken - share
    assert not world.client.held(round_id)
    assert not world.client.voided(round_id, 0)  # a verifier's silence is not the worker's


def test_two_verdicts_of_one_verifier_are_slashed(world: World) -> None:
    job, operator = world.job(), OPERATORS[3]
    job_id = eip712.job_id(job, world.domain)
    first, second = (
        replace(verdict, signature=eip712.sign_verdict(verdict, operator, world.domain))
        for verdict in (
            SignedVerdict(job_id, Verdict.ACCEPT, 0, 0, operator.address),
            SignedVerdict(job_id, Verdict.REJECT, 1, 2, operator.address),
        )
    )
    with pytest.raises(ChainError, match="VerdictsAgree"):
        world.client.prove_equivocation(job, first, first)
    with pytest.raises(ChainError, match=r"SignatureInvalid\("):
        world.client.prove_equivocation(job, first, replace(second, signature=first.signature))
    world.client.prove_equivocation(job, first, second)
    taken = STAKE * world.params.slash_bps_withheld // 10_000
    assert world.client.stake_of(MODEL_ID, operator.address) == STAKE - taken
    share = taken * world.params.challenger_share_bps // 10_000
    assert world.client.balance(CLIENT.address) == share


def test_a_hot_key_signs_from_the_next_epoch_on(world: World) -> None:
    operator, hot = OPERATORS[0], account(15)
    world.as_account(operator).set_signer(hot.address)
    world.begin_epoch()
    job = world.job()
    party = world.commit(operator, job, world.generate(job), Role.WORKER)
    signature = eip712.sign_commitment(party.commitment, hot, world.domain)
    party = replace(party, signature=signature)
    round_id, tree = world.post(party)
    world.client.demand_opening(round_id, party.proof(tree, 0), job, *PLACE)
    stranger = replace(party, signature=eip712.sign_commitment(party.commitment, CLIENT, world.domain))
    with pytest.raises(ChainError, match=r"demandOpening: SignatureInvalid\("):
        world.client.demand_opening(round_id, stranger.proof(tree, 0), job, *PLACE)
