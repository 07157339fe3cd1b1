"""Ways to run a model honestly but differently: the rows must agree, and only rounding may differ.

``prefills(dtype)`` maps a name to ``run(engine, sequences) -> states``: one ``SequenceState`` per list of
token ids, whose ``store`` has the rows of every boundary by absolute position (``store.rows(b)``: uint8
[n, row_bytes]). A verifier is a prefill over prompt and output[:-1]; any of them may be one.
``decodes(dtype)`` maps a name to ``run(engine, prompts, specs) -> states``: a provider, whose states are
finished (``output``, ``finish_reason``, P + O - 1 rows per boundary).

Every variant sets the engine's threads and attention kernel itself and leaves them so; "plain" is the
reference. ``engine`` is a verillm Engine of the manifest in question; other engines share its weights.

dtypes: fp32 compute with rows rounded to a bf16 or fp16 manifest's dtype is the variant "wide", honest
because it is nearer to the exact result. Under an fp32 manifest it is "plain", so it is left out there. bf16
compute under an fp32 manifest is no variant: it is a cheaper computation than the one that was pinned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import torch
from transformers import DynamicCache

from verillm.constants import Dtype
from verillm.engine.batch import layers_of
from verillm.engine.finish import GenerationSpec
from verillm.engine.running import value_bytes
from verillm.engine.transformers_engine import TORCH_DTYPES, Engine, SequenceState
from verillm.errors import ConfigError

from .plain import PlainDecoder
from .roundings import FUSED, VLLM_CPU, Widths, rounded
from .speculative import speculate

Sequences = Sequence[Sequence[int]]
Prefill = Callable[[Engine, Sequences], list[SequenceState]]
Decode = Callable[[Engine, Sequences, Sequence[GenerationSpec]], list[SequenceState]]
PAD = 0
"""Token id in padded places. Any would do: no real token attends to it."""
ROUNDINGS = {"vLLM's roundings": VLLM_CPU, "fused roundings": FUSED}
"""Measured to be vLLM's on a CPU (``vllm_distance``), and a guess at compiled kernels. bf16 Llama only."""
GRAPH_BATCH = 8
"""Batch size of the captured graph that "graph of 8" imitates."""


# Prefill


def one_pass(
    engine: Engine, sequences: Sequences, threads: int = 1, attn: str = "sdpa"
) -> list[SequenceState]:
    engine.configure(threads=threads, attn=attn)
    return [engine.prefill(tokens) for tokens in sequences]


def in_chunks(engine: Engine, sequences: Sequences, size: int) -> list[SequenceState]:
    """``size`` tokens per forward pass; 1 is token by token."""
    engine.configure(threads=1, attn="sdpa")
    return [engine.prefill(tokens, chunk=size) for tokens in sequences]


def last_alone(engine: Engine, sequences: Sequences) -> list[SequenceState]:
    """Two chunks, the second of one token."""
    engine.configure(threads=1, attn="sdpa")
    return [engine.prefill(tokens, chunk=max(1, len(tokens) - 1)) for tokens in sequences]


def from_cache(engine: Engine, sequences: Sequences) -> list[SequenceState]:
    """The first half of each sequence is prefilled as a request of its own and then reused."""
    engine.configure(threads=1, attn="sdpa")
    return [
        engine.prefill(tokens, past=engine.prefill(tokens[: max(1, len(tokens) // 2)]))
        for tokens in sequences
    ]


def padded(engine: Engine, sequences: Sequences, left: bool, attn: str = "sdpa") -> list[SequenceState]:
    """All sequences in one batch, padded on one side to one more than the longest."""
    engine.configure(threads=1, attn=attn)
    width = 1 + max(len(tokens) for tokens in sequences)
    starts = [width - len(tokens) if left else 0 for tokens in sequences]
    ids = torch.full((len(sequences), width), PAD)
    mask = torch.zeros(len(sequences), width, dtype=torch.long)
    for i, (tokens, start) in enumerate(zip(sequences, starts, strict=True)):
        ids[i, start : start + len(tokens)] = torch.tensor(tokens)
        mask[i, start : start + len(tokens)] = 1
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    cache = DynamicCache()
    with engine._running():
        hidden = engine._forward(ids, positions, cache, mask)
    states = []
    for i, (tokens, start) in enumerate(zip(sequences, starts, strict=True)):
        real = slice(start, start + len(tokens))
        store = engine.new_store()
        for b, rows in enumerate(hidden):
            store.append_rows(b, 0, value_bytes(rows[i, real]))
        layers = [(k[i : i + 1, :, real], v[i : i + 1, :, real]) for k, v in layers_of(cache)]
        states.append(SequenceState(list(tokens), store, layers))
    return states


# Other computations of the same model


def _with_forward(engine: Engine, forward: Callable[..., list[torch.Tensor]]) -> Engine:
    """The same engine with another forward pass."""
    twin = copy.copy(engine)
    twin._forward = forward  # type: ignore[method-assign]
    return twin


@cache
def other(engine: Engine, ranks: int = 1) -> Engine:
    """``engine`` on our plain torch forward; ``ranks`` 2 imitates tensor parallelism over two devices."""
    return _with_forward(engine, PlainDecoder(engine.model, engine.boundaries, ranks).forward)


@cache
def wide(engine: Engine) -> Engine:
    """Computes in fp32 and rounds rows to the engine's 2-byte dtype. Raises ConfigError for fp32 rows."""
    if engine.dtype is Dtype.FP32:
        raise ConfigError("dtype: fp32 rows are computed in fp32 already")
    exact = Engine(engine.folder, Dtype.FP32, engine.boundaries)
    target = TORCH_DTYPES[engine.dtype]
    return _with_forward(
        engine, lambda *args, **named: [t.to(target) for t in exact._forward(*args, **named)]
    )


def elsewhere(engine: Engine, sequences: Sequences, made: Callable[[Engine], Engine]) -> list[SequenceState]:
    return one_pass(made(engine), sequences)


def in_widths(engine: Engine, sequences: Sequences, widths: Widths) -> list[SequenceState]:
    """With other roundings between the operations of a layer, as other engines have them."""
    engine.configure(threads=1, attn="sdpa")
    with rounded(engine, widths):
        return [engine.prefill(tokens) for tokens in sequences]


# Decode


def decode_in_widths(
    engine: Engine, prompts: Sequences, specs: Sequence[GenerationSpec], widths: Widths
) -> list[SequenceState]:
    with rounded(engine, widths):
        return decode(engine, prompts, specs, batch=4)


def decode(
    engine: Engine,
    prompts: Sequences,
    specs: Sequence[GenerationSpec],
    batch: int = 1,
    prefill: Prefill = one_pass,
    made: Callable[[Engine], Engine] = lambda engine: engine,
    **settings: Any,
) -> list[SequenceState]:
    """Prefill with ``prefill`` and decode in batches of ``batch``, with left padding where lengths differ.
    ``settings``: threads and attn of the decode steps."""
    engine = made(engine)
    done: list[SequenceState] = []
    for first in range(0, len(prompts), batch):
        states = prefill(engine, prompts[first : first + batch])
        engine.configure(**{"threads": 1, "attn": "sdpa", **settings})
        _exhaust(engine.decode_batch(states, specs[first : first + batch]))
        done += states
    return done


def decode_in_graph(
    engine: Engine, prompts: Sequences, specs: Sequence[GenerationSpec]
) -> list[SequenceState]:
    """Batches filled up to GRAPH_BATCH with dummy sequences, as engines do that replay a captured graph. The
    dummies' rows belong to nobody."""
    done: list[SequenceState] = []
    for first in range(0, len(prompts), GRAPH_BATCH // 2):
        states = one_pass(engine, prompts[first : first + GRAPH_BATCH // 2])
        mine = list(specs[first : first + GRAPH_BATCH // 2])
        fill = GRAPH_BATCH - len(states)
        dummies = one_pass(engine, [[PAD]] * fill)
        longest = max(mine, key=lambda spec: spec.max_output_tokens)
        _exhaust(engine.decode_batch([*states, *dummies], [*mine, *[longest] * fill]))
        done += states
    return done


def _exhaust(steps: Iterable[Any]) -> None:
    for _ in steps:
        pass


_PREFILLS: dict[str, Prefill] = {
    "plain": one_pass,
    "2 threads": partial(one_pass, threads=2),
    "eager": partial(one_pass, attn="eager"),
    "left padding": partial(padded, left=True),
    "right padding": partial(padded, left=False),
    "right padding, eager": partial(padded, left=False, attn="eager"),
    **{f"chunks of {size}": partial(in_chunks, size=size) for size in (1, 7, 32, 128)},
    "last token alone": last_alone,
    "prefix cache": from_cache,
    "other engine": partial(elsewhere, made=other),
    "tensor parallel 2": partial(elsewhere, made=partial(other, ranks=2)),
}
_DECODES: dict[str, Decode] = {
    **{f"batch {size}": partial(decode, batch=size) for size in range(1, 9)},
    "2 threads": partial(decode, threads=2),
    "eager": partial(decode, batch=2, attn="eager"),
    "after right padding": partial(decode, batch=4, prefill=_PREFILLS["right padding"]),
    "after chunks of 32": partial(decode, batch=4, prefill=_PREFILLS["chunks of 32"]),
    "after prefix cache": partial(decode, batch=4, prefill=from_cache),
    "graph of 8": decode_in_graph,
    "speculative": speculate,
    "other engine": partial(decode, batch=2, made=other),
    "tensor parallel 2": partial(decode, batch=2, made=partial(other, ranks=2)),
}


_HALF_PREFILLS: dict[str, Prefill] = {"wide": partial(elsewhere, made=wide)}
_HALF_DECODES: dict[str, Decode] = {"wide": partial(decode, batch=2, made=wide)}
_LLAMA_PREFILLS = {name: partial(in_widths, widths=widths) for name, widths in ROUNDINGS.items()}
_LLAMA_DECODES = {name: partial(decode_in_widths, widths=widths) for name, widths in ROUNDINGS.items()}


def prefills(dtype: Dtype, llama: bool = True) -> dict[str, Prefill]:
    """The honest prefills of a model with rows of ``dtype``, by name; ``llama``: of that architecture."""
    half = {} if dtype is Dtype.FP32 else _HALF_PREFILLS
    return {**_PREFILLS, **half, **(_LLAMA_PREFILLS if llama and dtype is Dtype.BF16 else {})}


def decodes(dtype: Dtype, llama: bool = True) -> dict[str, Decode]:
    """The honest decodes of a model with rows of ``dtype``, by name; ``llama``: of that architecture."""
    half = {} if dtype is Dtype.FP32 else _HALF_DECODES
    return {**_DECODES, **half, **(_LLAMA_DECODES if llama and dtype is Dtype.BF16 else {})}
