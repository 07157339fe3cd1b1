"""Tokens and margins of whole batches of logits on the device: section 2 of ``docs/protocol.md``.

All arithmetic is on integers. Masks come as thresholds on the logits (``verillm.sampling.sampler`` has the
rules of top-k and top-p).
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from verillm.errors import InvalidRequest, RowError
from verillm.kernels.draws import Draws
from verillm.kernels.launch import OPTIONS, check_device, on_device
from verillm.kernels.noise import gumbel_q24, noise_words
from verillm.sampling.sampler import LOGIT_LIMIT

BLOCK = 128
"""Noise blocks of 4 tokens per program."""
WARPS = 4
_RUNTIME = ["rows", "row_step", "token_step", "vocab", "splits"]
_NOTHING = tl.constexpr(-(1 << 62))
_LIMIT_BITS = tl.constexpr(int(np.float32(LOGIT_LIMIT).view(np.int32)))
# Every noise is above -64,000,000, and 64,000,000 ppm are 64: both keep the division's operand positive.
_LIFT = tl.constexpr(64_000_000)


@triton.jit
def _logit_q24(bits):
    """round-half-even(logit * 2^24) of float32 ``bits`` (int32), as int64. With significand s and biased
    exponent e the product is s * 2^(e - 126): exact if shifted up, 0 if shifted down by 25 or more."""
    magnitude = bits & 0x7FFFFFFF
    exponent = magnitude >> 23
    significand = (magnitude & 0x7FFFFF) | tl.where(exponent > 0, 0x800000, 0)
    up = tl.minimum(tl.maximum(exponent - 126, 0), 31)
    down = tl.minimum(126 - tl.minimum(tl.maximum(exponent, 1), 126), 25)
    below_half = ((1 << down) >> 1) - 1
    rounded = (significand + below_half + ((significand >> down) & 1)) >> down
    q24 = tl.where(down > 0, rounded, significand).to(tl.int64) << up.to(tl.int64)
    return tl.where(bits < 0, -q24, q24)


@triton.jit
def _scores(logit, word, temperature):
    """logit + floor(temperature * noise / 10^6), the temperature below 2^32."""
    lifted = (gumbel_q24(word) + _LIFT).to(tl.uint32).to(tl.uint64) * temperature.to(tl.uint32).to(tl.uint64)
    return logit + (lifted // 1000000).to(tl.int64) - temperature * 64


@triton.jit(do_not_specialize=_RUNTIME)
def claims_kernel(
    logits, row_step, token_step, rows, seeds, positions, temperatures, claimed, claims, BLOCK: tl.constexpr
):
    """``claims`` int64 [rows, 2]: score and logit of token ``claimed[row]``."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = row < rows
    token = tl.load(claimed + row, mask=live, other=0)
    words = noise_words(
        tl.load(seeds + row, mask=live, other=0), tl.load(positions + row, mask=live, other=0), token >> 2
    )
    word = words[0]
    for j in tl.static_range(1, 4):
        word = tl.where((token & 3) == j, words[j], word)
    logit = _logit_q24(tl.load(logits + row * row_step + token * token_step, mask=live, other=0))
    temperature = tl.load(temperatures + row, mask=live, other=0)
    tl.store(claims + row * 2, _scores(logit, word, temperature), mask=live)
    tl.store(claims + row * 2 + 1, logit, mask=live)


@triton.jit(do_not_specialize=_RUNTIME)
def scan_kernel(
    logits,
    row_step,
    token_step,
    vocab,
    splits,
    seeds,
    positions,
    temperatures,
    thresholds,
    strict,
    claims,
    partials,
    BLOCK: tl.constexpr,
):
    """One row's tokens of one split: ``partials`` int64 [rows, 4, splits] gets the best allowed score, its
    lowest token, the largest of min(score - claimed score, logit - strict), and whether a logit is bad."""
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    block = split.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    temperature, threshold = tl.load(temperatures + row), tl.load(thresholds + row)
    floor, claimed_score = tl.load(strict + row), tl.load(claims + row * 2)
    words = noise_words(tl.load(seeds + row), tl.load(positions + row), block)
    best = tl.full([BLOCK], _NOTHING, tl.int64)
    gap = tl.full([BLOCK], _NOTHING, tl.int64)
    winner = tl.zeros([BLOCK], tl.int64)
    bad = tl.zeros([BLOCK], tl.int64)
    for j in tl.static_range(4):
        token = block * 4 + j
        live = token < vocab
        bits = tl.load(logits + row * row_step + token * token_step, mask=live, other=0)
        logit = _logit_q24(bits)
        score = _scores(logit, words[j], temperature)
        better = live & (logit >= threshold) & (score > best)
        best = tl.where(better, score, best)
        winner = tl.where(better, token, winner)
        gap = tl.where(live, tl.maximum(gap, tl.minimum(score - claimed_score, logit - floor)), gap)
        bad |= ((bits & 0x7FFFFFFF) > _LIMIT_BITS).to(tl.int64)
    top = tl.max(best, 0)
    out = partials + row * 4 * splits + split
    tl.store(out, top)
    tl.store(out + splits, tl.min(tl.where(best == top, winner, 1 << 32), 0))
    tl.store(out + 2 * splits, tl.max(gap, 0))
    tl.store(out + 3 * splits, tl.max(bad, 0))


@triton.jit(do_not_specialize=_RUNTIME)
def finish_kernel(partials, splits, claims, claimed, loose, results, SPLITS: tl.constexpr):
    """``results`` int64 [rows, 3] as ``launch`` returns them."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    live = split < splits
    at = partials + row * 4 * splits + split
    best = tl.load(at, mask=live, other=_NOTHING)
    winner = tl.load(at + splits, mask=live, other=1 << 32)
    gap = tl.max(tl.load(at + 2 * splits, mask=live, other=_NOTHING), 0)
    bad = tl.max(tl.load(at + 3 * splits, mask=live, other=0), 0)
    token = tl.min(tl.where(best == tl.max(best, 0), winner, 1 << 32), 0)
    below = tl.load(loose + row) - tl.load(claims + row * 2 + 1)
    margin = tl.where(token == tl.load(claimed + row), 0, tl.maximum(tl.maximum(gap, below), 0))
    tl.store(results + row * 3, token)
    tl.store(results + row * 3 + 1, margin)
    tl.store(results + row * 3 + 2, bad)


def launch(
    logits: torch.Tensor,
    draws: Draws,
    claimed: torch.Tensor | None = None,
    strict: torch.Tensor | None = None,
    loose: torch.Tensor | None = None,
) -> torch.Tensor:
    """What ``sample`` and ``margins`` read, without waiting for the device: int64 [n, 3], each row's token,
    the margin of its claimed token (meaningless without ``claimed``), and 1 if it cannot be sampled.

    Who reads a token must read the flag. Raises as ``margins``, but looks at no value.
    """
    if logits.dtype != torch.float32 or logits.ndim != 2 or logits.shape[1] == 0:
        raise RowError(f"logits: {logits.dtype} {list(logits.shape)}, expected float32 [n, vocab >= 1]")
    check_device("logits", logits)
    n, vocab = logits.shape
    strict, loose = (
        draws.thresholds if strict is None else strict,
        draws.thresholds if loose is None else loose,
    )
    tokens = torch.zeros_like(draws.seeds) if claimed is None else claimed
    columns = (draws.seeds, draws.positions, draws.temperatures_ppm, draws.thresholds, strict, loose, tokens)
    for tensor in columns:
        if tensor.shape != (n,) or tensor.dtype != torch.int64:
            raise InvalidRequest(f"draws: {tensor.dtype} {list(tensor.shape)}, expected int64 [{n}]")
    seeds, positions, temperatures, thresholds, strict, loose, tokens = (c.contiguous() for c in columns)
    bits, splits = logits.view(torch.int32), triton.cdiv(vocab, 4 * BLOCK)
    claims = torch.zeros((n, 2), dtype=torch.int64, device=logits.device)
    partials = torch.empty((n, 4, splits), dtype=torch.int64, device=logits.device)
    results = torch.empty((n, 3), dtype=torch.int64, device=logits.device)
    if n == 0:
        return results
    with on_device(logits):
        if claimed is not None:
            claims_kernel[(triton.cdiv(n, 32),)](
                *(bits, *bits.stride(), n, seeds, positions, temperatures, tokens, claims),
                BLOCK=32,
                num_warps=1,
                **OPTIONS,
            )
        scan_kernel[(n, splits)](
            *(bits, *bits.stride(), vocab, splits, seeds, positions, temperatures),
            *(thresholds, strict, claims, partials),
            BLOCK=BLOCK,
            num_warps=WARPS,
            **OPTIONS,
        )
        finish_kernel[(n,)](
            *(partials, splits, claims, tokens, loose, results),
            SPLITS=triton.next_power_of_2(splits),
            num_warps=1,
            **OPTIONS,
        )
    return results


def _read(results: torch.Tensor) -> NDArray[np.int64]:
    """``launch``'s results on the host. Raises RowError if a row cannot be sampled."""
    out = results.cpu().numpy()
    if out[:, 2].any():
        limit = f"NaN, Inf or a magnitude above {LOGIT_LIMIT:.0f}"
        raise RowError(f"logits[{int(out[:, 2].argmax())}]: {limit}; the row cannot be sampled")
    return out


def sample(logits: torch.Tensor, draws: Draws) -> NDArray[np.int64]:
    """The token drawn from each row of float32 logits [n, vocab], any strides: int64 [n] on the host.

    Ties go to the lowest id. Waits for the device. Raises RowError for NaN, Inf, a magnitude above 2^30 or
    another shape, InvalidRequest for draws of another length, ConfigError for another device.
    """
    return _read(launch(logits, draws))[:, 0]


def margins(
    logits: torch.Tensor,
    draws: Draws,
    claimed: torch.Tensor,
    strict: torch.Tensor | None = None,
    loose: torch.Tensor | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Margins (Q24) of ``claimed`` (int64 [n]), and the tokens that ``sample`` would return; int64 [n] each.

    ``strict`` and ``loose`` are thresholds int64 [n] at top_p minus and plus the slack, by default those of
    ``draws``. Raises as ``sample``, and InvalidRequest for a token outside the vocabulary.
    """
    if len(claimed) and not 0 <= int(claimed.min()) <= int(claimed.max()) < logits.shape[-1]:
        worst = f"{int(claimed.min())} to {int(claimed.max())}"
        raise InvalidRequest(f"claimed: tokens {worst} are not all in the vocabulary of {logits.shape[-1]}")
    out = _read(launch(logits, draws, claimed, strict, loose))
    return out[:, 1], out[:, 0]
