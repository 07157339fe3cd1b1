"""Properties of draws, fees and outcomes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.chain.make_vectors import sample_job
from verillm import draw, settlement
from verillm.constants import Verdict
from verillm.errors import InvalidRequest, NotEnoughOperators
from verillm.params import load_params

PARAMS = load_params("devnet")
OPERATORS = ["0x" + f"{i + 1:02x}" * 20 for i in range(6)]
stake_lists = st.lists(st.integers(0, 10**24), min_size=6, max_size=6)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 4), stake_lists)
@settings(max_examples=50, deadline=None)
def test_draws_are_distinct_staked_and_not_excluded(beta: bytes, count: int, amounts: list[int]) -> None:
    stakes = list(zip(OPERATORS, amounts, strict=True))
    excluded = [OPERATORS[0]]
    try:
        drawn = draw.draw_operators(beta, count, stakes, excluded)
    except NotEnoughOperators:
        reject()
    assert len(set(drawn)) == len(drawn) == count
    assert OPERATORS[0] not in drawn
    assert all(dict(stakes)[operator] > 0 for operator in drawn)
    assert drawn[:1] == draw.draw_operators(beta, min(count, 1), stakes, excluded)


def test_draw_follows_stake() -> None:
    stakes = list(zip(OPERATORS, [1, 0, 7, 2, 0, 0], strict=True))
    counts = Counter(draw.draw_operators(i.to_bytes(32, "big"), 1, stakes)[0] for i in range(2000))
    assert set(counts) == {OPERATORS[0], OPERATORS[2], OPERATORS[3]}
    assert 1250 < counts[OPERATORS[2]] < 1550  # 1400 expected, 7 standard deviations of 20.5


def test_not_enough_operators() -> None:
    with pytest.raises(NotEnoughOperators, match="0 of 1"):
        draw.draw_operators(bytes(32), 1, [(OPERATORS[0], 0)])
    with pytest.raises(NotEnoughOperators, match="0 are eligible"):
        draw.draw_operators(bytes(32), 1, [(OPERATORS[0], 5)], [OPERATORS[0]])


@given(st.binary(min_size=32, max_size=32), st.integers(1, 10_000), st.integers(1, 16))
@settings(max_examples=50, deadline=None)
def test_positions_are_sorted_distinct_and_in_range(randomness: bytes, n: int, count: int) -> None:
    positions = draw.opened_positions(randomness, b"\1" * 32, n, count)
    assert positions == sorted(set(positions))
    assert len(positions) == min(n, count)
    assert all(0 <= p < n for p in positions)


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
