"""The numba kernels that find who can win a row without computing every score (``headrow`` uses them).

A token's score is logit + temperature * noise. Given an approximate logit of every token and a bound on its
error, a token can be left out if even its largest possible score is below one that is certain. With
g = -ln(-ln(1 - W)) of the noise word w, W = (2w + 1) / 2^33, and -ln(1 - W) >= W, reaching the score B needs

    log2(w) - 32 <= (approximate logit + bound - B) / temperature * log2(e).

The bits of the float32 w, read as an integer, are at most 2^23 (log2(w) + 127) and never far below it
(Mitchell, "Computer multiplication and division using binary logarithms", 1962). So the test is one
multiplication, one addition and one comparison, which LLVM vectorises like the Philox rounds before it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from verillm.constants import PPM, SCORE_FRACTION_BITS
from verillm.sampling.kernel import BLOCK, fill_words, gumbel_q24, value_of

_Q24 = float(1 << SCORE_FRACTION_BITS)
_BINADE = float(1 << 23)
_LOG2_E = 1.4426950408889634
_NEVER = 0xFF80  # -inf in bfloat16
_SLACK_BITS = 2048.0  # about 500 for float32 rounding, 3 for the error of the integer noise
_SLACK_RELATIVE = 2.0**-20  # of the largest logit or score: float32 rounding
_SLACK_SCORE = 2.0**-22  # logits and scores are rounded to Q24
CROWDED = -1


@njit(cache=True, nogil=True)
def magnitude(approx):
    """The largest magnitude of finite bfloat16 bits [n]."""
    largest = np.uint32(0)
    for k in range(approx.size):
        largest = max(largest, np.uint32(np.uint32(approx[k]) & np.uint32(0x7FFF)))
    return np.float64(value_of(largest))


@njit(cache=True, nogil=True)
def argmax(approx):
    """The first index of the largest of finite bfloat16 bits [n] (in their order as integers: -0.0 < 0.0)."""
    best = np.int32(-(2**31))
    for k in range(approx.size):
        bits = np.int32(np.uint32(approx[k]) << np.uint32(16))
        best = max(best, np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    wanted = np.uint16(np.uint32(best ^ ((best >> 31) & 0x7FFFFFFF)) >> 16)
    for first in range(0, approx.size, BLOCK):
        block = approx[first : first + BLOCK]
        found = np.uint32(0)
        for k in range(block.size):
            found |= np.uint32(block[k] == wanted)
        if found != 0:
            for k in range(block.size):
                if block[k] == wanted:
                    return first + k
    return 0


@njit(cache=True, nogil=True)
def _block_reaches(approx, words, floats, bits, scale, offset):
    """Can any token of the block reach the score? Both sides in units of 2^-23 binary logarithms."""
    for k in range(BLOCK):
        floats[k] = np.float32(words[k])
    found = np.uint32(0)
    for k in range(BLOCK):
        found |= np.uint32(np.float32(bits[k]) <= value_of(approx[k]) * scale + offset)
    return found != 0


@njit(cache=True, nogil=True)
def _surely(logit, word, bound, temperature):
    """A score that the token has at least."""
    noise = temperature * gumbel_q24(np.int64(word)) / _Q24
    return np.float64(value_of(logit)) - bound - _SLACK_SCORE + noise


@njit(cache=True, nogil=True)
def _offset(score, bound, largest, temperature):
    """The right side's constant: who cannot reach ``score`` fails the test."""
    slack = bound + _SLACK_SCORE + _SLACK_RELATIVE * (largest + abs(score))
    return np.float32(((slack - score) / temperature * _LOG2_E + 159.0) * _BINADE + _SLACK_BITS)


@njit(cache=True, nogil=True)
def contenders(approx, bound, largest, start, seed, position, temperature_ppm, out):
    """The tokens that can have the best score, ascending, into ``out``; their number, or CROWDED.

    ``approx`` bfloat16 bits [vocab], each within ``bound`` of the exact logit, ``largest`` their largest
    magnitude, ``start`` a token to beat, ``temperature_ppm`` > 0, ``seed`` and ``position`` uint64.
    """
    temperature = temperature_ppm / PPM
    scale = np.float32(_LOG2_E / temperature * _BINADE)
    words, floats = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    bits = floats.view(np.int32)
    fill_words(seed, position, start >> 2, words)
    score = _surely(approx[start], words[start & 3], bound, temperature)
    offset = _offset(score, bound, largest, temperature)
    last = np.full(BLOCK, _NEVER, np.uint16)
    count = 0
    for first in range(0, approx.size, BLOCK):
        block = approx[first : first + BLOCK]
        if block.size < BLOCK:
            last[: block.size] = block
            block = last
        fill_words(seed, position, first >> 2, words)
        if not _block_reaches(block, words, floats, bits, scale, offset):
            continue
        for k in range(BLOCK):
            if np.float32(bits[k]) <= value_of(block[k]) * scale + offset:
                if count == out.size:
                    return CROWDED
                out[count] = first + k
                count += 1
                sure = _surely(block[k], words[k], bound, temperature)
                if sure > score:
                    score = sure
                    offset = _offset(score, bound, largest, temperature)
    return count


@njit(cache=True, nogil=True)
def at_least(approx, limit, out):
    """The tokens with an approximate logit of at least ``limit``, ascending, into ``out``; their number, or
    CROWDED."""
    count = 0
    for first in range(0, approx.size, BLOCK):
        block = approx[first : first + BLOCK]
        found = np.uint32(0)
        for k in range(block.size):
            found |= np.uint32(value_of(block[k]) >= limit)
        if found == 0:
            continue
        for k in range(block.size):
            if value_of(block[k]) >= limit:
                if count == out.size:
                    return CROWDED
                out[count] = first + k
                count += 1
    return count


@njit(cache=True, nogil=True)
def mask_limit(approx, error, rounding, k, temperature, tail_share):
    """(limit, least, most): tokens whose approximate logit is at least ``limit`` have the k largest exact
    logits and all but about ``tail_share`` of the softmax mass. The others' mass is ``least`` to ``most``, in
    units of exp(largest approximate logit / temperature).

    Each approximate logit a is within ``error`` + ``rounding`` |a|; they are counted by value.
    """
    counts = np.zeros(1 << 16, np.int64)
    for i in range(approx.size):
        counts[approx[i]] += 1
    values, numbers, masses = np.empty(1 << 16), np.empty(1 << 16), np.empty(1 << 16)
    n, total = 0, 0.0
    for i in range(1 << 16):  # from the largest value to the smallest
        bits = np.uint16(0x7FFF - i if i < 1 << 15 else i)
        if counts[bits]:
            values[n], numbers[n] = np.float64(value_of(bits)), counts[bits]
            masses[n] = numbers[n] * np.exp((values[n] - values[0]) / temperature)
            total += masses[n]
            n += 1
    limit, seen, below, kth = np.inf, 0, total, -np.inf
    least = most = 0.0
    for i in range(n):
        bound = error + rounding * abs(values[i])
        if below > tail_share * total or seen < k or (k and values[i] + bound >= kth):
            limit = values[i]
        else:
            least += masses[i] * np.exp(-bound / temperature)
            most += masses[i] * np.exp(bound / temperature)
        if seen < k and seen + numbers[i] >= k:
            kth = values[i] - bound
        seen += numbers[i]
        below -= masses[i]
    return limit, least, most
