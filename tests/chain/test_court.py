"""Disputes on anvil, both outcomes, an appeal, and what becomes of the money to the wei."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.chain.world import CLIENT, MODEL_ID, OPERATORS, SCHEDULER, STAKE, Party, Settled, World, row
from verillm import draw
from verillm.chain.court import DisputeState
from verillm.errors import ChainError, SeedExpired

BAD = 0.05
"""Relative error far outside the synthetic model's tolerance."""
BURN = "0x000000000000000000000000000000000000dEaD"
PLACE = (1, 2)
"""Boundary and position in dispute."""


@dataclass
class Case:
    """A dispute about PLACE of a round's one job, opened by ``accuser``."""

    world: World
    settled: Settled
    accuser: Party
    accused: Party
    dispute_id: int


def opened(world: World, worker_error: float, verifier_error: float) -> Case:
    """A settled round in which the first verifier disputes the worker's row; one of the two has an error."""
    settled = world.settled(world.job(), errors=(worker_error, verifier_error))
    accuser, worker = settled.committees[0][0], settled.workers[0]
    dispute_id = world.as_account(accuser.key).open_dispute(
        settled.round_id,
        accuser.proof(settled.verifier_tree, 0),
        accuser.committed.open_row(*PLACE),
        worker.proof(settled.tree, 0),
        worker.committed.open_row(*PLACE),
    )
    return Case(world, settled, accuser, worker, dispute_id)


def seat_jury(case: Case) -> list[str]:
    """Draw the awaited jury; it is the one that Python draws."""
    world, chain = case.world, case.world.client
    with pytest.raises(ChainError, match="is to come"):
        chain.draw_jury(case.dispute_id)
    world.pass_seed()
    info = chain.dispute(case.dispute_id)
    seed = chain.wait_seed(info.target_block)
    chain.draw_jury(case.dispute_id)
    jurors = chain.jurors(case.dispute_id, info.level)
    if info.level == 0:
        parties = [info.first.operator, info.second.operator]
        stakes = chain.stakes(MODEL_ID, info.epoch)
        beta = draw.jury_beta(seed, case.dispute_id, info.level)
        assert jurors == draw.draw_operators(beta, world.params.jury_size, stakes, parties)
    return jurors


def vote(case: Case, jurors: list[str], honest: int, error: float = 0.0) -> None:
    """The first ``honest`` jurors vote with their own rows, with an error; then the votes are counted."""
    world, chain, dispute_id = case.world, case.world.client, case.dispute_id
    level = chain.dispute(dispute_id).level
    tokens = world.generate(world.job())
    values = row(PLACE[0], tokens[: PLACE[1] + 1], error).tobytes()
    clients = [world.as_account(k) for name in jurors for k in OPERATORS if k.address == name]
    for i, juror in enumerate(clients[:honest]):
        juror.commit_vote(dispute_id, values, bytes([i]) * 32)
    if honest < len(jurors):
        with pytest.raises(ChainError, match=r"revealVote: TooEarly\("):
            clients[0].reveal_vote(dispute_id, values, bytes(32))
        world.devnet.mine(world.params.jury_commit_blocks)
    with pytest.raises(ChainError, match="VoteMismatch"):
        clients[0].reveal_vote(dispute_id, values, b"\xff" * 32)
    for i, juror in enumerate(clients[:honest]):
        juror.reveal_vote(dispute_id, values, bytes([i]) * 32)
        assert chain.vote(dispute_id, level, juror.address).revealed
    chain.tally(dispute_id)
    assert chain.jury(dispute_id, level).revealed == honest


def end(case: Case) -> None:
    """Nobody appeals."""
    with pytest.raises(ChainError, match=r"resolve: TooEarly\("):
        case.world.client.resolve(case.dispute_id)
    case.world.devnet.mine(case.world.params.appeal_blocks + 1)
    case.world.client.resolve(case.dispute_id)
    assert case.world.client.dispute(case.dispute_id).state is DisputeState.ENDED


def shares(world: World) -> tuple[int, int, int]:
    """(slash, the challenger's share, each of three jurors' share) of a divergence."""
    slashed = STAKE * world.params.slash_bps_divergence // 10_000
    challenger = slashed * world.params.challenger_share_bps // 10_000
    return slashed, challenger, slashed * world.params.juror_share_bps // 10_000 // 3


def test_dispute_against_a_cheating_worker(world: World) -> None:
    bond = world.params.dispute_bond
    case = opened(world, BAD, 0.0)
    chain, accuser, worker = world.client, case.accuser.key.address, case.accused.key.address
    info = chain.dispute(case.dispute_id)
    assert (info.first.operator, info.second.operator) == (accuser, worker)
    assert (info.state, info.boundary, info.position) == (DisputeState.AWAITING_JURY, *PLACE)
    assert chain.token_balance(accuser) == STAKE - bond
    round_id = case.settled.round_id
    assert chain.held(round_id)
    jurors = seat_jury(case)
    vote(case, jurors, 3)
    end(case)

    slashed, share, each = shares(world)
    assert chain.stake_of(MODEL_ID, worker) == STAKE - slashed
    assert chain.balance(accuser) == bond + share
    assert [chain.balance(juror) for juror in jurors] == [each] * 3
    assert chain.token_balance(BURN) == slashed - share - 3 * each

    assert chain.voided(round_id, 0)
    assert not chain.held(round_id)
    (proof,) = case.settled.proofs
    world.finish()
    chain.deduct_job(round_id, 0, proof.record, proof.proof)
    chain.pay_round(round_id)
    assert chain.balance(worker) == 0
    assert chain.balance(SCHEDULER.address) == 0
    assert chain.escrow(CLIENT.address, SCHEDULER.address) == STAKE
    world.as_account(case.accuser.key).withdraw()
    assert chain.token_balance(accuser) == STAKE + share
    assert chain.token_balance(world.book.rounds) == STAKE + 3 * each


def test_dispute_by_a_lying_verifier_with_a_juror_missing(world: World) -> None:
    case = opened(world, 0.0, BAD)
    chain, liar, worker = world.client, case.accuser.key.address, case.accused.key.address
    jurors = seat_jury(case)
    vote_after_reveal_deadline(case, jurors)
    end(case)
    bond = world.params.dispute_bond
    slashed = STAKE * world.params.slash_bps_divergence // 10_000
    lost = slashed + bond  # the liar's own bond is shared out like its stake
    each = lost * world.params.juror_share_bps // 10_000 // 2
    absent = STAKE * world.params.slash_bps_no_show // 10_000
    assert chain.stake_of(MODEL_ID, liar) == STAKE - slashed
    assert chain.stake_of(MODEL_ID, worker) == STAKE
    assert chain.stake_of(MODEL_ID, jurors[2]) == STAKE - absent
    assert [chain.balance(juror) for juror in jurors] == [each, each, 0]
    assert chain.balance(liar) == 0
    assert chain.token_balance(BURN) == lost - 2 * each + absent

    assert not chain.voided(case.settled.round_id, 0)
    world.finish()
    chain.pay_round(case.settled.round_id)
    assert chain.balance(worker) == case.settled.records[0].worker_fee


def vote_after_reveal_deadline(case: Case, jurors: list[str]) -> None:
    """Two of three vote; the third never answers, so the count waits for the last block to reveal."""
    world = case.world
    tokens = world.generate(world.job())
    values = row(PLACE[0], tokens[: PLACE[1] + 1]).tobytes()
    clients = [world.as_account(k) for name in jurors[:2] for k in OPERATORS if k.address == name]
    for juror in clients:
        juror.commit_vote(case.dispute_id, values, bytes(32))
    world.devnet.mine(world.params.jury_commit_blocks)
    clients[0].reveal_vote(case.dispute_id, values, bytes(32))
    with pytest.raises(ChainError, match=r"tally: TooEarly\("):
        world.client.tally(case.dispute_id)
    clients[1].reveal_vote(case.dispute_id, values, bytes(32))
    world.client.tally(case.dispute_id)


def test_an_appeal_without_enough_jurors_ends_with_what_stands(world: World) -> None:
    """Of six operators two are parties: a jury of six gets four, three of them those of the first."""
    case = opened(world, BAD, 0.0)
    chain, worker = world.client, case.accused.key.address
    jurors = seat_jury(case)
    vote(case, jurors, 3)
    loser = world.as_account(case.accused.key)
    loser.appeal(case.dispute_id)
    info = chain.dispute(case.dispute_id)
    assert (info.state, info.level, info.standing) == (DisputeState.AWAITING_JURY, 1, 1)
    again = seat_jury(case)
    assert len(again) == len(set(again)) == 4
    vote(case, again, 4)
    assert chain.dispute(case.dispute_id).standing == 1
    end(case)
    slashed = STAKE * world.params.slash_bps_divergence // 10_000
    bond = world.params.dispute_bond
    each = (slashed * world.params.juror_share_bps // 10_000 + 2 * bond) // 7
    share = slashed * world.params.challenger_share_bps // 10_000
    earned = [chain.balance(juror) for juror in again]
    assert sorted(earned) == [each, 2 * each, 2 * each, 2 * each]
    assert chain.balance(case.accuser.key.address) == bond + share
    assert chain.balance(worker) == 0
    assert chain.token_balance(worker) == STAKE - 2 * bond
    assert chain.token_balance(BURN) == slashed + 2 * bond - share - 7 * each


def test_jurors_that_are_unable_neither_earn_nor_pay(world: World) -> None:
    case = opened(world, BAD, 0.0)
    chain, worker = world.client, case.accused.key.address
    jurors = seat_jury(case)
    for name in jurors:
        key = next(key for key in OPERATORS if key.address == name)
        world.as_account(key).declare_unable(case.dispute_id)
    chain.tally(case.dispute_id)
    end(case)
    assert [chain.stake_of(MODEL_ID, name) for name in (*jurors, worker)] == [STAKE] * 4
    assert chain.balance(case.accuser.key.address) == world.params.dispute_bond
    assert not chain.voided(case.settled.round_id, 0)


def test_an_expired_jury_seed_is_requeued(world: World) -> None:
    case = opened(world, BAD, 0.0)
    chain = world.client
    with pytest.raises(ChainError, match=r"requeueJury: SeedStillAvailable\("):
        chain.requeue_jury(case.dispute_id)
    world.devnet.mine(300)
    with pytest.raises(SeedExpired):
        chain.draw_jury(case.dispute_id)
    chain.requeue_jury(case.dispute_id)
    assert len(seat_jury(case)) == world.params.jury_size


def test_rows_within_tolerance_cannot_be_disputed(world: World) -> None:
    with pytest.raises(ChainError, match="openDispute: RowsAgree"):
        opened(world, 1e-6, 0.0)
    with pytest.raises(ChainError, match="there is no dispute 1"):
        world.client.dispute(1)
