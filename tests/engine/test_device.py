"""An engine on a device gives what one on the host gives. The kernels run in Triton's interpreter and the
model on the CPU, so this is the CUDA path without a device: copies, streams and waits are not seen here."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kernels.conftest import interpreter  # noqa: F401  (imports the kernels; the fixture is of each test)
from verillm.commitment.job import build_commitment, prefill_root
from verillm.constants import Dtype
from verillm.engine import transformers_engine
from verillm.engine.device import DeviceHead, DeviceRows
from verillm.engine.transformers_engine import Engine, GenerationSpec, SequenceState
from verillm.errors import InvalidRequest, RowError
from verillm.kernels.store import DeviceRowStore
from verillm.sampling import sampler
from verillm.types import SamplingParams

PROMPTS = ([5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15, 16, 17])
GREEDY = SamplingParams(0, top_k=7)
DRAWN = SamplingParams(1_000_000, seed=2**63 + 5)
MASKED = SamplingParams(900_000, top_k=40, top_p_ppm=900_000, seed=3)
SPECS = [GenerationSpec(how, limit) for how, limit in ((DRAWN, 4), (GREEDY, 2), (MASKED, 3))]
ONE = GenerationSpec(DRAWN, 1)
Engines = tuple[Engine, Engine]


def pair(folder: Any, dtype: Dtype, **settings: Any) -> Engines:
    """(an engine on the host, one whose rows and logits go to kernels)."""
    host = Engine(folder, dtype, (1, 2, 3), threads=1, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_engine, "parts_for", lambda device: (DeviceRows(device), DeviceHead))
        return host, Engine(folder, dtype, (1, 2, 3), threads=1, **settings)


@pytest.fixture(scope="module")
def engines(tiny_folder) -> Engines:
    return pair(tiny_folder, Dtype.BF16)


def decoded(engine: Engine, prompts=PROMPTS, specs=SPECS) -> list[SequenceState]:
    states = [engine.prefill(prompt) for prompt in prompts]
    for _ in engine.decode_batch(states, specs):
        pass
    return states


def root(state: SequenceState) -> bytes:
    """The job root of a decoded sequence."""
    assert state.finish_reason is not None
    return build_commitment(
        state.store,
        job_id=bytes(32),
        operator="0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf",
        model_id=bytes(32),
        tokens=[*state.fed, state.output[-1]],
        prompt_tokens=len(state.fed) + 1 - len(state.output),
        finish_reason=state.finish_reason,
    ).job_root


@pytest.mark.parametrize(("dtype", "attn"), [(Dtype.BF16, "sdpa"), (Dtype.FP32, "eager")])
def test_a_batch_commits_to_the_same_root_tokens_and_margins(tiny_folder, dtype, attn):
    """Three lengths, so padding; three ends, so sequences leave the batch; tokens drawn in three ways."""
    engines = host, device = pair(tiny_folder, dtype, attn=attn)
    for expected, made, spec in zip(decoded(host), decoded(device), SPECS, strict=True):
        assert isinstance(made.store, DeviceRowStore)
        assert made.output == expected.output
        assert made.fed == expected.fed
        assert root(made) == root(expected)
        first = len(made.fed) - len(made.output)
        for engine in engines:
            own = engine.margins(made.store.rows(2)[first:], spec.sampling, first, made.output)
            assert own[0].tolist() == [0] * len(made.output)


def test_margins_are_those_of_the_plain_sampler_block_by_block(engines, monkeypatch):
    monkeypatch.setattr("verillm.engine.device.BLOCK", 2)
    host, device = engines
    rows = device.prefill([1, 2, 3, 4, 5]).store.rows(2)
    claimed = [9, 299, 0, 70, 150]
    for how in (GREEDY, DRAWN):
        gaps, best = device.margins(rows, how, 4, claimed)
        logits = np.concatenate([device.logits(rows[i : i + 2]) for i in (0, 2, 4)])
        wanted = sampler.margins(logits, how, 4, claimed)
        assert (gaps.tolist(), best.tolist()) == (wanted[0].tolist(), wanted[1].tolist())
        exact, tokens = host.margins(rows, how, 4, claimed)
        assert best.tolist() == tokens.tolist()
        assert abs(gaps - exact).max() < 2**24 * 1e-4  # its float32 logits are not exact
    masked = [engine.margins(rows, MASKED, 4, claimed) for engine in engines]
    assert masked[0][0].tolist() == masked[1][0].tolist()


def test_claims_must_fit_the_rows(engines):
    rows = engines[1].prefill([1, 2]).store.rows(2)
    for claimed, field in (([1], "2 rows"), ([1, 300], "vocabulary")):
        with pytest.raises(InvalidRequest, match=field):
            engines[1].margins(rows, DRAWN, 0, claimed)
    assert engines[1].margins(rows[:0], DRAWN, 0, [])[0].tolist() == []


def test_prefills_in_chunks_and_from_a_prefix_have_the_root_of_the_host(engines):
    """Host rows, taken over from another sequence, stand before rows that are on their way."""
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    roots, outputs = set(), set()
    for engine in engines:
        past = engine.prefill(tokens[:4], chunk=3)
        for state in (engine.prefill(tokens, past=past), engine.prefill(tokens[:4], past=past)):
            roots.add((len(state.fed), prefill_root(state.store, state.fed)))
            list(engine.decode_batch([state], [ONE]))
            outputs.add((*state.fed, state.output[-1]))
    assert (len(roots), len(outputs)) == (2, 2)


def poisoned(engine: Engine, boundary: int, at: int) -> Engine:
    """The engine, but NaN stands in sequence 0's row of position ``at`` at ``boundary``."""

    def forward(ids: torch.Tensor, positions: torch.Tensor, *rest: Any, **named: Any) -> list[torch.Tensor]:
        hidden = engine._forward(ids, positions, *rest, **named)
        hidden[boundary][:1][positions[:1] == at] = float("nan")
        return hidden

    twin = copy.copy(engine)
    twin._forward = forward  # type: ignore[method-assign]
    return twin


@pytest.mark.parametrize("boundary", [0, 2])
def test_nan_in_a_prefill_is_named_before_anything_is_committed(engines, boundary):
    state = poisoned(engines[1], boundary, 1).prefill([1, 2, 3])
    named = f"boundary {boundary}, position 1: the row contains NaN or Inf"
    with pytest.raises(RowError, match=named):
        prefill_root(state.store, state.fed)
    if boundary == 2:
        with pytest.raises(RowError, match=named):
            next(engines[1].decode_batch([state], [ONE]))


def test_nan_in_a_step_is_named_when_its_token_is_drawn_or_the_job_is_committed(engines):
    with pytest.raises(RowError, match="boundary 2, position 3: the row contains NaN or Inf"):
        decoded(poisoned(engines[1], 2, 3), PROMPTS[:1], SPECS[:1])
    (state,) = decoded(poisoned(engines[1], 1, 4), PROMPTS[:1], SPECS[:1])
    with pytest.raises(RowError, match="boundary 1, position 4: the row contains NaN or Inf"):
        root(state)


class Reads(TorchDispatchMode):
    """Counts operations that read a value of a tensor into Python. Each would wait for a device."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.count += name in ("is_nonzero", "item", "_local_scalar_dense", "nonzero", "equal")
        return func(*args, **(kwargs or {}))

    def during(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **named: Any) -> Any:
            with self:
                return run(*args, **named)

        return watched


def test_a_padded_step_reads_nothing_from_the_device(engines):
    counts = []
    for engine in engines:
        twin, reads = copy.copy(engine), Reads()
        twin._forward = reads.during(engine._forward)  # type: ignore[method-assign]
        decoded(twin, PROMPTS, [GenerationSpec(DRAWN, 2)] * 3)
        counts.append(reads.count)
    assert counts[0] > 0  # so the count sees what transformers reads of the host's mask
    assert counts[1] == 0


def test_only_masks_that_can_have_no_window_are_handed_over_as_they_are(engines):
    real, keeper = torch.tensor([[0, 1], [1, 1]]), engines[1]._keeper
    full = {"model_type": "qwen3", "layer_types": ["full_attention"] * 2}
    for fields, attn, shape in (
        ({"model_type": "llama"}, "sdpa", (2, 1, 1, 2)),
        (full, "sdpa", (2, 1, 1, 2)),
        (full, "eager", (2, 2)),  # adds its mask, so it must not be boolean
        ({**full, "layer_types": ["full_attention", "sliding_attention"]}, "sdpa", (2, 2)),
        ({"model_type": "mistral"}, "sdpa", (2, 2)),
    ):
        mask = keeper.mask(real, SimpleNamespace(_attn_implementation=attn, **fields))
        assert mask.shape == shape
        assert (mask.reshape(2, 2) == real).all()


def test_without_triton_only_a_cuda_engine_is_refused():
    script = """
import sys
sys.modules["triton"] = None
import verillm
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError, EngineError
for device in ("cpu", "cuda:1"):
    try:
        Engine("/nowhere", Dtype.BF16, (3,), device=device)
    except (ConfigError, EngineError) as error:
        print(type(error).__name__, error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    host, cuda = run.stdout.splitlines()
    assert host.startswith("EngineError model: cannot load")
    assert cuda.startswith("ConfigError device: cuda:1 needs Triton 3.6 or later")
    assert "pip install 'verillm[worker]'" in cuda
