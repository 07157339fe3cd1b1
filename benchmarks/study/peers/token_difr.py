"""Token-DiFR: by how much output tokens lose under the shared seed (Karvonen et al., arXiv 2511.20621)."""

from __future__ import annotations

import numpy as np

from verillm.constants import Dtype
from verillm.sampling.sampler import Q24

from .rows import Ints, Rows

CLIP_QUANTILE = 0.999
"""Margins are clipped at this quantile of trusted tokens: ``plot_token_difr_bar_plot.py`` of the authors'
repository, adamkarvonen/difr."""
CLIP = 0.5
"""The same authors' clip in logits, in ``plot_classification.py``, used where no quantile is known."""


class TokenDifr:
    """The mean over output tokens of the margin after Gumbel noise, clipped: how far the claimed token's
    noised logit lies below the largest one, where the noise comes from the shared seed and is scaled by the
    temperature (``compute_margin`` in the authors' ``vllm_verification.py``).

    Margins are this project's own (docs/protocol.md, section 2), which differ from theirs for top-k and top-p
    alone: a token outside the mask has a finite margin here and an infinite one there, where it is clipped.
    """

    name = "token-difr"

    def __init__(self, clip: float = CLIP) -> None:
        """``clip`` is in logits."""
        self.clip = clip

    @classmethod
    def calibrated(cls, honest: Ints) -> TokenDifr:
        """Clipped at CLIP_QUANTILE of the margins (Q24) of honest tokens; at CLIP if that is 0, which would
        make every score 0."""
        return cls(float(np.quantile(honest, CLIP_QUANTILE)) / Q24 or CLIP)

    def bytes_per_token(self, dtype: Dtype) -> float:
        """None: the tokens are the evidence."""
        return 0.0

    def prove(self, rows: Rows) -> bytes:
        return b""

    def score(self, evidence: bytes, own: Rows, margins: Ints) -> float:
        """In logits, between 0 and ``clip``."""
        return float(np.minimum(margins / Q24, self.clip).mean())
