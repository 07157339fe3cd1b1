"""Prefix cache: what a new sequence can take over from one that was prefilled before."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import DynamicCache

from verillm.commitment.job import RowStore
from verillm.engine.batch import SequenceState
from verillm.errors import InvalidRequest


def reuse_prefix(past: SequenceState, ids: Sequence[int], store: RowStore, cache: DynamicCache) -> int:
    """Copy rows, keys and values of the longest common prefix of ``past.fed`` and ``ids`` into the empty
    ``store`` and ``cache``; returns its length in tokens. Raises InvalidRequest if ``past`` was decoded."""
    if not past.layers:
        raise InvalidRequest("past: has no keys and values any more; keep a sequence that was not decoded")
    pairs = zip(past.fed, ids, strict=False)
    count = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(past.fed), len(ids)))
    for i, (keys, values) in enumerate(past.layers):
        cache.update(keys[:, :, :count], values[:, :, :count], i)
    for boundary in range(store.boundaries):
        store.append_rows(boundary, 0, past.store.rows(boundary)[:count])
    return count
