"""What every wrapper does before it launches a kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import triton

from verillm.constants import Dtype
from verillm.errors import ConfigError, RowError

INTERPRETED: bool = triton.knobs.runtime.interpret
"""True if TRITON_INTERPRET=1 was set when triton was imported: kernels then run on CPU tensors, slowly."""

OPTIONS: dict[str, Any] = {"num_stages": 1, "enable_fp_fusion": False}
"""Launch options of every kernel. No kernel has floating-point arithmetic, so neither changes a result."""

DTYPES = {torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16, torch.float32: Dtype.FP32}


def check_device(name: str, tensor: torch.Tensor) -> None:
    """Raise ConfigError unless a kernel can read ``tensor`` where it is."""
    if tensor.device.type != ("cpu" if INTERPRETED else "cuda"):
        wanted = "TRITON_INTERPRET=1 takes CPU tensors" if INTERPRETED else "Triton kernels take CUDA tensors"
        raise ConfigError(f"{name}: on {tensor.device}; {wanted}")


def check_rows(name: str, rows: torch.Tensor) -> Dtype:
    """The row dtype of a matrix [n, d] that a kernel can read. Raises RowError or ConfigError."""
    dtype = DTYPES.get(rows.dtype)
    if dtype is None or rows.ndim != 2 or rows.shape[1] == 0:
        kinds = "bfloat16, float16 or float32"
        raise RowError(f"{name}: {rows.dtype} {list(rows.shape)}, expected {kinds} [n, d >= 1]")
    check_device(name, rows)
    return dtype


def on_device(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Launches inside go to the current stream of ``tensor``'s device, whichever device is current."""
    return torch.cuda.device_of(tensor)


def lanes(messages: int, warps: int = 1) -> int:
    """Messages that a program of ``warps`` hashes at once, one per thread. The interpreter pays per
    operation, so it gets all at once."""
    return triton.next_power_of_2(max(messages, 1)) if INTERPRETED else 32 * warps


def hash_bytes(words: torch.Tensor) -> torch.Tensor:
    """Hashes as int64 [n, 4] to uint8 [n, 32]; a view if contiguous."""
    return words.contiguous().view(torch.uint8)
