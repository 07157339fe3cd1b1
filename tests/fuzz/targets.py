"""The registry: every function that decodes bytes, JSON, protobuf or other values of strangers."""

from __future__ import annotations

from functools import cache

from tests.fuzz import chain, client, scheduler, verifier, worker
from tests.fuzz.target import Target
from tests.fuzz.toy import ToyWorld


@cache
def all_targets() -> tuple[Target, ...]:
    """Builds their valid inputs: seconds, once per process."""
    world = ToyWorld()
    return tuple(t for side in (client, worker, scheduler, verifier, chain) for t in side.targets(world))
