"""The GPU script's own reference against the project's."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import plain_keccak
from verillm.commitment import hashing
from verillm.commitment.merkle import MerkleTree


def random_bytes(n: int, width: int) -> np.ndarray:
    return np.random.default_rng(width).integers(0, 256, (n, width), dtype=np.uint8)


@pytest.mark.parametrize("width", [1, 127, 128, 129, 640, 1154])
def test_row_roots_equal_the_reference(width):
    rows = random_bytes(3, width)
    got = [root.tobytes() for root in plain_keccak.row_roots(rows)]
    assert got == [hashing.row_chunk_root(row.tobytes()) for row in rows]


def test_boundary_trees_equal_the_reference():
    roots, tokens = random_bytes(7, 32), np.array([0, 2**32 - 1, 1, 2, 3, 4, 128255])
    levels = plain_keccak.tree_levels(plain_keccak.row_leaves(roots, tokens))
    leaves = [hashing.row_leaf(t, int(tokens[t]), roots[t].tobytes()) for t in range(7)]
    assert levels[-1].tobytes() == MerkleTree(leaves).root
