"""The tolerance table of a manifest, integers only: limits, and the calibrated model of honest work."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from verillm.comparator.likelihood import (
    LOWEST,
    log_factor_of_direction,
    log_factor_of_margins,
    log_factor_of_rows,
)
from verillm.constants import PPM, TOLERANCE_FRACTION_BITS, Dtype
from verillm.errors import EncodingError

Q16 = 1 << 16
FLOORS_Q40 = {
    Dtype.BF16: 1 << (TOLERANCE_FRACTION_BITS - 13),
    Dtype.FP16: 1 << (TOLERANCE_FRACTION_BITS - 19),
    Dtype.FP32: 1 << (TOLERANCE_FRACTION_BITS - 27),
}
"""Smallest limit D/N of a single row: relative L2 2^-6 (bf16), 2^-9 (fp16), 2^-13 (fp32); D/N is half its
square. Hardware other than the calibrating host may well reach it."""
LOWEST_RATIOS_Q40 = {dtype: floor >> 4 for dtype, floor in FLOORS_Q40.items()}
"""No boundary's center is below this: rows that are closer count as this close, and their direction not."""
POOLED_SHARE, ROW_SHARE, TOKEN_SHARE = 0.5, 0.25, 0.25
"""Shares of the false-positive budget: pooled evidence, single rows, single tokens."""


def log2_ratio(ratio_q40: int, dtype: Dtype) -> float:
    """log2 of a Q40 ratio (in units of 2^-40), clamped from below at the lowest center."""
    return math.log2(max(ratio_q40, LOWEST_RATIOS_Q40[dtype]))


@dataclass(frozen=True)
class Spread:
    """Honest work in Q16: the center, the spread of single values within a job and of jobs around it."""

    center_q16: int
    single_q16: int
    job_q16: int

    @property
    def center(self) -> float:
        return self.center_q16 / Q16

    @property
    def scales(self) -> tuple[float, float]:
        """(single, job)."""
        return self.single_q16 / Q16, self.job_q16 / Q16


@dataclass(frozen=True)
class BoundaryTolerance:
    """One boundary. D/N above ``row_tolerance_q40`` is a divergence that may be disputed on chain, above
    ``row_reject_q40`` one row rejects a job. ``size``: log2(D/N * 2^40) of honest rows, in bits.
    ``direction``: cosines of pairs of their deviations."""

    row_tolerance_q40: int
    row_reject_q40: int
    size: Spread
    direction: Spread


def mean_excess(excess: Sequence[float], boundaries: Sequence[BoundaryTolerance]) -> float:
    """Mean over all boundaries of one position's excess, each clamped as ``likelihood`` clamps it."""
    lowest = (-LOWEST * b.size.scales[0] for b in boundaries)
    return math.fsum(max(pair) for pair in zip(excess, lowest, strict=True)) / len(excess)


@dataclass(frozen=True)
class ToleranceTable:
    """Limits for one model and row dtype. ``false_positive_rate_ppt``: parts per 10^12 per honest job, over
    all tests together. ``jobs``: honest jobs it rests on. ``*_allowance_q16``: by how many bits, or how much
    cosine, other hardware may be off. ``mean_*``: excess over the centers, averaged over the boundaries.
    Margins: limit of one token, mean of the positive ones (Q24), their probability per token (parts per
    10^9), spread of jobs (bits)."""

    row_dtype: Dtype
    false_positive_rate_ppt: int
    jobs: int
    size_allowance_q16: int
    direction_allowance_q16: int
    boundaries: tuple[BoundaryTolerance, ...]
    mean_size: Spread
    mean_direction: Spread
    token_limit_q24: int
    margin_scale_q24: int
    margin_rate_ppb: int
    margin_job_scale_q16: int

    @property
    def false_positive_rate(self) -> float:
        return self.false_positive_rate_ppt / (PPM * PPM)

    @property
    def row_tolerance_q40(self) -> tuple[int, ...]:
        """Per boundary, as ``ModelSpec`` has it."""
        return tuple(b.row_tolerance_q40 for b in self.boundaries)

    @property
    def decisive(self) -> float:
        """ln of the pooled Bayes factor that rejects: 1 / (POOLED_SHARE * rate)."""
        return -math.log(POOLED_SHARE * self.false_positive_rate)

    def excess(self, boundary: int, ratio_q40: int) -> float:
        """Bits by which a row's D/N is above the honest center of its boundary."""
        return log2_ratio(ratio_q40, self.row_dtype) - self.boundaries[boundary].size.center

    def size_factor(self, excess: Sequence[float], spread: Spread) -> float:
        """ln E of rows by their excess, or of positions by the mean excess of their rows."""
        allowance = self.size_allowance_q16 / Q16
        return log_factor_of_rows(excess, *spread.scales, self.jobs, allowance)

    def direction_factor(self, excess: float, pairs: int, spread: Spread) -> float:
        """ln E of a mean cosine, or of its mean over the boundaries, by its excess over the center."""
        allowance = self.direction_allowance_q16 / Q16
        return log_factor_of_direction(excess, pairs, *spread.scales, self.jobs, allowance)

    def margin_factor(self, margins_q24: Sequence[int]) -> float:
        """ln E of a job's token margins."""
        return log_factor_of_margins(
            margins_q24,
            self.margin_rate_ppb / (1000 * PPM),
            self.margin_scale_q24,
            self.margin_job_scale_q16 / Q16,
            self.size_allowance_q16 / Q16 / 2,  # D/N is a square, a margin is not
        )

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
        boundaries = []
        for entry in entries:
            _check_keys(entry, BoundaryTolerance, "boundaries")
            limits = [_check_int(name, entry[name], 0, _LARGEST) for name in _ROW_LIMITS]
            size, shared = (_spread(name, entry[name]) for name in ("size", "direction"))
            boundaries.append(BoundaryTolerance(limits[0], limits[1], size, shared))
        values = {name: _check_int(name, data[name], *limits) for name, limits in _TABLE_LIMITS.items()}
        return cls(
            **{**values, "row_dtype": Dtype(data["row_dtype"])},  # type: ignore[arg-type]
            boundaries=tuple(boundaries),
            mean_size=_spread("mean_size", data["mean_size"]),
            mean_direction=_spread("mean_direction", data["mean_direction"]),
        )


_LARGEST = (1 << 63) - 1
_ROW_LIMITS = ("row_tolerance_q40", "row_reject_q40")
_TABLE_LIMITS = {
    "row_dtype": (1, 3),
    "false_positive_rate_ppt": (1, PPM * PPM - 1),
    "jobs": (2, 1 << 20),
    "size_allowance_q16": (0, 8 * Q16),
    "direction_allowance_q16": (0, Q16),
    "token_limit_q24": (0, _LARGEST),
    "margin_scale_q24": (1, _LARGEST),
    "margin_rate_ppb": (1, 1000 * PPM),
    "margin_job_scale_q16": (1, 64 * Q16),
}


def _spread(name: str, data: Any) -> Spread:
    _check_keys(data, Spread, name)
    return Spread(
        _check_int(f"{name}.center_q16", data["center_q16"], -64 * Q16, 64 * Q16),
        _check_int(f"{name}.single_q16", data["single_q16"], 1, 64 * Q16),
        _check_int(f"{name}.job_q16", data["job_q16"], 1, 64 * Q16),
    )


def _check_keys(data: Any, cls: type[Any], name: str) -> None:
    expected = {f.name for f in fields(cls)}
    if not isinstance(data, dict) or set(data) != expected:
        raise EncodingError(f"{name}: expected an object with exactly the fields {sorted(expected)}")


def _check_int(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise EncodingError(f"{name}: {reprlib.repr(value)} is not an integer from {low} to {high}")
    return value
