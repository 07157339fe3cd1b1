"""Run a Llama-family model with transformers, and keep the hidden rows that the job commits to.

Rows are appended to a ``RowStore`` by absolute position: row t of a boundary belongs to the token fed at
position t. Padding never reaches a store. Tokens come from the row after the final norm (``head``).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from verillm.commitment.job import RowStore
from verillm.constants import Dtype, FinishReason
from verillm.engine.batch import Batch, SequenceState, layers_of
from verillm.engine.finish import GenerationSpec, finish_reason
from verillm.engine.head import I64
from verillm.engine.loading import (
    ATTENTIONS,
    TORCH_DTYPES,
    WEIGHT_DTYPE,
    cache_argument,
    check_architecture,
    eos_token_ids,
    load_model,
)
from verillm.engine.prefix import reuse_prefix
from verillm.engine.rows import Captured, parts_for
from verillm.engine.running import Running, to_device, value_bytes
from verillm.engine.text import TextTools
from verillm.errors import ConfigError, InvalidRequest, RowError
from verillm.types import SamplingParams

if TYPE_CHECKING:
    from verillm.manifest import Manifest

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
__all__ = ["TORCH_DTYPES", "Engine", "GenerationSpec", "SequenceState"]


class Engine(TextTools):
    """A loaded model. Not thread-safe: one call at a time.

    ``boundaries[i]`` is the number of layers run before boundary i; the last must be all layers (the row
    there is after the final norm). ``threads`` None leaves torch's setting; ``attn`` is "sdpa" or "eager".
    Raises ConfigError for a folder or setting that does not fit, EngineError if the model cannot be loaded.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        dtype: Dtype,
        boundaries: Sequence[int],
        *,
        threads: int | None = None,
        attn: str = "sdpa",
        device: str = "cpu",
    ) -> None:
        self.folder, self.dtype, self.boundaries = os.fspath(folder), Dtype(dtype), tuple(boundaries)
        self.threads, self.device = threads, torch.device(device)
        if threads is not None and threads < 1:
            raise ConfigError(f"threads: {threads} must be at least 1")
        self._keeper, head = parts_for(self.device)
        self.model, self.tokenizer = load_model(self.folder, self.dtype, attn)
        self.model.to(self.device)
        self._decoder = check_architecture(self.model, self.boundaries)
        self._cache_argument = cache_argument(self._decoder)
        weight = self.model.get_output_embeddings().weight.detach()
        self.head = head(weight.to(TORCH_DTYPES[WEIGHT_DTYPE]), self.dtype)
        self.vocab_size, self.hidden_size = weight.shape
        self.max_positions: int = self.model.config.max_position_embeddings
        self.eos_token_ids = eos_token_ids(self.model, self.tokenizer)
        inner = [self._decoder.layers[layers - 1] for layers in self.boundaries[:-1]]
        self._captured = Captured([*inner, self._decoder.norm])

    @classmethod
    def from_manifest(cls, folder: str | os.PathLike[str], manifest: Manifest, **settings: Any) -> Engine:
        """The engine for a manifest; ``settings`` are threads, attn and device. Raises ConfigError if the
        folder's model has another shape."""
        engine = cls(folder, manifest.row_dtype, manifest.boundaries, **settings)
        for name in ("vocab_size", "hidden_size", "eos_token_ids", "max_positions"):
            if getattr(engine, name) != getattr(manifest, name):
                mine, wanted = getattr(engine, name), getattr(manifest, name)
                raise ConfigError(f"{name}: {folder} has {mine}, the manifest says {wanted}; take its model")
        return engine

    def configure(self, *, threads: int, attn: str) -> None:
        """Use other threads and another attention kernel from now on."""
        if attn not in ATTENTIONS:
            raise ConfigError(f"attn: {attn!r} is not one of {', '.join(ATTENTIONS)}")
        self.threads = threads
        self.model.set_attn_implementation(attn)

    def new_store(self) -> RowStore:
        """An empty store for the rows of a sequence."""
        return self._keeper.new_store(len(self.boundaries), self.hidden_size, self.dtype)

    def prefill(
        self, tokens: Sequence[int], *, chunk: int | None = None, past: SequenceState | None = None
    ) -> SequenceState:
        """Feed ``tokens``, at most ``chunk`` per forward pass (None: all). What ``past``, another prefilled
        sequence, begins with as well is taken over from it. Raises InvalidRequest for tokens or a chunk that
        cannot be, EngineError if the model cannot run, RowError for NaN or Inf (on CUDA when the store is
        read)."""
        ids = self.check_tokens(tokens)
        if (step := len(ids) if chunk is None else chunk) < 1:
            raise InvalidRequest(f"chunk: {step} must be at least 1 token")
        store, cache = self.new_store(), DynamicCache()
        start = reuse_prefix(past, ids, store, cache) if past is not None else 0
        with self._running():
            for first in range(start, len(ids), step):
                piece = to_device([ids[first : first + step]], self.device)
                positions = torch.arange(first, first + piece.shape[1], device=self.device)[None]
                hidden = self._forward(piece, positions, cache, attention_mask=None)
                self._keeper.keep(hidden, [store], [first])
            layers = layers_of(cache)
        return SequenceState(ids, store, layers)

    def check_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens as a list. Raises InvalidRequest for none, too many, or one outside the vocabulary."""
        ids = [int(token) for token in tokens]
        if not 1 <= len(ids) <= self.max_positions:
            raise InvalidRequest(f"tokens: {len(ids)} is outside 1 to {self.max_positions} positions")
        for position, token in enumerate(ids):
            if not 0 <= token < self.vocab_size:
                raise InvalidRequest(f"tokens[{position}]: {token} is outside 0 to {self.vocab_size - 1}")
        return ids

    def decode_batch(
        self, sequences: Sequence[SequenceState], specs: Sequence[GenerationSpec]
    ) -> Generator[tuple[int, int], None, list[FinishReason]]:
        """Decode all sequences together; yields (index, token) as tokens come, returns the finish reasons.

        Each sequence's ``output`` and ``finish_reason`` are filled too. The last token of an output is not
        fed, so a store ends with P + O - 1 rows per boundary. Raises InvalidRequest, EngineError or RowError.
        """
        for state, spec in zip(sequences, specs, strict=True):
            if state.output or not state.layers:
                raise InvalidRequest("sequences: each must come fresh from prefill")
            longest = len(state.fed) + spec.max_output_tokens - 1
            if longest > self.max_positions:
                raise InvalidRequest(f"max_output_tokens: {longest} positions exceed {self.max_positions}")
        live = list(range(len(sequences)))
        batch: Batch | None = None
        last = self._last_rows(sequences)
        while live:
            going: list[int] = []
            tokens = self._sample(last, [sequences[i] for i in live], [specs[i] for i in live])
            for index, token in zip(live, tokens, strict=True):
                state, spec = sequences[index], specs[index]
                state.output.append(token)
                state.finish_reason = finish_reason(
                    state.output, self.eos_token_ids, spec.stop, spec.max_output_tokens, self.decode
                )
                if state.finish_reason is None:
                    going.append(index)
                yield index, token
            if not going:
                break
            with self._running():
                if batch is None:
                    batch = Batch([sequences[i].layers for i in going])
                    for state in sequences:
                        state.layers = []
                elif going != live:
                    batch.keep([live.index(i) for i in going])
                last = self._step(batch, [sequences[i] for i in going])
            live = going
        return [state.finish_reason for state in sequences if state.finish_reason is not None]

    def _last_rows(self, states: Sequence[SequenceState]) -> torch.Tensor:
        """Each sequence's last row after the final norm: [k, d] on the device."""
        rows = [state.store.rows(state.store.boundaries - 1)[-1:] for state in states]
        with self._running():
            return self.head.values(np.concatenate(rows))

    def _sample(
        self, last: torch.Tensor, states: list[SequenceState], specs: list[GenerationSpec]
    ) -> list[int]:
        """The next token of each sequence, from its ``_last_rows``."""
        try:
            with self._running():
                return self.head.sample(
                    last, [spec.sampling for spec in specs], [len(state.fed) - 1 for state in states]
                )
        except RowError:
            for state in states:
                for boundary in range(state.store.boundaries):
                    state.store.rows(boundary)  # if NaN is the cause, this error names where it began
            raise

    def _step(self, batch: Batch, states: list[SequenceState]) -> torch.Tensor:
        """Feed each sequence's last output token; returns their ``_last_rows``."""
        ids = to_device([[state.output[-1]] for state in states], self.device)
        positions = to_device([[len(state.fed)] for state in states], self.device)
        mask = self._keeper.mask(batch.next_mask(self.device), self.model.config)
        hidden = self._forward(ids, positions, batch.cache, mask)
        self._keeper.keep(hidden, [state.store for state in states], [len(state.fed) for state in states])
        for state in states:
            state.fed.append(state.output[-1])
        return hidden[-1][:, 0]

    def _forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: DynamicCache,
        attention_mask: torch.Tensor | None,
    ) -> list[torch.Tensor]:
        """Hidden states [batch, n, d] at every boundary. All tensors are on the device."""
        self._decoder(
            input_ids=ids,
            position_ids=positions,
            attention_mask=attention_mask,
            use_cache=True,
            **{self._cache_argument: cache},
        )
        return self._captured.take()[: len(self.boundaries)]

    def _running(self) -> Running:
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return Running()

    def logits(self, rows: U8) -> F32:
        """float32 [n, vocab] of final-boundary rows uint8 [n, row_bytes], accumulated in fp32."""
        with self._running():
            return self.head.logits(rows)

    def margins(
        self, rows: U8, params: SamplingParams, first_position: int, claimed: Sequence[int]
    ) -> tuple[I64, I64]:
        """``OutputHead.margins`` of final-boundary rows; also raises EngineError."""
        with self._running():
            return self.head.margins(rows, params, first_position, claimed)

    def output_matrix_bytes(self) -> U8:
        """W as uint8 [vocab, row_bytes], in the weight dtype, little-endian."""
        return value_bytes(self.head.weight)
