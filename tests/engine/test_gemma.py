"""A second family: Gemma 3 has sliding windows, two RoPE bases, scaled embeddings and norms of 1 + w."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig

from tests.engine.test_engine import run, sampled, values
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError

WINDOW = 8
PROMPTS = ([5, 6, 7], list(range(20, 40)), [9], list(range(100, 133)))
"""Shorter and longer than the window."""


def save_gemma(folder, tokenizer_folder, **settings) -> None:
    torch.manual_seed(11)
    config = Gemma3TextConfig(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        query_pre_attn_scalar=16,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        sliding_window=WINDOW,
        max_position_embeddings=128,
        initializer_range=0.3,
        bos_token_id=298,
        eos_token_id=299,
        **settings,
    )
    model = Gemma3ForCausalLM(config)
    with torch.no_grad():  # weights of zero would hide a norm that is not applied
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(0, 0.3)
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in tokenizer_folder.glob("tokenizer*.json"):
        shutil.copy(file, folder)


@pytest.fixture(scope="module")
def gemma_folder(tmp_path_factory, tiny_folder):
    folder = tmp_path_factory.mktemp("tiny-gemma")
    save_gemma(folder, tiny_folder)
    return folder


@pytest.fixture(scope="module", params=["sdpa", "eager"])
def engine(gemma_folder, request) -> Engine:
    return Engine(gemma_folder, Dtype.FP32, (1, 3, 4), threads=1, attn=request.param)


def test_boundaries_and_logits_are_the_models(engine, gemma_folder):
    """Against plain transformers beyond the window: final norm at the last boundary, logits of its head."""
    tokens = PROMPTS[3]
    model = AutoModelForCausalLM.from_pretrained(gemma_folder, dtype=torch.float32).eval()
    with torch.no_grad():
        out = model(torch.tensor([tokens]), output_hidden_states=True)
    state = engine.prefill(tokens)
    for boundary, layers in enumerate(engine.boundaries):
        expected = out.hidden_states[layers][0].numpy()
        np.testing.assert_allclose(values(state.store, boundary), expected, rtol=1e-4, atol=1e-5)
    logits = engine.logits(state.store.rows(2)[-1:])[0]
    np.testing.assert_allclose(logits, out.logits[0, -1].numpy(), rtol=1e-4, atol=1e-4)


def test_padded_decode_equals_prefill_beyond_the_window(engine):
    """Left padding, sequences that leave the batch, windows that move past prompt and padding."""
    specs = [sampled(limit, seed) for seed, limit in enumerate((40, 3, 25, 12))]
    states, _, _ = run(engine, PROMPTS, specs)
    for prompt, state in zip(PROMPTS, states, strict=True):
        assert len(state.fed) == len(prompt) + len(state.output) - 1
        own = engine.prefill(state.fed)
        for boundary in range(len(engine.boundaries)):
            np.testing.assert_allclose(
                values(state.store, boundary), values(own.store, boundary), rtol=1e-3, atol=2e-5
            )
    assert max(len(state.output) for state in states) > WINDOW


def test_the_window_matters_here(gemma_folder, tiny_folder, tmp_path, engine):
    """The same weights without a window give other rows, so the tests above do see it."""
    save_gemma(tmp_path, tiny_folder)
    config = (tmp_path / "config.json").read_text()
    assert f'"sliding_window": {WINDOW}' in config
    (tmp_path / "config.json").write_text(
        config.replace(f'"sliding_window": {WINDOW}', '"sliding_window": 128')
    )
    wide = Engine(tmp_path, Dtype.FP32, (4,), threads=1)
    narrow = values(engine.prefill(PROMPTS[3]).store, 2)
    difference = np.abs(values(wide.prefill(PROMPTS[3]).store, 0) - narrow).max(axis=1)
    assert difference[:WINDOW].max() < 1e-5
    assert difference[WINDOW:].min() > 1e-3


def test_soft_capped_logits_are_refused(tiny_folder, tmp_path):
    save_gemma(tmp_path, tiny_folder, final_logit_softcapping=30.0)
    with pytest.raises(ConfigError, match="final_logit_softcapping"):
        Engine(tmp_path, Dtype.FP32, (4,))
