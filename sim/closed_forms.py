"""Closed forms of the economics: what committees, openings and stakes can promise, before any simulation.

Populations are counted in equal stakes; draws are without replacement, as the protocol's are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

from sim.params import BPS, Params
from verillm.errors import InvalidRequest


def committee_all_bad(population: int, bad: int, size: int) -> Fraction:
    """P(every one of ``size`` drawn operators is bad) = C(bad, size) / C(population, size).

    Raises InvalidRequest unless 0 <= bad <= population and 1 <= size <= population.
    """
    _check(population, bad, size)
    return Fraction(comb(bad, size), comb(population, size))


def committee_bad_majority(population: int, bad: int, size: int) -> Fraction:
    """P(more than half of ``size`` drawn operators are bad): upper tail of the hypergeometric distribution.

    Raises InvalidRequest as ``committee_all_bad``.
    """
    _check(population, bad, size)
    ways = sum(comb(bad, i) * comb(population - bad, size - i) for i in range(size // 2 + 1, size + 1))
    return Fraction(ways, comb(population, size))


def opening_detection(rows: int, wrong: int, opened: int) -> Fraction:
    """P(at least one of ``wrong`` bad rows is among ``opened`` of ``rows`` positions)
    = 1 - C(rows - wrong, opened) / C(rows, opened). All rows are opened if there are fewer than ``opened``.

    Raises InvalidRequest unless 0 <= wrong <= rows, rows >= 1 and opened >= 0.
    """
    if rows < 1 or not 0 <= wrong <= rows:
        raise InvalidRequest(f"wrong: {wrong} of {rows} rows; need rows >= 1 and 0 <= wrong <= rows")
    if opened < 0:
        raise InvalidRequest(f"opened: {opened} must be at least 0")
    opened = min(opened, rows)
    return 1 - Fraction(comb(rows - wrong, opened), comb(rows, opened))


@dataclass(frozen=True)
class Deterrence:
    """Amounts in token wei. ``stake``: the least stake at which cheating does not pay; ``multiple``: of the
    job's fee; ``enough``: whether the protocol's minimal stake reaches it."""

    detection: Fraction
    slash_bps: int
    stake: int
    multiple: Fraction
    enough: bool


def deterrence_stake(
    fee: int, saving_bps: int, detection: Fraction, slash_bps: int, params: Params
) -> Deterrence:
    """The least stake S at which one cheated job has no positive expected gain.

    An operator that cheats saves ``saving_bps`` of the fee; with probability p (``detection``) it loses the
    fee and ``slash_bps`` of S. Cheating beats honesty by c - p (fee + s S) with c the saving, so
    S >= (c / p - fee) / s, and 0 if the lost fee alone deters. Raises InvalidRequest for p or s outside
    (0, 1].
    """
    if fee < 0:
        raise InvalidRequest(f"fee: {fee} must be at least 0")
    if not 0 <= saving_bps <= BPS:
        raise InvalidRequest(f"saving_bps: {saving_bps} is outside 0 to {BPS}")
    if not 0 < detection <= 1:
        raise InvalidRequest(f"detection: {float(detection)} is outside (0, 1]; undetected cheats always pay")
    if not 0 < slash_bps <= BPS:
        raise InvalidRequest(f"slash_bps: {slash_bps} is outside 1 to {BPS}")
    saving = Fraction(fee * saving_bps, BPS)
    exact = max((saving / detection - fee) / Fraction(slash_bps, BPS), Fraction(0))
    stake = -(-exact.numerator // exact.denominator)
    multiple = Fraction(stake, fee) if fee else Fraction(0)
    return Deterrence(detection, slash_bps, stake, multiple, params.min_stake >= stake)


def _check(population: int, bad: int, size: int) -> None:
    if not 0 <= bad <= population:
        raise InvalidRequest(f"bad: {bad} is outside 0 to {population} (the population)")
    if not 1 <= size <= population:
        raise InvalidRequest(f"size: {size} is outside 1 to {population} (the population)")
