"""Sequences, and the left-padded KV cache of those that decode together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from verillm.commitment.job import RowStore
from verillm.constants import FinishReason
from verillm.engine.running import to_device

Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""(keys, values) of each layer, [batch, heads, positions, head_dim]."""


def layers_of(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(keys, values) of each layer of a filled DynamicCache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


@dataclass
class SequenceState:
    """One sequence: the tokens fed so far, their rows and the KV cache.

    ``layers[i]`` is (keys, values) of layer i, each [1, heads, len(fed), head_dim]; empty once decoded.
    ``output`` and ``finish_reason`` are filled by ``Engine.decode_batch``.
    """

    fed: list[int]
    store: RowStore
    layers: list[tuple[torch.Tensor, torch.Tensor]]
    output: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class Batch:
    """``cache`` holds the keys and values of all sequences, right-aligned; ``pads[i]`` is the number of
    padding positions on the left of sequence i."""

    def __init__(self, sequences: Sequence[Layers]) -> None:
        lengths = [layers[0][0].shape[2] for layers in sequences]
        longest = max(lengths)
        self.pads = [longest - length for length in lengths]
        self.cache = DynamicCache()
        for i in range(len(sequences[0])):
            keys, values = (
                torch.cat(
                    [
                        torch.nn.functional.pad(layers[i][part], (0, 0, pad, 0))
                        for layers, pad in zip(sequences, self.pads, strict=True)
                    ]
                )
                for part in (0, 1)
            )
            self.cache.update(keys, values, i)

    def keep(self, indices: Sequence[int]) -> None:
        """Drop all other sequences, and the padding that no remaining one needs."""
        spare = min(self.pads[i] for i in indices)
        self.pads = [self.pads[i] - spare for i in indices]
        old, self.cache = layers_of(self.cache), DynamicCache()
        rows = to_device(list(indices), old[0][0].device)
        for i, layer in enumerate(old):
            keys, values = (part.index_select(0, rows)[:, :, spare:] for part in layer)
            self.cache.update(keys, values, i)

    def next_mask(self, device: torch.device) -> torch.Tensor | None:
        """Attention mask [batch, positions + 1] for one more token each; None if nothing is padded."""
        if not any(self.pads):
            return None
        columns = torch.arange(self.cache.get_seq_length() + 1, device=device)
        return (columns[None] >= to_device(self.pads, device)[:, None]).long()
