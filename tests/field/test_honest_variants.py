"""Every honest way to run a model, on either side of a verification, is accepted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from benchmarks.study.plain import PlainDecoder
from benchmarks.study.variants import decodes, prefills
from tests.field.jobs import Subject, sampled
from verillm.calibrate import calibrate
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError, InvalidRequest

PROMPTS = [[5, 6, 7], [8], list(range(9, 60)), [200, 201], [5, 6, 7, 8], list(range(1, 18)), [3], [70, 71]]
SPECS = [sampled(1 + 2 * i, i, (0, 0.7, 1, 1.3)[i % 4]) for i in range(len(PROMPTS))]
DTYPES = (Dtype.BF16, Dtype.FP32)


@pytest.fixture(scope="module")
def subjects(tiny, tiny_folder) -> dict[Dtype, Subject]:
    """Calibrated on the batches, threads and kernels of ``calibrate`` alone."""
    manifest = calibrate(tiny_folder, Dtype.BF16, (1, 2, 3), jobs=24, save=False)
    half = Subject(Engine.from_manifest(tiny_folder, manifest, threads=1), manifest)
    return {Dtype.BF16: half, Dtype.FP32: tiny}


@pytest.fixture(scope="module")
def plain(subjects):
    return {dtype: subject.decode(PROMPTS, SPECS) for dtype, subject in subjects.items()}


@pytest.mark.parametrize(("dtype", "variant"), [(d, v) for d in DTYPES for v in decodes(d)])
def test_every_honest_provider_is_accepted(subjects, dtype, variant):
    states = subjects[dtype].decode(PROMPTS, SPECS, variant)
    for prompt, spec, state in zip(PROMPTS, SPECS, states, strict=True):
        assert state.fed == [*prompt, *state.output[:-1]]
        subjects[dtype].accept(prompt, spec, state)


@pytest.mark.parametrize(("dtype", "variant"), [(d, v) for d in DTYPES for v in prefills(d)])
def test_every_honest_verifier_accepts(subjects, plain, dtype, variant):
    subject = subjects[dtype]
    rows = prefills(dtype)[variant](subject.engine, [state.fed for state in plain[dtype]])
    for prompt, spec, state, own in zip(PROMPTS, SPECS, plain[dtype], rows, strict=True):
        assert own.fed == state.fed
        subject.accept(prompt, spec, state, own=own.store)
        subject.accept(prompt, spec, replace(state, store=own.store))


def last_logits(engine, state):
    return engine.logits(state.store.rows(2)[-1:])[0]


def test_a_prefix_that_two_requests_share_stays_as_it_is(tiny):
    engine = tiny.engine
    shared = engine.prefill([1, 2, 3, 4, 5])
    first, second = engine.prefill([1, 2, 3, 4, 9, 9], past=shared), engine.prefill([1, 2, 3], past=shared)
    again = engine.prefill([1, 2, 3, 4, 5, 6], past=shared, chunk=1)
    for tokens, state in (([1, 2, 3, 4, 9, 9], first), ([1, 2, 3], second), ([1, 2, 3, 4, 5, 6], again)):
        plain = engine.prefill(tokens)
        assert state.fed == tokens
        assert [layer[0].shape[2] for layer in state.layers] == [len(tokens)] * 3
        for boundary in range(3):
            assert (state.store.rows(boundary)[:3] == shared.store.rows(boundary)[:3]).all()
        assert abs(last_logits(engine, state) - last_logits(engine, plain)).max() < 1e-4
    assert shared.store.count(0) == 5
    nothing, plain = engine.prefill([7, 8], past=shared), engine.prefill([7, 8])
    assert (last_logits(engine, nothing) == last_logits(engine, plain)).all()


def test_chunks_and_caches_that_cannot_be_are_refused(tiny):
    with pytest.raises(InvalidRequest, match="chunk: 0"):
        tiny.engine.prefill([1, 2], chunk=0)
    (decoded,) = tiny.decode([[1, 2]], [sampled(3)])
    with pytest.raises(InvalidRequest, match="past"):
        tiny.engine.prefill([1, 2], past=decoded)


@pytest.fixture(scope="module")
def gemma(tiny_folder, tmp_path_factory) -> Path:
    """A random Gemma 3: 3 layers, the second and third with attention over 4 tokens."""
    folder = tmp_path_factory.mktemp("tiny-gemma")
    shutil.copytree(tiny_folder, folder, dirs_exist_ok=True)
    torch.manual_seed(9)
    config = Gemma3TextConfig(
        vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=32, max_position_embeddings=128,
        initializer_range=0.2, sliding_window=4, bos_token_id=298, eos_token_id=299, pad_token_id=0,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    )  # fmt: skip
    model = Gemma3ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("variant", [v for v in prefills(Dtype.FP32) if v != "plain"])
def test_sliding_windows_give_the_same_rows_in_every_variant(gemma, variant):
    engine = Engine(gemma, Dtype.FP32, (1, 2, 3), threads=1)
    sequences = [list(range(20, 43)), [7], [3, 1, 4, 1, 5, 9]]
    states = prefills(Dtype.FP32)[variant](engine, sequences)
    for tokens, state in zip(sequences, states, strict=True):
        plain = engine.prefill(tokens)
        for boundary in range(3):
            ours, theirs = (s.store.rows(boundary).view("<f4") for s in (state, plain))
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_other_engine_runs_only_what_it_knows(tiny, monkeypatch):
    monkeypatch.setattr(tiny.engine.model.config, "attention_bias", True)
    with pytest.raises(ConfigError, match="biases"):
        PlainDecoder(tiny.engine.model, (1, 2, 3))
    monkeypatch.setattr(tiny.engine.model.config, "model_type", "opt")
    with pytest.raises(ConfigError, match="opt"):
        PlainDecoder(tiny.engine.model, (1, 2, 3))
