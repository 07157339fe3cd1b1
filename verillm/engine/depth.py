"""Prefill only as many layers as a boundary needs: what a verifier saves that does not go to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from verillm.commitment.job import RowStore
from verillm.engine.transformers_engine import Engine


def prefill_to(engine: Engine, tokens: Sequence[int], depth: int) -> RowStore:
    """Rows of ``tokens`` at boundaries 0 to ``depth``, equal to those of a whole prefill.

    Raises InvalidRequest, EngineError and RowError as ``Engine.prefill`` does. Changes the engine meanwhile.
    """
    if depth == len(engine.boundaries) - 1:
        return engine.prefill(tokens).store
    with _cut(engine, depth):
        return engine.prefill(tokens).store


@contextmanager
def _cut(engine: Engine, depth: int) -> Iterator[None]:
    """``engine`` ends at boundary ``depth``. Its decoder runs as many layers as its config names."""
    config, boundaries = engine.model.get_decoder().config, engine.boundaries
    layers = config.num_hidden_layers
    config.num_hidden_layers, engine.boundaries = boundaries[depth], boundaries[: depth + 1]
    try:
        yield
    finally:
        config.num_hidden_layers, engine.boundaries = layers, boundaries
