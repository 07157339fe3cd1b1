"""How much further off than an honest provider is this one? Bayes factors, one per kind of evidence.

An honest job's deviation from our own prefill has a level of its own: prompt, kernels and hardware move it a
little. With u the level in bits above the calibrated one, and c the excess cosine,

- size of rows: log2(D/N) = center + u + e, e Student t with ROW_DEGREES degrees (outliers are honest, too);
- direction of rows: mean cosine = center + c + e, e of the variance that pairs of rows and jobs have;
- tokens: one loses with probability 1 - exp(-rate 2^u), and then by an exponential margin of mean scale 2^u.

H0: an honest level is Student t around one unknown shift from 0 to ``allowance`` (other hardware), with the
calibration jobs' spread. H1: an honest level plus an exponential excess, in one of SHARES of the rows (who is
honest in the prompt and cheap in the output has honest rows, too). The Bayes factor

    E = integral L(data) dH1 / max over shifts of the integral L(data) dH0

has mean at most 1 over honest jobs of any shift, so P(E >= 1/a) <= a (Markov). For rows of one boundary, or
for tokens, the factors over growing data form a test martingale if the shift is known, so that the same holds
for the largest E seen while they come in (Ville, 1939; Grünwald, de Heide and Koolen, "Safe Testing", JRSS B
2024). An average of such factors is one again, whatever their dependence. All are natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

STEP_BITS = 1 / 4
HONEST: Floats = np.arange(-3, 6, STEP_BITS)
"""Grid of honest levels, in bits."""
EXCESS: Floats = np.arange(0, 24, 2 * STEP_BITS)
"""Grid of the excess. A job that is further off is as decisive as one at its end."""
LEVELS: Floats = np.arange(HONEST[0], HONEST[-1] + EXCESS[-1] + STEP_BITS, STEP_BITS)
SUMS = np.arange(len(HONEST))[:, None] + 2 * np.arange(len(EXCESS))[None]
"""Index in LEVELS of each honest level plus each excess: [honest, excess]."""
EXCESS_BITS = 2.0
SHARES = (1.0, 0.5, 0.2)
"""Of the rows that a cheat changed."""
ROW_DEGREES = 5
COSINES: Floats = np.arange(0, 1, 1 / 256)
"""Grid of the excess cosine."""
EXCESS_COSINE = 0.1
MARGIN_JOBS = 1000
"""The spread of the jobs' margins is set, not measured: its prior is as good as normal."""
LOWEST = 2.0
"""A row counts at least as ``center - LOWEST * scale``: nobody is suspected for being close."""


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


def _weights(log_density: Floats) -> Floats:
    return np.exp(log_density - _log_sum(log_density))


def _log_student(x: Floats, scale: float, degrees: int) -> Floats:
    """ln of the density of a scaled Student t, up to a term that depends on ``degrees`` alone."""
    return -(degrees + 1) / 2 * np.log1p((x / scale) ** 2 / degrees) - math.log(scale)


@cache
def _priors(job_scale: float, jobs: int, allowance: float) -> tuple[Floats, Floats]:
    """log weights of H0 on HONEST for each shift, [shifts, levels], and of H1 on SUMS."""
    spread = max(job_scale, STEP_BITS / 2) * math.sqrt(1 + 1 / jobs)
    shifts = np.arange(0, allowance + STEP_BITS / 2, STEP_BITS)
    honest = np.stack([_weights(_log_student(HONEST - float(s), spread, jobs - 1)) for s in shifts])
    cheating = honest.mean(axis=0)[:, None] * _weights(-EXCESS / EXCESS_BITS)[None]
    with np.errstate(divide="ignore"):
        return np.log(honest), np.log(cheating)


def _factor(honest: Floats, cheating: Floats, job_scale: float, jobs: int, allowance: float) -> float:
    """From ln L at each honest level, and of H1 at each of SUMS."""
    priors = _priors(job_scale, jobs, allowance)
    best = max(_log_sum(honest + shift) for shift in priors[0])
    return _log_sum((cheating + priors[1]).ravel()) - best


def log_factor_of_rows(
    excess: ArrayLike, row_scale: float, job_scale: float, jobs: int, allowance: float
) -> float:
    """ln E of one job's rows. ``excess``: log2(D/N) - center of each row, in bits; the scales and the
    allowance too. ``jobs`` >= 2 calibration jobs give the prior's degrees of freedom. 0 without rows."""
    rows = np.maximum(np.asarray(excess, np.float64), -LOWEST * row_scale)
    if rows.size == 0:
        return 0.0
    densities = _log_student(rows[:, None] - LEVELS[None], row_scale, ROW_DEGREES)
    honest, changed = densities[:, : len(HONEST)], densities[:, SUMS]
    mixed = [
        np.logaddexp(math.log(1 - share) + honest[:, :, None], math.log(share) + changed).sum(axis=0)
        if share < 1
        else changed.sum(axis=0)
        for share in SHARES
    ]
    cheating = np.logaddexp.reduce(mixed) - math.log(len(SHARES))
    return _factor(honest.sum(axis=0), cheating, job_scale, jobs, allowance)


def log_factor_of_direction(
    excess: float, pairs: int, pair_sd: float, job_scale: float, jobs: int, allowance: float
) -> float:
    """ln E of one job's mean cosine over ``pairs`` >= 1 pairs of rows. ``excess``: cosine - center;
    ``pair_sd``: spread of one pair's cosine; ``allowance`` as cosine."""
    scale = math.sqrt(job_scale**2 * (1 + 1 / jobs) + pair_sd**2 / pairs)
    value = max(excess, -LOWEST * scale)
    honest = COSINES[allowance >= COSINES]
    prior = np.log(_weights(-COSINES / EXCESS_COSINE))
    cheating = _log_student(value - honest[:, None] - COSINES[None], scale, jobs - 1) + prior
    best = float(_log_student(value - honest, scale, jobs - 1).max())
    return _log_sum(cheating.ravel()) - math.log(len(honest)) - best


def log_factor_of_margins(
    margins: ArrayLike, rate: float, scale: float, job_scale: float, allowance: float
) -> float:
    """ln E of one job's token margins (any unit, that of ``scale``; 0 for a token that wins). ``rate``: the
    honest probability that a token loses. ``job_scale``, ``allowance``: bits of the level. 0 without tokens.
    """
    values = np.asarray(margins, np.float64)
    if values.size == 0:
        return 0.0
    level = 2.0**LEVELS
    lost = values[values > 0]
    wins = -(len(values) - len(lost)) * rate * level
    losses = len(lost) * (np.log(-np.expm1(-rate * level)) - np.log(scale * level))
    found = wins + losses - lost.sum() / (scale * level)
    return _factor(found[: len(HONEST)], found[SUMS], job_scale, MARGIN_JOBS, allowance)


def log_mean(factors: Sequence[float]) -> float:
    """ln of the mean of the E whose logarithms are given: an E again, under any dependence."""
    return _log_sum(np.asarray(factors, np.float64)) - math.log(len(factors))
