"""The noise of a whole vocabulary row. Compiled with numba where it is installed, numpy otherwise; both give
the integers of ``philox.noise_word`` and ``gumbel.gumbel_q24``."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from verillm.errors import InvalidRequest
from verillm.sampling.gumbel import gumbel_q24_array
from verillm.sampling.philox import M0, M1, MASK, ROUNDS, W0, W1


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


def noise_q24(seed: int, position: int, vocab_size: int) -> NDArray[np.int64]:
    """Noise of tokens 0 .. vocab_size - 1 for the row at ``position``: int64 [vocab_size], Q24.

    Raises InvalidRequest if the seed is not 64 bits, or the position or size not 32 bits.
    """
    if not 0 <= seed < 2**64:
        raise InvalidRequest(f"seed: {seed} is outside 0 to 2^64 - 1")
    if not (0 <= position < 2**32 and 0 <= vocab_size < 2**32):
        raise InvalidRequest(f"position, vocab_size: {position}, {vocab_size} must be below 2^32")
    if find_spec("numba") is None:
        return noise_q24_numpy(seed, position, vocab_size)
    from verillm.sampling.kernel import noise_row

    return noise_row(np.uint64(seed), np.uint64(position), vocab_size)
