"""Strict JSON codecs: what a field may be is said once, and used to write and to read it.

``decode`` raises EncodingError that names the field's path and its limit. Integers of more than 53 bits are
decimal strings, bytes are 0x-hex, enums are numbers, objects have exactly their fields.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from eth_utils import to_checksum_address

from verillm.errors import EncodingError

JSON_SAFE_BITS = 53
"""Larger integers lose digits in many JSON readers, so they travel as decimal strings."""
MAX_DEPTH = 32
"""Deepest nesting that is parsed: ``json`` recurses in C, and overflows the stack where a library has raised
the recursion limit."""
MAX_VALUES = 2**22
"""Most strings, brackets and commas that are parsed: an empty list takes 2 bytes of text and 56 of memory."""
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)
"""Strings (an unfinished one too, so that the scan stays linear), brackets and commas."""


def parse_json(text: str, name: str) -> Any:
    """The value of JSON text. Raises EncodingError for bad JSON, a repeated field, too deep nesting or too
    many values."""
    depth = 0
    for count, token in enumerate(_TOKENS.finditer(text)):
        if count == MAX_VALUES:
            raise EncodingError(f"{name}: has more than {MAX_VALUES} strings, brackets and commas")
        bracket = text[token.start()]
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > MAX_DEPTH:
            raise EncodingError(f"{name}: is nested deeper than {MAX_DEPTH} levels at byte {token.start()}")
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise EncodingError(f"{name}: is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a field appears twice")
    return value


class Codec(Protocol):
    """Writes and reads one kind of value; ``path`` is the field's name for messages."""

    def encode(self, value: Any) -> Any: ...

    def decode(self, value: Any, path: str) -> Any: ...


@dataclass(frozen=True)
class Uint:
    """An unsigned integer of ``bits`` bits."""

    bits: int

    def encode(self, value: int) -> int | str:
        return int(value) if self.bits <= JSON_SAFE_BITS else str(int(value))

    def decode(self, value: Any, path: str) -> int:
        if self.bits > JSON_SAFE_BITS:
            digits = value if isinstance(value, str) and len(value) <= 80 else ""
            if not (digits.isascii() and digits.isdigit()) or (digits != "0" and digits.startswith("0")):
                raise EncodingError(f"{path}: expected a decimal string without leading zeros")
            value = int(digits)
        if type(value) is not int or not 0 <= value < 1 << self.bits:
            raise EncodingError(f"{path}: expected an integer from 0 to 2^{self.bits} - 1")
        return value


@dataclass(frozen=True)
class Hex:
    """Bytes as lower-case 0x-hex, ``low`` to ``high`` of them."""

    low: int
    high: int

    def encode(self, value: bytes) -> str:
        return "0x" + value.hex()

    def decode(self, value: Any, path: str) -> bytes:
        limit = f"{self.low} bytes" if self.low == self.high else f"{self.low} to {self.high} bytes"
        if not isinstance(value, str) or not value.startswith("0x") or len(value) > 2 + 2 * self.high:
            raise EncodingError(f"{path}: expected 0x-hex of {limit}")
        try:
            data = bytes.fromhex(value[2:])
        except ValueError:
            raise EncodingError(f"{path}: is not hex; expected {limit}") from None
        if value != "0x" + data.hex() or not self.low <= len(data):
            raise EncodingError(f"{path}: expected lower-case 0x-hex of {limit}")
        return data


@dataclass(frozen=True)
class Address:
    """A checksummed hex address."""

    def encode(self, value: str) -> str:
        return value

    def decode(self, value: Any, path: str) -> str:
        data = Hex(20, 20).decode(value.lower() if isinstance(value, str) else value, path)
        if value != to_checksum_address(data):
            raise EncodingError(f"{path}: the address's checksum is wrong")
        return value


@dataclass(frozen=True)
class EnumCode:
    """An IntEnum by its number."""

    kind: type[IntEnum]

    def encode(self, value: IntEnum) -> int:
        return int(value)

    def decode(self, value: Any, path: str) -> IntEnum:
        known = {int(member): member for member in self.kind}
        if type(value) is not int or value not in known:
            names = ", ".join(f"{number} {member.name}" for number, member in known.items())
            raise EncodingError(f"{path}: {reprlib.repr(value)} is unknown; known: {names}")
        return known[value]


@dataclass(frozen=True)
class Text:
    """A string of at most ``limit`` UTF-8 bytes."""

    limit: int

    def encode(self, value: str) -> str:
        return value

    def decode(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise EncodingError(f"{path}: expected a string")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise EncodingError(f"{path}: holds a lone surrogate") from None
        if size > self.limit:
            raise EncodingError(f"{path}: has {size} bytes; the limit is {self.limit}")
        return value


@dataclass(frozen=True)
class Items:
    """A list of at most ``limit`` items; a tuple in Python."""

    item: Codec
    limit: int

    def encode(self, value: Sequence[Any]) -> list[Any]:
        return [self.item.encode(entry) for entry in value]

    def decode(self, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise EncodingError(f"{path}: expected a list")
        if len(value) > self.limit:
            raise EncodingError(f"{path}: has {len(value)} items; the limit is {self.limit}")
        return tuple(self.item.decode(entry, f"{path}[{i}]") for i, entry in enumerate(value))


@dataclass(frozen=True)
class Pair:
    """A list of exactly two values; a tuple in Python."""

    first: Codec
    second: Codec

    def encode(self, value: tuple[Any, Any]) -> list[Any]:
        return [self.first.encode(value[0]), self.second.encode(value[1])]

    def decode(self, value: Any, path: str) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise EncodingError(f"{path}: expected a list of 2")
        return self.first.decode(value[0], f"{path}[0]"), self.second.decode(value[1], f"{path}[1]")


class Record:
    """A dataclass as an object with exactly the named fields."""

    def __init__(self, kind: type[Any], **fields: Codec) -> None:
        self.kind, self.fields = kind, fields

    def encode(self, value: Any) -> dict[str, Any]:
        return {name: codec.encode(getattr(value, name)) for name, codec in self.fields.items()}

    def decode(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise EncodingError(f"{path}: expected an object")
        for name in self.fields.keys() - value.keys():
            raise EncodingError(f"{path}.{name}: is missing")
        for name in value.keys() - self.fields.keys():
            raise EncodingError(f"{path}: has an unknown field {str(name)[:40]!r}")
        return self.kind(**{name: c.decode(value[name], f"{path}.{name}") for name, c in self.fields.items()})
