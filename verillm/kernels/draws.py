"""How each row of a batch of logits is drawn, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from verillm.sampling.sampler import NO_THRESHOLD
from verillm.types import SamplingParams


@dataclass(frozen=True)
class Draws:
    """How each row of a batch is drawn: int64 [n] tensors on the device of the logits. ``seeds`` are 64-bit
    patterns, ``positions`` those of the rows sampled from, ``thresholds`` Q24 logits (``NO_THRESHOLD`` for
    none)."""

    seeds: torch.Tensor
    positions: torch.Tensor
    temperatures_ppm: torch.Tensor
    thresholds: torch.Tensor

    @classmethod
    def of(
        cls,
        params: Sequence[SamplingParams],
        positions: Sequence[int],
        device: torch.device | str,
        thresholds: Sequence[int] | None = None,
    ) -> Draws:
        """Row i is at ``positions[i]``, drawn with ``params[i]`` and the mask ``thresholds[i]``, which is the
        caller's to compute: top_k and top_p of ``params`` are not read."""
        seeds = [p.seed - (1 << 64) if p.seed >> 63 else p.seed for p in params]
        masks = [NO_THRESHOLD] * len(params) if thresholds is None else thresholds
        columns = [seeds, positions, [p.temperature_ppm for p in params], masks]
        made = torch.tensor([list(map(int, c)) for c in columns], dtype=torch.int64)
        if torch.device(device).type == "cuda":
            made = made.pin_memory()  # from other memory the copy would wait for the device
        return cls(*made.to(device, non_blocking=True))
