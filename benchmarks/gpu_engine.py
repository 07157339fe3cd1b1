"""What commitments add to a step of the engine on a GPU: two copies of a batch decode in turns, one of them
committing to every row at every boundary, the other only drawing its tokens."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gpu_decode
import numpy as np
import plain_keccak
import torch

from verillm.constants import PPM, Dtype
from verillm.engine import transformers_engine
from verillm.engine.device import DeviceRows
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine
from verillm.types import SamplingParams

STEPS = 8
"""Steps of one copy before it is the other's turn. They end when the device has done all, hashes too."""
TURNS = 6


class WithoutRows(DeviceRows):
    """Keeps nothing. Tokens are drawn as ever, from the rows of the step."""

    def keep(self, hidden: Any, stores: Any, positions: Any) -> None:
        pass


def random_engine(size: str) -> Engine:
    """An engine on a Llama of random weights, without a tokenizer; no token ends its output."""
    model = gpu_decode.llama(size)
    layers, count = model.config.num_hidden_layers, gpu_decode.BOUNDARIES
    loaded = model, SimpleNamespace(eos_token_id=None)
    with mock.patch.object(transformers_engine, "load_model", return_value=loaded):
        ends = [layers * (b + 1) // count for b in range(count)]
        engine = Engine("", Dtype.BF16, ends, device=gpu_decode.DEVICE)
    engine.eos_token_ids = ()
    return engine


def measure(engine: Engine, batch: int) -> dict[str, Any]:
    """One line of the table. Raises AssertionError if roots are not those of plain code."""
    keepers = {True: engine._keeper, False: WithoutRows(engine.device)}
    prompts = np.random.default_rng(0).integers(0, engine.vocab_size, (batch, gpu_decode.PROMPT)).tolist()
    limit = (TURNS + 1) * STEPS + 1
    specs = [GenerationSpec(SamplingParams(PPM, seed=i), limit) for i in range(batch)]
    states = {committing: [engine.prefill(prompt) for prompt in prompts] for committing in keepers}
    decodes = {committing: engine.decode_batch(states[committing], specs) for committing in keepers}
    times: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(TURNS + 1):
        for committing in (True, False) if turn % 2 else (False, True):
            engine._keeper = keepers[committing]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(STEPS * batch):
                next(decodes[committing])
            torch.cuda.synchronize()
            times[committing].append((time.perf_counter() - start) / STEPS)
    engine._keeper = keepers[True]
    store = states[True][-1].store
    for b in range(store.boundaries):
        plain = plain_keccak.row_roots(store.rows(b))
        assert np.array_equal(store.chunk_roots(b), plain), f"engine: boundary {b}: not plain code's roots"
    pairs = list(zip(times[True][1:], times[False][1:], strict=True))
    return {
        "batch": batch,
        "boundaries": store.boundaries,
        "step_ms": statistics.median(times[False][1:]) * 1e3,
        "added_us": statistics.median(a - b for a, b in pairs) * 1e6,
        "overhead": statistics.median((a - b) / b for a, b in pairs),
        "same_tokens": [s.output for s in states[True]] == [s.output for s in states[False]],
    }


def engine_overhead(late: Callable[[], bool]) -> list[dict[str, Any]]:
    """One line per model that fits and batch; stops where ``late`` says so."""
    lines: list[dict[str, Any]] = []
    for size, gigabytes in gpu_decode.GIGABYTES.items():
        if late() or torch.cuda.mem_get_info()[0] < gigabytes << 30:
            print(f"engine: {size} left out: no time left, or less than {gigabytes} GiB free")
            continue
        engine = random_engine(size)
        for batch in (1, 8, 32):
            if late():
                break
            lines.append(e := {"model": f"random Llama {size}", **measure(engine, batch)})
            print(
                f"engine {e['model']}, batch {batch}: step {e['step_ms']:.2f} ms, committing to "
                f"{e['boundaries']} boundaries adds {e['added_us']:.0f} us, {e['overhead']:.2%}, "
                f"same tokens: {e['same_tokens']}",
                flush=True,
            )
        del engine
        torch.cuda.empty_cache()
    return lines
