"""The real model: honest batches pass in both dtypes, an int4 copy of it does not."""

from __future__ import annotations

import pytest
import torch

from tests.engine.test_verification import OPERATOR
from verillm.commitment import build_commitment, token_list_hash
from verillm.constants import Verdict
from verillm.eip712 import stop_hash
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.types import Job, SamplingParams
from verillm.verification import verify_job

QUESTIONS = ("Say hello.", "Name three rivers in Europe and the seas that they reach.", "What is 2 + 2?")
SAMPLING = (SamplingParams(), SamplingParams(800_000, seed=5), SamplingParams(1_000_000, 40, 900_000, 6))
TOKENS = 16


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def setting(request, smollm2_folder):
    manifest = request.getfixturevalue(f"smollm2_{request.param}")
    return Engine.from_manifest(smollm2_folder, manifest, threads=1), manifest


def run_batch(worker: Engine, manifest, stop=()):
    """Decode the three questions together: arguments of ``verify_job`` for each."""
    prompts = [worker.chat([{"role": "user", "content": question}]) for question in QUESTIONS]
    states = [worker.prefill(prompt) for prompt in prompts]
    for _ in worker.decode_batch(states, [GenerationSpec(s, TOKENS, stop) for s in SAMPLING]):
        pass
    for prompt, sampling, state in zip(prompts, SAMPLING, states, strict=True):
        job = Job(
            OPERATOR, OPERATOR, manifest.model_id, token_list_hash(prompt), len(prompt), TOKENS,
            stop_hash(stop),
            sampling.temperature_ppm, sampling.top_k, sampling.top_p_ppm, sampling.seed, 1, 1, 1, 2**40, 0,
        )  # fmt: skip
        tokens = [*prompt, *state.output]
        committed = build_commitment(
            state.store, job_id=b"\x02" * 32, operator=OPERATOR, model_id=manifest.model_id, tokens=tokens,
            prompt_tokens=len(prompt), finish_reason=state.finish_reason,
        )  # fmt: skip
        rows = len(tokens) - 1
        openings = [o for position in range(0, rows, max(1, rows // 8)) for o in committed.open(position)]
        yield job, prompt, state.output, state.finish_reason, stop, openings


def test_honest_batch_is_accepted(setting):
    engine, manifest = setting
    for stop in ((), ("2", "!")):
        for job in run_batch(engine, manifest, stop):
            verdict = verify_job(engine, manifest.table, *job)
            assert verdict.verdict is Verdict.ACCEPT, verdict


def test_int4_weights_are_rejected(setting, smollm2_folder):
    engine, manifest = setting
    cheap = Engine.from_manifest(smollm2_folder, manifest, threads=1)
    with torch.no_grad():
        for module in cheap.model.get_decoder().layers.modules():
            if isinstance(module, torch.nn.Linear):
                groups = module.weight.float().reshape(-1, 32)
                scale = groups.abs().amax(1, keepdim=True) / 7
                module.weight.copy_(((groups / scale).round() * scale).reshape(module.weight.shape))
    for job in run_batch(cheap, manifest):
        verdict = verify_job(engine, manifest.table, *job)
        assert verdict.verdict is Verdict.REJECT, verdict


def test_text_round_trip(setting):
    engine, manifest = setting
    text = "caf\u00e9, 12 \u4f60\u597d"
    assert engine.decode(engine.encode(text)) == text
    assert engine.decode(engine.chat([{"role": "user", "content": "hi"}])).endswith("assistant\n")
    assert engine.eos_token_ids == manifest.eos_token_ids == (2,)
