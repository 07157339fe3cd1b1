"""Hostile protobuf out of valid messages: fields change in the parsed message, so that most of what comes out
parses, and sometimes bytes afterwards."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from tests.fuzz.mutate import EDGES, Mutator, mutate_bytes, varint
from tests.fuzz.reader import Reader, pack

MOST, MOST_BYTES = 5000, 2**22
"""Items of a repeated field and their bytes, about, so that inputs of several edits stay small enough to make
a million of them."""


def proto_mutator(kind: Any) -> Mutator:
    """A mutator of serialised messages of one class."""

    def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
        if rng.random() < 0.2:
            return mutate_bytes(rng, data, other)
        if rng.random() < 0.02:
            group = rng.choice((b"\x0b", b"\x0a\x7f", varint((7 << 3) | 3)))
            return data + group * rng.choice((50, 101, 5000))
        message = kind.FromString(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _change(rng, message)
        return message.SerializeToString()

    return mutate


def _change(rng: Random, message: Any) -> None:
    """Change one field somewhere in the message."""
    while True:
        field = rng.choice(message.DESCRIPTOR.fields)
        inner = field.message_type is not None
        if not inner or rng.random() < 0.15:
            break
        children = getattr(message, field.name) if field.is_repeated else [getattr(message, field.name)]
        if not children or (not field.is_repeated and not message.HasField(field.name)):
            break
        message = rng.choice(children)
        if not message.DESCRIPTOR.fields:
            return
    if field.is_repeated:
        _change_repeated(rng, getattr(message, field.name), field)
    elif inner or rng.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(rng, field, getattr(message, field.name)))


def _change_repeated(rng: Random, items: Any, field: Any) -> None:
    old = list(items)
    inner = field.message_type is not None
    match rng.randrange(6):
        case 0:
            new = old[:-1]
        case 1:
            new = old[1:]
        case 2:
            new = old * rng.choice((2, 2, 3, 40))
        case 3:
            new = []
        case 4 if inner:
            new = [*old, type(old[0])()] if old else [field.message_type._concrete_class()]
        case 5 if inner:
            new = [field.message_type._concrete_class()] * rng.choice((1, 9, 3000))
        case 5:
            item = _scalar(rng, field, old[0] if old else None)
            new = [item] * rng.choice((1, 33, 3000 if isinstance(item, int) or len(item) < 100 else 2))
        case _:
            at = rng.randrange(len(old)) if old else 0
            swapped = [_scalar(rng, field, old[at])] if old and not inner else []
            new = [*old[:at], *swapped, *old[at + 1 :], *old[:1]]
    largest = max((item.ByteSize() if inner else len(str(item)) for item in new[:1]), default=0)
    new = new[: min(MOST, MOST_BYTES // (largest + 1) + 1)]
    copies = [type(item).FromString(item.SerializeToString()) for item in new] if inner else new
    del items[:]
    items.extend(copies)


def _scalar(rng: Random, field: Any, old: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        old = old if isinstance(old, bytes) else b""
        at = rng.randrange(len(old) + 1)
        changed = old[:at] + rng.randbytes(1) + old[at + 1 :]
        others = (b"", rng.randbytes(2), bytes(len(old)), b"\xff" * len(old), bytes(rng.choice((33, 40_000))))
        return rng.choice((*others, changed, old[:-1], old + b"\0", b"\0" + old, rng.randbytes(len(old))))
    if field.type == field.TYPE_STRING:
        return rng.choice(("", "\0", "é" * 600, "x" * 70_000, str(old) + "\U0001f600"))
    if field.type == field.TYPE_DOUBLE:
        (anything,) = struct.unpack("d", rng.randbytes(8))
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e308, anything))
    old = old if isinstance(old, int) else 0
    top = 2**32 - 1 if field.type == field.TYPE_UINT32 else 2**64 - 1
    value = rng.choice(
        (old + 1, old - 1, old ^ 1 << rng.randrange(32), rng.choice(EDGES), rng.randrange(300))
    )
    return min(max(value, 0), top)


def sequence_mutator(item: Mutator) -> Mutator:
    """A mutator of ``reader.pack``ed lists of messages: one of them changes, or the order does."""

    def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
        items, others = Reader(data).blobs(), Reader(other).blobs()
        if not items:
            return mutate_bytes(rng, data, other)
        at = rng.randrange(len(items))
        match rng.randrange(8):
            case 0:
                items.insert(at, items[rng.randrange(len(items))])
            case 1:
                del items[at]
            case 2:
                items = items[:at] + others[rng.randrange(len(others)) :]
            case 3:
                return mutate_bytes(rng, data, other)
            case _:
                items[at] = item(rng, items[at], rng.choice(others))
        return pack(items)

    return mutate
