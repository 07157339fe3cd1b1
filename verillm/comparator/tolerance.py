"""The tolerance table of a manifest: integers only, and the limits that follow from it for a job."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from verillm.comparator.student import t_quantile
from verillm.constants import PPM, TOLERANCE_FRACTION_BITS, Dtype
from verillm.errors import EncodingError

FLOORS_Q40 = {
    Dtype.BF16: 1 << (TOLERANCE_FRACTION_BITS - 13),
    Dtype.FP16: 1 << (TOLERANCE_FRACTION_BITS - 19),
    Dtype.FP32: 1 << (TOLERANCE_FRACTION_BITS - 27),
}
"""Smallest row tolerance D/N: relative L2 2^-6 (bf16), 2^-9 (fp16), 2^-13 (fp32); D/N is half its square.
Hardware other than the calibrating host may well reach it."""
CLAMP = 64
"""In means, a ratio below floor / CLAMP (relative L2 below floor / 8) counts as that."""
TEST_FAMILIES = 4
"""Single rows, mean of rows, single tokens, sum of tokens: each has a quarter of the budget."""


def log2_ratio(ratio_q40: int, dtype: Dtype) -> float:
    """log2 of a Q40 ratio (in units of 2^-40), clamped from below."""
    return math.log2(max(ratio_q40, FLOORS_Q40[dtype] // CLAMP))


@dataclass(frozen=True)
class BoundaryTolerance:
    """One boundary. D/N above ``row_tolerance_q40`` is a divergence that may be disputed on chain. Some
    honest rows are beyond it (``calibration.ROW_DIVERGENCE_RATE``), so a verdict needs the mean of the
    opened rows, or one row above ``row_reject_q40``. The rest is log2(D/N * 2^40) in Q16: mean over honest
    jobs (safety included), spread of the jobs' means, spread and mean upper-tail excess of single rows."""

    row_tolerance_q40: int
    row_reject_q40: int
    job_log2_mean_q16: int
    job_log2_sd_q16: int
    row_log2_sd_q16: int
    row_log2_tail_q16: int


@dataclass(frozen=True)
class ToleranceTable:
    """Limits for one model and row dtype. ``false_positive_rate_ppt``: parts per 10^12 per honest job, over
    all tests together. ``jobs``: honest jobs it rests on. Margins: limit of one token, and mean of the
    positive margins (Q24) and their probability per token (parts per 10^9)."""

    row_dtype: Dtype
    false_positive_rate_ppt: int
    jobs: int
    boundaries: tuple[BoundaryTolerance, ...]
    token_limit_q24: int
    margin_scale_q24: int
    margin_rate_ppb: int

    @property
    def false_positive_rate(self) -> float:
        return self.false_positive_rate_ppt / (PPM * PPM)

    @property
    def row_tolerance_q40(self) -> tuple[int, ...]:
        """Per boundary, as ``ModelSpec`` has it."""
        return tuple(b.row_tolerance_q40 for b in self.boundaries)

    def mean_row_limit(self, boundary: int, rows: int, tail: float) -> float:
        """Limit of the mean of ``log2_ratio`` over ``rows`` rows of a new honest job, passed with probability
        ``tail``: Student t prediction limit, plus Bernstein's term tail_scale * ln(1 / tail) / rows because
        single rows have an exponential upper tail; never below the floor."""
        b = self.boundaries[boundary]
        job_sd, row_sd = b.job_log2_sd_q16 / 65536, b.row_log2_sd_q16 / 65536
        spread = math.sqrt(job_sd**2 * (1 + 1 / self.jobs) + row_sd**2 / rows)
        outliers = b.row_log2_tail_q16 / 65536 * -math.log(tail) / rows
        limit = b.job_log2_mean_q16 / 65536 + t_quantile(tail, self.jobs - 1) * spread + outliers
        return max(limit, math.log2(FLOORS_Q40[self.row_dtype]))

    def margin_sum_limit(self, tokens: int, tail: float) -> float:
        """Limit (Q24) of the sum of ``tokens`` honest margins, passed with probability at most ``tail``."""
        expected = tokens * self.margin_rate_ppb / (1000 * PPM)
        return self.margin_scale_q24 * (math.sqrt(expected) + math.sqrt(-math.log(tail))) ** 2

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, integers only."""
        out = asdict(self)
        return {**out, "row_dtype": int(self.row_dtype), "boundaries": list(out["boundaries"])}

    @classmethod
    def from_dict(cls, data: Any) -> ToleranceTable:
        """The inverse of ``to_dict``. Raises EncodingError for missing, extra or out-of-range fields."""
        _check_keys(data, cls, "tolerance table")
        entries = data["boundaries"]
        if not isinstance(entries, list) or not 1 <= len(entries) < 0xFFFF:
            raise EncodingError("boundaries: expected a list of 1 to 65534 entries")
        for entry in entries:
            _check_keys(entry, BoundaryTolerance, "boundaries")
            for name, value in entry.items():
                low = -(1 << 31) if name == "job_log2_mean_q16" else 0
                _check_int(name, value, low, (1 << 63) - 1)
        limits = {
            "row_dtype": (1, 3),
            "false_positive_rate_ppt": (1, PPM * PPM - 1),
            "jobs": (2, 1 << 32),
            "token_limit_q24": (0, (1 << 63) - 1),
            "margin_scale_q24": (0, (1 << 63) - 1),
            "margin_rate_ppb": (0, 1000 * PPM),
        }
        for name, (low, high) in limits.items():
            _check_int(name, data[name], low, high)
        values = {name: data[name] for name in limits if name != "row_dtype"}
        return cls(
            row_dtype=Dtype(data["row_dtype"]),
            boundaries=tuple(BoundaryTolerance(**entry) for entry in entries),
            **values,
        )


def _check_keys(data: Any, cls: type[Any], name: str) -> None:
    expected = {f.name for f in fields(cls)}
    if not isinstance(data, dict) or set(data) != expected:
        raise EncodingError(f"{name}: expected an object with exactly the fields {sorted(expected)}")


def _check_int(name: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise EncodingError(f"{name}: {value!r} is not an integer from {low} to {high}")
