"""Byte-level constants of the protocol. ``docs/protocol.md`` explains each; Solidity has the same in
``contracts/src/libraries/Tags.sol``; ``tests/vectors`` hold both to one set of vectors."""

from __future__ import annotations

from enum import IntEnum

CHUNK_BYTES = 128
"""Row bytes per chunk leaf: tag + chunk is 129 bytes, one keccak-f[1600] permutation (rate 136, pad >= 1)."""

MAX_HIDDEN_SIZE = 8192
"""Largest d for which the comparator's sums fit 64 bits: 2^50 * 2^13 = 2^63."""


class Tag(IntEnum):
    """Domain separation: the first byte of each keccak256 preimage."""

    CHUNK = 0x00
    NODE = 0x01
    ROW = 0x02
    TOKEN = 0x03
    BOUNDARY = 0x04
    JOB = 0x05
    ROUND_LEAF = 0x06
    SETTLEMENT_LEAF = 0x07
    MATRIX_ROW = 0x08
    TOKEN_LIST = 0x09
    DRAW = 0x0A
    POSITIONS = 0x0B
    JURY_VOTE = 0x0C
    EPOCH_SEED = 0x0D


class Dtype(IntEnum):
    """Storage dtype of rows and weights; the value is the byte that is hashed."""

    BF16 = 1
    FP16 = 2
    FP32 = 3

    @property
    def itemsize(self) -> int:
        return 4 if self is Dtype.FP32 else 2


class FinishReason(IntEnum):
    """Why the output ended. EOS: the last output token is an EOS id. STOP: the decoded output contains a
    stop string. LENGTH: max_output_tokens reached."""

    LENGTH = 0
    EOS = 1
    STOP = 2


class Verdict(IntEnum):
    """A verifier's word on a job. UNABLE never costs the worker anything."""

    ACCEPT = 1
    REJECT = 2
    UNABLE = 3


class Role(IntEnum):
    """What a signed commitment is for."""

    WORKER = 0
    VERIFIER = 1


PPM = 1_000_000
SCORE_FRACTION_BITS = 24
"""Fixed-point fraction bits of logits, noise and margins in scores (Q24)."""
TOLERANCE_FRACTION_BITS = 40
"""Fixed-point fraction bits of the comparator's ratio D/N (Q40)."""

ROUND_PENDING_LIMIT = 1000
"""Most jobs in one round."""
