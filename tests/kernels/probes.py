"""Kernels that run one device function each, for tests of the function alone."""

from __future__ import annotations

import triton
import triton.language as tl

from verillm.kernels.noise import gumbel_q24, noise_words
from verillm.kernels.sampler import _logit_q24


@triton.jit
def words_kernel(seed, position, out, BLOCK: tl.constexpr):
    block = tl.arange(0, BLOCK).to(tl.int64)
    words = noise_words(tl.load(seed), tl.load(position), block)
    for j in tl.static_range(4):
        tl.store(out + block * 4 + j, words[j])


@triton.jit
def gumbel_kernel(words, out, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, gumbel_q24(tl.load(words + i, mask=i < count, other=0)), mask=i < count)


@triton.jit
def logit_kernel(bits, out, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, _logit_q24(tl.load(bits + i, mask=i < count, other=0)), mask=i < count)
