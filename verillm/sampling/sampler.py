"""Choose a token from logits, and measure by how much a claimed token loses (docs/protocol.md, section 2).

Logits are rounded to Q24 once; scores, masks and margins are integers from there on. Only the softmax of
top-p uses float64, and margins give the claimant ``TOP_P_SLACK_PPM`` of probability mass for it. ``position``
is always that of the row sampled from; the token itself stands at ``position + 1``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from verillm.constants import PPM, SCORE_FRACTION_BITS
from verillm.errors import InvalidRequest, RowError
from verillm.sampling.noise import noise_q24
from verillm.types import SamplingParams

Q24 = 1 << SCORE_FRACTION_BITS
TOP_P_SLACK_PPM = PPM // 64
LOGIT_LIMIT = 2.0**30
"""Largest logit magnitude; keeps every score and margin inside int64."""
NO_THRESHOLD = -(1 << 60)
"""Below every score: no mask."""

Ints = NDArray[np.int64]


def logits_q24(logits: NDArray[Any]) -> Ints:
    """round-half-even(logit * 2^24) of float32 or float64 logits, same shape. Raises RowError for NaN, Inf or
    a magnitude above 2^30."""
    values = np.asarray(logits, dtype=np.float64)
    if values.shape[-1:] == (0,) or not bool((np.abs(values) <= LOGIT_LIMIT).all()):
        raise RowError(
            f"logits: NaN, Inf, empty or a magnitude above {LOGIT_LIMIT:.0f}; the row cannot be sampled"
        )
    return np.rint(values * Q24).astype(np.int64)


def scores_q24(logits: Ints, params: SamplingParams, position: int) -> Ints:
    """logit + floor(temperature * noise) for every token, Q24 int64 [vocab]."""
    if params.temperature_ppm == 0:
        return logits
    noise = noise_q24(params.seed, position, len(logits))
    return logits + (noise * params.temperature_ppm) // PPM


def top_k_threshold(logits: Ints, k: int) -> int:
    """The k-th largest logit; every logit at or above it is allowed. 0, or k >= vocab: no threshold."""
    if k == 0 or k >= len(logits):
        return NO_THRESHOLD
    return int(np.partition(logits, len(logits) - k)[len(logits) - k])


def top_p_threshold(logits: Ints, p_ppm: int, temperature_ppm: int) -> int:
    """Smallest logit of the least set of largest logits whose softmax(logit / T) mass reaches ``p_ppm``; at
    least one token is in the set. p >= 1: no threshold."""
    if p_ppm >= PPM:
        return NO_THRESHOLD
    scale = PPM / (Q24 * temperature_ppm)
    target = float(np.exp((logits - logits.max()) * scale).sum()) * max(p_ppm, 0) / PPM
    count = len(logits)
    top = min(count, 256)
    while True:  # sort only as many of the largest as the mass needs
        largest = np.sort(np.partition(logits, count - top)[count - top :])[::-1]
        mass = np.cumsum(np.exp((largest - largest[0]) * scale))
        if mass[-1] >= target or top == count:
            return int(largest[min(int(np.searchsorted(mass, target)), top - 1)])
        top = min(count, top * 16)


def _thresholds(logits: Ints, params: SamplingParams, slack_ppm: int) -> tuple[int, int]:
    """(strict, loose): the masks at top_p - slack and top_p + slack. Greedy needs neither: its token is the
    largest logit, which every mask allows."""
    if not params.masked or params.temperature_ppm == 0:
        return NO_THRESHOLD, NO_THRESHOLD
    k = top_k_threshold(logits, params.top_k)
    if params.top_p_ppm == PPM:
        return k, k
    strict = top_p_threshold(logits, params.top_p_ppm - slack_ppm, params.temperature_ppm)
    loose = strict
    if slack_ppm:
        loose = top_p_threshold(logits, params.top_p_ppm + slack_ppm, params.temperature_ppm)
    return max(k, strict), max(k, loose)


def sample(logits: NDArray[Any], params: SamplingParams, position: int) -> int:
    """The token drawn from float logits [vocab] of the row at ``position``. Ties go to the lowest id."""
    values = logits_q24(logits)
    return _best(values, scores_q24(values, params, position), params)


def _best(values: Ints, scores: Ints, params: SamplingParams) -> int:
    threshold, _ = _thresholds(values, params, 0)
    return int(
        np.argmax(
            scores if threshold == NO_THRESHOLD else np.where(values >= threshold, scores, 2 * NO_THRESHOLD)
        )
    )


def _margin(values: Ints, scores: Ints, params: SamplingParams, claimed: int) -> int:
    strict, loose = _thresholds(values, params, TOP_P_SLACK_PPM)
    gaps = scores - scores[claimed]
    if strict != NO_THRESHOLD:
        gaps = np.minimum(gaps, values - strict)
    below = loose - int(values[claimed]) if loose != NO_THRESHOLD else 0
    return max(int(gaps.max()), below, 0)


def margin_q24(logits: NDArray[Any], params: SamplingParams, position: int, claimed: int) -> int:
    """By how much ``claimed`` loses under logits [vocab] of the row at ``position``, Q24 >= 0; 0 for the
    token that ``sample`` returns. Raises InvalidRequest if the token is not in the vocabulary."""
    row = np.asarray(logits).reshape(1, -1)
    return int(margins(row, params, position, np.array([claimed]))[0][0])


def margins(
    logits: NDArray[Any], params: SamplingParams, first_position: int, claimed: NDArray[Any]
) -> tuple[Ints, Ints]:
    """Margins (Q24) of ``claimed[i]`` under ``logits[i]`` [n, vocab], the row at ``first_position + i``, and
    the token that ``sample`` would return for each row; int64 [n] both."""
    if len(logits) != len(claimed):
        raise InvalidRequest(f"claimed: {len(claimed)} tokens for {len(logits)} rows of logits")
    out = np.zeros(len(claimed), dtype=np.int64)
    best = np.zeros(len(claimed), dtype=np.int64)
    for i, token in enumerate(claimed):
        values = logits_q24(logits[i])
        if not 0 <= token < len(values):
            raise InvalidRequest(f"claimed: token {token} is outside the vocabulary of {len(values)}")
        scores = scores_q24(values, params, first_position + i)
        best[i] = _best(values, scores, params)
        if best[i] != token:
            out[i] = _margin(values, scores, params, int(token))
    return out, best
