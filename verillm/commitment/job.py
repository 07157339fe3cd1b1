"""A worker's rows while a job runs, and the commitment to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verillm.commitment import fast, hashing
from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.constants import MAX_HIDDEN_SIZE, Dtype, FinishReason
from verillm.errors import EncodingError, InvalidRequest, RowError

UINT32_MAX = 2**32 - 1
UINT16_MAX = 2**16 - 1


HASH_BLOCK = 32
"""Rows of a boundary that are hashed together: the kernel runs 16 hashes at once, and the chunk tree of one
row leaves most of them empty."""


class _Rows:
    """Growing uint8 [n, width]."""

    def __init__(self, width: int) -> None:
        self._data = np.empty((64, width), np.uint8)
        self.count = 0

    def append(self, block: fast.U8) -> None:
        self.count = self.place(block)

    def place(self, block: fast.U8) -> int:
        """Copy ``block`` behind the rows without counting it yet; returns the count that includes it."""
        end = self.count + block.shape[0]
        if end > self._data.shape[0]:
            grown = np.empty((max(end, 2 * self._data.shape[0]), self._data.shape[1]), np.uint8)
            grown[: self.count] = self.view
            self._data = grown
        self._data[self.count : end] = block
        return end

    def between(self, first: int, end: int) -> fast.U8:
        """Rows ``first`` to ``end`` - 1, counted or only placed."""
        return self._data[first:end]

    @property
    def view(self) -> fast.U8:
        return self._data[: self.count]


class RowStore:
    """Rows of one job by boundary and absolute position; checked as they arrive, hashed HASH_BLOCK at a time.

    ``boundaries`` is their number, ``hidden_size`` d, ``dtype`` the storage dtype. Not thread-safe.
    """

    def __init__(self, boundaries: int, hidden_size: int, dtype: Dtype) -> None:
        if not 1 <= boundaries <= UINT16_MAX:
            raise RowError(f"boundaries: {boundaries} is outside 1 to {UINT16_MAX}")
        if not 1 <= hidden_size <= MAX_HIDDEN_SIZE:
            raise RowError(f"hidden_size: {hidden_size} is outside 1 to {MAX_HIDDEN_SIZE}")
        self.boundaries, self.hidden_size, self.dtype = boundaries, hidden_size, Dtype(dtype)
        self.row_bytes = hidden_size * self.dtype.itemsize
        self._rows = [_Rows(self.row_bytes) for _ in range(boundaries)]
        self._roots = [_Rows(32) for _ in range(boundaries)]

    def append_rows(self, boundary: int, first_position: int, rows: fast.U8) -> None:
        """Append uint8 [k, row_bytes], the rows of positions ``first_position``...; they are copied.

        Raises RowError naming boundary and position on a gap, an overwrite, another shape or dtype, NaN
        or Inf; then nothing is stored.
        """
        where = self._place(boundary, first_position)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != self.row_bytes:
            raise RowError(
                f"{where}: {rows.dtype} {list(rows.shape)}, expected uint8 [k, {self.row_bytes}] "
                f"({self.hidden_size} values of {self.dtype.name})"
            )
        if first_position + rows.shape[0] > UINT32_MAX:
            raise RowError(f"{where}: {rows.shape[0]} rows pass the last position {UINT32_MAX}")
        end = (stored := self._rows[boundary]).place(rows)
        bad = fast.first_not_finite(stored.between(first_position, end), self.dtype)
        if bad is not None:
            raise RowError(
                f"boundary {boundary}, position {first_position + bad}: the row contains NaN or Inf"
            )
        stored.count = end
        if end - self._roots[boundary].count >= HASH_BLOCK:
            self._hash(boundary)

    def _place(self, boundary: int, first_position: int) -> str:
        """What errors call the place of rows that are to come next. Raises RowError if they are not."""
        where = f"boundary {boundary}, position {first_position}"
        if not 0 <= boundary < self.boundaries:
            raise RowError(f"{where}: the store has boundaries 0 to {self.boundaries - 1}")
        if first_position != (expected := self.count(boundary)):
            problem = "a gap" if first_position > expected else "an overwrite"
            raise RowError(f"{where}: {problem}; the next position is {expected}")
        return where

    def _hash(self, boundary: int) -> None:
        """Hash the rows that wait."""
        rows, roots = self._rows[boundary], self._roots[boundary]
        if roots.count < rows.count:
            roots.append(fast.row_roots(rows.between(roots.count, rows.count)))

    def count(self, boundary: int) -> int:
        """Rows stored at ``boundary``; the next position."""
        return self._rows[boundary].count

    def rows(self, boundary: int) -> fast.U8:
        """Rows so far, uint8 [n, row_bytes]; a read-only view."""
        view = self._rows[boundary].view
        view.flags.writeable = False
        return view

    def chunk_roots(self, boundary: int) -> fast.U8:
        """Chunk roots so far, uint8 [n, 32]; a read-only view."""
        self._hash(boundary)
        view = self._roots[boundary].view
        view.flags.writeable = False
        return view


class _Boundaries:
    """Trees over the first ``len(fed)`` rows of every boundary, and over the boundary roots."""

    def __init__(self, store: RowStore, fed: Sequence[int]) -> None:
        for boundary in range(store.boundaries):
            if (have := store.count(boundary)) != len(fed):
                raise RowError(f"boundary {boundary}: {have} rows, {len(fed)} tokens were fed")
        ids = np.asarray(fed, np.int64)
        self.row_levels = [fast.boundary_levels(store.chunk_roots(b), ids) for b in range(store.boundaries)]
        self.roots = [
            hashing.boundary_root(b, store.dtype, store.hidden_size, len(fed), levels[-1].tobytes())
            for b, levels in enumerate(self.row_levels)
        ]
        self.levels = fast.tree_levels(np.frombuffer(b"".join(self.roots), np.uint8).reshape(-1, 32))

    @property
    def root(self) -> bytes:
        return self.levels[-1].tobytes()


def _check_tokens(tokens: Sequence[int]) -> list[int]:
    ids = [int(token) for token in tokens]
    for position, token in enumerate(ids):
        if not 0 <= token <= UINT32_MAX:
            raise EncodingError(f"tokens[{position}]: {token} is outside 0 to {UINT32_MAX}")
    if not ids:
        raise RowError("tokens: none; a commitment needs at least 1 row")
    return ids


def prefill_root(store: RowStore, tokens: Sequence[int]) -> bytes:
    """boundariesRoot of a prefill: row t of each boundary belongs to ``tokens[t]``, one row per token.

    Raises RowError if counts differ, EncodingError if a token id is not u32.
    """
    return _Boundaries(store, _check_tokens(tokens)).root


@dataclass(frozen=True)
class CommittedJob:
    """A committed job: its roots, and openings of its rows and tokens. Made by ``build_commitment``."""

    job_root: bytes
    token_root: bytes
    boundaries_root: bytes
    boundary_roots: tuple[bytes, ...]
    tokens: tuple[int, ...]
    _store: RowStore
    _trees: _Boundaries
    _token_levels: list[fast.U8]

    @property
    def parts(self) -> JobRootParts:
        return JobRootParts(self.token_root, len(self.boundary_roots), self.boundaries_root)

    @property
    def rows_per_boundary(self) -> int:
        return len(self.tokens) - 1

    def open_row(self, boundary: int, position: int) -> RowOpening:
        """The row at (boundary, position) with its proofs. Raises ProofError if there is none."""
        boundary_proof = fast.proof_of(self._trees.levels, boundary)
        row_proof = fast.proof_of(self._trees.row_levels[boundary], position)
        row = self._store.rows(boundary)[position].tobytes()
        return RowOpening(boundary, position, self.tokens[position], row, row_proof, boundary_proof)

    def open(self, position: int) -> list[RowOpening]:
        """The rows of every boundary at ``position``. Raises ProofError if there is none."""
        return [self.open_row(boundary, position) for boundary in range(len(self.boundary_roots))]

    def token_proof(self, position: int) -> tuple[bytes, ...]:
        """Proof of token ``position`` in the token tree. Raises ProofError if there is none."""
        return fast.proof_of(self._token_levels, position)


def build_commitment(
    store: RowStore,
    *,
    job_id: bytes,
    operator: str,
    model_id: bytes,
    tokens: Sequence[int],
    prompt_tokens: int,
    finish_reason: FinishReason,
) -> CommittedJob:
    """Commit to a finished job: ``tokens`` is prompt and output (P + O).

    The store has P + O - 1 rows per boundary and must not grow afterwards. Raises InvalidRequest, RowError or
    EncodingError.
    """
    ids = _check_tokens(tokens)
    if not 1 <= prompt_tokens < len(ids):
        raise InvalidRequest(f"prompt_tokens: {prompt_tokens} is outside 1 to {len(ids) - 1} (tokens - 1)")
    trees = _Boundaries(store, ids[:-1])
    token_levels = fast.token_levels(ids)
    token_root = token_levels[-1].tobytes()
    root = hashing.job_root(
        job_id=job_id,
        operator=operator,
        model_id=model_id,
        prompt_tokens=prompt_tokens,
        output_tokens=len(ids) - prompt_tokens,
        finish_reason=finish_reason,
        token_root=token_root,
        boundaries_count=store.boundaries,
        boundaries_root=trees.root,
    )
    roots = tuple(trees.roots)
    return CommittedJob(root, token_root, trees.root, roots, tuple(ids), store, trees, token_levels)
