"""Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers", SC'11), in plain ints."""

from __future__ import annotations

M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
MASK = 0xFFFFFFFF


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four 32-bit words of the 128-bit counter under the 64-bit key; every word in 0 .. 2^32 - 1."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + W0) & MASK, (k1 + W1) & MASK
    return c0, c1, c2, c3


def noise_word(seed: int, position: int, token: int) -> int:
    """The noise word of vocabulary entry ``token`` for the row at ``position``; ``seed`` is 64 bits."""
    key = (seed & MASK, seed >> 32)
    return philox4x32((position, token >> 2, 0, 0), key)[token & 3]
