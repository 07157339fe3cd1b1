"""Trees of the kernels against the plain reference, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from verillm.commitment.hashing import row_leaf
from verillm.commitment.merkle import MerkleTree
from verillm.errors import EncodingError
from verillm.kernels import tree
from verillm.kernels.tree import boundary_levels, tree_levels

TOKENS = [0, 2**32 - 1, 7, 128255, 0x01020304]


def random_hashes(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, 32), dtype=np.uint8)


def as_bytes(level: torch.Tensor) -> list[bytes]:
    return [node.tobytes() for node in level.numpy()]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_levels_equal_the_reference(n):
    hashes = random_hashes(n)
    levels = tree_levels(torch.from_numpy(hashes).view(torch.int64))
    assert [as_bytes(level) for level in levels] == MerkleTree([h.tobytes() for h in hashes])._levels


def test_boundary_tree_binds_positions_and_tokens(monkeypatch):
    """Of records, so with gaps between roots; in programs of 4 leaves."""
    monkeypatch.setattr(tree, "lanes", lambda messages: 4)
    roots = random_hashes(5)
    records = torch.zeros((5, 9), dtype=torch.int64)
    records[:, 3:7] = torch.from_numpy(roots).view(torch.int64)
    levels = boundary_levels(records[:, 3:7], torch.tensor(TOKENS))
    leaves = [row_leaf(t, TOKENS[t], roots[t].tobytes()) for t in range(5)]
    assert [as_bytes(level) for level in levels] == MerkleTree(leaves)._levels


@pytest.mark.parametrize("shape", [(0, 4), (3, 3), (4,)])
def test_other_shapes_are_refused(shape):
    hashes = torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(EncodingError, match="leaves"):
        tree_levels(hashes)
    with pytest.raises(EncodingError, match="chunk_roots"):
        boundary_levels(hashes, torch.zeros(shape[0], dtype=torch.int64))
