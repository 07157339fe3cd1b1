"""What hashing beside a decode loop adds to a step: the same step with and without it, in turns. This needs
nothing but torch, Triton and transformers; ``gpu_engine`` measures the engine itself."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import plain_keccak
import torch

from verillm.kernels.stream import HashedRows, RowHasher

DEVICE = "cuda"
BOUNDARIES = 4
VOCAB = 32768
PROMPT = 64
STEPS = 48
Step = Callable[[torch.Tensor], tuple[torch.Tensor, list[torch.Tensor]]]
"""Tokens [k] to (next tokens [k], hidden rows [k, d] of every boundary)."""

SIZES: dict[str, dict[str, int]] = {
    "1B": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
    },
    "8B": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
}
GIGABYTES = {"1B": 8, "8B": 40}
"""Free memory that each needs, with room for two caches."""


def llama(size: str) -> Any:
    """A Llama of random weights in bf16 on the device. Decoding costs what it costs with trained weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCAB, num_key_value_heads=8, max_position_embeddings=4096, **SIZES[size])
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(DEVICE):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(default)


def capture(model: Any) -> list[torch.Tensor]:
    """The list to which each pass from now on adds its hidden states at the boundaries."""
    captured: list[torch.Tensor] = []
    layers = model.model.layers
    ends = [layers[len(layers) * (b + 1) // BOUNDARIES - 1] for b in range(BOUNDARIES - 1)]
    for module in (*ends, model.model.norm):
        module.register_forward_hook(
            lambda _module, _inputs, out: captured.append(out[0] if isinstance(out, tuple) else out)
        )
    return captured


def llama_steps(model: Any, captured: list[torch.Tensor], batch: int) -> Callable[[], Step]:
    """Makes steps that each have a key-value cache of their own, filled with one random prompt."""
    from transformers import DynamicCache

    prompt = torch.randint(0, VOCAB, (batch, PROMPT), device=DEVICE)
    known = inspect.signature(model.model.forward).parameters
    argument = "past_key_values" if "past_key_values" in known else "cache"

    def make() -> Step:
        cache = {argument: DynamicCache(), "use_cache": True}
        model(input_ids=prompt, **cache)

        def step(tokens: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
            captured.clear()
            out = model(input_ids=tokens[:, None], **cache)
            hidden = [x[:, -1] for x in captured]
            captured.clear()
            return out.logits[:, -1].argmax(-1), hidden

        return step

    return make


def toy_steps(batch: int, d: int = 4096, layers: int = 64) -> Callable[[], Step]:
    """Where there is no transformers: matrix products of a decoder's sizes, launched one by one."""
    weights = [torch.randn((d, d), device=DEVICE, dtype=torch.bfloat16) * d**-0.5 for _ in range(layers)]

    def step(tokens: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        x = torch.sin(torch.arange(d, device=DEVICE) * tokens[:, None]).to(torch.bfloat16)
        hidden = []
        for i, weight in enumerate(weights):
            x = torch.nn.functional.rms_norm(x + torch.tanh(x @ weight), (d,))
            if (i + 1) % (layers // BOUNDARIES) == 0:
                hidden.append(x)
        return x.argmax(-1), hidden

    return lambda: step


def measure(make: Callable[[], Step], batch: int) -> dict[str, Any]:
    """Two copies of a loop in turns, one hashing. Each step ends when its tokens are on the host."""
    hasher, pending = RowHasher(DEVICE), []
    steps = {committing: make() for committing in (True, False)}
    tokens = {committing: torch.zeros(batch, dtype=torch.int64, device=DEVICE) for committing in steps}
    times: dict[bool, list[float]] = {True: [], False: []}
    submitted: list[float] = []
    seen: list[list[int]] = []
    kept: list[tuple[np.ndarray, list[HashedRows]]] = []
    for i in range(STEPS):
        for committing in (True, False) if i % 2 else (False, True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            tokens[committing], hidden = steps[committing](tokens[committing])
            if committing:
                before = time.perf_counter()
                parts = hasher.submit(*hidden)
                submitted.append(time.perf_counter() - before)
            seen.append(tokens[committing].tolist())
            times[committing].append(time.perf_counter() - start)
            if committing:
                pending.append(parts)
                if i in (0, STEPS - 1):
                    rows = np.concatenate([x.contiguous().cpu().view(torch.uint8).numpy() for x in hidden])
                    kept.append((rows, parts))
            del hidden
    for rows, parts in kept:
        roots = np.concatenate([part.wait()[1] for part in parts])
        assert np.array_equal(roots, plain_keccak.row_roots(rows)), "decode: roots differ from the plain code"
    assert all(part.wait()[2].all() for parts in pending for part in parts), "decode: a row is not finite"
    half = slice(8, None)
    pairs = list(zip(times[True][half], times[False][half], strict=True))
    return {
        "batch": batch,
        "boundaries": BOUNDARIES,
        "step_ms": statistics.median(times[False][half]) * 1e3,
        "added_us": statistics.median(a - b for a, b in pairs) * 1e6,
        "submit_us": statistics.median(submitted[half]) * 1e6,
        "overhead": statistics.median((a - b) / b for a, b in pairs),
        "same_tokens": seen[0::2] == seen[1::2],
    }


def llama_overhead(late: Callable[[], bool]) -> list[dict[str, Any]]:
    """One line per model that fits and batch; stops where ``late`` says so."""
    import transformers

    lines: list[dict[str, Any]] = []
    for size in SIZES:
        if late() or torch.cuda.mem_get_info()[0] < GIGABYTES[size] << 30:
            print(f"decode: {size} left out: no time left, or less than {GIGABYTES[size]} GiB free")
            continue
        name = f"random Llama {size}, transformers {transformers.__version__}"
        model = llama(size)
        captured = capture(model)
        for batch in (1, 8, 32):
            if not late():
                lines.append({"model": name, **measure(llama_steps(model, captured, batch), batch)})
        del model, captured
        torch.cuda.empty_cache()
    return lines


@torch.inference_mode()
def decode_overhead(late: Callable[[], bool]) -> list[dict[str, Any]]:
    """``llama_overhead``, or lines of a stand-in where transformers is missing or does not run."""
    try:
        return llama_overhead(late)
    except Exception as error:
        print(f"decode: no Llama ({type(error).__name__}: {error}); matrix products stand in for a model")
        return [{"model": "matrix products", **measure(toy_steps(batch), batch)} for batch in (1, 8)]
