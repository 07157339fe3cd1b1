"""When an output ends (docs/protocol.md, section 2): EOS before STOP before LENGTH. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from verillm.constants import FinishReason
from verillm.errors import InvalidRequest
from verillm.types import MAX_STOP_STRINGS, SamplingParams

Decoder = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class GenerationSpec:
    """What to generate for one sequence. Raises InvalidRequest."""

    sampling: SamplingParams
    max_output_tokens: int
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_output_tokens < 1:
            raise InvalidRequest(f"max_output_tokens: {self.max_output_tokens} must be at least 1")
        check_stop(self.stop)


def check_stop(stop: Sequence[str]) -> None:
    """Raise InvalidRequest unless there are at most 4 stop strings, none empty."""
    if len(stop) > MAX_STOP_STRINGS or not all(stop):
        raise InvalidRequest(f"stop: give at most {MAX_STOP_STRINGS} strings, none of them empty")


def finish_reason(
    output: Sequence[int], eos: Collection[int], stop: Sequence[str], limit: int, decode: Decoder
) -> FinishReason | None:
    """Why the output ends with its last token, or None if it goes on. ``output`` has at least 1 token."""
    if output[-1] in eos:
        return FinishReason.EOS
    if stop and any(text in decoded for decoded in (decode(output),) for text in stop):
        return FinishReason.STOP
    return FinishReason.LENGTH if len(output) >= limit else None


def first_violation(
    output: Sequence[int],
    claimed: FinishReason,
    eos: Collection[int],
    stop: Sequence[str],
    limit: int,
    decode: Decoder,
) -> int | None:
    """Index of the first output token that breaks the finish rule, or None.

    A token breaks it if the output went on after it although it had to end there, or ended with it for
    another reason than ``claimed``.
    """
    if not output:
        return 0
    for index, token in enumerate(output[:-1]):
        if token in eos or index + 1 >= limit:
            return index
    if stop and len(output) > 1:
        cut = _first_stop(output[:-1], stop, decode)
        if cut is not None:
            return cut
    return None if finish_reason(output, eos, stop, limit, decode) == claimed else len(output) - 1


def _first_stop(output: Sequence[int], stop: Sequence[str], decode: Decoder) -> int | None:
    """Index of a token whose prefix contains a stop string while the prefix before it does not, if the whole
    of ``output`` contains one. By bisection: decoding every prefix takes quadratic time, and strangers choose
    the output. It is the first such token unless a longer prefix loses a stop string again."""

    def stops(count: int) -> bool:
        decoded = decode(output[:count])
        return any(text in decoded for text in stop)

    low, high = 0, len(output)
    if not stops(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if stops(middle) else (middle, high)
    return high - 1
