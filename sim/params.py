"""The simulator's view of the protocol's parameters: the same file that contracts and nodes read."""

from __future__ import annotations

from verillm.params import Params, load_params

BPS = 10_000
__all__ = ["BPS", "Params", "load_params"]
