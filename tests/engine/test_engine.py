"""Rows by absolute position, batches, padding and ends, on a random model where they must be exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from verillm.constants import Dtype, FinishReason
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.errors import ConfigError, EngineError, InvalidRequest
from verillm.types import SamplingParams

PROMPTS = ([5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15, 16, 17], [200, 201])


@pytest.fixture(scope="module")
def engine(tiny_folder) -> Engine:
    return Engine(tiny_folder, Dtype.FP32, (1, 2, 3), threads=1)


def values(store, boundary) -> np.ndarray:
    return store.rows(boundary).copy().view("<f4")


def run(engine, prompts, specs):
    """Decode a batch to its end: (states, reasons, events)."""
    states = [engine.prefill(prompt) for prompt in prompts]
    events, generator = [], engine.decode_batch(states, specs)
    while True:
        try:
            events.append(next(generator))
        except StopIteration as end:
            return states, end.value, events


def sampled(limit, seed=1, **settings) -> GenerationSpec:
    return GenerationSpec(SamplingParams(temperature_ppm=1_000_000, seed=seed), limit, **settings)


def test_boundaries_are_the_models_hidden_states(engine, tiny_folder):
    """Against plain transformers: output_hidden_states, whose last entry is after the final norm."""
    tokens = [1, 2, 3, 4, 5]
    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    with torch.no_grad():
        out = model(torch.tensor([tokens]), output_hidden_states=True)
    state = engine.prefill(tokens)
    for boundary in range(3):
        expected = out.hidden_states[boundary + 1][0].numpy()
        np.testing.assert_allclose(values(state.store, boundary), expected, rtol=1e-5, atol=1e-5)
    logits = engine.logits(state.store.rows(2))
    np.testing.assert_allclose(logits, out.logits[0].numpy(), rtol=1e-4, atol=1e-4)


def test_batched_decode_rows_equal_prefill_rows(engine):
    """Prompts of four lengths (left padding) and outputs of four lengths (sequences leave the batch)."""
    specs = [sampled(limit, seed) for seed, limit in enumerate((12, 3, 7, 1))]
    states, _, events = run(engine, PROMPTS, specs)
    for index, (prompt, state) in enumerate(zip(PROMPTS, states, strict=True)):
        assert [token for i, token in events if i == index] == state.output
        assert state.fed == [*prompt, *state.output[:-1]]
        own = engine.prefill(state.fed)
        for boundary in range(3):
            assert state.store.count(boundary) == len(prompt) + len(state.output) - 1
            np.testing.assert_allclose(
                values(state.store, boundary), values(own.store, boundary), rtol=1e-4, atol=1e-5
            )


def test_a_sequence_does_not_depend_on_its_batch(engine):
    specs = [sampled(9, seed) for seed in range(4)]
    together, _, _ = run(engine, PROMPTS, specs)
    for prompt, spec, state in zip(PROMPTS, specs, together, strict=True):
        assert run(engine, [prompt], [spec])[0][0].output == state.output


def test_one_token_output_feeds_nothing(engine):
    (state,), reasons, events = run(engine, [PROMPTS[0]], [sampled(1)])
    assert reasons == [FinishReason.LENGTH]
    assert len(events) == 1
    assert state.store.count(0) == len(PROMPTS[0])


def test_eos_is_part_of_the_output_and_not_fed(engine):
    first = run(engine, [PROMPTS[0]], [sampled(6)])[0][0].output
    eos, engine.eos_token_ids = engine.eos_token_ids, (first[2],)
    try:
        (state,), reasons, _ = run(engine, [PROMPTS[0]], [sampled(6)])
    finally:
        engine.eos_token_ids = eos
    cut = first.index(first[2]) + 1
    assert reasons == [FinishReason.EOS]
    assert state.output == first[:cut]
    assert state.store.count(0) == len(PROMPTS[0]) + cut - 1


def test_stop_string_ends_the_output(engine):
    first = run(engine, [PROMPTS[0]], [sampled(8)])[0][0].output
    text = engine.decode(first)
    stop = next(c for c in text[2:] if c != "\ufffd")
    (state,), reasons, _ = run(engine, [PROMPTS[0]], [sampled(8, stop=(stop,))])
    assert reasons == [FinishReason.STOP]
    assert stop in engine.decode(state.output)
    assert stop not in engine.decode(state.output[:-1])


def test_greedy_takes_the_largest_logit(engine):
    (state,), _, _ = run(engine, [PROMPTS[0]], [GenerationSpec(SamplingParams(), 5)])
    final = engine.logits(engine.prefill(state.fed).store.rows(2)[len(PROMPTS[0]) - 1 :])
    assert state.output == final.argmax(axis=1).tolist()


@pytest.mark.parametrize("masks", [{}, {"top_k": 20}, {"top_k": 40, "top_p_ppm": 900_000}])
@pytest.mark.parametrize("temperature", [0, 1_000_000])
def test_decoded_tokens_have_no_margin_against_the_workers_own_rows(engine, temperature, masks):
    """Batched and alone, the same row gives the same integers."""
    specs = [GenerationSpec(SamplingParams(temperature, seed=s, **masks), 9) for s in range(4)]
    states, _, _ = run(engine, PROMPTS, specs)
    for prompt, spec, state in zip(PROMPTS, specs, states, strict=True):
        rows = state.store.rows(2)[len(prompt) - 1 :]
        gaps, best = engine.margins(rows, spec.sampling, len(prompt) - 1, state.output)
        assert gaps.tolist() == [0] * len(state.output)
        assert best.tolist() == state.output


def test_committed_row_fixes_the_logits(engine):
    """logits = row @ W in fp32, from the committed bytes and the committed matrix."""
    state = engine.prefill([3, 1, 4])
    bits = engine.output_matrix_bytes().view("<u2").astype(np.uint32) << 16
    matrix = bits.view(np.float32)
    assert matrix.shape == (300, 64)
    expected = values(state.store, 2)[-1].astype(np.float64) @ matrix.T.astype(np.float64)
    np.testing.assert_allclose(engine.logits(state.store.rows(2)[-1:])[0], expected, rtol=1e-5, atol=1e-5)


def test_bf16_rows(tiny_folder):
    engine = Engine(tiny_folder, Dtype.BF16, (2, 3), threads=1, attn="eager")
    (state,), _, _ = run(engine, [PROMPTS[0]], [sampled(4)])
    assert state.store.rows(1).shape == (len(PROMPTS[0]) + 3, 128)


def test_chat_template_and_text(engine):
    tokens = engine.chat([{"role": "user", "content": "hi"}])
    assert engine.decode(tokens) == "user: hi\nassistant: "
    assert engine.decode(engine.encode("caf\u00e9")) == "caf\u00e9"
    with pytest.raises(InvalidRequest, match="messages"):
        engine.chat([{"role": "user"}, 3])  # type: ignore[list-item]


@pytest.mark.parametrize("tokens", [[], [300], [-1], [1] * 129])
def test_bad_tokens(engine, tokens):
    with pytest.raises(InvalidRequest, match="tokens"):
        engine.prefill(tokens)


def test_output_beyond_the_positions_is_refused(engine):
    with pytest.raises(InvalidRequest, match="max_output_tokens"):
        run(engine, [[1, 2]], [sampled(128)])


def test_a_failing_model_is_an_engine_error(engine, monkeypatch):
    def fail(*args, **kwargs):
        raise torch.OutOfMemoryError("no memory left")

    monkeypatch.setattr(engine._decoder, "forward", fail)
    with pytest.raises(EngineError, match="no memory left"):
        engine.prefill([1, 2])


@pytest.mark.parametrize("boundaries", [(), (3, 2), (1, 2), (0, 3), (1, 1, 3), (1, 4)])
def test_bad_boundaries(tiny_folder, boundaries):
    with pytest.raises(ConfigError, match="boundaries"):
        Engine(tiny_folder, Dtype.FP32, boundaries)


def test_bad_folder_and_kernel(tmp_path, tiny_folder):
    with pytest.raises(EngineError, match="cannot load"):
        Engine(tmp_path, Dtype.FP32, (3,))
    with pytest.raises(ConfigError, match="attn"):
        Engine(tiny_folder, Dtype.FP32, (3,), attn="magic")
