"""What asks for more memory than there is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from node.behaviour import Behaviour
from node.remote import WorkerFailed
from tests.field.jobs import Subject, sampled
from tests.node.conftest import make_submission
from verillm.constants import FinishReason, Verdict
from verillm.rpc import codec

PROMPT = list(range(1, 81))
BLOCK = 64
"""Most rows of logits at a time: 64 of 49,152 float32 are 12 MiB."""


def starved(engine):
    """The engine on a machine without memory: a real failure of torch's allocator."""
    twin = copy.copy(engine)
    twin._forward = lambda *args, **named: torch.empty(2**60)
    return twin


class Starved(Behaviour):
    def __init__(self, engine):
        super().__init__(starved(engine))


def test_a_verifier_out_of_memory_is_unable(tiny: Subject, start, tiny_manifest):
    """vllm#14239, #5550: logprobs over a prompt crash the engine or run out of memory.
    Right: that is the verifier's trouble. It says unable, never reject, and its node lives on."""
    spec = sampled(8)
    (state,) = tiny.decode([PROMPT], [spec])
    poor = Subject(starved(tiny.engine), tiny.manifest)
    verdict = poor.verify(PROMPT, spec, state)
    assert verdict.verdict is Verdict.UNABLE
    assert "allocate" in verdict.reason
    submission = make_submission(tiny_manifest.model_id)
    node = start(1, Starved)
    for _ in range(2):
        with pytest.raises(WorkerFailed, match=r"unable: .*allocate"):
            node.remote.verify(codec.submission_to_proto(submission), [1, 2], FinishReason.LENGTH, 0)
    assert node.remote.info().model_ids == [tiny_manifest.model_id]


class Logits(TorchDispatchMode):
    """Sees every tensor that torch makes; ``rows`` lists the heights of those that are ``vocab`` wide. One
    that is not contiguous is the output matrix itself, transposed."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.vocab, self.rows = vocab, [0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.is_contiguous() and made.shape[-1:] == (self.vocab,):
            self.rows.append(made.numel() // self.vocab)
        return made


def test_logits_are_made_for_outputs_only_and_in_bounded_blocks(tiny: Subject):
    """The same reports: [prompt, vocabulary] floats are what does not fit.
    Right: a verifier makes logits of rows that a token was sampled from, a block at a time."""
    for prompt, limit in ((PROMPT, 5), (PROMPT[:20], 100)):
        spec = sampled(limit)
        (state,) = tiny.decode([prompt], [spec])
        with Logits(tiny.engine.vocab_size) as seen:
            tiny.accept(prompt, spec, state)
        assert max(seen.rows) <= min(BLOCK, limit)
