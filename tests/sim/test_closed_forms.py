"""Closed forms against hand-computed figures, enumeration and limits."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.cli import main
from sim.closed_forms import committee_all_bad, committee_bad_majority, deterrence_stake, opening_detection
from sim.params import load_params
from verillm.errors import InvalidRequest

PARAMS = load_params("mainnet")


@pytest.mark.parametrize(
    ("bad", "size", "all_bad", "majority"),
    [
        (10, 3, 7.4e-4, 0.026),
        (10, 5, 3.3e-6, 0.0066),
        (20, 3, 7.1e-3, 0.101),
        (20, 5, 2.1e-4, 0.053),
        (33, 3, 3.4e-2, 0.25),
        (33, 5, 3.2e-3, 0.20),
    ],
)
def test_committees_of_one_hundred(bad: int, size: int, all_bad: float, majority: float) -> None:
    assert float(committee_all_bad(100, bad, size)) == pytest.approx(all_bad, rel=0.02)
    assert float(committee_bad_majority(100, bad, size)) == pytest.approx(majority, rel=0.03)


@pytest.mark.parametrize(("opened", "detection"), [(16, 0.147), (64, 0.489)])
def test_openings_of_512_rows(opened: int, detection: float) -> None:
    assert float(opening_detection(512, 5, opened)) == pytest.approx(detection, abs=5e-4)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_forms_equal_enumeration(data: st.DataObject) -> None:
    population = data.draw(st.integers(1, 8))
    bad = data.draw(st.integers(0, population))
    size = data.draw(st.integers(1, population))
    counts = [sum(member < bad for member in group) for group in combinations(range(population), size)]
    total = len(counts)
    assert committee_all_bad(population, bad, size) == Fraction(sum(c == size for c in counts), total)
    assert committee_bad_majority(population, bad, size) == Fraction(sum(2 * c > size for c in counts), total)
    assert opening_detection(population, bad, size) == Fraction(sum(c > 0 for c in counts), total)


def test_more_openings_than_rows_find_every_wrong_row() -> None:
    assert opening_detection(4, 1, 16) == 1
    assert opening_detection(4, 0, 16) == 0


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 10**24), st.integers(0, 10_000), st.fractions(Fraction(1, 1000), 1), st.integers(1, 10_000)
)
def test_deterrence_stake_is_the_least(fee: int, saving_bps: int, p: Fraction, slash: int) -> None:
    def gain(stake: int) -> Fraction:
        return Fraction(fee * saving_bps, 10_000) - p * (fee + Fraction(slash * stake, 10_000))

    stake = deterrence_stake(fee, saving_bps, p, slash, PARAMS).stake
    assert gain(stake) <= 0
    assert stake == 0 or gain(stake - 1) > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: committee_all_bad(10, 11, 3),
        lambda: committee_bad_majority(10, 1, 11),
        lambda: opening_detection(0, 0, 1),
        lambda: opening_detection(8, 9, 1),
        lambda: opening_detection(8, 1, -1),
        lambda: deterrence_stake(1, 1, Fraction(0), 1, PARAMS),
        lambda: deterrence_stake(1, 1, Fraction(1), 0, PARAMS),
        lambda: deterrence_stake(1, 10_001, Fraction(1), 1, PARAMS),
    ],
)
def test_impossible_arguments_are_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidRequest):
        call()


def test_commands_print_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["committee", "--bad", "10", "--size", "3", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert row["all_bad"] == pytest.approx(7.4e-4, rel=0.01)
    assert main(["openings", "--wrong", "5", "--opened", "16"]) == 0
    assert "14.7 %" in capsys.readouterr().out
    assert main(["stake"]) == 0
    assert "token_fraud" in capsys.readouterr().out


def test_a_bad_argument_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["committee", "--bad", "200"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "bad: 200" in err
