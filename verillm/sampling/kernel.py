"""Numba versions of the plain references, equal to them as integers: noise of many tokens, exact logits."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from verillm.errors import ConfigError
from verillm.sampling import gumbel
from verillm.sampling.philox import M0, M1, MASK, ROUNDS, W0, W1

try:
    from numba import njit
except ImportError:
    raise ConfigError("numba: not installed; a worker needs it: pip install 'verillm[worker]'") from None

COUNTERS = 64
BLOCK = 4 * COUNTERS  # noise words that ``fill_words`` makes
_LANES = 64  # partial sums of a dot product
_M0, _M1, _MASK, _SHIFT = np.uint64(M0), np.uint64(M1), np.uint64(MASK), np.uint64(32)
_W0, _W1 = np.uint64(W0), np.uint64(W1)


def _compile(function: Any, **names: Any) -> Any:
    """Compile a copy of a plain reference function, so that there is one source of its integers."""
    copy = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)
    return njit(cache=True, inline="never", nogil=True)(copy)


gumbel_q24 = _compile(gumbel.gumbel_q24, ln_q40=_compile(gumbel.ln_q40))


@njit(cache=True, nogil=True, inline="always")
def value_of(bits):
    """The float32 of bfloat16 bits."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@njit(cache=True, nogil=True)
def fill_words(seed, position, first, out):
    """The ``BLOCK`` noise words of tokens 4 * ``first``...; ``seed`` and ``position`` are uint64."""
    for i in range(COUNTERS):
        c0, c1, c2, c3 = position, np.uint64(first + i), np.uint64(0), np.uint64(0)
        k0, k1 = seed & _MASK, seed >> _SHIFT
        for _ in range(ROUNDS):
            p0, p1 = (c0 & _MASK) * _M0, (c2 & _MASK) * _M1
            c0, c2 = (p1 >> _SHIFT) ^ c1 ^ k0, (p0 >> _SHIFT) ^ c3 ^ k1
            c1, c3 = p1 & _MASK, p0 & _MASK
            k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
        out[4 * i] = np.uint32(c0)
        out[4 * i + 1] = np.uint32(c1)
        out[4 * i + 2] = np.uint32(c2)
        out[4 * i + 3] = np.uint32(c3)


@njit(cache=True, nogil=True)
def noise_row(seed, position, vocab_size):
    """Q24 noise of tokens 0 .. ``vocab_size`` - 1: int64."""
    words, out = np.empty(BLOCK, np.uint32), np.empty(vocab_size, np.int64)
    for first in range(0, vocab_size, BLOCK):
        fill_words(seed, position, first >> 2, words)
        for k in range(min(BLOCK, vocab_size - first)):
            out[first + k] = gumbel_q24(np.int64(words[k]))
    return out


@njit(cache=True, nogil=True)
def noise_at(seed, position, tokens):
    """Q24 noise of each token: int64 [n]."""
    out = np.empty(tokens.size, np.int64)
    for i in range(tokens.size):
        c0, c1, c2, c3 = position, np.uint64(tokens[i] >> 2), np.uint64(0), np.uint64(0)
        k0, k1 = seed & _MASK, seed >> _SHIFT
        for _ in range(ROUNDS):
            p0, p1 = c0 * _M0, c2 * _M1
            c0, c2 = (p1 >> _SHIFT) ^ c1 ^ k0, (p0 >> _SHIFT) ^ c3 ^ k1
            c1, c3 = p1 & _MASK, p0 & _MASK
            k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
        out[i] = gumbel_q24(np.int64((c0, c1, c2, c3)[tokens[i] & 3]))
    return out


@njit(cache=True, nogil=True)
def exact_logits(row, weights, tokens):
    """row @ W of each token: float64 [n], from float64 [d] and bfloat16 bits uint16 [vocab, d].

    Products are exact in float64 and the order of additions is fixed here, so all hosts get the same bits.
    """
    d = row.size
    whole = d - d % _LANES
    out, sums = np.empty(tokens.size), np.empty(_LANES)
    for i in range(tokens.size):
        column = weights[tokens[i]]
        for k in range(_LANES):
            sums[k] = 0.0
        for first in range(0, whole, _LANES):
            x, w = row[first : first + _LANES], column[first : first + _LANES]
            for k in range(_LANES):
                sums[k] += x[k] * np.float64(value_of(w[k]))
        for k in range(whole, d):
            sums[k - whole] += row[k] * np.float64(value_of(column[k]))
        half = _LANES // 2
        while half:
            for k in range(half):
                sums[k] += sums[k + half]
            half //= 2
        out[i] = sums[0]
    return out
