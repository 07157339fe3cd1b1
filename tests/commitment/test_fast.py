"""The numba code against the reference, over shapes around every edge of the layout."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.commitment import fast, hashing
from verillm.commitment.merkle import MerkleTree
from verillm.constants import Tag
from verillm.errors import EncodingError, ProofError, RowError


def random_rows(seed: int, n: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 40), width=st.integers(1, 700), seed=st.integers(0, 2**32))
def test_row_roots_equal_the_reference(n, width, seed):
    rows = random_rows(seed, n, width)
    assert [r.tobytes() for r in fast.row_roots(rows)] == [hashing.row_chunk_root(r.tobytes()) for r in rows]


@pytest.mark.parametrize("layout", ["strided", "reversed", "fortran", "unaligned", "readonly"])
def test_row_roots_of_any_memory_layout(layout):
    rows = {
        "strided": random_rows(1, 9, 512)[::2, ::2],
        "reversed": random_rows(1, 9, 256)[::-1],
        "fortran": np.asfortranarray(random_rows(1, 9, 256)),
        "unaligned": random_rows(1, 1, 9 * 256 + 1).reshape(-1)[1:].reshape(9, 256),
        "readonly": np.frombuffer(random_rows(1, 9, 256).tobytes(), np.uint8).reshape(9, 256),
    }[layout]
    expected = [hashing.row_chunk_root(r.tobytes()) for r in rows]
    assert [r.tobytes() for r in fast.row_roots(rows)] == expected


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40), width=st.integers(1, 128), tag=st.sampled_from(list(Tag)), seed=st.integers(0, 99)
)
def test_messages_equal_keccak(n, width, tag, seed):
    bodies = random_rows(seed, n, width)
    expected = [hashing.keccak256(bytes([tag]) + body.tobytes()) for body in bodies]
    assert [h.tobytes() for h in fast.hash_messages(tag, bodies)] == expected


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 31, 32, 33, 100])
def test_tree_levels_equal_the_reference(count):
    leaves = random_rows(count, count, 32)
    levels, tree = fast.tree_levels(leaves), MerkleTree([leaf.tobytes() for leaf in leaves])
    assert levels[-1].tobytes() == tree.root
    assert all(fast.proof_of(levels, i) == tree.proof(i) for i in range(count))
    with pytest.raises(ProofError, match="index"):
        fast.proof_of(levels, count)


def test_token_and_boundary_trees_equal_the_reference():
    tokens = [0, 2**32 - 1, 7, 128255, 1]
    roots = random_rows(5, 5, 32)
    assert fast.token_levels(tokens)[-1].tobytes() == hashing.token_root(tokens)
    leaves = [hashing.row_leaf(t, tokens[t], roots[t].tobytes()) for t in range(5)]
    assert fast.boundary_levels(roots, tokens)[-1].tobytes() == MerkleTree(leaves).root


@pytest.mark.parametrize(
    "rows", [np.zeros((2, 0), np.uint8), np.zeros(4, np.uint8), np.zeros((2, 4), np.float32)]
)
def test_row_roots_refuse_other_shapes_and_dtypes(rows):
    with pytest.raises(RowError, match="rows"):
        fast.row_roots(rows)


def test_messages_and_levels_refuse_other_sizes():
    with pytest.raises(EncodingError, match="129 bytes"):
        fast.hash_messages(0, np.zeros((1, 129), np.uint8))
    with pytest.raises(EncodingError, match="leaves"):
        fast.tree_levels(np.zeros((0, 32), np.uint8))


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = sys.modules["torch"] = None
import verillm.commitment as commitment
from verillm.errors import ConfigError
assert commitment.token_list_hash([1]) != commitment.token_list_hash([2])
try:
    commitment.RowStore
except ConfigError as error:
    assert "verillm[worker]" in str(error)
else:
    raise SystemExit("RowStore loaded without numba")
"""


def test_the_package_imports_without_numba_and_the_worker_half_says_what_to_install():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)
