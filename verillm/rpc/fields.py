"""Checked conversions of protobuf field values. Each raises EncodingError with the field's name and limit."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any, TypeVar

from eth_utils import to_checksum_address
from google.protobuf.message import DecodeError, Message

from verillm.commitment.opening import MAX_PROOF
from verillm.errors import EncodingError

HASH_BYTES = 32

E = TypeVar("E", bound=IntEnum)
M = TypeVar("M", bound=Message)


def message(kind: type[M], name: str, **values: Any) -> M:
    """``kind(**values)``, or EncodingError naming the first field whose value protobuf refuses."""
    try:
        return kind(**values)
    except (TypeError, ValueError):
        for field, value in values.items():
            try:
                kind(**{field: value})
            except (TypeError, ValueError) as error:
                raise EncodingError(f"{name}.{field}: {error}") from error
        raise


def parse(kind: type[M], data: bytes, name: str) -> M:
    """The message of these bytes, or EncodingError."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise EncodingError(f"{name}: is no serialised {kind.__name__}: {error}") from error


def sized(value: bytes, length: int, name: str) -> bytes:
    """``value`` if it has ``length`` bytes."""
    if len(value) != length:
        raise EncodingError(f"{name}: has {len(value)} bytes; it must have {length}")
    return value


def address_hex(value: bytes, name: str) -> str:
    """Checksummed hex of 20 bytes."""
    return to_checksum_address(sized(value, 20, name))


def at_most(value: int, limit: int, name: str) -> int:
    """``value`` if it is not above ``limit``."""
    if value > limit:
        raise EncodingError(f"{name}: {value} is above the limit {limit}")
    return value


def enum_value(kind: type[E], value: int, name: str) -> E:
    """The member of ``kind`` with this number."""
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(f"{int(member)} {member.name}" for member in kind)
        raise EncodingError(f"{name}: {value} is unknown; known: {known}") from error


def amount_bytes(value: int, bits: int, name: str) -> bytes:
    """Big-endian without leading zeros; 0 is empty."""
    if not 0 <= value < 1 << bits:
        raise EncodingError(f"{name}: {value} is outside 0 to 2^{bits} - 1")
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def amount(value: bytes, bits: int, name: str) -> int:
    """Inverse of ``amount_bytes``."""
    if len(value) > bits // 8:
        raise EncodingError(f"{name}: has {len(value)} bytes; the limit is {bits // 8}")
    if value[:1] == b"\0":
        raise EncodingError(f"{name}: starts with a zero byte; send no leading zeros")
    return int.from_bytes(value, "big")


def hash_tuple(values: Collection[bytes], name: str) -> tuple[bytes, ...]:
    """At most MAX_PROOF hashes of 32 bytes."""
    at_most(len(values), MAX_PROOF, f"{name}: number of hashes")
    return tuple(sized(item, HASH_BYTES, f"{name}[{i}]") for i, item in enumerate(values))
