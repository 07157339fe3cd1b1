"""Gumbel noise in integers: one 32-bit word to g = -ln(-ln(1 - W)), W = (2w + 1) / 2^33, as Q24.

The integers below, not the real-number formula, are the definition: ``Gumbel.sol`` and the compiled kernels
repeat them step by step. Every product fits a signed 64-bit integer; every ``>>`` rounds to minus infinity.
The distance to the real-number formula is below 1e-7 (the protocol allows 2e-6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LN2_Q40 = 762123384786
"""round(ln(2) * 2^40)."""

LN_COEFFICIENTS_Q31 = (
    2147483638,
    -1073739762,
    715756387,
    -535895071,
    422584350,
    -328819756,
    227939599,
    -122544438,
    42750303,
    -6993020,
)
"""c0..c9, Q31: ln(1 + f) = f * (c0 + c1 f + ... + c9 f^9) for f in [0, 1), error below 5e-9 (least squares
at Chebyshev nodes)."""

SERIES_COEFFICIENTS_Q31 = (2147483648, 1073741824, 715827883, 536870912, 429496730, 357913941, 306783378)
"""1, 1/2, ..., 1/7, Q31: -ln(1 - W) = W (1 + W/2 + W^2/3 + ...)."""

SERIES_LIMIT = 1 << 29
"""The series is used while U = 2w + 1 is below this, i.e. W < 1/16; a difference of logs loses digits."""


def ln_q40(x: int) -> int:
    """ln(x) as Q40 for an integer 1 <= x < 2^62; absolute error below 1e-8."""
    k = 0
    y = x
    for step in (32, 16, 8, 4, 2, 1):
        if y >> step != 0:
            y >>= step
            k += step
    mantissa = x >> (k - 31) if k >= 31 else x << (31 - k)
    f = mantissa - 2147483648
    acc = 0
    for i in range(9, -1, -1):
        acc = LN_COEFFICIENTS_Q31[i] + ((acc * f) >> 31)
    return k * LN2_Q40 + (((acc * f) >> 31) << 9)


def gumbel_q24(word: int) -> int:
    """The noise of one 32-bit word, Q24, between -3.13 * 2^24 and 22.9 * 2^24. This is the reference."""
    u = 2 * word + 1
    if u < SERIES_LIMIT:
        acc = 0
        for i in range(6, -1, -1):
            acc = SERIES_COEFFICIENTS_Q31[i] + ((acc * u) >> 33)
        g_q40 = 64 * LN2_Q40 - ln_q40(u * acc)  # E = u * acc is Q64
    else:
        e_q40 = 33 * LN2_Q40 - ln_q40(8589934592 - u)
        g_q40 = 40 * LN2_Q40 - ln_q40(e_q40)
    return (g_q40 + 32768) >> 16


def _ln_q40_array(x: NDArray[np.int64]) -> NDArray[np.int64]:
    k = np.zeros_like(x)
    y = x.copy()
    for step in (32, 16, 8, 4, 2, 1):
        big = (y >> step) != 0
        y = np.where(big, y >> step, y)
        k += np.where(big, step, 0)
    mantissa = np.where(k >= 31, x >> np.maximum(k - 31, 0), x << np.maximum(31 - k, 0))
    f = mantissa - 2147483648
    acc = np.zeros_like(x)
    for c in reversed(LN_COEFFICIENTS_Q31):
        acc = c + ((acc * f) >> 31)
    return k * LN2_Q40 + (((acc * f) >> 31) << 9)


def gumbel_q24_array(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """``gumbel_q24`` of every word; same shape, int64."""
    u = 2 * words.astype(np.int64) + 1
    small = u < SERIES_LIMIT
    us = np.where(small, u, 1)
    acc = np.zeros_like(u)
    for c in reversed(SERIES_COEFFICIENTS_Q31):
        acc = c + ((acc * us) >> 33)
    e_q40 = 33 * LN2_Q40 - _ln_q40_array(8589934592 - np.where(small, SERIES_LIMIT, u))
    log = _ln_q40_array(np.where(small, us * acc, e_q40))
    return (np.where(small, 64, 40) * LN2_Q40 - log + 32768) >> 16
