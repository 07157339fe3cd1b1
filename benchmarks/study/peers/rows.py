"""What every peer gets to see of a job, and the interface that all peers have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from verillm.constants import Dtype
from verillm.engine.loading import TORCH_DTYPES
from verillm.errors import ConfigError, InvalidRequest

U8 = NDArray[np.uint8]
Ints = NDArray[np.int64]


class PeerUnavailable(ConfigError):
    """A peer's software is not installed here, or does not load; the message says what to do."""


@dataclass(frozen=True)
class Rows:
    """Rows after the final norm of one job: uint8 [n, row_bytes], row t for the token at position t.

    A job with P prompt and O output tokens has n = P + O - 1 rows; row P - 1 + i is the one that output token
    i is sampled from. Raises InvalidRequest for fewer rows than prompt tokens, or rows that are not whole.
    """

    values: U8
    dtype: Dtype
    prompt_tokens: int

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.dtype != np.uint8:
            raise InvalidRequest("rows: values must be uint8 [n, row_bytes]")
        if self.values.shape[1] % TORCH_DTYPES[self.dtype].itemsize:
            raise InvalidRequest(f"rows: {self.values.shape[1]} bytes are no whole number of {self.dtype!r}")
        if not 1 <= self.prompt_tokens <= len(self.values):
            raise InvalidRequest(f"rows: {len(self.values)} for {self.prompt_tokens} prompt tokens")

    def prefix(self, outputs: int) -> Rows:
        """The rows of the same job if it had ended after ``outputs`` tokens. Raises InvalidRequest if it has
        fewer."""
        count = self.prompt_tokens + outputs - 1
        if outputs < 1 or count > len(self.values):
            raise InvalidRequest(
                f"outputs: {outputs} is outside 1 to {len(self.values) - self.prompt_tokens + 1}"
            )
        return replace(self, values=self.values[:count])

    def sampled_from(self) -> Rows:
        """Only the rows that output tokens are sampled from, as of a job whose prompt is one token."""
        return replace(self, values=self.values[self.prompt_tokens - 1 :], prompt_tokens=1)

    def tensor(self) -> torch.Tensor:
        """The rows as [n, d] in their own dtype. Copied: a store's rows may be read-only, torch's may not."""
        return torch.from_numpy(np.array(self.values, order="C")).view(TORCH_DTYPES[self.dtype])


class Peer(Protocol):
    """One scheme. ``prove`` is all that it adds to the prover's work, ``score`` all that it adds to the
    verifier's beyond the prefill (and beyond the margins, where it uses them)."""

    name: str

    def bytes_per_token(self, dtype: Dtype) -> float:
        """Evidence per output token of a long output, as published."""

    def prove(self, rows: Rows) -> bytes:
        """The evidence that the provider sends."""

    def score(self, evidence: bytes, own: Rows, margins: Ints) -> float:
        """Higher is more suspicious; inf for evidence that the scheme cannot read.

        ``own`` are the verifier's rows of the same tokens, ``margins`` int64 [outputs] in Q24: by how much
        each output token loses under the seeded sampler, 0 if it wins.
        """


def prefix_scores(
    peer: Peer, claimed: Rows, own: Rows, margins: Ints, prefixes: Sequence[int]
) -> list[float]:
    """The scores if the job had ended after each number of output tokens in ``prefixes``, with the evidence
    that such a job would have sent."""
    return [peer.score(peer.prove(claimed.prefix(k)), own.prefix(k), margins[:k]) for k in prefixes]
