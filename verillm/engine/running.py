"""Guards around torch, and values on their way to and from its device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from verillm.errors import EngineError


class Running:
    """``torch.inference_mode`` that turns out-of-memory and other runtime errors into EngineError."""

    def __enter__(self) -> None:
        self._mode = torch.inference_mode()
        self._mode.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._mode.__exit__(kind, error, trace)
        if isinstance(error, (RuntimeError, MemoryError)):
            raise EngineError(f"engine: the model could not run: {error}") from error


def value_bytes(rows: torch.Tensor) -> NDArray[np.uint8]:
    """[n, d] as little-endian bytes: uint8 [n, d * itemsize]."""
    return rows.detach().contiguous().cpu().view(torch.uint8).numpy()


def to_device(values: Any, device: torch.device) -> torch.Tensor:
    """Nested lists of integers as int64 on ``device``, without waiting for it: a copy from pinned memory is
    queued, one from other memory would block until the device has done all that is queued before it."""
    made = torch.tensor(values, dtype=torch.int64)
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made.to(device)
