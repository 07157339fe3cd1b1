"""Do the deviations of different rows point the same way?

Rounding errors of honest kernels are nearly unrelated from one position to the next. Changed weights act on
all positions alike, so their deviations share a direction even where they are no larger than rounding. The
measure is the mean cosine between the deviations of two positions of one job at one boundary; it does not
depend on their size, and a kernel that rounds more but at random does not raise it.

Rows that are alike round alike, so only pairs count that stand MIN_DISTANCE or more apart and belong to
different tokens. What remains of it, in text that repeats itself, is in the calibrated spread of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verillm.comparator.compare import ratio_q40, row_values, rows_statistics
from verillm.comparator.tolerance import LOWEST_RATIOS_Q40
from verillm.constants import Dtype

F64 = NDArray[np.float64]
MIN_DISTANCE = 4


@dataclass(frozen=True)
class Direction:
    """Mean cosine over ``pairs`` >= 1 pairs of rows at one boundary."""

    boundary: int
    pairs: int
    cosine: float


def unit_deviations(a: NDArray[np.uint8], b: NDArray[np.uint8], dtype: Dtype) -> F64:
    """(a - b) / |a - b| of each pair of rows, uint8 [n, row_bytes] both: float64 [n, d]; 0 for rows that are
    closer than any boundary's center may be (``tolerance.LOWEST_RATIOS_Q40``).

    Raises RowError as ``compare.rows_statistics`` does.
    """
    d, n = rows_statistics(a, b, dtype)
    lowest = LOWEST_RATIOS_Q40[dtype]
    far = np.array([ratio_q40(int(x), int(y)) >= lowest for x, y in zip(d, n, strict=True)], bool)
    deviations = row_values(a, dtype) - row_values(b, dtype)
    largest = np.abs(deviations).max(axis=1, keepdims=True)
    deviations /= np.where(largest > 0, largest, 1)  # so that no square over- or underflows
    length = np.linalg.norm(deviations, axis=1, keepdims=True)
    return np.where(far[:, None], deviations / np.where(length > 0, length, 1), 0.0)


def pair_cosines(units: F64, positions: ArrayLike, tokens: ArrayLike) -> F64:
    """Cosines of the pairs that count, of ``unit_deviations`` [n, d] at ``positions`` with ``tokens``."""
    first, second = np.triu_indices(len(units), 1)
    at, token = np.asarray(positions, np.int64), np.asarray(tokens, np.int64)
    there: NDArray[np.bool_] = np.any(units, axis=1)
    counts = there[first] & there[second] & (np.abs(at[first] - at[second]) >= MIN_DISTANCE)
    counts &= token[first] != token[second]
    return (units @ units.T)[first[counts], second[counts]]


def direction(boundary: int, units: F64, positions: Sequence[int], tokens: Sequence[int]) -> Direction | None:
    """The mean of ``pair_cosines``; None if no pair counts."""
    cosines = pair_cosines(units, positions, tokens)
    return Direction(boundary, len(cosines), float(cosines.mean())) if len(cosines) else None
