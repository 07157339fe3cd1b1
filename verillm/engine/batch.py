"""The left-padded KV cache of sequences that decode together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""(keys, values) of each layer, [batch, heads, positions, head_dim]."""


def layers_of(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(keys, values) of each layer of a filled DynamicCache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


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
        rows = torch.tensor(indices, device=old[0][0].device)
        for i, layer in enumerate(old):
            keys, values = (part.index_select(0, rows)[:, :, spare:] for part in layer)
            self.cache.update(keys, values, i)

    def next_mask(self, device: torch.device) -> torch.Tensor | None:
        """Attention mask [batch, positions + 1] for one more token each; None if nothing is padded."""
        if not any(self.pads):
            return None
        columns = torch.arange(self.cache.get_seq_length() + 1, device=device)
        return (columns[None] >= torch.tensor(self.pads, device=device)[:, None]).long()
