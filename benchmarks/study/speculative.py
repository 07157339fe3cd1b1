"""Speculative decoding (Leviathan et al., 2023), honest or accepting too much."""

from __future__ import annotations

from collections.abc import Sequence

from verillm.engine.finish import GenerationSpec, finish_reason
from verillm.engine.transformers_engine import Engine, SequenceState

DRAFT_TOKENS = 4


def speculate(
    engine: Engine, prompts: Sequence[Sequence[int]], specs: Sequence[GenerationSpec], slack_q24: int = 0
) -> list[SequenceState]:
    """One finished sequence per prompt. Drafts are looked up in the text; up to DRAFT_TOKENS run in one
    pass. A draft stands if its margin against its row is at most ``slack_q24``: at 0 it is the token that
    the sampler draws, above 0 the decoder cheats.
    """
    engine.configure(threads=1, attn="sdpa")
    return [
        _decode(engine, list(prompt), spec, slack_q24) for prompt, spec in zip(prompts, specs, strict=True)
    ]


def _decode(engine: Engine, prompt: list[int], spec: GenerationSpec, slack_q24: int) -> SequenceState:
    output: list[int] = []
    drafts: list[int] = []
    state = engine.prefill(prompt)
    while True:
        last = len(prompt) + len(output) - 1
        rows = state.store.rows(len(engine.boundaries) - 1)[last:]
        for position, row in enumerate(engine.head.rows(rows), last):
            draft = drafts[position - last] if position - last < len(drafts) else None
            stands = draft is not None and row.margin(spec.sampling, position, draft)[0] <= slack_q24
            token = draft if draft is not None and stands else row.sample(spec.sampling, position)
            output.append(token)
            reason = finish_reason(
                output, engine.eos_token_ids, spec.stop, spec.max_output_tokens, engine.decode
            )
            if reason is not None:
                state = engine.prefill([*prompt, *output[:-1]], past=state)  # cuts drafts that fell
                state.layers, state.output, state.finish_reason = [], output, reason
                return state
            if not stands:
                break
        text = [*prompt, *output]
        drafts = _look_up(text)[: engine.max_positions - len(text)]
        state = engine.prefill([*text, *drafts], past=state)


def _look_up(text: Sequence[int]) -> list[int]:
    """What followed the last earlier place of the text's last token."""
    places = [i for i, token in enumerate(text[:-1]) if token == text[-1]]
    return list(text[places[-1] + 1 :][:DRAFT_TOKENS]) if places else []
