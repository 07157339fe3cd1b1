"""Tolerances from honest runs of one model.

Rows: log2 of the ratio D/N spreads between jobs and inside a job. Inside a job its upper tail is heavier
than a normal one: now and then an honest row is ten times as far off as its neighbours. The tail is taken as
exponential above the 90th percentile u: P(row > u + x) = 0.1 exp(-x / tail). So one row rejects a job only
when it is very far off, and the mean over the opened rows (``ToleranceTable.mean_row_limit``) does the rest.
No limit is below the dtype's floor.

Token margins: most are 0. The positive ones are taken as exponential with mean ``scale``, arriving with a
probability ``rate`` per token. A single margin passes x with probability rate * exp(-x / scale); the sum over
n tokens passes scale * (sqrt(n rate) + sqrt(ln(1 / alpha)))^2 with probability at most alpha (Chernoff bound
of a compound Poisson sum of exponentials).

The false-positive budget of one honest job is split by Bonferroni: a quarter each for single rows, mean of
rows, single tokens and sum of tokens, and each quarter over the tests of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verillm.comparator.tolerance import (
    FLOORS_Q40,
    TEST_FAMILIES,
    BoundaryTolerance,
    ToleranceTable,
    log2_ratio,
)
from verillm.constants import PPM, SCORE_FRACTION_BITS, Dtype
from verillm.errors import ConfigError

MIN_JOBS = 4
ROWS_PER_BOUNDARY = 16
"""Most opened positions of a job that the single-row limit's budget covers."""
TOKENS_PER_JOB = 4096
"""Most output tokens of a job that the single-token limit's budget covers."""
DEFAULT_FALSE_POSITIVE_RATE = 1e-6

SAFETY_LOG2 = {Dtype.BF16: 2 * math.log2(1.25), Dtype.FP16: 2 * math.log2(1.25), Dtype.FP32: 0.0}
"""Added to every log2 ratio limit: 1.25 in relative L2, for kernels that differ more than this host's do.
fp32 has its floor instead."""
MAX_REJECT_LOG2 = 39.0
"""log2(D/N * 2^40) of relative L2 1; unrelated rows are at 40. ``row_reject_q40`` is never above it: where
the measured tail asks for more, the budget rests on honest rows never being that far apart."""
MAX_TOLERANCE_LOG2 = 38.0
"""A calibration whose ``row_tolerance_q40`` would be above D/N = 1/4 is refused."""
ROW_DIVERGENCE_RATE = 1e-4
"""Share of honest rows beyond ``row_tolerance_q40``."""
TAIL_SHARE = 0.1
MARGIN_SCALE_SAFETY = 1.25
MARGIN_RATE_SAFETY = 2.0
"""Jobs differ in how often two tokens nearly tie."""
MARGIN_FLOOR_Q24 = {
    Dtype.BF16: (1 << SCORE_FRACTION_BITS) // 2,
    Dtype.FP16: (1 << SCORE_FRACTION_BITS) // 8,
    Dtype.FP32: (1 << SCORE_FRACTION_BITS) // 64,
}
"""The single-token limit is never below this: other hardware."""
PRIOR_MARGINS = 20
"""Positive margins of floor / 30 each that are added to the observed ones, so that few or none still give a
finite scale."""


@dataclass(frozen=True)
class HonestJob:
    """What one honest job showed: ``ratios_q40[b]`` lists ``ratio_q40`` of each compared row at boundary b,
    ``margins_q24`` the margin of each output token."""

    ratios_q40: tuple[tuple[int, ...], ...]
    margins_q24: tuple[int, ...]


def _mean_sd(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _boundary(jobs: Sequence[Sequence[int]], dtype: Dtype, tail: float) -> BoundaryTolerance:
    logs = [[log2_ratio(ratio, dtype) for ratio in job] for job in jobs]
    job_mean, job_sd = _mean_sd([math.fsum(job) / len(job) for job in logs])
    rows = [value for job in logs for value in job]
    _, row_sd = _mean_sd(rows)
    start, scale = _upper_tail(rows)
    tolerance = start + scale * math.log(TAIL_SHARE / ROW_DIVERGENCE_RATE) + SAFETY_LOG2[dtype]
    reject = start + scale * math.log(TAIL_SHARE / tail) + SAFETY_LOG2[dtype]
    if tolerance > MAX_TOLERANCE_LOG2:
        raise ConfigError(
            f"jobs: row tolerance 2^{tolerance - 40:.1f} is above 2^-2; add honest jobs or rows"
        )
    floor = FLOORS_Q40[dtype]
    return BoundaryTolerance(
        row_tolerance_q40=max(math.ceil(2.0**tolerance), floor),
        row_reject_q40=max(math.ceil(2.0 ** min(reject, MAX_REJECT_LOG2)), floor),
        job_log2_mean_q16=math.ceil((job_mean + SAFETY_LOG2[dtype]) * 65536),
        job_log2_sd_q16=math.ceil(job_sd * 65536),
        row_log2_sd_q16=math.ceil(row_sd * 65536),
        row_log2_tail_q16=math.ceil(scale * 65536),
    )


def _upper_tail(values: Sequence[float]) -> tuple[float, float]:
    """(90th percentile, mean excess above it, two standard errors added)."""
    ordered = sorted(values)
    count = max(1, round(len(ordered) * TAIL_SHARE))
    start = ordered[-count - 1]
    excess = math.fsum(v - start for v in ordered[-count:]) / count
    return start, excess * (1 + 2 / math.sqrt(count))


def calibrate(
    jobs: Sequence[HonestJob], dtype: Dtype, false_positive_rate: float = DEFAULT_FALSE_POSITIVE_RATE
) -> ToleranceTable:
    """The tolerance table of a model from honest jobs. Raises ConfigError if they are too few or uneven."""
    if not 1e-12 <= false_positive_rate <= 0.01:
        raise ConfigError(f"false_positive_rate: {false_positive_rate} is outside 1e-12 to 0.01")
    if len(jobs) < MIN_JOBS:
        raise ConfigError(
            f"jobs: {len(jobs)} honest jobs, at least {MIN_JOBS} are needed; 24 or more are better"
        )
    boundaries = len(jobs[0].ratios_q40)
    if boundaries == 0 or any(len(j.ratios_q40) != boundaries for j in jobs):
        raise ConfigError("ratios_q40: every honest job must list the same boundaries, at least one")
    if any(not j.margins_q24 or not all(j.ratios_q40) for j in jobs):
        raise ConfigError("jobs: every honest job needs a row at each boundary and an output token")
    budget = false_positive_rate / TEST_FAMILIES
    row_tail = budget / (ROWS_PER_BOUNDARY * boundaries)
    margins = [m for job in jobs for m in job.margins_q24]
    positive = [m for m in margins if m > 0]
    floor = MARGIN_FLOOR_Q24[dtype]
    count = len(positive) + PRIOR_MARGINS
    scale = (sum(positive) + PRIOR_MARGINS * floor / 30) / count * (1 + 2 / math.sqrt(count))
    scale *= MARGIN_SCALE_SAFETY
    rate = min(1.0, MARGIN_RATE_SAFETY * (len(positive) + 1) / (len(margins) + 1))
    token_limit = scale * math.log(max(rate * TOKENS_PER_JOB / budget, 1.0))
    return ToleranceTable(
        row_dtype=dtype,
        false_positive_rate_ppt=round(false_positive_rate * PPM * PPM),
        jobs=len(jobs),
        boundaries=tuple(
            _boundary([job.ratios_q40[b] for job in jobs], dtype, row_tail) for b in range(boundaries)
        ),
        token_limit_q24=max(math.ceil(token_limit), floor, max(margins)),
        margin_scale_q24=math.ceil(scale),
        margin_rate_ppb=math.ceil(rate * 1000 * PPM),
    )
