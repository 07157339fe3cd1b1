"""What a verifier saw of a job, before any verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verillm.comparator.compare import rows_statistics
from verillm.comparator.direction import Direction, direction, unit_deviations
from verillm.constants import Dtype
from verillm.errors import RowError


@dataclass(frozen=True)
class RowComparison:
    """D and N (``compare.row_statistics``) of the rows at one boundary and position."""

    boundary: int
    position: int
    d: int
    n: int


@dataclass(frozen=True)
class JobObservation:
    """What a verifier saw. ``directions``: at most one per boundary. ``margins``: (position of the token,
    margin Q24) of every output token.
    ``finish_position``: position of the last output token, or of the first that breaks the finish rule.
    ``unable``: why the verifier could not check, if it could not."""

    rows: tuple[RowComparison, ...]
    margins: tuple[tuple[int, int], ...]
    directions: tuple[Direction, ...] = ()
    finish_ok: bool = True
    finish_position: int = 0
    unable: str | None = None


def stack_rows(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    """Rows of one boundary as uint8 [n, row_bytes]. Raises RowError if their sizes differ."""
    sizes = sorted({len(row) for row in rows})
    if len(sizes) != 1:
        raise RowError(f"row: sizes of {sizes} bytes at one boundary; rows of one model are equally long")
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), sizes[0])


Pair = tuple[int, int, int, bytes, bytes]
"""(boundary, position, token, one row, the other)."""


def compare_pairs(
    pairs: Iterable[Pair], dtype: Dtype
) -> tuple[tuple[RowComparison, ...], tuple[Direction, ...]]:
    """``compare_rows`` of each boundary, in order. Raises RowError."""
    by_boundary: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_boundary.setdefault(pair[0], []).append(pair)
    rows: tuple[RowComparison, ...] = ()
    shared: tuple[Direction, ...] = ()
    for boundary, members in sorted(by_boundary.items()):
        _, positions, tokens, first, second = zip(*members, strict=True)
        found = compare_rows(boundary, positions, tokens, stack_rows(first), stack_rows(second), dtype)
        rows, shared = rows + found[0], shared + found[1]
    return rows, shared


def compare_rows(
    boundary: int,
    positions: Sequence[int],
    tokens: Sequence[int],
    a: NDArray[np.uint8],
    b: NDArray[np.uint8],
    dtype: Dtype,
) -> tuple[tuple[RowComparison, ...], tuple[Direction, ...]]:
    """Rows ``a[i]`` and ``b[i]`` of ``tokens[i]`` at ``positions[i]`` of one boundary, uint8 [n, row_bytes]
    both: their comparisons, and the direction that their deviations share, if they have one. Raises RowError.
    """
    d, n = rows_statistics(a, b, dtype)
    rows = tuple(
        RowComparison(boundary, position, int(x), int(y))
        for position, x, y in zip(positions, d, n, strict=True)
    )
    shared = direction(boundary, unit_deviations(a, b, dtype), positions, tokens)
    return rows, () if shared is None else (shared,)
