"""Compare two rows in integers on their bits (docs/protocol.md, section 3).

Both rows are aligned to the largest exponent of the pair, so the result does not depend on scale or on the
machine. ``D / N`` is about half the squared relative L2 distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verillm.constants import MAX_HIDDEN_SIZE, TOLERANCE_FRACTION_BITS, Dtype
from verillm.errors import RowError

SIGNIFICAND_BITS = 24

_LAYOUT: dict[Dtype, tuple[str, int, int]] = {
    Dtype.BF16: ("<u2", 8, 7),
    Dtype.FP16: ("<u2", 5, 10),
    Dtype.FP32: ("<u4", 8, 23),
}
"""dtype: (numpy word, exponent bits, fraction bits)."""

RowBytes = bytes | bytearray | memoryview | NDArray[np.uint8]


def _matrix(rows: RowBytes) -> NDArray[np.uint8]:
    array = rows if isinstance(rows, np.ndarray) else np.frombuffer(rows, dtype=np.uint8)
    if array.dtype != np.uint8:
        raise RowError(f"row: got {array.dtype} values, the comparator takes the row's bytes (uint8)")
    return array.reshape(1, -1) if array.ndim == 1 else array


def _fields(rows: NDArray[np.uint8], dtype: Dtype) -> tuple[Any, Any, Any]:
    """(sign, biased exponent, fraction) as int64 [n, d]. Raises RowError."""
    word, exponent_bits, fraction_bits = _LAYOUT[dtype]
    size = rows.shape[1]
    if size == 0 or size % dtype.itemsize or size > MAX_HIDDEN_SIZE * dtype.itemsize:
        limit = f"1 to {MAX_HIDDEN_SIZE} values of {dtype.itemsize} bytes"
        raise RowError(f"row: {size} bytes of {dtype.name} are not {limit}")
    bits = np.ascontiguousarray(rows).view(word).astype(np.int64)
    exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    if bool((exponent == (1 << exponent_bits) - 1).any()):
        raise RowError(f"row: holds NaN or Inf ({dtype.name}); such a row cannot be committed or compared")
    return bits >> (exponent_bits + fraction_bits), exponent, bits & ((1 << fraction_bits) - 1)


def rows_statistics(
    a: NDArray[np.uint8], b: NDArray[np.uint8], dtype: Dtype
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(D, N) of each pair of rows of two uint8 arrays [n, row_bytes]: uint64 [n] each, exact.

    Raises RowError for NaN, Inf, unequal shapes or a bad size.
    """
    if a.shape != b.shape:
        raise RowError(
            f"row: shapes {a.shape} and {b.shape} differ; compare rows of the same boundary and model"
        )
    fraction_bits = _LAYOUT[dtype][2]
    fields = [_fields(rows, dtype) for rows in (a, b)]
    exponents = [np.maximum(exponent, 1) for _, exponent, _ in fields]
    largest = np.maximum(exponents[0].max(axis=1), exponents[1].max(axis=1))[:, None]
    values = []
    for (sign, exponent, fraction), e in zip(fields, exponents, strict=True):
        significand = np.where(exponent > 0, fraction | (1 << fraction_bits), fraction)
        significand <<= SIGNIFICAND_BITS - 1 - fraction_bits
        magnitude = significand >> np.minimum(largest - e, SIGNIFICAND_BITS)
        values.append(np.where(sign == 1, -magnitude, magnitude))
    d = ((values[0] - values[1]) ** 2).sum(axis=1)
    n = (values[0] ** 2).sum(axis=1) + (values[1] ** 2).sum(axis=1)
    return d.astype(np.uint64), n.astype(np.uint64)


def row_values(rows: NDArray[np.uint8], dtype: Dtype) -> NDArray[np.float64]:
    """Values of uint8 [n, row_bytes] as float64 [n, d], exact. Raises RowError for NaN, Inf or a bad size."""
    sign, exponent, fraction = _fields(rows, dtype)
    _, exponent_bits, fraction_bits = _LAYOUT[dtype]
    bias = (1 << (exponent_bits - 1)) - 1 + fraction_bits
    significand = np.where(exponent > 0, fraction | (1 << fraction_bits), fraction).astype(np.float64)
    return np.ldexp(np.where(sign == 1, -significand, significand), np.maximum(exponent, 1) - bias)


def row_statistics(a: RowBytes, b: RowBytes, dtype: Dtype) -> tuple[int, int]:
    """(D, N) of one pair of rows given as bytes or uint8 [row_bytes]. Raises RowError."""
    d, n = rows_statistics(_matrix(a), _matrix(b), dtype)
    if len(d) != 1:
        raise RowError(f"row: got {len(d)} rows; use rows_statistics for more than one")
    return int(d[0]), int(n[0])


def ratio_q40(d: int, n: int) -> int:
    """floor(D * 2^40 / N); 0 if both rows are zero."""
    return (d << TOLERANCE_FRACTION_BITS) // n if n else 0


def exceeds(d: int, n: int, tolerance_q40: int) -> bool:
    """D * 2^40 > tolerance * N, the contract's test."""
    return d << TOLERANCE_FRACTION_BITS > tolerance_q40 * n


def diverges(a: RowBytes, b: RowBytes, dtype: Dtype, tolerance_q40: int) -> bool:
    """True if the two rows are further apart than the tolerance. Raises RowError."""
    return exceeds(*row_statistics(a, b, dtype), tolerance_q40)


LARGE_DEVIATION = 2.0**-4
"""A mantissa deviation above this share of the binade counts into P_m."""
SMALL_DEVIATION = 2.0**-7
"""A mantissa deviation up to this share of the binade (one step of bf16) counts into P_w."""


@dataclass(frozen=True)
class PaperStatistics:
    """The paper's statistics of a vector pair, for reports only; no verdict uses them.

    ``exponent_differs`` (P_e): share of all elements whose exponent bits differ. ``large_deviation`` (P_m)
    and ``small_deviation`` (P_w): shares among the elements with equal exponent whose signed mantissas differ
    by more than LARGE_DEVIATION, or by at most SMALL_DEVIATION. ``mean_error``: their mean |a - b|.
    """

    exponent_differs: float
    large_deviation: float
    small_deviation: float
    mean_error: float


def paper_statistics(a: RowBytes, b: RowBytes, dtype: Dtype) -> PaperStatistics:
    """Statistics over all elements of two byte arrays of equal size. Raises RowError."""
    first, second = _matrix(a), _matrix(b)
    if first.shape != second.shape:
        raise RowError(
            f"row: shapes {first.shape} and {second.shape} differ; compare rows of the same boundary"
        )
    _, exponent_bits, fraction_bits = _LAYOUT[dtype]
    (sign_a, e_a, f_a), (sign_b, e_b, f_b) = _fields(first, dtype), _fields(second, dtype)
    agree = e_a == e_b
    if not agree.any():
        return PaperStatistics(1.0, 0.0, 0.0, 0.0)
    hidden = np.where(e_a > 0, 1.0, 0.0)
    mantissa_a = np.where(sign_a == 1, -1, 1) * (hidden + f_a / 2.0**fraction_bits)
    mantissa_b = np.where(sign_b == 1, -1, 1) * (hidden + f_b / 2.0**fraction_bits)
    deviation = np.abs(mantissa_a - mantissa_b)[agree]
    bias = (1 << (exponent_bits - 1)) - 1
    error = np.ldexp(deviation, (np.maximum(e_a, 1) - bias)[agree])
    return PaperStatistics(
        exponent_differs=float((~agree).mean()),
        large_deviation=float((deviation > LARGE_DEVIATION).mean()),
        small_deviation=float((deviation <= SMALL_DEVIATION).mean()),
        mean_error=float(error.mean()),
    )
