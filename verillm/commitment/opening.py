"""Openings of committed rows: what is sent, and the check against a signed commitment. Runs without numba."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from verillm.commitment import hashing
from verillm.commitment.merkle import root_from_proof
from verillm.constants import MAX_HIDDEN_SIZE, Dtype
from verillm.errors import EncodingError, ProofError, RowError
from verillm.types import Commitment

EXPONENTS = {
    Dtype.BF16: (np.uint16, np.uint16(0x7F80)),
    Dtype.FP16: (np.uint16, np.uint16(0x7C00)),
    Dtype.FP32: (np.uint32, np.uint32(0x7F800000)),
}
"""dtype: (word of a value, its exponent bits), which are all set in NaN and Inf."""
MAX_PROOF = 32
"""Most siblings in a proof: trees have at most 2^32 leaves."""


@dataclass(frozen=True)
class RowOpening:
    """One committed row and its proofs: ``row_proof`` in the boundary, ``boundary_proof`` among them.

    ``token`` is the id fed at ``position``; ``row`` is the row's storage bytes.
    """

    boundary: int
    position: int
    token: int
    row: bytes
    row_proof: tuple[bytes, ...]
    boundary_proof: tuple[bytes, ...]

    def to_json(self) -> dict[str, Any]:
        """Integers as numbers, bytes as 0x-hex."""
        return {
            "boundary": self.boundary,
            "position": self.position,
            "token": self.token,
            "row": _hex(self.row),
            "row_proof": [_hex(h) for h in self.row_proof],
            "boundary_proof": [_hex(h) for h in self.boundary_proof],
        }

    @classmethod
    def from_json(cls, value: object) -> RowOpening:
        """Inverse of ``to_json``. Raises EncodingError naming the field on anything else."""
        fields = ("boundary", "position", "token", "row", "row_proof", "boundary_proof")
        if not isinstance(value, Mapping) or set(value) != set(fields):
            raise EncodingError(f"opening: expected an object with exactly the fields {', '.join(fields)}")
        row = _unhex(value["row"], "opening.row")
        if not 1 <= len(row) <= MAX_HIDDEN_SIZE * Dtype.FP32.itemsize:
            raise EncodingError(f"opening.row: {len(row)} bytes is outside 1 to {MAX_HIDDEN_SIZE * 4}")
        return cls(
            boundary=_uint(value["boundary"], 16, "opening.boundary"),
            position=_uint(value["position"], 32, "opening.position"),
            token=_uint(value["token"], 32, "opening.token"),
            row=row,
            row_proof=_hashes(value["row_proof"], "opening.row_proof"),
            boundary_proof=_hashes(value["boundary_proof"], "opening.boundary_proof"),
        )


@dataclass(frozen=True)
class JobRootParts:
    """What the job root is made of beyond the signed commitment."""

    token_root: bytes
    boundaries_count: int
    boundaries_root: bytes


def verify_opening(
    opening: RowOpening,
    *,
    commitment: Commitment,
    model_id: bytes,
    parts: JobRootParts,
    dtype: Dtype,
    hidden_size: int,
) -> None:
    """Recompute the job root from the opened row. Raises ProofError naming boundary and position otherwise.

    The signature of ``commitment`` and the token at the position are the caller's to check.
    """
    where = f"opening of boundary {opening.boundary}, position {opening.position}"
    rows = commitment.prompt_tokens + commitment.output_tokens - 1
    if not 0 <= opening.boundary < parts.boundaries_count:
        raise ProofError(f"{where}: the job has {parts.boundaries_count} boundaries")
    if not 0 <= opening.position < rows:
        raise ProofError(f"{where}: the job has {rows} rows per boundary")
    try:
        check_row(opening.row, dtype, hidden_size)
        leaf = hashing.row_leaf(opening.position, opening.token, hashing.row_chunk_root(opening.row))
        rows_root = root_from_proof(leaf, opening.position, rows, opening.row_proof)
        boundary = hashing.boundary_root(opening.boundary, dtype, hidden_size, rows, rows_root)
        boundaries_root = root_from_proof(
            boundary, opening.boundary, parts.boundaries_count, opening.boundary_proof
        )
        root = expected_job_root(commitment, model_id, parts)
    except (EncodingError, ProofError, RowError) as error:
        raise ProofError(f"{where}: {error}") from error
    if boundaries_root != parts.boundaries_root:
        raise ProofError(f"{where}: row, token and proofs do not lead to boundaries_root")
    if root != commitment.job_root:
        raise ProofError(f"{where}: token_root, boundaries and counts do not make the signed job_root")


def expected_job_root(commitment: Commitment, model_id: bytes, parts: JobRootParts) -> bytes:
    """The job root that the commitment's fields and ``parts`` make. Raises EncodingError."""
    return hashing.job_root(
        job_id=commitment.job_id,
        operator=commitment.operator,
        model_id=model_id,
        prompt_tokens=commitment.prompt_tokens,
        output_tokens=commitment.output_tokens,
        finish_reason=commitment.finish_reason,
        token_root=parts.token_root,
        boundaries_count=parts.boundaries_count,
        boundaries_root=parts.boundaries_root,
    )


def check_row(row: bytes, dtype: Dtype, hidden_size: int) -> None:
    """Raise RowError unless ``row`` is ``hidden_size`` finite values of ``dtype``."""
    if len(row) != hidden_size * dtype.itemsize:
        raise RowError(f"row: {len(row)} bytes, expected {hidden_size} values of {dtype.name}")
    if not finite_rows(np.frombuffer(row, np.uint8)[None], dtype)[0]:
        raise RowError("row: contains NaN or Inf")


def finite_rows(rows: np.ndarray, dtype: Dtype) -> np.ndarray:
    """For each row of uint8 [n, d * itemsize]: are all values finite? bool [n]."""
    word, exponent = EXPONENTS[dtype]
    return ((rows.view(word) & exponent) != exponent).all(axis=1)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _unhex(value: object, name: str) -> bytes:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise EncodingError(f"{name}: expected a hex string that starts with 0x")
    try:
        decoded = bytes.fromhex(value[2:])
    except ValueError:
        raise EncodingError(f"{name}: not hex") from None
    if len(value) != 2 + 2 * len(decoded):  # fromhex skips white space
        raise EncodingError(f"{name}: not hex")
    return decoded


def _uint(value: object, bits: int, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise EncodingError(f"{name}: expected an integer from 0 to 2^{bits} - 1")
    return value


def _hashes(value: object, name: str) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) > MAX_PROOF:
        raise EncodingError(f"{name}: expected a list of at most {MAX_PROOF} hashes")
    hashes = tuple(_unhex(item, f"{name}[{i}]") for i, item in enumerate(value))
    for i, item in enumerate(hashes):
        if len(item) != 32:
            raise EncodingError(f"{name}[{i}]: {len(item)} bytes, expected 32")
    return hashes
