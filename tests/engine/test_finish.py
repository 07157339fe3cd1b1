"""The finish rule as a pure function, and that the verifier's rule is the worker's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.constants import FinishReason
from verillm.engine.finish import GenerationSpec, finish_reason, first_violation
from verillm.errors import InvalidRequest
from verillm.types import SamplingParams

EOS = (9,)
LETTERS = "abcdefgh\u00e9"


def decode(tokens) -> str:
    return "".join(LETTERS[t] for t in tokens if t not in EOS)


def reason(output, stop=(), limit=8):
    return finish_reason(output, EOS, stop, limit, decode)


def violation(output, claimed, stop=(), limit=8):
    return first_violation(output, claimed, EOS, stop, limit, decode)


def test_priority_is_eos_then_stop_then_length():
    assert reason([0, 9], stop=("a",), limit=2) is FinishReason.EOS
    assert reason([0, 1], stop=("ab",), limit=2) is FinishReason.STOP
    assert reason([0, 1], limit=2) is FinishReason.LENGTH
    assert reason([0, 1]) is None


def test_stop_string_across_tokens():
    assert reason([0, 1, 2], stop=("bc",)) is FinishReason.STOP
    assert reason([0, 1], stop=("bc",)) is None


@pytest.mark.parametrize(
    ("output", "claimed", "stop", "position"),
    [
        ([0, 1, 2], FinishReason.LENGTH, (), 2),  # cut early: limit 8
        ([0, 9, 1], FinishReason.LENGTH, (), 1),  # went on after EOS
        ([0, 1], FinishReason.EOS, (), 1),  # EOS that is none
        ([0, 1, 2, 3], FinishReason.LENGTH, ("bc",), 2),  # went on after a stop string
        ([0, 1, 2], FinishReason.EOS, ("bc",), 2),  # right end, wrong reason
        ([*range(8), 0], FinishReason.LENGTH, (), 7),  # longer than the limit
        ([], FinishReason.LENGTH, (), 0),
    ],
)
def test_violations_name_the_token(output, claimed, stop, position):
    assert violation(output, claimed, stop) == position


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=12, max_size=12), st.sampled_from([(), ("ab",), ("c", "de")]))
def test_what_the_worker_ends_the_verifier_accepts(tokens, stop):
    """Take tokens until the rule ends the output; exactly that prefix with that reason is accepted."""
    output: list[int] = []
    found = None
    while found is None:
        output.append(tokens[len(output)])
        found = reason(output, stop, limit=10)
    assert violation(output, found, stop, limit=10) is None
    for other in set(FinishReason) - {found}:
        assert violation(output, other, stop, limit=10) == len(output) - 1
    assert violation([*output, 0], found, stop, limit=10) == len(output) - 1
    if len(output) > 1:
        assert violation(output[:-1], found, stop, limit=10) == len(output) - 2


@pytest.mark.parametrize(
    "settings_",
    [{"max_output_tokens": 0}, {"max_output_tokens": 1, "stop": ("",)},
     {"max_output_tokens": 1, "stop": ("a", "b", "c", "d", "e")}],
)  # fmt: skip
def test_spec_limits(settings_):
    with pytest.raises(InvalidRequest):
        GenerationSpec(SamplingParams(), **settings_)
