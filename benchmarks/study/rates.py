"""Rates, their confidence intervals, and areas under ROC curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 1000


def _binomial_tail(count: int, trials: int, p: float) -> float:
    """P(X <= count) for X ~ Binomial(trials, p)."""
    if p <= 0.0 or p >= 1.0:
        return 1.0 if p <= 0.0 or count >= trials else 0.0
    terms = [
        math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1)
        + i * math.log(p) + (trials - i) * math.log1p(-p)
        for i in range(count + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def upper_limit(count: int, trials: int) -> float:
    """One-sided Clopper-Pearson limit of a rate, at CONFIDENCE."""
    if count >= trials:
        return 1.0
    low, high = count / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = _binomial_tail(count, trials, middle) > 1 - CONFIDENCE
        low, high = (middle, high) if inside else (low, middle)
    return high


def lower_limit(count: int, trials: int) -> float:
    """One-sided Clopper-Pearson limit of a rate, at CONFIDENCE."""
    return 1.0 - upper_limit(trials - count, trials)


def auc(honest: Sequence[float], cheats: Sequence[float]) -> float:
    """Probability that a cheat scores above an honest job, ties counting half (Mann-Whitney)."""
    ordered = np.sort(np.asarray(honest, float))
    scores = np.asarray(cheats, float)
    below = np.searchsorted(ordered, scores, "left")
    upto = np.searchsorted(ordered, scores, "right")
    return float((below + upto).mean() / 2 / len(ordered))


def auc_interval(honest: Sequence[float], cheats: Sequence[float], seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of ``auc`` at CONFIDENCE, two-sided. It has no width where every
    resample separates the two, however few they are."""
    rng = np.random.default_rng(seed)
    first, second = np.asarray(honest, float), np.asarray(cheats, float)
    found = [auc(rng.choice(first, len(first)), rng.choice(second, len(second))) for _ in range(RESAMPLES)]
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def roc(honest: Sequence[float], cheats: Sequence[float]) -> tuple[list[float], list[float]]:
    """(false positive rates, true positive rates), from (0, 0) to (1, 1)."""
    first, second = np.asarray(honest, float), np.asarray(cheats, float)
    limits = [math.inf, *sorted({*first.tolist(), *second.tolist()}, reverse=True)]
    false = [float((first > limit).mean()) for limit in limits] + [1.0]
    true = [float((second > limit).mean()) for limit in limits] + [1.0]
    return false, true
