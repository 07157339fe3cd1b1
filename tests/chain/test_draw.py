"""Properties of draws."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm import draw
from verillm.errors import NotEnoughOperators

OPERATORS = ["0x" + f"{i + 1:02x}" * 20 for i in range(6)]
stake_lists = st.lists(st.integers(0, 10**24), min_size=6, max_size=6)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 4), stake_lists)
@settings(max_examples=50, deadline=None)
def test_draws_are_distinct_staked_and_not_excluded(beta: bytes, count: int, amounts: list[int]) -> None:
    stakes = list(zip(OPERATORS, amounts, strict=True))
    excluded = [OPERATORS[0]]
    drawn = draw.draw_operators(beta, count, stakes, excluded)
    assert len(set(drawn)) == len(drawn) <= count
    assert OPERATORS[0] not in drawn
    assert all(dict(stakes)[operator] > 0 for operator in drawn)
    assert drawn[:1] == draw.draw_operators(beta, min(count, 1), stakes, excluded)
    assert drawn == draw.draw_verifiers(beta, count, stakes, OPERATORS[0])


def test_all_that_can_be_found_are_drawn() -> None:
    stakes = [(operator, 7) for operator in OPERATORS]
    assert set(draw.draw_operators(bytes(32), 8, stakes)) == set(OPERATORS)
    whale = [(OPERATORS[0], 10**30), (OPERATORS[1], 1)]
    assert draw.draw_operators(bytes(32), 2, whale) == [OPERATORS[0]]  # 256 points never hit the other one


def test_draw_follows_stake() -> None:
    stakes = list(zip(OPERATORS, [1, 0, 7, 2, 0, 0], strict=True))
    counts = Counter(draw.draw_operators(i.to_bytes(32, "big"), 1, stakes)[0] for i in range(2000))
    assert set(counts) == {OPERATORS[0], OPERATORS[2], OPERATORS[3]}
    assert 1250 < counts[OPERATORS[2]] < 1550  # 1400 expected, 7 standard deviations of 20.5


def test_a_job_needs_a_worker_but_may_find_no_verifier() -> None:
    for stakes in ([], [(OPERATORS[0], 0)]):
        assert draw.draw_operators(bytes(32), 1, stakes) == []
        with pytest.raises(NotEnoughOperators, match="has stake in this epoch"):
            draw.draw_worker(bytes(32), stakes)
    alone = [(OPERATORS[0], 5)]
    assert draw.draw_worker(bytes(32), alone) == OPERATORS[0]
    assert draw.draw_verifiers(bytes(32), 2, alone, OPERATORS[0]) == []


@given(st.binary(min_size=32, max_size=32), st.integers(1, 10_000), st.integers(1, 16))
@settings(max_examples=50, deadline=None)
def test_positions_are_sorted_distinct_and_in_range(randomness: bytes, n: int, count: int) -> None:
    positions = draw.opened_positions(randomness, b"\1" * 32, n, count)
    assert positions == sorted(set(positions))
    assert len(positions) == min(n, count)
    assert all(0 <= p < n for p in positions)
