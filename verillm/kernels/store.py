"""A ``RowStore`` whose rows may still be on their way from the device."""

from __future__ import annotations

import numpy as np

from verillm.commitment.fast import U8
from verillm.commitment.job import UINT32_MAX, RowStore
from verillm.constants import Dtype
from verillm.errors import RowError
from verillm.kernels.stream import HashedRows


class DeviceRowStore(RowStore):
    """A ``RowStore`` that also takes rows which a device hashes. Reading a boundary (``rows``,
    ``chunk_roots``, a commitment) waits for its rows, and raises RowError naming boundary and position if
    one holds NaN or Inf; it does so each time, so a bad row never gets into a commitment.
    """

    def __init__(self, boundaries: int, hidden_size: int, dtype: Dtype) -> None:
        super().__init__(boundaries, hidden_size, dtype)
        self._pending: list[list[HashedRows]] = [[] for _ in range(boundaries)]

    def append_hashed(self, boundary: int, first_position: int, hashed: HashedRows) -> None:
        """Append the rows of positions ``first_position``... without waiting for them.

        Raises RowError naming boundary and position on a gap, an overwrite or another row size.
        """
        where = self._place(boundary, first_position)
        if hashed.row_bytes != self.row_bytes:
            raise RowError(f"{where}: rows of {hashed.row_bytes} bytes, expected {self.row_bytes}")
        if first_position + len(hashed) > UINT32_MAX:
            raise RowError(f"{where}: {len(hashed)} rows pass the last position {UINT32_MAX}")
        self._pending[boundary].append(hashed)

    def append_rows(self, boundary: int, first_position: int, rows: U8) -> None:
        """As ``RowStore.append_rows``, after the rows that are on their way."""
        if 0 <= boundary < self.boundaries:
            self._collect(boundary)
        super().append_rows(boundary, first_position, rows)

    def count(self, boundary: int) -> int:
        """Rows of ``boundary``, those on their way included; the next position."""
        return super().count(boundary) + sum(map(len, self._pending[boundary]))

    def rows(self, boundary: int) -> U8:
        """As ``RowStore.rows``; waits. Raises RowError for NaN or Inf."""
        self._collect(boundary)
        return super().rows(boundary)

    def chunk_roots(self, boundary: int) -> U8:
        """As ``RowStore.chunk_roots``; waits. Raises RowError for NaN or Inf."""
        self._collect(boundary)
        return super().chunk_roots(boundary)

    def _collect(self, boundary: int) -> None:
        pending = self._pending[boundary]
        if pending:
            super().chunk_roots(boundary)  # host rows before these are hashed by now, so roots stay in order
        while pending:
            rows, roots, finite = pending[0].wait()
            if not finite.all():
                bad = super().count(boundary) + int(np.argmin(finite))
                raise RowError(f"boundary {boundary}, position {bad}: the row contains NaN or Inf")
            self._rows[boundary].append(rows)
            self._roots[boundary].append(roots)
            del pending[0]
