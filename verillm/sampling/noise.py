"""The noise of a whole vocabulary row. Compiled with numba where it is installed, numpy otherwise; both give
the integers of ``philox.noise_word`` and ``gumbel.gumbel_q24``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verillm.errors import InvalidRequest
from verillm.sampling import gumbel
from verillm.sampling.gumbel import gumbel_q24_array
from verillm.sampling.philox import M0, M1, MASK, ROUNDS, W0, W1

NoiseFunction = Callable[[int, int, int], NDArray[np.int64]]


def noise_q24_numpy(seed: int, position: int, vocab_size: int) -> NDArray[np.int64]:
    """Noise of tokens 0 .. vocab_size - 1 for the row at ``position``: int64 [vocab_size], Q24."""
    mask, shift = np.uint64(MASK), np.uint64(32)
    blocks = (vocab_size + 3) // 4
    c0 = np.full(blocks, position, dtype=np.uint64)
    c1 = np.arange(blocks, dtype=np.uint64)
    c2 = np.zeros(blocks, dtype=np.uint64)
    c3 = np.zeros(blocks, dtype=np.uint64)
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(M0), c2 * np.uint64(M1)
        c0, c2 = (p1 >> shift) ^ c1 ^ np.uint64(k0), (p0 >> shift) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & mask, p0 & mask
        k0, k1 = (k0 + W0) & MASK, (k1 + W1) & MASK
    words = np.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:vocab_size]
    return gumbel_q24_array(words.astype(np.uint32))


@cache
def _compiled() -> NoiseFunction:
    """Compile the reference itself, so that there is one source of the integers."""
    import numba

    def jit_with(function: Any, **names: Any) -> Any:
        copy = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)
        return numba.njit(inline="never", nogil=True)(copy)

    to_gumbel = jit_with(gumbel.gumbel_q24, ln_q40=jit_with(gumbel.ln_q40))
    m0, m1, mask, shift = np.uint64(M0), np.uint64(M1), np.uint64(MASK), np.uint64(32)
    w0, w1 = np.uint64(W0), np.uint64(W1)

    @numba.njit(nogil=True)
    def fill(key0: Any, key1: Any, position: Any, out: Any) -> None:
        for block in range((out.size + 3) // 4):
            c0, c1, c2, c3 = np.uint64(position), np.uint64(block), np.uint64(0), np.uint64(0)
            k0, k1 = np.uint64(key0), np.uint64(key1)
            for _ in range(ROUNDS):
                p0, p1 = c0 * m0, c2 * m1
                c0, c2 = (p1 >> shift) ^ c1 ^ k0, (p0 >> shift) ^ c3 ^ k1
                c1, c3 = p1 & mask, p0 & mask
                k0, k1 = (k0 + w0) & mask, (k1 + w1) & mask
            words = (c0, c1, c2, c3)
            for lane in range(min(4, out.size - 4 * block)):
                out[4 * block + lane] = to_gumbel(np.int64(words[lane]))

    def noise(seed: int, position: int, vocab_size: int) -> NDArray[np.int64]:
        out = np.empty(vocab_size, dtype=np.int64)
        fill(seed & MASK, seed >> 32, position, out)
        return out

    return noise


def noise_q24(seed: int, position: int, vocab_size: int) -> NDArray[np.int64]:
    """Noise of tokens 0 .. vocab_size - 1 for the row at ``position``: int64 [vocab_size], Q24.

    Raises InvalidRequest if the seed is not 64 bits, or the position or size not 32 bits.
    """
    if not 0 <= seed < 2**64:
        raise InvalidRequest(f"seed: {seed} is outside 0 to 2^64 - 1")
    if not (0 <= position < 2**32 and 0 <= vocab_size < 2**32):
        raise InvalidRequest(f"position, vocab_size: {position}, {vocab_size} must be below 2^32")
    function = noise_q24_numpy if find_spec("numba") is None else _compiled()
    return function(seed, position, vocab_size)
