"""Section 1 of ``docs/protocol.md`` in numpy alone, for machines that have neither numba nor eth-hash.

Written apart from ``verillm``'s hashing so that a GPU check does not rest on the code it checks; held to it
by ``tests/kernels/test_plain_keccak.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
CHUNK = 128


def _tables() -> tuple[list[int], dict[tuple[int, int], int]]:
    """Round constants and rotations of FIPS 202, 3.2.2 and 3.2.5; lanes are (x, y)."""
    constants, lfsr = [], 1
    for _ in range(24):
        word = 0
        for j in range(7):
            word |= (lfsr & 1) << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ ((lfsr >> 7) * 0x171)
        constants.append(word)
    rotations, x, y = {(0, 0): 0}, 1, 0
    for t in range(24):
        rotations[x, y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return constants, rotations


CONSTANTS, ROTATIONS = _tables()


def _rotl(x: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    return (x << np.uint64(n)) | (x >> np.uint64(64 - n)) if n else x


def keccak256(messages: U8) -> U8:
    """keccak256 of each row of uint8 [n, k <= 135]: uint8 [n, 32]."""
    n, k = messages.shape
    block = np.zeros((n, 136), np.uint8)
    block[:, :k] = messages
    block[:, k] ^= 0x01
    block[:, 135] ^= 0x80
    words = block.view("<u8")
    zero = np.zeros(n, np.uint64)
    a = {(i % 5, i // 5): words[:, i].copy() if i < 17 else zero for i in range(25)}
    for constant in CONSTANTS:
        c = [a[x, 0] ^ a[x, 1] ^ a[x, 2] ^ a[x, 3] ^ a[x, 4] for x in range(5)]
        d = [c[(x + 4) % 5] ^ _rotl(c[(x + 1) % 5], 1) for x in range(5)]
        b = {
            (y, (2 * x + 3 * y) % 5): _rotl(a[x, y] ^ d[x], ROTATIONS[x, y])
            for x in range(5)
            for y in range(5)
        }
        a = {(x, y): b[x, y] ^ (~b[(x + 1) % 5, y] & b[(x + 2) % 5, y]) for x in range(5) for y in range(5)}
        a[0, 0] = a[0, 0] ^ np.uint64(constant)
    return np.stack([a[i, 0] for i in range(4)], axis=1).view(np.uint8).reshape(n, 32)


def _tagged(tag: int, bodies: U8) -> U8:
    return keccak256(np.concatenate([np.full((len(bodies), 1), tag, np.uint8), bodies], axis=1))


def level_above(nodes: U8) -> U8:
    """uint8 [groups, n, 32] to [groups, ceil(n / 2), 32]."""
    groups, n, _ = nodes.shape
    pairs = np.ascontiguousarray(nodes[:, : n - n % 2]).reshape(-1, 64)
    above = _tagged(1, pairs).reshape(groups, n // 2, 32)
    return np.concatenate([above, nodes[:, n - n % 2 :]], axis=1)


def tree_levels(leaves: U8) -> list[U8]:
    """Levels of the tree over uint8 [n, 32], leaves first, the root as [1, 32] last."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        levels.append(level_above(levels[-1][None])[0])
    return levels


def row_roots(rows: U8) -> U8:
    """Chunk roots of rows uint8 [n, row_bytes >= 1]: uint8 [n, 32]."""
    n, size = rows.shape
    full = size // CHUNK
    leaves = []
    if full:
        chunks = np.ascontiguousarray(rows[:, : full * CHUNK]).reshape(-1, CHUNK)
        leaves.append(_tagged(0, chunks).reshape(n, full, 32))
    if size % CHUNK:
        leaves.append(_tagged(0, rows[:, full * CHUNK :])[:, None])
    nodes = np.concatenate(leaves, axis=1)
    while nodes.shape[1] > 1:
        nodes = level_above(nodes)
    return nodes[:, 0]


def row_leaves(roots: U8, tokens: NDArray[np.int64]) -> U8:
    """Row leaves of chunk roots uint8 [n, 32] at positions 0.. with ``tokens``."""
    head = np.stack([np.arange(len(tokens)), tokens], axis=1).astype(">u4").view(np.uint8)
    return _tagged(2, np.concatenate([head, roots], axis=1))
