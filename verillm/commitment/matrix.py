"""The output matrix's tree, whose root is in the model id: proofs of its rows decide token fraud on chain."""

from __future__ import annotations

import numpy as np

from verillm.commitment import fast


class OutputMatrix:
    """Tree over W as uint8 [vocab, row_bytes] (weight dtype, little-endian). Keeps a view, not a copy, of W.

    Raises RowError on another shape or dtype.
    """

    def __init__(self, rows: fast.U8) -> None:
        self._rows = rows
        self._levels = fast.matrix_levels(rows)

    @property
    def root(self) -> bytes:
        return self._levels[-1].tobytes()

    @property
    def vocab_size(self) -> int:
        return self._rows.shape[0]

    def row(self, token: int) -> bytes:
        """W[token] in the weight dtype. Raises ProofError if the vocabulary has no such token."""
        fast.proof_path(token, self.vocab_size)
        return np.ascontiguousarray(self._rows[token]).tobytes()

    def proof(self, token: int) -> tuple[bytes, ...]:
        """Siblings of W[token]'s leaf, bottom-up. Raises ProofError if the vocabulary has no such token."""
        return fast.proof_of(self._levels, token)
