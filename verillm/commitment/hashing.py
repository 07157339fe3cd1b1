"""Reference hashing of section 1 of ``docs/protocol.md``: plain, slow, obvious. ``fast`` must equal it.

Integers in preimages are big-endian; row bytes are the values' little-endian storage bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from verillm.commitment.keccak import keccak256
from verillm.commitment.merkle import HASH_BYTES, tree_root
from verillm.constants import CHUNK_BYTES, Dtype, FinishReason, Tag
from verillm.errors import EncodingError

ADDRESS_BYTES = 20


def uint_bytes(value: int, bits: int, name: str) -> bytes:
    """``value`` as a big-endian ``bits``-bit unsigned integer. Raises EncodingError naming ``name``."""
    if not 0 <= value < 1 << bits:
        raise EncodingError(f"{name}: {value} is outside 0 to 2^{bits} - 1")
    return int(value).to_bytes(bits // 8, "big")


def hash_bytes(value: bytes, name: str) -> bytes:
    """``value`` if it is 32 bytes. Raises EncodingError naming ``name``."""
    if len(value) != HASH_BYTES:
        raise EncodingError(f"{name}: {len(value)} bytes, expected {HASH_BYTES}")
    return value


def address_bytes(address: str, name: str) -> bytes:
    """The 20 bytes of a hex address "0x…". Raises EncodingError naming ``name``."""
    try:
        raw = bytes.fromhex(address.removeprefix("0x"))
    except ValueError:
        raise EncodingError(f"{name}: {address!r} is not a hex address") from None
    if address[:2] != "0x" or len(raw) != ADDRESS_BYTES or len(address) != 2 + 2 * ADDRESS_BYTES:
        raise EncodingError(f"{name}: {address!r} is not 0x and {ADDRESS_BYTES} bytes of hex")
    return raw


def chunk_leaves(row: bytes) -> list[bytes]:
    """H(0x00 || chunk) for each 128-byte chunk; the last may be shorter. The row has at least 1 byte."""
    tag = bytes([Tag.CHUNK])
    return [keccak256(tag + row[i : i + CHUNK_BYTES]) for i in range(0, len(row), CHUNK_BYTES)]


def row_chunk_root(row: bytes) -> bytes:
    """Tree over the row's chunk leaves."""
    return tree_root(chunk_leaves(row))


def row_leaf(position: int, token: int, chunk_root: bytes) -> bytes:
    """H(0x02 || u32 position || u32 token || chunkRoot)."""
    return keccak256(
        bytes([Tag.ROW])
        + uint_bytes(position, 32, "position")
        + uint_bytes(token, 32, "token")
        + hash_bytes(chunk_root, "chunk_root")
    )


def boundary_root(boundary: int, dtype: Dtype, hidden_size: int, count: int, rows_root: bytes) -> bytes:
    """H(0x04 || u16 boundary || u8 dtype || u32 d || u32 n || Tree(row leaves))."""
    return keccak256(
        bytes([Tag.BOUNDARY])
        + uint_bytes(boundary, 16, "boundary")
        + uint_bytes(dtype, 8, "dtype")
        + uint_bytes(hidden_size, 32, "hidden_size")
        + uint_bytes(count, 32, "count")
        + hash_bytes(rows_root, "rows_root")
    )


def token_leaf(position: int, token: int) -> bytes:
    """H(0x03 || u32 position || u32 token)."""
    return keccak256(
        bytes([Tag.TOKEN])
        + uint_bytes(position, 32, "position")
        + uint_bytes(token, 32, f"tokens[{position}]")
    )


def token_root(tokens: Sequence[int]) -> bytes:
    """Tree over the token leaves of prompt and output."""
    return tree_root([token_leaf(t, token) for t, token in enumerate(tokens)])


def token_list_hash(tokens: Sequence[int]) -> bytes:
    """H(0x09 || u32 each): ``prompt_hash`` of a job."""
    return keccak256(
        bytes([Tag.TOKEN_LIST]) + b"".join(uint_bytes(v, 32, f"tokens[{i}]") for i, v in enumerate(tokens))
    )


def matrix_row_leaf(token: int, row: bytes) -> bytes:
    """H(0x08 || u32 token || Tree(chunk leaves)); ``row`` is W[token] in the weight dtype."""
    return keccak256(bytes([Tag.MATRIX_ROW]) + uint_bytes(token, 32, "token") + row_chunk_root(row))


def job_root(
    *,
    job_id: bytes,
    operator: str,
    model_id: bytes,
    prompt_tokens: int,
    output_tokens: int,
    finish_reason: FinishReason,
    token_root: bytes,
    boundaries_count: int,
    boundaries_root: bytes,
) -> bytes:
    """H(0x05 || jobId || operator || modelId || u32 P || u32 O || u8 finish || tokenRoot || u16 B
    || boundariesRoot).

    ``operator`` is a hex address; P and O count prompt and output tokens.
    """
    return keccak256(
        bytes([Tag.JOB])
        + hash_bytes(job_id, "job_id")
        + address_bytes(operator, "operator")
        + hash_bytes(model_id, "model_id")
        + uint_bytes(prompt_tokens, 32, "prompt_tokens")
        + uint_bytes(output_tokens, 32, "output_tokens")
        + uint_bytes(finish_reason, 8, "finish_reason")
        + hash_bytes(token_root, "token_root")
        + uint_bytes(boundaries_count, 16, "boundaries_count")
        + hash_bytes(boundaries_root, "boundaries_root")
    )
