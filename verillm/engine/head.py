"""The output head: tokens and margins come from rows after the final norm, not from the model's own logits,
so the committed row fixes them.

One bfloat16 matrix product gives an approximate logit of every token; ``HeadRow`` computes exactly those that
decide. Before its output is rounded, the product is off by at most

    |row - bf16(row)| |W_v|  +  2 d 2^-24 |bf16(row)| |W_v|:

Cauchy-Schwarz, and float32 accumulation in any order (Higham, "Accuracy and Stability of Numerical
Algorithms", 2002, section 3.1), twice that for kernels that round two times per step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from verillm.constants import Dtype
from verillm.engine.loading import TORCH_DTYPES
from verillm.errors import InvalidRequest
from verillm.sampling import sampler
from verillm.sampling.headrow import HeadRow, LogitRow
from verillm.types import SamplingParams

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
BLOCK = 64
"""Rows per block: approximate logits of 64 rows of 49,152 are 6 MiB, and are judged while in the cache."""
NORM_ERROR = 1.001
"""Covers the float32 rounding of norms."""


class OutputHead:
    """The head of output matrix ``weight``, bfloat16 [vocab, d], for rows of ``dtype``: uint8 [n, row_bytes].

    The logits that decide are float64 dot products, equal on all hosts. A device other than the CPU computes
    float32 logits of the whole vocabulary instead: its bfloat16 product keeps no such bound.
    """

    def __init__(self, weight: torch.Tensor, dtype: Dtype) -> None:
        self.weight, self._dtype = weight, TORCH_DTYPES[dtype]

    def values(self, rows: U8) -> torch.Tensor:
        """Rows as values [n, d] on the head's device."""
        return torch.from_numpy(rows.copy()).view(self._dtype).to(self.weight.device)

    def logits(self, rows: U8) -> NDArray[np.float32]:
        """float32 [n, vocab], accumulated in float32."""
        return self.float_logits(self.values(rows)).cpu().numpy()

    def float_logits(self, values: torch.Tensor) -> torch.Tensor:
        """``logits`` of rows [n, d] that are on the head's device, and there."""
        return values.float() @ self._float_t

    def sample(
        self, values: torch.Tensor, params: Sequence[SamplingParams], positions: Sequence[int]
    ) -> list[int]:
        """The token drawn from each row of [n, d] on the head's device; row i stands at ``positions[i]``.
        Raises RowError for NaN, Inf or a logit beyond 2^30."""
        judges = (judge for block in values.split(BLOCK) for judge in self._judges(block))
        drawn = zip(judges, params, positions, strict=True)
        return [judge.sample(how, position) for judge, how, position in drawn]

    def margins(
        self, rows: U8, params: SamplingParams, first_position: int, claimed: Sequence[int]
    ) -> tuple[I64, I64]:
        """(margins of the ``claimed`` tokens in Q24, tokens that ``sample`` would draw), int64 [n] each; row
        i stands at ``first_position + i``. Raises InvalidRequest or RowError."""
        if len(rows) != len(claimed):
            raise InvalidRequest(f"claimed: {len(claimed)} tokens for {len(rows)} rows")
        judges = enumerate(zip(self.rows(rows), claimed, strict=True), first_position)
        found = [judge.margin(params, position, int(token)) for position, (judge, token) in judges]
        gaps, best = np.array(found, np.int64).reshape(-1, 2).T
        return gaps, best

    def rows(self, rows: U8) -> Iterator[HeadRow | LogitRow]:
        """A judge of each row."""
        for first in range(0, len(rows), BLOCK):
            yield from self._judges(self.values(rows[first : first + BLOCK]))

    def _judges(self, values: torch.Tensor) -> Iterator[HeadRow | LogitRow]:
        if values.device.type != "cpu":
            yield from map(LogitRow, self.float_logits(values).cpu().numpy())
            return
        rounded = values.bfloat16()
        norms = torch.linalg.vector_norm(rounded.float(), dim=1) * self._largest_norm
        lost = torch.linalg.vector_norm(values.float() - rounded.float(), dim=1) * self._largest_norm
        error = NORM_ERROR * (lost + 2.0**-23 * values.shape[1] * norms)
        error = torch.where(norms <= sampler.LOGIT_LIMIT, error, torch.inf).tolist()
        approx = (rounded @ self.weight.T).view(torch.uint16).numpy()
        exact = values.double().numpy()
        for i in range(len(exact)):
            yield HeadRow(exact[i], self._bits, approx[i], error[i])

    @cached_property
    def _float_t(self) -> torch.Tensor:
        return self.weight.float().T

    @cached_property
    def _bits(self) -> NDArray[np.uint16]:
        return self.weight.view(torch.uint16).numpy()

    @cached_property
    def _largest_norm(self) -> float:
        return float(torch.linalg.vector_norm(self.weight.float(), dim=1).max())
