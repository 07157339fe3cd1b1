"""Bayes factors: what they promise under their own model, checked by simulation, and what moves them."""

import math

import numpy as np
import pytest

from verillm.comparator.likelihood import (
    ROW_DEGREES,
    log_factor_of_direction,
    log_factor_of_margins,
    log_factor_of_rows,
    log_mean,
)

JOBS, ALLOWANCE = 40, 0.5
RATES = (0.1, 0.01, 0.002)


def keeps_promise(found: np.ndarray) -> None:
    """P(E >= 1/a) <= a, with three standard errors for the simulation."""
    for rate in RATES:
        slack = 3 * math.sqrt(rate / len(found))
        assert (found >= -math.log(rate)).mean() <= rate + slack


def job_levels(rng: np.random.Generator, scale: float, count: int) -> np.ndarray:
    return rng.standard_t(JOBS - 1, count) * scale + rng.uniform(0, ALLOWANCE, count)


def test_rows_of_honest_jobs() -> None:
    rng = np.random.default_rng(1)
    found = [
        log_factor_of_rows(level + 0.6 * rng.standard_t(ROW_DEGREES, 8), 0.6, 0.4, JOBS, ALLOWANCE)
        for level in job_levels(rng, 0.4, 4000)
    ]
    keeps_promise(np.array(found))


def test_the_largest_factor_while_rows_come_in_keeps_the_promise_too() -> None:
    """Ville's inequality: stopping when it looks best does not help an accuser."""
    rng = np.random.default_rng(2)
    found = []
    for level in job_levels(rng, 0.4, 1500):
        rows = level + 0.6 * rng.standard_t(ROW_DEGREES, 12)
        seen = [log_factor_of_rows(rows[:k], 0.6, 0.4, JOBS, ALLOWANCE) for k in range(1, 13)]
        found.append(max(seen))
    keeps_promise(np.array(found))


def test_margins_of_honest_jobs() -> None:
    rng = np.random.default_rng(3)
    found = []
    for level in rng.normal(0, 0.75, 4000) + rng.uniform(0, ALLOWANCE, 4000):
        lost = rng.random(64) < -math.expm1(-0.02 * 2**level)
        margins = np.where(lost, rng.exponential(0.05 * 2**level, 64), 0.0)
        found.append(log_factor_of_margins(margins, 0.02, 0.05, 0.75, ALLOWANCE))
    keeps_promise(np.array(found))


def test_directions_of_honest_jobs() -> None:
    rng = np.random.default_rng(4)
    scale = math.sqrt(0.02**2 * (1 + 1 / JOBS) + 0.14**2 / 120)
    cosines = rng.standard_t(JOBS - 1, 4000) * scale + rng.uniform(0, 0.02, 4000)
    found = [log_factor_of_direction(c, 120, 0.14, 0.02, JOBS, 0.02) for c in cosines]
    keeps_promise(np.array(found))


def test_more_evidence_weighs_more() -> None:
    few, many = (log_factor_of_rows([3.0] * n, 0.6, 0.4, JOBS, ALLOWANCE) for n in (1, 8))
    assert 0 < few < many
    near, far = (log_factor_of_rows([x] * 8, 0.6, 0.4, JOBS, ALLOWANCE) for x in (0.2, 20.0))
    assert near < 0
    assert far > 30
    thin, thick = (log_factor_of_direction(0.2, n, 0.14, 0.02, JOBS, 0.02) for n in (3, 120))
    assert thin < thick


def test_one_outlier_among_honest_rows_says_little() -> None:
    honest = log_factor_of_rows([0.1] * 15, 0.6, 0.4, JOBS, ALLOWANCE)
    outlier = log_factor_of_rows([0.1] * 15 + [7.0], 0.6, 0.4, JOBS, ALLOWANCE)
    assert outlier - honest < math.log(10)


def test_closer_than_honest_is_no_excuse_without_bound() -> None:
    """Rows that are bit-equal do not buy rows that are far off."""
    copied = log_factor_of_rows([-20.0] * 4 + [8.0] * 4, 0.6, 0.4, JOBS, ALLOWANCE)
    assert copied == pytest.approx(log_factor_of_rows([-1.2] * 4 + [8.0] * 4, 0.6, 0.4, JOBS, ALLOWANCE))


def test_nothing_seen_weighs_nothing() -> None:
    assert log_factor_of_rows([], 0.6, 0.4, JOBS, ALLOWANCE) == 0
    assert log_factor_of_margins([], 0.02, 0.05, 0.75, ALLOWANCE) == 0
    assert log_mean([0.0, 0.0]) == pytest.approx(0)
    assert log_mean([math.log(3.0), math.log(1.0)]) == pytest.approx(math.log(2.0))
