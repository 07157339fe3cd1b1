"""Trees and proofs: every honest proof passes, nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.commitment import hashing
from verillm.commitment.keccak import keccak256
from verillm.commitment.merkle import MerkleTree, node_hash, tree_root, verify_proof
from verillm.errors import EncodingError, ProofError


def leaves_of(count: int) -> list[bytes]:
    return [keccak256(bytes([i])) for i in range(count)]


def test_shape_is_rfc_9162():
    a, b, c, d, e = leaves_of(5)
    assert tree_root([a]) == a
    assert tree_root([a, b, c]) == node_hash(node_hash(a, b), c)
    assert tree_root([a, b, c, d, e]) == node_hash(node_hash(node_hash(a, b), node_hash(c, d)), e)
    assert node_hash(a, b) == keccak256(b"\x01" + a + b)


@settings(max_examples=50, deadline=None)
@given(count=st.integers(1, 70), data=st.data())
def test_proofs_pass_and_their_mutations_do_not(count, data):
    leaves = leaves_of(count)
    tree, index = MerkleTree(leaves), data.draw(st.integers(0, count - 1))
    proof, leaf, root = list(tree.proof(index)), leaves[index], tree.root
    verify_proof(leaf, index, count, proof, root)
    for other in (i for i in range(count) if i != index):
        with pytest.raises(ProofError):
            verify_proof(leaf, other, count, proof, root)
    for mutated in ([*proof, root], proof[:-1] if proof else [leaf]):
        with pytest.raises(ProofError, match="siblings"):
            verify_proof(leaf, index, count, mutated, root)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        bit = 1 << data.draw(st.integers(0, 255))
        flipped = (int.from_bytes(proof[at], "big") ^ bit).to_bytes(32, "big")
        with pytest.raises(ProofError, match="does not lead"):
            verify_proof(leaf, index, count, [*proof[:at], flipped, *proof[at + 1 :]], root)


@pytest.mark.parametrize(
    ("index", "count", "match"),
    [
        (0, 0, "count"),
        (0, -1, "count"),
        (0, 2**32 + 1, "count"),
        (-1, 3, "index"),
        (3, 3, "index"),
        (2**200, 3, "index"),
    ],
)
def test_impossible_places_are_refused(index, count, match):
    with pytest.raises(ProofError, match=match):
        verify_proof(bytes(32), index, count, [], bytes(32))


def test_wrong_sizes_are_refused():
    a, b = leaves_of(2)
    root = tree_root([a, b])
    with pytest.raises(ProofError, match="leaf: 31"):
        verify_proof(a[:31], 0, 2, [b], root)
    with pytest.raises(ProofError, match=r"proof\[0\]: 33"):
        verify_proof(a, 0, 2, [b + b"\0"], root)
    with pytest.raises(EncodingError, match="at least 1"):
        MerkleTree([])
    with pytest.raises(EncodingError, match=r"leaves\[1\]"):
        MerkleTree([a, b""])


def test_a_promoted_leaf_cannot_pass_for_a_duplicated_one():
    a, b, c = leaves_of(3)
    assert tree_root([a, b, c]) != tree_root([a, b, c, c])


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: hashing.row_leaf(2**32, 0, bytes(32)), "position"),
        (lambda: hashing.row_leaf(0, -1, bytes(32)), "token"),
        (lambda: hashing.row_leaf(0, 0, bytes(31)), "chunk_root"),
        (lambda: hashing.token_list_hash([1, 2**32]), r"tokens\[1\]"),
        (lambda: hashing.row_chunk_root(b""), "leaves"),
        (lambda: hashing.address_bytes("0x12", "operator"), "operator"),
        (lambda: hashing.address_bytes("zz" * 20, "operator"), "operator"),
    ],
)
def test_reference_refuses_what_does_not_fit(call, field):
    with pytest.raises(EncodingError, match=field):
        call()
