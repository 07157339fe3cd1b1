"""Binary trees over 32-byte leaves, RFC 9162 shape: pair level by level, an odd last node moves up unchanged.

A proof is the list of siblings from the bottom up. The tree does not bind its count: callers do.
"""

from __future__ import annotations

from collections.abc import Sequence

from verillm.commitment.keccak import keccak256
from verillm.constants import Tag
from verillm.errors import EncodingError, ProofError

HASH_BYTES = 32
MAX_LEAVES = 2**32
_NODE = bytes([Tag.NODE])


def node_hash(left: bytes, right: bytes) -> bytes:
    """keccak256(0x01 || left || right)."""
    return keccak256(_NODE + left + right)


class MerkleTree:
    """All levels of a tree over ``leaves`` (32 bytes each, at least one). Raises EncodingError."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        if not leaves:
            raise EncodingError("leaves: a tree needs at least 1 leaf")
        for i, leaf in enumerate(leaves):
            if len(leaf) != HASH_BYTES:
                raise EncodingError(f"leaves[{i}]: {len(leaf)} bytes, a leaf has {HASH_BYTES}")
        self._levels: list[list[bytes]] = [[bytes(leaf) for leaf in leaves]]
        while len(level := self._levels[-1]) > 1:
            above = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            if len(level) % 2:
                above.append(level[-1])
            self._levels.append(above)

    @property
    def root(self) -> bytes:
        return self._levels[-1][0]

    def proof(self, index: int) -> tuple[bytes, ...]:
        """Siblings of leaf ``index``, bottom-up. Raises ProofError if there is no such leaf."""
        count = len(self._levels[0])
        return tuple(self._levels[level][i] for level, i in proof_path(index, count))


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Root of the tree over ``leaves``. Raises EncodingError."""
    return MerkleTree(leaves).root


def proof_path(index: int, count: int) -> list[tuple[int, int]]:
    """(level, index of the sibling in that level) for each element of leaf ``index``'s proof, bottom-up."""
    if not 1 <= count <= MAX_LEAVES:
        raise ProofError(f"count: {count} is outside 1 to {MAX_LEAVES}")
    if not 0 <= index < count:
        raise ProofError(f"index: {index} is outside 0 to {count - 1}")
    path, level = [], 0
    while count > 1:
        if index ^ 1 < count:
            path.append((level, index ^ 1))
        index, count, level = index // 2, (count + 1) // 2, level + 1
    return path


def root_from_proof(leaf: bytes, index: int, count: int, proof: Sequence[bytes]) -> bytes:
    """The root that ``proof`` leads to. Raises ProofError if index, count or any size is impossible."""
    path = proof_path(index, count)
    if len(proof) != len(path):
        raise ProofError(f"proof: {len(proof)} siblings, leaf {index} of {count} needs {len(path)}")
    if len(leaf) != HASH_BYTES:
        raise ProofError(f"leaf: {len(leaf)} bytes, expected {HASH_BYTES}")
    node = leaf
    for i, ((_, sibling_index), sibling) in enumerate(zip(path, proof, strict=True)):
        if len(sibling) != HASH_BYTES:
            raise ProofError(f"proof[{i}]: {len(sibling)} bytes, expected {HASH_BYTES}")
        node = node_hash(node, sibling) if sibling_index % 2 else node_hash(sibling, node)
    return node


def verify_proof(leaf: bytes, index: int, count: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise ProofError unless ``leaf`` is leaf ``index`` of the ``count``-leaf tree with ``root``."""
    if root_from_proof(leaf, index, count, proof) != root:
        raise ProofError(f"proof: leaf {index} of {count} does not lead to root 0x{root.hex()}")
