"""Providers that compute another model: quantised, truncated, perturbed. Each changes a loaded engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from verillm.engine.transformers_engine import Engine

Change = Callable[[Engine], None]
INT_GROUP = 32


def _linear(engine: Engine) -> Iterator[torch.nn.Linear]:
    """The weight matrices of the layers; embeddings and output matrix are left alone by every cheat."""
    for module in engine.model.get_decoder().layers.modules():
        if isinstance(module, torch.nn.Linear):
            yield module


def _rounded(values: torch.Tensor, levels: int, group: int) -> torch.Tensor:
    """Symmetric integers of -levels to levels per group of the last dimension, and back; same dtype."""
    groups = values.float().unflatten(-1, (-1, group))
    scale = groups.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / levels
    return ((groups / scale).round().clamp(-levels, levels) * scale).flatten(-2).to(values.dtype)


def integer_weights(engine: Engine, bits: int, group: int | None = None) -> None:
    """Symmetric ``bits``-bit weights with a scale per ``group`` input values; None: per output row."""
    for module in _linear(engine):
        width = group if group is not None and module.in_features % group == 0 else module.in_features
        module.weight.copy_(_rounded(module.weight, 2 ** (bits - 1) - 1, width))


def fp8_weights(engine: Engine) -> None:
    """float8 e4m3 with a scale per output row."""
    for module in _linear(engine):
        scale = module.weight.float().abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / 448
        rounded = (module.weight.float() / scale).to(torch.float8_e4m3fn).float() * scale
        module.weight.copy_(rounded.to(module.weight.dtype))


def low_rank(engine: Engine, size: float, rank: int = 8) -> None:
    """Adds a random matrix of ``rank`` and of ``size`` times the weight's Frobenius norm, as a light
    fine-tuning does."""
    generator = torch.Generator().manual_seed(1)
    for module in _linear(engine):
        left = torch.randn(module.out_features, rank, generator=generator)
        added = left @ torch.randn(rank, module.in_features, generator=generator)
        weight = module.weight.float()
        module.weight.copy_((weight + added * (size * weight.norm() / added.norm())).to(module.weight.dtype))


def without_layers(engine: Engine, first: int, count: int) -> None:
    """Layers ``first`` to ``first + count - 1`` add nothing; their keys and values are still there."""
    for layer in engine.model.get_decoder().layers[first : first + count]:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()


def _on_cache(engine: Engine, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return change(output)

    for layer in engine.model.get_decoder().layers:
        layer.self_attn.k_proj.register_forward_hook(hook)
        layer.self_attn.v_proj.register_forward_hook(hook)


def integer_cache(engine: Engine, bits: int = 8) -> None:
    """Keys (before their rotation) and values in ``bits``-bit integers, a scale per head and token."""
    width = engine.model.get_decoder().layers[0].self_attn.head_dim
    _on_cache(engine, partial(_rounded, levels=2 ** (bits - 1) - 1, group=width))


def fp8_cache(engine: Engine) -> None:
    """Keys and values in float8 e4m3 with the fixed scale 1."""
    _on_cache(engine, lambda x: x.float().clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype))


def changes(layers: int) -> dict[str, Change]:
    """Every change of a model with ``layers`` layers, by name."""
    return {
        "int8 weights": partial(integer_weights, bits=8),
        f"int8 weights, groups of {INT_GROUP}": partial(integer_weights, bits=8, group=INT_GROUP),
        "fp8 weights": fp8_weights,
        "int4 weights": partial(integer_weights, bits=4, group=INT_GROUP),
        "int3 weights": partial(integer_weights, bits=3, group=INT_GROUP),
        "int8 KV cache": integer_cache,
        "fp8 KV cache": fp8_cache,
        "one layer dropped": partial(without_layers, first=layers // 2, count=1),
        "early exit": partial(without_layers, first=layers - layers // 4, count=layers // 4),
        "low-rank change of 1 %": partial(low_rank, size=0.01),
        "low-rank change of 0.3 %": partial(low_rank, size=0.003),
    }
