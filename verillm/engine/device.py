"""Rows and tokens of a model on a CUDA device, by the kernels of ``verillm.kernels``. Needs Triton.

A decoding step waits for the device once, to read its tokens: three int64 per sequence. Rows are hashed and
copied beside the next step; whoever reads a store waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from verillm.commitment.job import RowStore
from verillm.constants import Dtype
from verillm.engine.head import BLOCK, I64, U8, OutputHead
from verillm.engine.rows import HostRows
from verillm.engine.running import to_device
from verillm.errors import InvalidRequest
from verillm.kernels import sampler
from verillm.kernels.draws import Draws
from verillm.kernels.store import DeviceRowStore
from verillm.kernels.stream import RowHasher
from verillm.sampling.headrow import LogitRow
from verillm.types import SamplingParams

UNLIMITED = {"full_attention", "llama"}
"""Layer types, and the model type without any, whose layers attend to all positions before."""


def _by_kernel(params: SamplingParams) -> bool:
    """Whether no mask applies: the token of a greedy job is the largest logit, which every mask allows."""
    return not params.masked or params.temperature_ppm == 0


class DeviceRows(HostRows):
    """Rows are hashed where they are. A row with NaN or Inf is found when its store is read."""

    def __init__(self, device: torch.device) -> None:
        self._hasher = RowHasher(device)

    def new_store(self, boundaries: int, hidden_size: int, dtype: Dtype) -> RowStore:
        return DeviceRowStore(boundaries, hidden_size, dtype)

    def keep(
        self, hidden: Sequence[torch.Tensor], stores: Sequence[RowStore], positions: Sequence[int]
    ) -> None:
        """As ``HostRows.keep``, for stores of ``new_store``. The tensors must not be overwritten afterwards:
        decoders of transformers add residuals out of place, so they need no copies."""
        n = hidden[0].shape[1]
        parts = self._hasher.submit(*(boundary.flatten(0, 1) for boundary in hidden))
        for i, (store, first) in enumerate(zip(stores, positions, strict=True)):
            for b, hashed in enumerate(parts):
                cast(DeviceRowStore, store).append_hashed(b, first, hashed[i * n : (i + 1) * n])

    def mask(self, real: torch.Tensor | None, config: Any) -> torch.Tensor | None:
        """As ``HostRows.mask``: [batch, 1, 1, positions], which sdpa gets as it is. In two dimensions
        transformers looks for padding, and so waits for the device; but it also adds the windows of layers
        that have any."""
        kinds = getattr(config, "layer_types", None) or [config.model_type]
        if real is None or config._attn_implementation != "sdpa" or not UNLIMITED.issuperset(kinds):
            return real
        return real.bool()[:, None, None]


class DeviceHead(OutputHead):
    """The sampler kernel on float32 logits, where no mask applies; masks are the host's."""

    def sample(
        self, values: torch.Tensor, params: Sequence[SamplingParams], positions: Sequence[int]
    ) -> list[int]:
        """As ``OutputHead.sample``; waits for the device once, and once more for each masked row."""
        logits = self.float_logits(values)
        tokens = sampler.sample(logits, Draws.of(params, positions, logits.device)).tolist()
        for i, (how, position) in enumerate(zip(params, positions, strict=True)):
            if not _by_kernel(how):
                tokens[i] = LogitRow(logits[i].cpu().numpy()).sample(how, position)
        return tokens

    def margins(
        self, rows: U8, params: SamplingParams, first_position: int, claimed: Sequence[int]
    ) -> tuple[I64, I64]:
        """As ``OutputHead.margins``."""
        if not _by_kernel(params) or not len(claimed):
            return super().margins(rows, params, first_position, claimed)
        if len(rows) != len(claimed):
            raise InvalidRequest(f"claimed: {len(claimed)} tokens for {len(rows)} rows")
        found = []
        for first in range(0, len(rows), BLOCK):
            logits = self.float_logits(self.values(rows[first : first + BLOCK]))
            tokens = to_device(list(claimed[first : first + BLOCK]), logits.device)
            positions = range(first_position + first, first_position + first + len(logits))
            draws = Draws.of([params] * len(logits), positions, logits.device)
            found.append(sampler.margins(logits, draws, tokens))
        gaps, best = zip(*found, strict=True)
        return np.concatenate(gaps), np.concatenate(best)
