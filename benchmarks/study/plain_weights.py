"""What the plain engine needs of a transformers model, which is a Llama or a Gemma 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from verillm.errors import ConfigError

Tensor = torch.Tensor
Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "silu": functional.silu,
    "gelu_pytorch_tanh": partial(functional.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class Layer:
    """One decoder layer. Matrices are [out, in], ``qkv`` and ``gate_up`` stacked along their outputs. Norm
    weights are fp32, None where the family has no such norm. ``frequencies`` [head_dim / 2] turn positions;
    ``window`` is how many tokens attention reaches, the row's own included, None for all."""

    index: int
    qkv: Tensor
    output: Tensor
    gate_up: Tensor
    down: Tensor
    before_attention: Tensor
    after_attention: Tensor | None
    before_mlp: Tensor
    after_mlp: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    frequencies: Tensor
    window: int | None


@dataclass(frozen=True)
class Weights:
    """``embedding`` [vocab, d] is multiplied by ``embedding_scale``, queries by ``query_scale``; ``norm`` is
    the final one, fp32."""

    layers: tuple[Layer, ...]
    embedding: Tensor
    embedding_scale: float
    norm: Tensor
    epsilon: float
    heads: int
    kv_heads: int
    head_dim: int
    query_scale: float
    activation: Activation


def read_weights(model: Any) -> Weights:
    """The weights of a loaded model. Raises ConfigError for what the plain engine does not run."""
    config = model.config
    gemma = config.model_type == "gemma3_text"
    if not gemma and config.model_type != "llama":
        raise ConfigError(f"model: {config.model_type}; the plain engine runs llama and gemma3_text")
    if config.attention_bias or getattr(config, "mlp_bias", False):
        raise ConfigError("model: its projections have biases; the plain engine has none")
    decoder = model.get_decoder()
    return Weights(
        layers=tuple(_layer(config, i, layer, gemma) for i, layer in enumerate(decoder.layers)),
        embedding=decoder.embed_tokens.weight.detach(),
        embedding_scale=config.hidden_size**0.5 if gemma else 1.0,
        norm=_norm(decoder.norm, gemma),
        epsilon=config.rms_norm_eps,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        query_scale=(config.query_pre_attn_scalar if gemma else config.head_dim) ** -0.5,
        activation=ACTIVATIONS[config.hidden_activation if gemma else config.hidden_act],
    )


def _layer(config: Any, index: int, layer: Any, gemma: bool) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    kind = config.layer_types[index] if gemma else "full_attention"
    return Layer(
        index=index,
        qkv=torch.cat([p.weight.detach() for p in (attention.q_proj, attention.k_proj, attention.v_proj)]),
        output=attention.o_proj.weight.detach(),
        gate_up=torch.cat([mlp.gate_proj.weight.detach(), mlp.up_proj.weight.detach()]),
        down=mlp.down_proj.weight.detach(),
        before_attention=_norm(layer.input_layernorm, gemma),
        after_attention=_norm(layer.post_attention_layernorm, gemma) if gemma else None,
        before_mlp=_norm(layer.pre_feedforward_layernorm if gemma else layer.post_attention_layernorm, gemma),
        after_mlp=_norm(layer.post_feedforward_layernorm, gemma) if gemma else None,
        query_norm=_norm(attention.q_norm, gemma) if gemma else None,
        key_norm=_norm(attention.k_norm, gemma) if gemma else None,
        frequencies=_frequencies(config.rope_parameters[kind] if gemma else config.rope_parameters, config),
        window=config.sliding_window if kind == "sliding_attention" else None,
    )


def _norm(module: Any, gemma: bool) -> Tensor:
    """What the normed values are multiplied with; Gemma stores it less 1."""
    weight: Tensor = module.weight.detach().float()
    return weight + 1 if gemma else weight


def _frequencies(rope: dict[str, Any], config: Any) -> Tensor:
    if rope["rope_type"] != "default":
        raise ConfigError(
            f"model: rotations of type {rope['rope_type']}; the plain engine has only the default"
        )
    powers = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    return rope["rope_theta"] ** -powers
