"""Hash hidden rows beside decoding: on a stream of their own, with no wait for the device until the result is
read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from verillm.errors import RowError
from verillm.kernels.keccak import HASH_WORDS
from verillm.kernels.launch import on_device
from verillm.kernels.rows import TRAILER_WORDS, hash_rows

U8 = NDArray[np.uint8]
BLOCK_WORDS = 1 << 19
"""int64 words that are pinned at once: 4 MiB, some hundred steps of one sequence."""


@dataclass(frozen=True)
class HashedRows:
    """Rows on their way to the host. ``records`` is int64 [n, kept + 5] on the host, as ``hash_rows`` makes
    them, complete once ``done`` has happened (None: already)."""

    records: torch.Tensor
    row_bytes: int
    done: torch.cuda.Event | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, rows: slice) -> HashedRows:
        return replace(self, records=self.records[rows])

    def wait(self) -> tuple[U8, U8, NDArray[np.bool_]]:
        """(rows uint8 [n, row_bytes], chunk roots uint8 [n, 32], whether each row is finite bool [n]). The
        root of a row that is not finite must not be used."""
        if self.done is not None:
            self.done.synchronize()
        words = self.records.numpy()
        data = words.view(np.uint8)
        end = 8 * (words.shape[1] - TRAILER_WORDS)
        return data[:, : self.row_bytes], data[:, end : end + 8 * HASH_WORDS], words[:, -1] == 0


class HostBuffer:
    """Host memory for records on their way, cut from blocks: pinning memory makes the device wait, so it is
    not done in every step. A block is freed once all that was cut from it is."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._rest = torch.empty(0, dtype=torch.int64)

    def take(self, n: int, words: int) -> torch.Tensor:
        """int64 [n, words], not initialised."""
        if (size := n * words) > len(self._rest):
            with torch.inference_mode(False):  # the block may also be filled outside of that mode
                self._rest = torch.empty(max(size, BLOCK_WORDS), dtype=torch.int64, pin_memory=self._pinned)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken.view(n, words)


class RowHasher:
    """Hashes rows of one device. Launches do not wait: the host gets ``HashedRows`` at once, and the device
    hashes and copies them to pinned memory while it computes the next token. Not thread-safe.

    On CPU tensors (the interpreter) ``submit`` returns finished rows.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._stream = torch.cuda.Stream(device) if torch.device(device).type == "cuda" else None
        self._buffer = HostBuffer(pinned=True)

    def submit(self, *hidden: torch.Tensor) -> list[HashedRows]:
        """One ``HashedRows`` for each tensor [k, d] (one dtype, one d, any k and strides). One launch serves
        all, so give a step's boundaries together.

        The tensors may be freed but not overwritten before the result is read. Raises RowError for another
        shape or dtype, ConfigError for another device.
        """
        if not hidden or len({(rows.ndim, rows.shape[-1:], rows.dtype) for rows in hidden}) != 1:
            kinds = ", ".join(f"{rows.dtype} {list(rows.shape)}" for rows in hidden)
            raise RowError(f"hidden: got ({kinds}), expected tensors [k, d] of one d and one dtype")
        done = None
        if self._stream is None:
            records = self._hash(hidden)
        else:
            with on_device(hidden[0]):
                self._stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self._stream):
                    on_card = self._hash(hidden)
                    records = self._buffer.take(*on_card.shape)
                    records.copy_(on_card, non_blocking=True)
                    done = self._stream.record_event()
                for rows in hidden:
                    rows.record_stream(self._stream)
        row_bytes = hidden[0].shape[1] * hidden[0].element_size()
        parts = records.split([len(rows) for rows in hidden])
        return [HashedRows(part, row_bytes, done) for part in parts]

    @staticmethod
    def _hash(hidden: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return hash_rows(hidden[0] if len(hidden) == 1 else torch.cat(hidden), keep=True)
