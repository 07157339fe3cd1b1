"""Where text, token ids and the end of an output disagree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.field.jobs import Subject, sampled
from verillm.commitment.job import RowStore
from verillm.constants import FinishReason, Verdict
from verillm.errors import InvalidRequest
from verillm.types import TOKEN_BOUNDARY

PROMPT = [5, 6, 7, 8, 9]
LIMIT = 10
UNBOUND = {"openings": [], "token_root": None}
"""Nothing but the output itself, so that it alone decides."""


def _rows(tiny: Subject, output: list[int]) -> RowStore:
    return tiny.prefill([*PROMPT, *output[:-1]]).store


def test_a_retokenised_prompt_is_another_prompt(real: Subject):
    """entrius/gittensor#1709: 12 of 15 honest misses were re-tokenised text, "\\n", "\\n" against "\\n\\n".
    Right: token ids are the evidence. A prompt in ids that no tokenizer gives for its text verifies, and the
    same text in other ids is refused as another prompt, before any verdict."""
    engine = real.engine
    newline, double = engine.encode("\n"), engine.encode("\n\n")
    prompt = [*engine.encode("Dear Sir,"), *double, *engine.encode("thank you")]
    again = engine.encode(engine.decode(prompt))
    assert again == [*engine.encode("Dear Sir,"), *newline, *newline, *engine.encode("thank you")]
    assert len(double) == 1
    spec = sampled(4, 3)
    (state,) = real.decode([prompt], [spec])
    real.accept(prompt, spec, state)
    with pytest.raises(InvalidRequest, match="prompt"):
        real.verify(prompt, spec, state, prompt=again)


def test_a_retokenised_output_is_another_output(tiny: Subject):
    """entrius/gittensor#1709, the output: what decodes to the same text is not what was sampled.
    Right: the ids verify; the text's own ids are no evidence for them."""
    spec = sampled(12)
    (state,) = tiny.decode([PROMPT], [spec])
    again = tiny.engine.encode(tiny.engine.decode(state.output))
    assert len(again) > len(state.output)
    tiny.accept(PROMPT, spec, state)
    verdict = tiny.reject(PROMPT, spec, state, output=again[:12], openings=[])
    assert (verdict.boundary, verdict.position) == (TOKEN_BOUNDARY, len(PROMPT))


@pytest.mark.parametrize("end", range(LIMIT))
def test_eos_is_the_last_id_of_the_output_at_every_length(tiny, monkeypatch, end):
    """vllm#28185: returned ids were off by one at EOS.
    Right: EOS is part of the output, at the first place, at the limit and between; one id less, one more, or
    another reason is rejected there."""
    spec = sampled(LIMIT, 4)
    plain = tiny.decode([PROMPT], [spec])[0].output
    assert len(set(plain)) == LIMIT
    monkeypatch.setattr(tiny.engine, "eos_token_ids", (plain[end],))
    (state,) = tiny.decode([PROMPT], [spec])
    assert (state.output, state.finish_reason) == (plain[: end + 1], FinishReason.EOS)
    assert state.store.count(0) == len(PROMPT) + end
    tiny.accept(PROMPT, spec, state)
    place = len(PROMPT) + end
    for reason in (FinishReason.LENGTH, FinishReason.STOP):
        verdict = tiny.reject(PROMPT, spec, state, finish_reason=reason)
        assert (verdict.boundary, verdict.position) == (TOKEN_BOUNDARY, place)
    longer = place if end + 1 < LIMIT else place + 1  # what is beyond the limit is named first
    for output, position in ((plain[:end], max(place - 1, len(PROMPT))), ([*plain[: end + 1], 1], longer)):
        verdict = tiny.reject(PROMPT, spec, state, output=output, own=_rows(tiny, output), **UNBOUND)
        assert (verdict.boundary, verdict.position) == (TOKEN_BOUNDARY, position)


def test_an_output_without_eos_ends_at_its_limit_and_nowhere_else(tiny):
    """vllm#28185, without EOS: the limit counts ids of the output, and the prompt does not count."""
    spec = sampled(LIMIT, 4)
    (state,) = tiny.decode([PROMPT], [spec])
    assert (len(state.output), state.finish_reason) == (LIMIT, FinishReason.LENGTH)
    tiny.accept(PROMPT, spec, state)
    early = replace(state, output=state.output[:-1], store=tiny.prefill(state.fed[:-1]).store)
    assert tiny.reject(PROMPT, spec, early).position == len(PROMPT) + LIMIT - 2
    assert tiny.verify(PROMPT, sampled(LIMIT - 1, 4), early).verdict is Verdict.ACCEPT
