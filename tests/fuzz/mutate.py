"""Hostile inputs out of valid ones: bytes and JSON text. Every function is pure in its ``rng``."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes, bytes], bytes]
"""(rng, a valid input, another one to splice with) -> a hostile one."""

HUGE_VARINT = b"\xff" * 9 + b"\x01"
LENGTHS = (2**16, 2**31 - 1, 2**31, 2**32, 2**63)
"""Lengths and counts that the bytes behind them do not hold."""
EDGES = tuple(v for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64, 128, 256) for v in (2**bits - 1, 2**bits))
DEEP = 100_000
"""Levels of nesting where recursion would overflow."""


def varint(value: int) -> bytes:
    """Base-128 with continuation bits, as protobuf writes lengths and integers."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def cut(rng: Random, data: bytes) -> tuple[int, int]:
    """A random slice, mostly short."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 33, len(data))))


def mutate_bytes(rng: Random, data: bytes, other: bytes) -> bytes:
    """One to three edits: flips, extremes, truncation, extension, splice, repetition, huge length fields."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _edit(rng, data, other)
    return data


def _edit(rng: Random, data: bytes, other: bytes) -> bytes:
    start, end = cut(rng, data)
    head, middle, tail = data[:start], data[start:end], data[end:]
    match rng.randrange(12):
        case 0 | 1 if data:
            at = rng.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 2:
            return head + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF))]) * len(middle) + tail
        case 3:
            return head
        case 4:
            return data + rng.randbytes(rng.choice((1, 2, 32, 200)))
        case 5:
            return head + other[rng.randrange(len(other) + 1) :]
        case 6:
            return head + tail
        case 7:
            return head + middle * rng.choice((2, 3, 50)) + tail
        case 8:
            return head + varint(rng.choice(LENGTHS)) + data[min(start + 1, len(data)) :]
        case 9:
            return head + rng.choice((HUGE_VARINT, b"\xff" * 16, bytes(16))) + tail
        case 10:
            return rng.randbytes(rng.choice((0, 1, 2, 2, 16, 64, 300)))
        case _:
            return head + rng.randbytes(len(middle)) + tail


# JSON: values are changed in the parsed tree; what a tree cannot hold goes in as raw text afterwards.

_HOLE = "\x01hole"
_HOLE_TEXT = json.dumps(_HOLE)
JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 1.5, -0.0, float("nan"), float("inf"), -float("inf"), *EDGES, -(2**63),
    10**400, "", "0", "-1", "01", "0x", "0X00", "0xzz", "0x0", "0x" + "00" * 20, "0x" + "FF" * 32, "1e9",
    "\u0661", "\ud800", "\x00", "é" * 600, "9" * 80, "9" * 5000, "x" * 100_000, "0x" + "ab" * 40_000,
    [], {}, [[]], [{}], {"": 0}, [None] * 9, [0] * 2000, ["0x" + "11" * 32] * 33,
)  # fmt: skip
RAW = (
    "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, "[" * 900 + "]" * 900, "1e999999", "-", "9" * 6000,
    '{"a":1,"a":2}', '"\\ud800"', '"\\', "NaN", "-Infinity", "nul", "0x10", "'a'", "[1,]", "\x00", "",
    "[" + "0," * 70_000 + "0]", '"' + '\\"' * 50_000 + '"', "{}" * 3, "/* */ 1", "\u2028", "1.0E+2",
)  # fmt: skip


@lru_cache(64)
def _tree(data: bytes) -> tuple[Any, list[list[tuple[Any, ...]]]]:
    """The value, and its paths grouped by shape, so that a rare field is met as often as a common one."""
    value = json.loads(data)
    shapes: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}

    def walk(node: Any, path: tuple[Any, ...]) -> None:
        shapes.setdefault(tuple(p if isinstance(p, str) else "*" for p in path), []).append(path)
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in items:
            walk(child, (*path, key))

    walk(value, ())
    return value, list(shapes.values())


def mutate_json(rng: Random, data: bytes, other: bytes) -> bytes:
    """Type confusion, extremes, nesting, repeated and missing fields; now and then an edit of the text."""
    roll = rng.random()
    if roll < 0.08:
        return mutate_bytes(rng, data, other)
    if roll < 0.10:
        return rng.choice(RAW).encode()
    value, shapes = _tree(data)
    raw = ""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        path = rng.choice(rng.choice(shapes))
        new, text = _hostile(rng, _at(value, path), other)
        raw = text or raw
        value = _replaced(value, path, new)
    out = json.dumps(value, separators=(",", ":"))
    return (out.replace(_HOLE_TEXT, raw, 1) if raw else out).encode("utf-8", "surrogatepass")


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # an edit before this one took it away
            return None
    return value


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """``value`` with another node at ``path``; shares all else."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str):
        return {**value, step: _replaced(value.get(step), rest, new)}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [*value[:step], _replaced(value[step], rest, new), *value[step + 1 :]]
    return value


def _hostile(rng: Random, old: Any, other: bytes) -> tuple[Any, str]:
    """Another node for ``old``, and the raw text that its hole stands for, if any."""
    roll = rng.random()
    if roll < 0.05:
        return _HOLE, rng.choice(RAW)
    if roll < 0.25:
        return rng.choice(JUNK), ""
    if roll < 0.30:
        value, shapes = _tree(other)
        return _at(value, rng.choice(rng.choice(shapes))), ""
    if isinstance(old, dict) and old:
        name = rng.choice(list(old))
        less = {key: item for key, item in old.items() if key != name}
        twice = json.dumps(old)[:-1] + "," + json.dumps({name: old[name]})[1:]
        return rng.choice(((less, ""), ({**old, rng.choice(("x", "", "\ud800")): 0}, ""), (_HOLE, twice)))
    if isinstance(old, list):
        times = rng.choice((0, 2, 9, 40))
        return rng.choice((old[:-1], old[1:], old[::-1], old + old[-1:], old * times)), ""
    if isinstance(old, str):
        return _other_text(rng, old), ""
    if isinstance(old, int):
        return rng.choice((old + 1, old - 1, -old, old ^ 1 << rng.randrange(64), rng.choice(EDGES))), ""
    return rng.choice(JUNK), ""


def _other_text(rng: Random, old: str) -> str:
    if not old.startswith("0x"):
        return rng.choice((str(rng.choice(EDGES)), old + "0", "0" + old, " " + old, old.upper(), old[:-1]))
    at = rng.randrange(2, len(old) + 1)
    flipped = old[:at] + rng.choice("0123456789abcdef") + old[at + 1 :]
    return rng.choice(
        (
            flipped,
            flipped,
            old[:-2],
            old[:-1],
            old + "00",
            old.upper(),
            old[2:],
            "0x",
            old[:at] + " " + old[at:],
        )
    )
