"""Honest runs whose numbers differ, numbers that must not differ, and numbers that are none."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.study.speculative import speculate
from benchmarks.study.variants import decodes, padded, prefills
from tests.field.jobs import Subject, sampled, with_rows
from verillm.calibrate import calibrate
from verillm.comparator.compare import rows_statistics
from verillm.constants import Dtype, Verdict
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError, EncodingError, RowError
from verillm.manifest import Manifest
from verillm.sampling.gumbel import gumbel_q24
from verillm.sampling.noise import noise_q24
from verillm.sampling.philox import noise_word
from verillm.sampling.sampler import sample
from verillm.types import SamplingParams

QUESTIONS = ("Name three rivers in Europe and the seas that they reach.", "Say hello.")
SPECS = [GenerationSpec(SamplingParams(), 12), sampled(12, 6)]
PROMPT = [5, 6, 7, 8, 9]


def prompts_of(real: Subject) -> list[list[int]]:
    return [real.engine.chat([{"role": "user", "content": question}]) for question in QUESTIONS]


def differ(real: Subject, a, b) -> bool:
    """Do any two rows at the last boundary differ in a bit?"""
    return any((x.store.rows(2) != y.store.rows(2)).any() for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def cold(real):
    """Decoded one by one, without any cache: the rows that the other runs are compared with."""
    return real.decode(prompts_of(real), SPECS)


def test_cold_and_warm_prefix_caches_both_verify(real, cold):
    """vllm#5543, #40896, PR #34046: a prefix-cache hit changes greedy output, by another reduction order.
    Right: other bits, same verdict, whichever side has the hit."""
    warm = real.decode(prompts_of(real), SPECS, "after prefix cache")
    assert differ(real, [real.prefill(s.fed, "prefix cache") for s in cold], cold)
    for prompt, spec, state, other in zip(prompts_of(real), SPECS, warm, cold, strict=True):
        real.accept(prompt, spec, state)
        real.accept(prompt, spec, other, own=real.prefill(other.fed, "prefix cache").store)


@pytest.mark.parametrize("variant", ["left padding", "right padding", "right padding, eager"])
def test_padded_and_unpadded_runs_both_verify(real, cold, variant):
    """huggingface/transformers#26869: padding changes logits. Right: a padded batch is an honest run."""
    padded = prefills(Dtype.BF16)[variant](real.engine, [state.fed for state in cold])
    assert differ(real, padded, cold)
    for prompt, spec, state, own in zip(prompts_of(real), SPECS, cold, padded, strict=True):
        real.accept(prompt, spec, state, own=own.store)
        real.accept(prompt, spec, replace(state, store=own.store))


def test_two_tensor_parallel_ranks_verify(real, cold):
    """vllm#2679: tensor parallelism over 1 and 2 devices gives different logits.
    Right: partial sums are honest variation, which calibrated tolerances cover."""
    parallel = real.decode(prompts_of(real), SPECS, "tensor parallel 2")
    for prompt, spec, state in zip(prompts_of(real), SPECS, parallel, strict=True):
        assert differ(real, [real.prefill(state.fed)], [state])
        real.accept(prompt, spec, state)


@pytest.mark.parametrize("variant", ["other engine", "wide"])
def test_an_engine_of_other_make_verifies(real, variant):
    """The same report, across engines: another forward pass, or a wider dtype that rounds once."""
    states = decodes(Dtype.BF16)[variant](real.engine, prompts_of(real)[:1], SPECS[:1])
    real.accept(prompts_of(real)[0], SPECS[0], states[0])


def test_speculative_decoding_verifies_only_within_the_margin(real):
    """vllm#41758: speculative decoding changes greedy output.
    Right: drafts that the sampler confirms are honest, drafts that merely come close are not."""
    prompt = real.engine.encode("red, green, blue, red, green, blue, red, green, blue, red,")
    spec = GenerationSpec(SamplingParams(), 24)
    (honest,) = speculate(real.engine, [prompt], [spec])
    real.accept(prompt, spec, honest)
    text = real.engine.encode("The capital of France is Paris. The capital of Italy")
    (greedy,) = real.decode([text], [spec])
    (lax,) = speculate(real.engine, [text], [spec], slack_q24=16 << 24)
    assert tuple(real.engine.decode(s.output[1:2]) for s in (greedy, lax)) == (" Rome", " Paris")
    assert real.reject(text, spec, lax).position == len(text) + 1


def test_the_order_of_a_batch_never_changes_an_output(tiny):
    """vllm#51226: a seed is ignored when a batch mixes requests; #17524: batch order changes output.
    Right: noise depends on the job's seed and the position alone."""
    requests = {
        "greedy": ([5, 6, 7], GenerationSpec(SamplingParams(), 9)),
        "seed 1": ([5, 6, 7], sampled(9, 1)),
        "seed 2": ([5, 6, 7], sampled(9, 2)),
        "masked": ([8], GenerationSpec(SamplingParams(1_300_000, 20, 900_000, 3), 5)),
    }
    alone = {name: tiny.decode([p], [s])[0].output for name, (p, s) in requests.items()}
    assert len({tuple(output) for output in alone.values()}) == 4
    for order in itertools.permutations(requests):
        prompts, specs = zip(*(requests[name] for name in order), strict=True)
        states = tiny.decode(prompts, specs, "batch 4")
        assert dict(zip(order, (s.output for s in states), strict=True)) == alone, order


def test_replaying_the_sampler_rejects_no_honest_position(real, cold):
    """gonka-ai/gonka#1199: replaying the sampler in floats rejects 14 to 77 % of honest positions, a decimal
    one none. Right: noise is integers, the same bits from every implementation, so that a replay on the
    worker's own rows gives its tokens exactly, and one on our rows nearly always."""
    for position, vocab in ((0, 7), (1234, 300)):
        reference = [gumbel_q24(noise_word(99, position, v)) for v in range(vocab)]
        assert noise_q24(99, position, vocab).tolist() == reference
    for prompt, spec, state in zip(prompts_of(real), SPECS, cold, strict=True):
        last = len(prompt) - 1
        logits = real.engine.logits(state.store.rows(2)[last:])
        assert [sample(row, spec.sampling, last + i) for i, row in enumerate(logits)] == state.output
        real.accept(prompt, spec, state)


def test_precision_is_pinned_by_the_manifest(tiny, tiny_folder):
    """gonka inference-validation.md: "fp8" meant w8a8 on one GPU and w8a16 on another.
    Right: the manifest names the dtype of rows and of weights, so another one is another model id, an unknown
    one is refused, and rows computed in a cheaper one are rejected."""
    half = calibrate(tiny_folder, Dtype.BF16, (1, 2, 3), jobs=24, save=False)
    assert half.model_id != tiny.manifest.model_id
    assert Engine.from_manifest(tiny_folder, half).dtype is Dtype.BF16
    for name in ("row_dtype", "weight_dtype"):
        changed = json.dumps({**json.loads(tiny.manifest.to_json()), name: "fp8"})
        with pytest.raises(EncodingError, match=f"manifest.{name}"):
            Manifest.from_json(changed)
    spec = sampled(12)
    (state,) = tiny.decode([PROMPT], [spec])
    cheap = Engine.from_manifest(tiny_folder, half, threads=1).prefill(state.fed)
    widened = [(cheap.store.rows(b).view("<u2").astype("<u4") << 16).view(np.uint8) for b in range(3)]
    verdict = tiny.reject(PROMPT, spec, with_rows(tiny.engine, state, widened))
    assert verdict.boundary in (0, 1, 2)


def test_fp16_overflow_is_an_error_and_no_verdict(tiny_folder, tmp_path):
    """huggingface/transformers#25311: fp16 gives NaN, here by real overflow in a layer.
    Right: such a row is a typed error that names its place; a verifier that meets it is unable."""
    folder = shutil.copytree(tiny_folder, tmp_path / "large")
    name = "model.layers.1.mlp.down_proj.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = tensors[name] * 1e6
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    exact = Engine(folder, Dtype.FP32, (1, 2, 3), threads=1)
    assert np.isfinite(exact.logits(exact.prefill(PROMPT).store.rows(2))).all()
    half = Engine(folder, Dtype.FP16, (1, 2, 3), threads=1)
    with pytest.raises(RowError, match=r"boundary 1, position 0: the row contains NaN or Inf"):
        half.prefill(PROMPT)
    manifest = calibrate(tiny_folder, Dtype.FP16, (1, 2, 3), jobs=24, save=False)
    worker = Subject(Engine.from_manifest(tiny_folder, manifest, threads=1), manifest)
    spec = sampled(4)
    (state,) = worker.decode([PROMPT], [spec])
    worker.accept(PROMPT, spec, state)
    broken = Subject(half, manifest)
    broken.commit = worker.commit  # type: ignore[method-assign]
    assert broken.verify(PROMPT, spec, state).verdict is Verdict.UNABLE


@pytest.mark.parametrize("attn", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16, Dtype.FP32])
def test_fully_masked_padding_does_not_reach_real_rows(tiny_folder, dtype, attn):
    """huggingface/transformers#25311: rows that may attend to nothing turn into NaN and spread.
    Right: left padding of any length leaves the real rows finite and near the unpadded ones."""
    engine = Engine(tiny_folder, dtype, (1, 2, 3), threads=1)
    sequences = [[5], list(range(1, 61))]
    batch = padded(engine, sequences, left=True, attn=attn)
    for tokens, state in zip(sequences, batch, strict=True):
        d, n = rows_statistics(state.store.rows(2), engine.prefill(tokens).store.rows(2), dtype)
        assert (d.astype(float) / n.astype(float) < 1e-3).all()


def _quantised(folder: Path) -> None:
    path = folder / "config.json"
    kv = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    settings = {"quant_method": "compressed-tensors", "kv_cache_scheme": kv}
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": settings}))


def _scaled(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.self_attn.k_scale"] = torch.ones(1)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _incomplete(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(_quantised, "quantization_config"), (_scaled, "k_scale"), (_incomplete, "layers.2.mlp.up_proj")],
)
def test_unpinned_scales_are_refused(tiny_folder, tmp_path, spoil, message):
    """vllm PR #11906: scales of an fp8 KV cache were set by whatever request came first.
    Right: a checkpoint that brings scales or lacks weights is refused; what runs is the manifest's."""
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    spoil(folder)
    with pytest.raises(ConfigError, match=message):
        Engine(folder, Dtype.FP32, (1, 2, 3))


def test_what_ran_before_does_not_change_a_row(tiny):
    """vllm PR #11906, the other half: nothing that a request computes outlives it."""
    before = tiny.prefill(PROMPT)
    tiny.decode([[250, 251, 252] * 20], [sampled(20, 9, 3.0)], "batch 2")
    after = tiny.prefill(PROMPT)
    for boundary in range(3):
        assert (before.store.rows(boundary) == after.store.rows(boundary)).all()
