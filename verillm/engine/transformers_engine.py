"""Run a Llama-family model with transformers, and keep the hidden rows that the job commits to.

Rows are appended to a ``RowStore`` by absolute position: row t of a boundary belongs to the token fed at
position t. Padding never reaches a store. Logits are computed here from the row after the final norm, not by
the model's head, so the committed row fixes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from verillm.commitment.job import RowStore
from verillm.constants import Dtype, FinishReason
from verillm.engine.batch import Batch, layers_of
from verillm.engine.finish import GenerationSpec, finish_reason
from verillm.engine.loading import (
    ATTENTIONS,
    TORCH_DTYPES,
    WEIGHT_DTYPE,
    cache_argument,
    check_architecture,
    eos_token_ids,
    load_model,
)
from verillm.engine.running import Running, value_bytes
from verillm.engine.text import TextTools
from verillm.errors import ConfigError, InvalidRequest
from verillm.manifest import Manifest
from verillm.sampling.sampler import sample

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
__all__ = ["TORCH_DTYPES", "Engine", "GenerationSpec", "SequenceState"]

LOGIT_BLOCK = 64
"""Rows per block of logits: 64 rows of 49,152 float32 are 12 MiB."""


@dataclass
class SequenceState:
    """One sequence: the tokens fed so far, their rows, the KV cache and the logits after the last token.

    ``layers[i]`` is (keys, values) of layer i, each [1, heads, len(fed), head_dim]; empty once decoded.
    ``logits`` is float32 [vocab]. ``output`` and ``finish_reason`` are filled by ``Engine.decode_batch``.
    """

    fed: list[int]
    store: RowStore
    layers: list[tuple[torch.Tensor, torch.Tensor]]
    logits: F32
    output: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None


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
        self.model, self.tokenizer = load_model(self.folder, self.dtype, attn)
        self.model.to(self.device)
        self._decoder = check_architecture(self.model, self.boundaries)
        self._cache_argument = cache_argument(self._decoder)
        weight = self.model.get_output_embeddings().weight.detach()
        self._head_t = weight.float().T
        self._weight = weight.to(TORCH_DTYPES[WEIGHT_DTYPE])
        self.vocab_size, self.hidden_size = weight.shape
        self.max_positions: int = self.model.config.max_position_embeddings
        self.eos_token_ids = eos_token_ids(self.model, self.tokenizer)
        self._captured: list[torch.Tensor | None] = [None] * len(self.boundaries)
        last = len(self.boundaries) - 1
        for b, layers in enumerate(self.boundaries):
            module = self._decoder.norm if b == last else self._decoder.layers[layers - 1]
            module.register_forward_hook(self._capture(b))

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

    def _capture(self, boundary: int) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            self._captured[boundary] = output[0] if isinstance(output, tuple) else output

        return hook

    def new_store(self) -> RowStore:
        return RowStore(len(self.boundaries), self.hidden_size, self.dtype)

    def prefill(self, tokens: Sequence[int]) -> SequenceState:
        """Feed ``tokens`` in one forward pass. Raises InvalidRequest for tokens that the model cannot take,
        EngineError if it cannot run, RowError for NaN or Inf."""
        ids = self.check_tokens(tokens)
        cache = DynamicCache()
        with self._running():
            hidden = self._forward(
                torch.tensor([ids]), torch.arange(len(ids))[None], cache, attention_mask=None
            )
            store = self.new_store()
            for b, rows in enumerate(hidden):
                store.append_rows(b, 0, value_bytes(rows[0]))
            layers = layers_of(cache)
        return SequenceState(ids, store, layers, self.logits(store.rows(len(hidden) - 1)[-1:])[0])

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
        while live:
            going: list[int] = []
            for index in live:
                state, spec = sequences[index], specs[index]
                token = sample(state.logits, spec.sampling, len(state.fed) - 1)
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
                self._step(batch, [sequences[i] for i in going])
            live = going
        return [state.finish_reason for state in sequences if state.finish_reason is not None]

    def _step(self, batch: Batch, states: list[SequenceState]) -> None:
        """Feed each sequence's last output token."""
        ids = torch.tensor([[state.output[-1]] for state in states])
        positions = torch.tensor([[len(state.fed)] for state in states])
        hidden = self._forward(ids, positions, batch.cache, batch.next_mask(self.device))
        rows = [value_bytes(boundary[:, 0]) for boundary in hidden]
        logits = self.logits(rows[-1])
        for i, state in enumerate(states):
            for b, block in enumerate(rows):
                state.store.append_rows(b, len(state.fed), block[i : i + 1])
            state.fed.append(state.output[-1])
            state.logits = logits[i]

    def _forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: DynamicCache,
        attention_mask: torch.Tensor | None,
    ) -> list[torch.Tensor]:
        """Hidden states [batch, n, d] at every boundary."""
        self._decoder(
            input_ids=ids.to(self.device),
            position_ids=positions.to(self.device),
            attention_mask=attention_mask,
            use_cache=True,
            **{self._cache_argument: cache},
        )
        hidden = [tensor for tensor in self._captured if tensor is not None]
        self._captured = [None] * len(self.boundaries)
        return hidden

    def _running(self) -> Running:
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return Running()

    def logits(self, rows: U8) -> F32:
        """float32 [n, vocab] of final-boundary rows uint8 [n, row_bytes], accumulated in fp32."""
        with self._running():
            values = torch.from_numpy(rows.copy()).view(TORCH_DTYPES[self.dtype]).to(self.device)
            return (values.float() @ self._head_t).cpu().numpy()

    def logit_blocks(self, rows: U8) -> Iterator[tuple[int, F32]]:
        """(index of the first row, logits) in blocks of at most LOGIT_BLOCK rows."""
        for first in range(0, len(rows), LOGIT_BLOCK):
            yield first, self.logits(rows[first : first + LOGIT_BLOCK])

    def output_matrix_bytes(self) -> U8:
        """W as uint8 [vocab, row_bytes], in the weight dtype, little-endian."""
        return value_bytes(self._weight)
