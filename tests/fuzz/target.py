"""One fuzz target: a decoder, its valid inputs, and how they are spoiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from tests.fuzz.mutate import Mutator
from verillm.errors import VeriLLMError


class Refused(VeriLLMError):
    """A service answered a request with a gRPC status other than INTERNAL."""


@dataclass(frozen=True)
class Target:
    """``feed`` takes one input; it may only return or raise a VeriLLMError. ``seeds`` are valid: it returns.

    ``side`` is who decodes what a stranger sent. ``weight``: share of the inputs, relative to the others'.
    """

    name: str
    side: str
    weight: int
    seeds: tuple[bytes, ...]
    mutate: Mutator
    feed: Callable[[bytes], Any]

    def input(self, seed: int, index: int) -> bytes:
        """Input ``index`` of the run with this seed; the same for ever. The first ones are the valid ones."""
        if index < len(self.seeds):
            return self.seeds[index]
        rng = Random(seed << 64 | crc32(self.name.encode()) << 32 | index)
        return self.mutate(rng, rng.choice(self.seeds), rng.choice(self.seeds))
