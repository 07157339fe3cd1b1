"""keccak-f[1600] of FIPS 202 (SHA-3 standard, section 3), one independent message per tensor element.

A state is a tuple of 25 uint64 tensors of one shape; the compiler keeps them in registers. Every message of
the protocol's trees fits one permutation, so a hash is: fill 17 words, permute, take 4 words.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

HASH_WORDS = 4
ROUNDS = 24


def _round_constants() -> list[int]:
    """FIPS 202, 3.2.5: bits from the LFSR x^8 + x^6 + x^5 + x^4 + 1."""
    constants, lfsr = [], 1
    for _ in range(ROUNDS):
        word = 0
        for j in range(7):
            word |= (lfsr & 1) << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ ((lfsr >> 7) * 0x171)
        constants.append(word)
    return constants


@cache
def constants_on(device: torch.device) -> torch.Tensor:
    """The 24 round constants as int64 bit patterns, where kernels take ``constants``."""
    signed = [word - (1 << 64) if word >> 63 else word for word in _round_constants()]
    return torch.tensor(signed, dtype=torch.int64, device=device)


@triton.jit
def _rotl(x, n: tl.constexpr):
    return (x << n) | (x >> (64 - n))


@triton.jit
def _round(s, constant):
    """theta, rho, pi, chi, iota."""
    c0 = s[0] ^ s[5] ^ s[10] ^ s[15] ^ s[20]
    c1 = s[1] ^ s[6] ^ s[11] ^ s[16] ^ s[21]
    c2 = s[2] ^ s[7] ^ s[12] ^ s[17] ^ s[22]
    c3 = s[3] ^ s[8] ^ s[13] ^ s[18] ^ s[23]
    c4 = s[4] ^ s[9] ^ s[14] ^ s[19] ^ s[24]
    d0 = c4 ^ _rotl(c1, 1)
    d1 = c0 ^ _rotl(c2, 1)
    d2 = c1 ^ _rotl(c3, 1)
    d3 = c2 ^ _rotl(c4, 1)
    d4 = c3 ^ _rotl(c0, 1)
    b0 = s[0] ^ d0
    b1 = _rotl(s[6] ^ d1, 44)
    b2 = _rotl(s[12] ^ d2, 43)
    b3 = _rotl(s[18] ^ d3, 21)
    b4 = _rotl(s[24] ^ d4, 14)
    b5 = _rotl(s[3] ^ d3, 28)
    b6 = _rotl(s[9] ^ d4, 20)
    b7 = _rotl(s[10] ^ d0, 3)
    b8 = _rotl(s[16] ^ d1, 45)
    b9 = _rotl(s[22] ^ d2, 61)
    b10 = _rotl(s[1] ^ d1, 1)
    b11 = _rotl(s[7] ^ d2, 6)
    b12 = _rotl(s[13] ^ d3, 25)
    b13 = _rotl(s[19] ^ d4, 8)
    b14 = _rotl(s[20] ^ d0, 18)
    b15 = _rotl(s[4] ^ d4, 27)
    b16 = _rotl(s[5] ^ d0, 36)
    b17 = _rotl(s[11] ^ d1, 10)
    b18 = _rotl(s[17] ^ d2, 15)
    b19 = _rotl(s[23] ^ d3, 56)
    b20 = _rotl(s[2] ^ d2, 62)
    b21 = _rotl(s[8] ^ d3, 55)
    b22 = _rotl(s[14] ^ d4, 39)
    b23 = _rotl(s[15] ^ d0, 41)
    b24 = _rotl(s[21] ^ d1, 2)
    return (
        b0 ^ b2 ^ (b1 & b2) ^ constant,
        b1 ^ b3 ^ (b2 & b3),
        b2 ^ b4 ^ (b3 & b4),
        b3 ^ b0 ^ (b4 & b0),
        b4 ^ b1 ^ (b0 & b1),
        b5 ^ b7 ^ (b6 & b7),
        b6 ^ b8 ^ (b7 & b8),
        b7 ^ b9 ^ (b8 & b9),
        b8 ^ b5 ^ (b9 & b5),
        b9 ^ b6 ^ (b5 & b6),
        b10 ^ b12 ^ (b11 & b12),
        b11 ^ b13 ^ (b12 & b13),
        b12 ^ b14 ^ (b13 & b14),
        b13 ^ b10 ^ (b14 & b10),
        b14 ^ b11 ^ (b10 & b11),
        b15 ^ b17 ^ (b16 & b17),
        b16 ^ b18 ^ (b17 & b18),
        b17 ^ b19 ^ (b18 & b19),
        b18 ^ b15 ^ (b19 & b15),
        b19 ^ b16 ^ (b15 & b16),
        b20 ^ b22 ^ (b21 & b22),
        b21 ^ b23 ^ (b22 & b23),
        b22 ^ b24 ^ (b23 & b24),
        b23 ^ b20 ^ (b24 & b20),
        b24 ^ b21 ^ (b20 & b21),
    )


@triton.jit
def permute(s, constants, rounds):
    """keccak-f[1600] of a state. ``constants`` points to ``constants_on``. ``rounds`` is 24, as a runtime
    value: ptxas unrolls a loop whose length it knows, and 24 rounds are 73 KB of code, one is 3 KB."""
    for r in range(rounds):
        s = _round(s, tl.load(constants + r).to(tl.uint64, bitcast=True))
    return s


@triton.jit
def absorb(tag: tl.constexpr, body, words: tl.constexpr, length):
    """The state before ``permute`` of the messages tag || body. ``body`` is a tuple of ``words`` <= 16 uint64
    tensors, ``length`` an int tensor, the body's bytes; bits beyond it are zero. keccak256 pads with a 1 bit
    after the message and one at the end of the rate."""
    zero = tl.zeros_like(body[0])
    message = ((body[0] << 8) | tag,)
    for w in tl.static_range(1, words):
        message += ((body[w] << 8) | (body[w - 1] >> 56),)
    message += (body[words - 1] >> 56,)
    for _ in tl.static_range(words + 1, 17):
        message += (zero,)
    last = (length + 1) >> 3
    bit = (zero + 1) << (((length + 1) & 7) * 8).to(tl.uint64)
    s = ()
    for w in tl.static_range(16):
        s += (message[w] ^ tl.where(last == w, bit, zero),)
    s += (message[16] ^ tl.where(last == 16, bit, zero) ^ 0x8000000000000000,)
    for _ in tl.static_range(8):
        s += (zero,)
    return s


@triton.jit
def load_words(at, count: tl.constexpr, mask):
    """``count`` consecutive int64 at each pointer of ``at``, as a tuple of uint64 tensors."""
    words = ()
    for w in tl.static_range(count):
        words += (tl.load(at + w, mask=mask, other=0).to(tl.uint64, bitcast=True),)
    return words


@triton.jit
def store_hash(at, s, mask):
    """The first 4 words of ``s`` as int64 to each pointer of ``at``."""
    for w in tl.static_range(4):
        tl.store(at + w, s[w].to(tl.int64, bitcast=True), mask=mask)


@triton.jit
def hash_pairs(source, target, mask, constants, rounds):
    """Tree node of the 8 words at each pointer of ``source``, to ``target``; both int64."""
    pair = load_words(source, 8, mask)
    s = absorb(1, pair, 8, tl.full(source.shape, 64, tl.int32))
    store_hash(target, permute(s, constants, rounds), mask)
