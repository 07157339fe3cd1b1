"""Rows that belong to another token, layer, request or to nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.field.jobs import JOB_ID, OPERATOR, Subject, rows_of, sampled, with_rows
from verillm.commitment import prefill_root, verify_opening
from verillm.comparator.compare import rows_statistics
from verillm.constants import FinishReason, Role, Verdict
from verillm.errors import ProofError, RowError
from verillm.types import TOKEN_BOUNDARY, Commitment

PROMPT = [5, 6, 7, 8, 9, 10, 11]
SPEC = sampled(12)


@pytest.fixture(scope="module")
def honest(tiny: Subject):
    return tiny.decode([PROMPT], [SPEC])[0]


@pytest.mark.parametrize("variant", ["chunks of 1", "chunks of 7", "chunks of 32", "last token alone"])
def test_a_hook_that_fires_once_per_chunk_keeps_rows_at_their_positions(tiny, honest, variant):
    """IBM/vLLM-Hook#22: the capture hook fires once per prefill chunk, and rows of one chunk were kept.
    Right: rows are aligned by absolute position, whatever the chunks."""
    chunked, plain = tiny.prefill(honest.fed, variant), tiny.prefill(honest.fed)
    for boundary in range(3):
        assert chunked.store.count(boundary) == len(honest.fed)
        ours, theirs = (s.store.rows(boundary).view("<f4") for s in (chunked, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    tiny.accept(PROMPT, SPEC, replace(honest, store=chunked.store))
    with pytest.raises(RowError, match=r"position 3: an overwrite"):
        chunked.store.append_rows(0, 3, plain.store.rows(0)[3:4])


def test_rows_of_another_request_of_the_batch_are_rejected(tiny):
    """sgl-project/sglang#4997: hidden states were attached to the wrong request of a batch.
    Right: every row is bound to its job, by value and by proof."""
    prompts, specs = [PROMPT, [20, 21, 22, 23, 24, 25, 26]], [sampled(9, 1), sampled(9, 2)]
    states = tiny.decode(prompts, specs, "batch 2")
    for prompt, spec, state, other in zip(prompts, specs, states, states[::-1], strict=True):
        tiny.accept(prompt, spec, state)
        assert tiny.reject(prompt, spec, replace(state, store=other.store)).position == 0
    first, second = (tiny.commit(p, s) for p, s in zip(prompts, states, strict=True))
    commitment = Commitment(
        JOB_ID, Role.WORKER, 0, first.job_root, len(PROMPT), 9, FinishReason.LENGTH, OPERATOR
    )
    bound = {"model_id": tiny.manifest.model_id, "dtype": tiny.engine.dtype, "hidden_size": 64}
    verify_opening(first.open_row(1, 4), commitment=commitment, parts=first.parts, **bound)
    with pytest.raises(ProofError):
        verify_opening(second.open_row(1, 4), commitment=commitment, parts=first.parts, **bound)


@pytest.mark.parametrize("shift", [1, -1])
def test_rows_off_by_one_token_are_rejected(tiny, honest, shift):
    """vllm#56417: captured hidden states were those of the neighbouring token.
    Right: the first row that stands at another's position is named."""
    moved = with_rows(tiny.engine, honest, [np.roll(rows, shift, axis=0) for rows in rows_of(honest)])
    verdict = tiny.reject(PROMPT, SPEC, moved)
    assert (verdict.boundary, verdict.position) == (0, 0)


def test_a_row_opened_at_its_neighbours_position_does_not_prove(tiny, honest):
    """vllm#56417, the other half: the position is inside the leaf, so a proof cannot be moved."""
    committed = tiny.commit(PROMPT, honest)
    commitment = Commitment(
        JOB_ID, Role.WORKER, 0, committed.job_root, len(PROMPT), 12, honest.finish_reason, OPERATOR
    )
    opening = committed.open_row(1, 4)
    for wrong in (replace(opening, position=5), replace(opening, boundary=2)):
        with pytest.raises(ProofError):
            verify_opening(
                wrong, commitment=commitment, parts=committed.parts, model_id=tiny.manifest.model_id,
                dtype=tiny.engine.dtype, hidden_size=64,
            )  # fmt: skip


@pytest.mark.parametrize("boundary", [0, 1])
def test_rows_off_by_one_layer_are_rejected(tiny, honest, boundary):
    """lightseekorg/TorchSpec#87: hidden states came from the layer next to the one asked for.
    Right: the manifest says how many layers lie before each boundary, and the wrong boundary is named."""
    rows = rows_of(honest)
    rows[boundary] = rows_of(honest)[1 - boundary]
    verdict = tiny.reject(PROMPT, SPEC, with_rows(tiny.engine, honest, rows))
    assert (verdict.boundary, verdict.position) == (boundary, 0)


def test_rows_before_the_final_norm_are_rejected(tiny, honest):
    """lightseekorg/TorchSpec#87: the last hidden state was taken before the final norm instead of after it.
    Right: the last boundary is after the norm, and the first row that is not is named."""
    seen = []
    norm = tiny.engine.model.get_decoder().norm
    handle = norm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][0].numpy()))
    tiny.engine.prefill(honest.fed)
    handle.remove()
    rows = [*rows_of(honest)[:2], np.ascontiguousarray(seen[0]).view(np.uint8)]
    verdict = tiny.reject(PROMPT, SPEC, with_rows(tiny.engine, honest, rows))
    assert (verdict.boundary, verdict.position) == (2, 0)


def test_padding_rows_of_a_captured_graph_never_enter_the_proof(tiny):
    """PrimeIntellect-ai/prime-rl#120: CUDA graphs pad the batch, and rows of the padding entered the proof.
    Right: a job has P + O - 1 rows per boundary, its own, however far the batch was filled up."""
    prompts, specs = [PROMPT, [30, 31]], [sampled(12, 1), sampled(5, 2)]
    filled = tiny.decode(prompts, specs, "graph of 8")
    alone = tiny.decode(prompts, specs)
    for prompt, spec, state, other in zip(prompts, specs, filled, alone, strict=True):
        assert state.output == other.output
        assert [state.store.count(b) for b in range(3)] == [len(prompt) + len(state.output) - 1] * 3
        tiny.accept(prompt, spec, state)


@pytest.mark.parametrize("variant", ["chunks of 1", "chunks of 7"])
def test_a_chunked_prefill_is_proven_like_a_whole_one(tiny, honest, variant):
    """PrimeIntellect-ai/prime-rl#360: proofs were built per chunk and could not be checked in one pass.
    Right: one tree over absolute positions; the same shape, and values within tolerance."""
    tokens = [*PROMPT, *honest.output]
    own = tiny.prefill(tokens[:-1], variant)
    assert len(prefill_root(own.store, tokens[:-1])) == 32
    verdict = tiny.verify(PROMPT, SPEC, honest, own=own.store)
    assert verdict.verdict is Verdict.ACCEPT, verdict


@pytest.mark.parametrize("prompt", [PROMPT, [8]])
def test_a_one_token_output_is_proven(tiny, prompt):
    """PrimeIntellect-ai/prime-rl#398: an output of one token has no decode step, and the proof crashed.
    Right: P rows, and the token follows from the last of them."""
    spec = sampled(1)
    state = tiny.decode([prompt], [spec])[0]
    assert (len(state.output), state.store.count(2)) == (1, len(prompt))
    tiny.accept(prompt, spec, state)
    forged = replace(state, output=[(state.output[0] + 1) % 290])
    verdict = tiny.reject(prompt, spec, forged)
    assert (verdict.boundary, verdict.position) == (TOKEN_BOUNDARY, len(prompt))


def test_a_length_mismatch_is_loud(tiny, honest):
    """stanford-cs336/assignment5-alignment#15: a re-tokenised answer had another length, and values were
    silently padded with 0. Right: nothing is padded or cut; every mismatch is a typed error, no verdict."""
    with pytest.raises(RowError, match=r"boundary 0: 18 rows, 19 tokens"):
        tiny.commit(PROMPT, replace(honest, output=[*honest.output, 0]))
    with pytest.raises(RowError, match="shapes"):
        rows_statistics(honest.store.rows(0), honest.store.rows(0)[:-1], tiny.engine.dtype)
    short = tiny.prefill(honest.fed[:-1])
    verdict = tiny.verify(PROMPT, SPEC, honest, own=short.store)
    assert verdict.verdict is Verdict.UNABLE
    assert "17" in verdict.reason
    assert "18" in verdict.reason
