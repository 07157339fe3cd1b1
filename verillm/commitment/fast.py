"""Batched hashing and trees for workers, on arrays: bit-exact with ``hashing``. Needs numba (``kernel``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verillm.commitment import kernel
from verillm.commitment.merkle import proof_path
from verillm.commitment.opening import EXPONENTS
from verillm.constants import Dtype, Tag
from verillm.errors import EncodingError, RowError

U8 = npt.NDArray[np.uint8]
U64 = kernel.U64


def _as_words(data: U8) -> U64:
    """uint8 [n, k] as flat u64, each row zero-padded to a multiple of 8 bytes."""
    n, k = data.shape
    if k % 8:
        padded = np.zeros((n, k + 8 - k % 8), np.uint8)
        padded[:, :k] = data
        data = padded
    return np.require(data, requirements=["C", "A"]).reshape(-1).view(np.uint64)


def hash_messages(tag: int, bodies: U8) -> U8:
    """keccak256(tag || body) of each row of ``bodies`` (uint8 [n, k], 1 <= k <= 128): uint8 [n, 32]."""
    n, k = bodies.shape
    if not 1 <= k <= 128:
        raise EncodingError(f"bodies: {k} bytes per message is outside 1 to 128")
    return kernel.hash_all(_as_words(bodies), n, (k + 7) // 8, k, int(tag)).view(np.uint8).reshape(n, 32)


def row_roots(rows: U8) -> U8:
    """Chunk root of each row: uint8 [n, row_bytes] to uint8 [n, 32]. Raises RowError."""
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] == 0:
        raise RowError(f"rows: {rows.dtype} {list(rows.shape)}, expected uint8 [n, row_bytes >= 1]")
    n, row_bytes = rows.shape
    return kernel.row_roots(_as_words(rows), n, (row_bytes + 7) // 8, row_bytes).view(np.uint8).reshape(n, 32)


def first_not_finite(rows: U8, dtype: Dtype) -> int | None:
    """Index of the first row of uint8 [n, row_bytes] that holds NaN or Inf, or None."""
    word, exponent = EXPONENTS[dtype]
    index = kernel.first_with(np.require(rows, requirements=["C", "A"]).view(word), exponent)
    return index if index < len(rows) else None


def u32_columns(*columns: npt.ArrayLike) -> U8:
    """Each column as big-endian u32, side by side: uint8 [n, 4 * columns]."""
    out = np.empty((len(np.asarray(columns[0])), len(columns)), ">u4")
    for i, column in enumerate(columns):
        out[:, i] = column
    return out.view(np.uint8)


def tree_levels(leaves: U8) -> list[U8]:
    """All levels of the tree over ``leaves`` (uint8 [n >= 1, 32]), leaves first, the root as [1, 32] last."""
    if leaves.ndim != 2 or leaves.shape[0] == 0 or leaves.shape[1] != 32:
        raise EncodingError(f"leaves: shape {list(leaves.shape)}, expected [n >= 1, 32]")
    levels = [leaves]
    while (count := levels[-1].shape[0]) > 1:
        levels.append(kernel.tree_level(_as_words(levels[-1]), count).view(np.uint8).reshape(-1, 32))
    return levels


def boundary_levels(chunk_roots: U8, tokens: npt.ArrayLike) -> list[U8]:
    """Levels of a boundary's tree: row t has chunk root ``chunk_roots[t]`` and token ``tokens[t]``."""
    positions = np.arange(chunk_roots.shape[0])
    return tree_levels(hash_messages(Tag.ROW, np.hstack([u32_columns(positions, tokens), chunk_roots])))


def token_levels(tokens: npt.ArrayLike) -> list[U8]:
    """Levels of the token tree."""
    ids = np.asarray(tokens, np.int64)
    return tree_levels(hash_messages(Tag.TOKEN, u32_columns(np.arange(ids.shape[0]), ids)))


def matrix_levels(rows: U8) -> list[U8]:
    """Levels of the output matrix's tree: ``rows`` is uint8 [vocab, row_bytes] in the weight dtype."""
    ids = u32_columns(np.arange(rows.shape[0]))
    return tree_levels(hash_messages(Tag.MATRIX_ROW, np.hstack([ids, row_roots(rows)])))


def matrix_root(rows: U8) -> bytes:
    """Output matrix root of uint8 [vocab, row_bytes]."""
    return matrix_levels(rows)[-1].tobytes()


def proof_of(levels: list[U8], index: int) -> tuple[bytes, ...]:
    """Siblings of leaf ``index``, bottom-up. Raises ProofError if there is no such leaf."""
    return tuple(levels[level][i].tobytes() for level, i in proof_path(index, levels[0].shape[0]))
