"""The numba kernel of ``fast``: many independent short keccak256 messages at once, and tree levels of them.

Every preimage of the protocol's trees is a tag and at most 134 bytes, so one keccak-f[1600] permutation. The
kernel runs ``_B`` independent messages at once, state word w of message i at ``s[w * _B + i]``: each
round is one straight-line loop over i, which LLVM turns into AVX2 or AVX-512 code. The state stays in L1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verillm.constants import CHUNK_BYTES, Tag
from verillm.errors import ConfigError

try:
    from numba import njit
except ImportError:
    raise ConfigError("numba: not installed; hashing rows needs it: pip install 'verillm[worker]'") from None

U64 = npt.NDArray[np.uint64]

_B = 16  # states per batch
_RATE_WORDS = 17
_WORDS = 4  # u64 words per hash
_CHUNK_WORDS = CHUNK_BYTES // 8
_NODE_TAG = int(Tag.NODE)
_CHUNK_TAG = int(Tag.CHUNK)


def _round_constants() -> U64:
    """FIPS 202, 3.2.5: bits from the LFSR x^8 + x^6 + x^5 + x^4 + 1."""
    constants, lfsr = [], 1
    for _ in range(24):
        word = 0
        for j in range(7):
            word |= (lfsr & 1) << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ ((lfsr >> 7) * 0x171)
        constants.append(word)
    return np.array(constants, np.uint64)


_ROUND_CONSTANTS = _round_constants()


@njit(cache=True, nogil=True, inline="always")
def _rotl(x, n):
    return (x << n) | (x >> (64 - n))


@njit(cache=True, nogil=True)
def _round(s, rc):
    """One keccak-f[1600] round (theta, rho, pi, chi, iota) of ``_B`` states."""
    for i in range(_B):
        c0 = s[i] ^ s[5 * _B + i] ^ s[10 * _B + i] ^ s[15 * _B + i] ^ s[20 * _B + i]
        c1 = s[1 * _B + i] ^ s[6 * _B + i] ^ s[11 * _B + i] ^ s[16 * _B + i] ^ s[21 * _B + i]
        c2 = s[2 * _B + i] ^ s[7 * _B + i] ^ s[12 * _B + i] ^ s[17 * _B + i] ^ s[22 * _B + i]
        c3 = s[3 * _B + i] ^ s[8 * _B + i] ^ s[13 * _B + i] ^ s[18 * _B + i] ^ s[23 * _B + i]
        c4 = s[4 * _B + i] ^ s[9 * _B + i] ^ s[14 * _B + i] ^ s[19 * _B + i] ^ s[24 * _B + i]
        d0 = c4 ^ _rotl(c1, 1)
        d1 = c0 ^ _rotl(c2, 1)
        d2 = c1 ^ _rotl(c3, 1)
        d3 = c2 ^ _rotl(c4, 1)
        d4 = c3 ^ _rotl(c0, 1)
        b0 = s[i] ^ d0
        b1 = _rotl(s[6 * _B + i] ^ d1, 44)
        b2 = _rotl(s[12 * _B + i] ^ d2, 43)
        b3 = _rotl(s[18 * _B + i] ^ d3, 21)
        b4 = _rotl(s[24 * _B + i] ^ d4, 14)
        b5 = _rotl(s[3 * _B + i] ^ d3, 28)
        b6 = _rotl(s[9 * _B + i] ^ d4, 20)
        b7 = _rotl(s[10 * _B + i] ^ d0, 3)
        b8 = _rotl(s[16 * _B + i] ^ d1, 45)
        b9 = _rotl(s[22 * _B + i] ^ d2, 61)
        b10 = _rotl(s[1 * _B + i] ^ d1, 1)
        b11 = _rotl(s[7 * _B + i] ^ d2, 6)
        b12 = _rotl(s[13 * _B + i] ^ d3, 25)
        b13 = _rotl(s[19 * _B + i] ^ d4, 8)
        b14 = _rotl(s[20 * _B + i] ^ d0, 18)
        b15 = _rotl(s[4 * _B + i] ^ d4, 27)
        b16 = _rotl(s[5 * _B + i] ^ d0, 36)
        b17 = _rotl(s[11 * _B + i] ^ d1, 10)
        b18 = _rotl(s[17 * _B + i] ^ d2, 15)
        b19 = _rotl(s[23 * _B + i] ^ d3, 56)
        b20 = _rotl(s[2 * _B + i] ^ d2, 62)
        b21 = _rotl(s[8 * _B + i] ^ d3, 55)
        b22 = _rotl(s[14 * _B + i] ^ d4, 39)
        b23 = _rotl(s[15 * _B + i] ^ d0, 41)
        b24 = _rotl(s[21 * _B + i] ^ d1, 2)
        s[i] = b0 ^ (~b1 & b2) ^ rc
        s[1 * _B + i] = b1 ^ (~b2 & b3)
        s[2 * _B + i] = b2 ^ (~b3 & b4)
        s[3 * _B + i] = b3 ^ (~b4 & b0)
        s[4 * _B + i] = b4 ^ (~b0 & b1)
        s[5 * _B + i] = b5 ^ (~b6 & b7)
        s[6 * _B + i] = b6 ^ (~b7 & b8)
        s[7 * _B + i] = b7 ^ (~b8 & b9)
        s[8 * _B + i] = b8 ^ (~b9 & b5)
        s[9 * _B + i] = b9 ^ (~b5 & b6)
        s[10 * _B + i] = b10 ^ (~b11 & b12)
        s[11 * _B + i] = b11 ^ (~b12 & b13)
        s[12 * _B + i] = b12 ^ (~b13 & b14)
        s[13 * _B + i] = b13 ^ (~b14 & b10)
        s[14 * _B + i] = b14 ^ (~b10 & b11)
        s[15 * _B + i] = b15 ^ (~b16 & b17)
        s[16 * _B + i] = b16 ^ (~b17 & b18)
        s[17 * _B + i] = b17 ^ (~b18 & b19)
        s[18 * _B + i] = b18 ^ (~b19 & b15)
        s[19 * _B + i] = b19 ^ (~b15 & b16)
        s[20 * _B + i] = b20 ^ (~b21 & b22)
        s[21 * _B + i] = b21 ^ (~b22 & b23)
        s[22 * _B + i] = b22 ^ (~b23 & b24)
        s[23 * _B + i] = b23 ^ (~b24 & b20)
        s[24 * _B + i] = b24 ^ (~b20 & b21)


@njit(cache=True, nogil=True)
def _hash_into(src, out, groups, per_group, stride, step, out_stride, words, length, tag, s):
    """out[g * out_stride + 4 j ..] = keccak256(tag || ``length`` bytes at src[g * stride + j * step ..]).

    ``src`` and ``out`` are flat u64 (little-endian views); bytes of the last word beyond ``length`` are zero.
    ``words`` = ceil(length / 8) <= 16, length <= 134; ``s`` is scratch of 25 * _B words.
    """
    total = groups * per_group
    pad_word = (length + 1) // 8
    pad_bit = np.uint64(1) << np.uint64(8 * ((length + 1) % 8))
    for first in range(0, total, _B):
        live = min(_B, total - first)
        s[:] = 0
        for i in range(live):
            message = first + i
            at = (message // per_group) * stride + (message % per_group) * step
            carry = np.uint64(tag)
            for w in range(words):
                value = src[at + w]
                s[w * _B + i] = (value << np.uint64(8)) | carry
                carry = value >> np.uint64(56)
            s[words * _B + i] = carry
            s[pad_word * _B + i] ^= pad_bit
            s[(_RATE_WORDS - 1) * _B + i] ^= np.uint64(1 << 63)
        for r in range(24):
            _round(s, _ROUND_CONSTANTS[r])
        for i in range(live):
            message = first + i
            at = (message // per_group) * out_stride + (message % per_group) * _WORDS
            for w in range(_WORDS):
                out[at + w] = s[w * _B + i]


@njit(cache=True, nogil=True)
def _level_up(nodes, groups, count, s):
    """The next level of ``groups`` trees of ``count`` nodes each: flat u64 [groups * ceil(count / 2) * 4]."""
    pairs, above = count // 2, (count + 1) // 2
    out = np.empty(groups * above * _WORDS, np.uint64)
    _hash_into(nodes, out, groups, pairs, count * _WORDS, 2 * _WORDS, above * _WORDS, 8, 64, _NODE_TAG, s)
    if count % 2:
        for g in range(groups):
            for w in range(_WORDS):
                out[(g * above + pairs) * _WORDS + w] = nodes[(g * count + count - 1) * _WORDS + w]
    return out


@njit(cache=True, nogil=True)
def row_roots(src, n, row_words, row_bytes):
    """Chunk roots of ``n`` rows of ``row_words`` u64 words (zero-padded ``row_bytes``): flat u64 [n * 4]."""
    s = np.empty(25 * _B, np.uint64)
    full, rest = row_bytes // CHUNK_BYTES, row_bytes % CHUNK_BYTES
    count = full + (1 if rest else 0)
    nodes = np.empty(n * count * _WORDS, np.uint64)
    if full:
        _hash_into(
            src,
            nodes,
            n,
            full,
            row_words,
            _CHUNK_WORDS,
            count * _WORDS,
            _CHUNK_WORDS,
            CHUNK_BYTES,
            _CHUNK_TAG,
            s,
        )
    if rest:
        tail, out = src[full * _CHUNK_WORDS :], nodes[full * _WORDS :]
        _hash_into(tail, out, n, 1, row_words, 0, count * _WORDS, (rest + 7) // 8, rest, _CHUNK_TAG, s)
    while count > 1:
        nodes = _level_up(nodes, n, count, s)
        count = (count + 1) // 2
    return nodes


@njit(cache=True, nogil=True)
def hash_all(src, n, words, length, tag):
    s = np.empty(25 * _B, np.uint64)
    out = np.empty(n * _WORDS, np.uint64)
    _hash_into(src, out, 1, n, 0, words, 0, words, length, tag, s)
    return out


@njit(cache=True, nogil=True)
def tree_level(nodes, count):
    return _level_up(nodes, 1, count, np.empty(25 * _B, np.uint64))


@njit(cache=True, nogil=True)
def first_with(rows, bits):
    """Index of the first of n rows of unsigned words with a word that has all ``bits`` set; n if none has."""
    for i in range(rows.shape[0]):
        found = np.uint32(0)
        for word in rows[i]:
            found |= np.uint32((word & bits) == bits)
        if found:
            return i
    return rows.shape[0]
