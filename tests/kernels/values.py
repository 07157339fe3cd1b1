"""Rows of every kind of value."""

from __future__ import annotations

import numpy as np
import torch

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def edge_values(dtype: torch.dtype) -> torch.Tensor:
    """Zeros of both signs, the smallest and largest subnormals and normals, the largest finite values."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal
    step = smallest * info.eps
    values = [0.0, -0.0, step, -step, smallest - step, smallest, -smallest, info.max, info.min, 1.0, -1.0]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def random_rows(n: int, d: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Random rows [n, d] over many binades; ``edge_values`` stand in the last row."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.exp2(torch.randint(-12, 12, (n, d), generator=generator).float())
    rows = (torch.randn((n, d), generator=generator) * scale).to(dtype)
    edges = edge_values(dtype)[:d]
    rows[-1, : len(edges)] = edges
    return rows


def row_bytes(rows: torch.Tensor) -> np.ndarray:
    """The rows as uint8 [n, row_bytes]."""
    return rows.contiguous().view(torch.uint8).numpy()
