"""Another engine: a forward pass in plain torch, which shares no code with transformers' own.

It differs where real engines differ: fused QKV and gate-up matmuls, norms and rotations wholly in fp32,
attention over blocks of keys with a running maximum (Milakov and Gimelshein, "Online normalizer calculation
for softmax", 2018), and optionally output projections summed from ``ranks`` partial sums in the storage
dtype, as an all-reduce over tensor-parallel devices does (Shoeybi et al., "Megatron-LM", 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from .plain_weights import Layer, read_weights

Tensor = torch.Tensor
KEY_BLOCK = 32
"""Keys per block of the running softmax."""


class PlainDecoder:
    """The decoder stack of a loaded transformers model, with its weights and dtype. ``boundaries`` as for
    ``Engine``; ``ranks`` partial sums per output projection. Raises ConfigError as ``read_weights`` does."""

    def __init__(self, model: Any, boundaries: Sequence[int], ranks: int = 1) -> None:
        self.weights, self.boundaries, self.ranks = read_weights(model), tuple(boundaries), ranks

    def forward(
        self, ids: Tensor, positions: Tensor, cache: DynamicCache, attention_mask: Tensor | None
    ) -> list[Tensor]:
        """Hidden states [batch, n, d] at every boundary, the last after the final norm.

        ``ids`` and ``positions`` are [batch, n]. ``attention_mask`` [batch, past + n] is 0 for padding.
        Appends to ``cache``, whose keys are kept after rotation.
        """
        w = self.weights
        past = cache.get_seq_length()
        columns = torch.arange(past + ids.shape[1])
        behind = (columns[past:, None] - columns[None])[None]
        real = True if attention_mask is None else attention_mask.bool()[:, None]
        hidden = w.embedding[ids]
        hidden = hidden * torch.tensor(w.embedding_scale).to(hidden.dtype)
        kept = []
        for layer in w.layers:
            seen = (behind >= 0) & (behind < (layer.window or len(columns))) & real
            angles = positions.float()[:, None, :, None] * layer.frequencies
            normed = self._norm(hidden, layer.before_attention)
            mixed = self._attention(layer, normed, (angles.cos(), angles.sin()), cache, seen)
            hidden = hidden + self._norm(mixed, layer.after_attention)
            gate, up = (self._norm(hidden, layer.before_mlp) @ layer.gate_up.T).chunk(2, dim=-1)
            hidden = hidden + self._norm(self._reduced(w.activation(gate) * up, layer.down), layer.after_mlp)
            if layer.index + 1 in self.boundaries[:-1]:
                kept.append(hidden)
        return [*kept, self._norm(hidden, w.norm)]

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """RMS norm over the last dimension; ``x`` itself if there is no weight."""
        if weight is None:
            return x
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.weights.epsilon)
        return (wide * scale * weight).to(x.dtype)

    def _reduced(self, x: Tensor, weight: Tensor) -> Tensor:
        """x @ weight.T as the sum of ``ranks`` products over parts of the inner dimension, each rounded."""
        parts = zip(x.chunk(self.ranks, dim=-1), weight.chunk(self.ranks, dim=1), strict=True)
        first, *others = [part @ share.T for part, share in parts]
        return sum(others, start=first)

    def _attention(
        self, layer: Layer, x: Tensor, turns: tuple[Tensor, Tensor], cache: DynamicCache, seen: Tensor
    ) -> Tensor:
        w, (batch, count, _) = self.weights, x.shape
        sizes = [heads * w.head_dim for heads in (w.heads, w.kv_heads, w.kv_heads)]
        parts = (x @ layer.qkv.T).split(sizes, dim=-1)
        q, k, v = (part.view(batch, count, -1, w.head_dim).transpose(1, 2) for part in parts)
        keys, values = cache.update(_rotated(self._norm(k, layer.key_norm), *turns), v, layer.index)
        group = w.heads // w.kv_heads
        q = _rotated(self._norm(q, layer.query_norm), *turns) * w.query_scale
        q = q.view(batch, w.kv_heads, group * count, w.head_dim)
        mixed = _online_attention(q, keys, values, seen.repeat(1, group, 1)[:, None])
        mixed = mixed.view(batch, w.heads, count, w.head_dim).transpose(1, 2)
        return self._reduced(mixed.reshape(batch, count, -1), layer.output)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding (Su et al., "RoFormer", 2021), value i paired with value i + head_dim / 2."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def _online_attention(q: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """Softmax attention [batch, kv_heads, rows, head_dim] of scaled queries, one block of keys after another,
    sums in fp32. ``seen`` [batch, 1, rows, keys] says which keys a row attends to; none at all gives 0."""
    top = torch.full((*q.shape[:-1], 1), -torch.inf)
    mass, mixed = torch.zeros_like(top), torch.zeros(q.shape)
    for first in range(0, keys.shape[2], KEY_BLOCK):
        block = slice(first, first + KEY_BLOCK)
        scores = (q @ keys[:, :, block].transpose(2, 3)).float()
        scores = scores.masked_fill(~seen[..., block], -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        base = higher.clamp_min(torch.finfo(torch.float32).min)
        shares, rescale = (scores - base).exp(), (top - base).exp()
        mass = mass * rescale + shares.sum(-1, keepdim=True)
        mixed = mixed * rescale + (shares.to(values.dtype) @ values[:, :, block]).float()
        top = higher
    return (mixed / mass.clamp_min(torch.finfo(torch.float32).tiny)).to(q.dtype)
