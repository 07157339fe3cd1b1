"""Activation-DiFR: compare random projections of final activations (Karvonen et al., arXiv 2511.20621)."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from verillm.constants import Dtype
from verillm.engine.loading import TORCH_DTYPES

from .rows import Ints, Rows

DIMENSIONS = (3, 8)
"""3 in bf16 are 26 % fewer bytes than TOPLOC, the near end of the published 25 to 75 %; 8 is the default of
the authors' ``plot_classification.py``, which has up to 128."""
SEED = 42


@cache
def projection(hidden_size: int, dimensions: int) -> torch.Tensor:
    """float32 [d, k], columns orthogonal, of length sqrt(d / k), so that a projection has the expected length
    of the row. The same for everyone: drawn on the CPU from SEED."""
    draw = torch.Generator().manual_seed(SEED)
    gaussian = torch.randn(hidden_size, dimensions, generator=draw, dtype=torch.float64)
    columns, _ = torch.linalg.qr(gaussian)
    return (columns * (hidden_size / dimensions) ** 0.5).float()


class ActivationDifr:
    """The mean over output tokens of the L2 distance between both sides' projections to ``dimensions`` of the
    row that the token is sampled from. Nothing is normalised by the row's length, and nothing is clipped.

    The abstract says orthogonal projections. The public code (``create_down_proj_matrices``) has independent
    normal entries of variance 1 / k instead; both keep lengths in expectation. The evidence is the projection
    in the rows' dtype, as there.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.name = f"activation-difr-{dimensions}"

    def bytes_per_token(self, dtype: Dtype) -> float:
        return float(self.dimensions * TORCH_DTYPES[dtype].itemsize)

    def _project(self, rows: Rows) -> torch.Tensor:
        """[outputs, k] in the rows' dtype."""
        values = rows.sampled_from().tensor()
        return (values.float() @ projection(values.shape[1], self.dimensions)).to(values.dtype)

    def prove(self, rows: Rows) -> bytes:
        return self._project(rows).view(torch.uint8).numpy().tobytes()

    def score(self, evidence: bytes, own: Rows, margins: Ints) -> float:
        mine = self._project(own)
        if len(evidence) != mine.nbytes:
            return float("inf")
        theirs = torch.frombuffer(bytearray(evidence), dtype=mine.dtype).view(mine.shape)
        distance = (mine.float() - theirs.float()).norm(dim=1).mean().item()
        return float("inf") if np.isnan(distance) else distance
