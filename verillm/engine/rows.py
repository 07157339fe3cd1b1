"""Where a model's hidden rows come from, and where they go by its device: to the host or to kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from verillm.commitment.job import RowStore
from verillm.constants import Dtype
from verillm.engine.head import OutputHead
from verillm.engine.running import value_bytes
from verillm.errors import ConfigError


class Captured:
    """What ``modules`` gave out in the latest forward pass: [batch, n, d] each."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._latest: list[torch.Tensor | None] = [None] * len(modules)
        for index, module in enumerate(modules):
            module.register_forward_hook(self._hook(index))

    def _hook(self, index: int) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            self._latest[index] = output[0] if isinstance(output, tuple) else output

        return hook

    def take(self) -> list[torch.Tensor]:
        """The outputs, which are then forgotten."""
        taken = [tensor for tensor in self._latest if tensor is not None]
        self._latest = [None] * len(self._latest)
        return taken


class HostRows:
    """Rows are copied to the host in each step, and are checked as they arrive."""

    def new_store(self, boundaries: int, hidden_size: int, dtype: Dtype) -> RowStore:
        return RowStore(boundaries, hidden_size, dtype)

    def keep(
        self, hidden: Sequence[torch.Tensor], stores: Sequence[RowStore], positions: Sequence[int]
    ) -> None:
        """Append ``hidden[b]`` [batch, n, d], boundary b, to the stores: sequence i's n rows, which stand at
        ``positions[i]``..., go to ``stores[i]``. Raises RowError as ``RowStore.append_rows``."""
        n = hidden[0].shape[1]
        rows = [value_bytes(boundary.flatten(0, 1)) for boundary in hidden]
        for i, (store, first) in enumerate(zip(stores, positions, strict=True)):
            for b, block in enumerate(rows):
                store.append_rows(b, first, block[i * n : (i + 1) * n])

    def mask(self, real: torch.Tensor | None, config: Any) -> torch.Tensor | None:
        """``Batch.next_mask`` as a model of ``config`` takes it."""
        return real


def parts_for(device: torch.device) -> tuple[HostRows, type[OutputHead]]:
    """What keeps rows of a model on ``device``, and its kind of output head. Raises ConfigError for CUDA
    without Triton."""
    if device.type != "cuda":
        return HostRows(), OutputHead
    try:
        from verillm.engine.device import DeviceHead, DeviceRows
    except ImportError as error:
        raise ConfigError(
            f"device: {device} needs Triton 3.6 or later ({error}): pip install 'verillm[worker]' on Linux"
        ) from error
    return DeviceRows(device), DeviceHead
