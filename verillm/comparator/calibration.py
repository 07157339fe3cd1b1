"""The tolerance table of one model from honest jobs (the model of honest work is in ``likelihood``).

Single rows: the upper tail of log2(D/N) is taken as exponential above the 90th percentile u, so
P(row > u + x) = 0.1 exp(-x / tail); that gives the contract's line and the limit at which one row rejects.
Single tokens: a margin passes x with probability rate * exp(-x / scale).
Everything else is pooled by Bayes factors; here are the centers and spreads that they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verillm.comparator.likelihood import ROW_DEGREES
from verillm.comparator.tolerance import (
    FLOORS_Q40,
    Q16,
    ROW_SHARE,
    TOKEN_SHARE,
    BoundaryTolerance,
    Spread,
    ToleranceTable,
    log2_ratio,
    mean_excess,
)
from verillm.constants import PPM, SCORE_FRACTION_BITS, Dtype
from verillm.errors import ConfigError

MIN_JOBS = 4
ROWS_PER_BOUNDARY = 16
"""Most opened positions of a job that the single-row limit's budget covers."""
TOKENS_PER_JOB = 4096
"""Most output tokens of a job that the single-token limit's budget covers."""
DEFAULT_FALSE_POSITIVE_RATE = 1e-6

ALLOWANCE_BITS = {Dtype.BF16: 2 * math.log2(1.25), Dtype.FP16: 2 * math.log2(1.25), Dtype.FP32: 4.0}
"""1.25 in relative L2, for kernels that differ more than this host's do; fp32 up to the floor of a row."""
MAX_TOLERANCE_LOG2, MAX_REJECT_LOG2 = 38.0, 39.0
"""log2(D/N * 2^40) of D/N = 1/4 and 1/2; unrelated rows are at 40. No limit of a single row is above these:
where the measured tail asks for more, its budget rests on honest rows never being that far apart."""
MAX_START_LOG2 = 34.0
"""A tenth of the rows may be beyond D/N = 2^-6 in no calibration: such work is not honest."""
ROW_DIVERGENCE_RATE = 3e-5
"""Share of honest rows beyond ``row_tolerance_q40``. Lower, and int4 weights would stay below it: now and
then an honest row is as far off as theirs, so only whole jobs tell them apart at lower rates."""
TAIL_SHARE = 0.1
MIN_ROW_SCALE, MIN_JOB_SCALE = 0.25, 0.125
"""Bits. A calibration that saw less spread saw too little."""
ALLOWANCE_COSINE = 0.03
MIN_PAIR_SD, MIN_JOB_COSINE = 0.05, 0.01
MAX_PAIR_SD, MAX_JOB_COSINE = 0.25, 0.05
"""Of a calibration in which half of the jobs or more have no direction (rows below the floor)."""
MARGIN_SCALE_SAFETY = 1.25
MARGIN_RATE_SAFETY = 2.0
MARGIN_JOB_BITS = 0.5
"""Jobs differ in how often two tokens nearly tie, by about this much (log2)."""
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
    the same positions at every boundary; ``cosines[b]`` the cosines of all pairs of rows that differ
    (``direction.pair_cosines``); ``margins_q24`` the margin of each output token. Rows that the same kernel
    made twice, bit by bit, tell nothing about other hosts: leave them out."""

    ratios_q40: tuple[tuple[int, ...], ...]
    cosines: tuple[tuple[float, ...], ...]
    margins_q24: tuple[int, ...]


Jobs = Sequence[Sequence[float]]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _moments(jobs: Jobs) -> tuple[float, float, float]:
    """(mean of the jobs' means, standard deviation within jobs, of the jobs' means)."""
    means = [_mean(job) for job in jobs]
    center = _mean(means)
    job_sd = math.sqrt(math.fsum((m - center) ** 2 for m in means) / (len(means) - 1))
    degrees = sum(len(job) - 1 for job in jobs)
    squares = math.fsum((v - m) ** 2 for job, m in zip(jobs, means, strict=True) for v in job)
    return center, math.sqrt(squares / degrees) if degrees else 0.0, job_sd


def _spread(center: float, single: float, job: float) -> Spread:
    return Spread(*(math.ceil(value * Q16) for value in (center, single, job)))


def _size(jobs: Jobs) -> Spread:
    """Of rows' bits; a Student t of n degrees has the variance scale^2 * n / (n - 2)."""
    center, row_sd, job_sd = _moments(jobs)
    scale = row_sd * math.sqrt((ROW_DEGREES - 2) / ROW_DEGREES)
    return _spread(center, max(scale, MIN_ROW_SCALE), max(job_sd, MIN_JOB_SCALE))


def _direction(jobs: Jobs) -> Spread:
    """Of pairs' cosines. What pairs add to the spread of the jobs' means is not taken off: it is small."""
    known = [job for job in jobs if job]
    if len(known) < max(MIN_JOBS, len(jobs) // 2):
        return _spread(0.0, MAX_PAIR_SD, MAX_JOB_COSINE)
    center, pair_sd, job_sd = _moments(known)
    return _spread(max(center, 0.0), max(pair_sd, MIN_PAIR_SD), max(job_sd, MIN_JOB_COSINE))


def _upper_tail(values: Sequence[float]) -> tuple[float, float]:
    """(90th percentile, mean excess above it, two standard errors added)."""
    ordered = sorted(values)
    count = max(1, round(len(ordered) * TAIL_SHARE))
    start = ordered[-count - 1]
    excess = math.fsum(v - start for v in ordered[-count:]) / count
    return start, excess * (1 + 2 / math.sqrt(count))


def _boundary(jobs: Jobs, cosines: Jobs, dtype: Dtype, tail: float) -> BoundaryTolerance:
    start, excess = _upper_tail([value for job in jobs for value in job])

    def limit(rate: float, largest: float) -> int:
        bits = start + excess * math.log(TAIL_SHARE / rate) + ALLOWANCE_BITS[dtype]
        return max(math.ceil(2.0 ** min(bits, largest)), FLOORS_Q40[dtype])

    if start > MAX_START_LOG2:
        raise ConfigError(
            f"jobs: a tenth of the rows is beyond D/N 2^{start - 40:.1f}, above 2^-6: not honest"
        )

    return BoundaryTolerance(
        row_tolerance_q40=limit(ROW_DIVERGENCE_RATE, MAX_TOLERANCE_LOG2),
        row_reject_q40=limit(min(tail, ROW_DIVERGENCE_RATE), MAX_REJECT_LOG2),
        size=_size(jobs),
        direction=_direction(cosines),
    )


def _mean_size(jobs: Sequence[Jobs], boundaries: Sequence[BoundaryTolerance]) -> Spread:
    """Of a position's excess, averaged over the boundaries as the verdict does it."""
    excess = [
        [
            mean_excess([value - b.size.center for value, b in zip(row, boundaries, strict=True)], boundaries)
            for row in zip(*job, strict=True)
        ]
        for job in jobs
    ]
    spread = _size(excess)
    return Spread(0, spread.single_q16, spread.job_q16)


def _mean_direction(jobs: Sequence[Jobs], boundaries: Sequence[BoundaryTolerance]) -> Spread:
    """Of a pair's excess cosine, averaged over the boundaries; pairs that not all boundaries have are out."""
    excess = [
        [
            _mean([cosine - b.direction.center for cosine, b in zip(pair, boundaries, strict=True)])
            for pair in zip(*job, strict=True)
        ]
        for job in jobs
        if len({len(pairs) for pairs in job}) == 1
    ]
    spread = _direction(excess)
    return Spread(0, spread.single_q16, spread.job_q16)


def _check(jobs: Sequence[HonestJob], false_positive_rate: float) -> None:
    if not 1e-12 <= false_positive_rate <= 0.01:
        raise ConfigError(f"false_positive_rate: {false_positive_rate} is outside 1e-12 to 0.01")
    if len(jobs) < MIN_JOBS:
        raise ConfigError(
            f"jobs: {len(jobs)} honest jobs, at least {MIN_JOBS} are needed; 48 or more are better"
        )
    boundaries = len(jobs[0].ratios_q40)
    if boundaries == 0 or any(len(j.ratios_q40) != boundaries for j in jobs):
        raise ConfigError("ratios_q40: every honest job must list the same boundaries, at least one")
    if not all(j.margins_q24 for j in jobs):
        raise ConfigError("margins_q24: every honest job needs an output token")
    if any(len(rows) != len(j.ratios_q40[0]) for j in jobs for rows in j.ratios_q40):
        raise ConfigError("ratios_q40: a job must list the same positions at every boundary")


def calibrate(
    jobs: Sequence[HonestJob], dtype: Dtype, false_positive_rate: float = DEFAULT_FALSE_POSITIVE_RATE
) -> ToleranceTable:
    """The tolerance table of a model from honest jobs. Raises ConfigError if they are too few or uneven."""
    _check(jobs, false_positive_rate)
    count = len(jobs[0].ratios_q40)
    logs = [
        [[log2_ratio(r, dtype) for r in rows] for rows in job.ratios_q40] for job in jobs if job.ratios_q40[0]
    ]
    if len(logs) < MIN_JOBS:
        raise ConfigError(f"ratios_q40: {len(logs)} jobs have rows that differ, at least {MIN_JOBS} must")
    row_tail = false_positive_rate * ROW_SHARE / (ROWS_PER_BOUNDARY * count)
    cosines = [job.cosines for job in jobs if job.ratios_q40[0]]
    boundaries = tuple(
        _boundary([job[b] for job in logs], [job[b] for job in cosines], dtype, row_tail)
        for b in range(count)
    )
    scale, rate, limit = _margins([m for job in jobs for m in job.margins_q24], dtype, false_positive_rate)
    return ToleranceTable(
        row_dtype=dtype,
        false_positive_rate_ppt=round(false_positive_rate * PPM * PPM),
        jobs=len(logs),
        size_allowance_q16=math.ceil(ALLOWANCE_BITS[dtype] * Q16),
        direction_allowance_q16=math.ceil(ALLOWANCE_COSINE * Q16),
        boundaries=boundaries,
        mean_size=_mean_size(logs, boundaries),
        mean_direction=_mean_direction(cosines, boundaries),
        token_limit_q24=limit,
        margin_scale_q24=math.ceil(scale),
        margin_rate_ppb=math.ceil(rate * 1000 * PPM),
        margin_job_scale_q16=math.ceil(MARGIN_JOB_BITS * Q16),
    )


def _margins(margins: Sequence[int], dtype: Dtype, false_positive_rate: float) -> tuple[float, float, int]:
    """(scale Q24, rate, limit of one token Q24) of honest margins, with their safety."""
    positive = [m for m in margins if m > 0]
    floor = MARGIN_FLOOR_Q24[dtype]
    count = len(positive) + PRIOR_MARGINS
    scale = (sum(positive) + PRIOR_MARGINS * floor / 30) / count * (1 + 2 / math.sqrt(count))
    scale *= MARGIN_SCALE_SAFETY
    rate = min(1.0, MARGIN_RATE_SAFETY * (len(positive) + 1) / (len(margins) + 1))
    limit = scale * math.log(max(rate * TOKENS_PER_JOB / (false_positive_rate * TOKEN_SHARE), 1.0))
    return scale, rate, max(math.ceil(limit), floor, max(margins))
