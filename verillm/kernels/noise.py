"""Philox4x32-10 and integer Gumbel noise, step by step those of ``verillm.sampling``, on int64 tensors."""

from __future__ import annotations

import triton
import triton.language as tl

from verillm.sampling import gumbel, philox

_M0, _M1 = tl.constexpr(philox.M0), tl.constexpr(philox.M1)
_W0, _W1 = tl.constexpr(philox.W0), tl.constexpr(philox.W1)
_LN2 = tl.constexpr(gumbel.LN2_Q40)
_LN = tl.constexpr(tuple(c & philox.MASK for c in gumbel.LN_COEFFICIENTS_Q31))
_SERIES = tl.constexpr(gumbel.SERIES_COEFFICIENTS_Q31)
_SERIES_LIMIT = tl.constexpr(gumbel.SERIES_LIMIT)


@triton.jit
def noise_words(seed, position, block):
    """The four 32-bit words of counter (position, block, 0, 0) under the 64-bit ``seed``, as int64 tensors of
    ``block``'s shape. All three are int64; of position and block the low 32 bits count."""
    key0, key1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    c1 = block.to(tl.uint32)
    c0 = position.to(tl.uint32) + c1 * 0
    c2 = c1 * 0
    c3 = c1 * 0
    for _ in tl.static_range(10):
        p0 = c0.to(tl.uint64) * _M0
        p1 = c2.to(tl.uint64) * _M1
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ key0
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ key1
        c1 = p1.to(tl.uint32)
        c3 = p0.to(tl.uint32)
        key0 = key0 + _W0
        key1 = key1 + _W1
    return c0.to(tl.int64), c1.to(tl.int64), c2.to(tl.int64), c3.to(tl.int64)


@triton.jit
def _ln_q40(x):
    """``gumbel.ln_q40`` for int64 1 <= x < 2^62.

    With f the mantissa's fraction, acc_i = c_i + floor(acc_(i+1) * f / 2^31) fits 32 bits and has the sign of
    c_i, as |acc_(i+1)| < |c_i|. The high word of acc * 2f is 2f too large if a negative acc is read unsigned.
    """
    high = (x >> 32) != 0
    word = tl.where(high, x, x << 32).to(tl.uint64, bitcast=True)
    y = (word >> 32).to(tl.uint32)
    k = tl.zeros(x.shape, tl.uint32)
    for i in tl.static_range(5):
        step = 16 >> i
        big = (y >> step) != 0
        y = tl.where(big, y >> step, y)
        k += tl.where(big, step, 0).to(tl.uint32)
    twice = ((word << (32 - k).to(tl.uint64)) >> 32).to(tl.uint32) & 0xFFFFFFFE
    acc = tl.full(x.shape, _LN[9], tl.uint32)
    for i in tl.static_range(9):
        acc = tl.umulhi(acc, twice) + _LN[8 - i]
        if i % 2 == 0:
            acc -= twice
    log = tl.umulhi(acc, twice).to(tl.int64) << 9
    return (k + tl.where(high, 32, 0).to(tl.uint32)).to(tl.int64) * _LN2 + log


@triton.jit
def gumbel_q24(word):
    """``gumbel.gumbel_q24`` of 32-bit words in int64."""
    u = 2 * word + 1
    small = u < _SERIES_LIMIT
    short = tl.where(small, u, 1).to(tl.uint32)
    acc = tl.full(u.shape, _SERIES[6], tl.uint32)
    for i in tl.static_range(6):
        acc = (tl.umulhi(acc, short) >> 1) + _SERIES[5 - i]
    series = acc.to(tl.uint64) * short.to(tl.uint64)
    e_q40 = 33 * _LN2 - _ln_q40(8589934592 - tl.where(small, _SERIES_LIMIT, u))
    log = _ln_q40(tl.where(small, series.to(tl.int64, bitcast=True), e_q40))
    return (tl.where(small, 64 * _LN2, 40 * _LN2) - log + 32768) >> 16
