"""Real cheats, each a flag of a real worker. They exist so that the demo and the tests can catch them.

``int4`` serves the model with its linear weights quantised to int4. ``forge`` decodes with half of the layers
and then runs one honest prefill over the forged text. ``lazy`` never runs the model to verify, commits to
made-up rows and accepts everything. ``die-after:N`` ends the process after N streamed tokens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import torch

from node.behaviour import Behaviour, OnToken
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import TORCH_DTYPES, Engine, SequenceState
from verillm.errors import ConfigError

GROUP = 32
"""Weights per int4 scale."""
LEVELS = 7
"""Symmetric int4: -7 to 7 steps of the group's scale."""


def quantise_int4(weight: torch.Tensor) -> torch.Tensor:
    """``weight`` [out, in] rounded to int4 in groups of 32 along ``in`` and back, same shape and dtype."""
    out, width = weight.shape
    pad = -width % GROUP
    groups = torch.nn.functional.pad(weight.float(), (0, pad)).view(out, -1, GROUP)
    scale = groups.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / LEVELS
    rounded = (groups / scale).round().clamp(-LEVELS, LEVELS) * scale
    return rounded.view(out, width + pad)[:, :width].to(weight.dtype)


class Int4(Behaviour):
    """Runs the layers with int4 weights in every task; embeddings and output matrix stay as they are."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        with torch.no_grad():
            for module in engine.model.get_decoder().layers.modules():
                if isinstance(module, torch.nn.Linear):
                    module.weight.copy_(quantise_int4(module.weight))


class Forge(Behaviour):
    """Writes text with the first half of the layers, then commits honest rows of the forged text."""

    def __init__(self, engine: Engine, cheap: Engine) -> None:
        super().__init__(engine)
        decoder = cheap.model.get_decoder()
        kept = max(1, len(decoder.layers) // 2)
        decoder.layers = decoder.layers[:kept]
        cheap.model.config.num_hidden_layers = kept
        self._cheap = cheap

    def decode(
        self, states: Sequence[SequenceState], specs: Sequence[GenerationSpec], on_token: OnToken
    ) -> None:
        drafts = [self._cheap.prefill(state.fed) for state in states]
        for index, token in self._cheap.decode_batch(drafts, specs):
            on_token(index, token)
        for state, draft in zip(states, drafts, strict=True):
            honest = self.engine.prefill([*state.fed, *draft.output[:-1]])
            state.fed, state.store, state.layers = honest.fed, honest.store, []
            state.output, state.finish_reason = draft.output, draft.finish_reason


class Lazy(Behaviour):
    """Makes rows up at every prefill; runs the model only when the task turns out to be inference."""

    accuses = False

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._random = np.random.default_rng()

    def prefill(self, tokens: Sequence[int]) -> SequenceState:
        store = self.engine.new_store()
        shape = (len(tokens), self.engine.hidden_size)
        for boundary in range(len(self.engine.boundaries)):
            guess = torch.from_numpy(self._random.standard_normal(shape, dtype=np.float32))
            rows = guess.to(TORCH_DTYPES[self.engine.dtype]).view(torch.uint8).numpy()
            store.append_rows(boundary, 0, rows)
        return SequenceState(list(tokens), store, [])

    def decode(
        self, states: Sequence[SequenceState], specs: Sequence[GenerationSpec], on_token: OnToken
    ) -> None:
        for state in states:
            honest = self.engine.prefill(state.fed)
            state.store, state.layers = honest.store, honest.layers
        super().decode(states, specs, on_token)


class DieAfter(Behaviour):
    """Ends the process, without a word, once ``limit`` tokens went out."""

    def __init__(self, engine: Engine, limit: int) -> None:
        super().__init__(engine)
        self._left = limit

    def streamed(self, tokens: int) -> None:
        self._left -= tokens
        if self._left <= 0:
            os._exit(1)


def make_behaviour(cheat: str | None, load: Callable[[], Engine]) -> Behaviour:
    """The behaviour that ``--cheat`` names; None is honest. ``load`` loads the engine, once or more.

    Raises ConfigError for an unknown cheat.
    """
    if cheat is None:
        return Behaviour(load())
    if cheat == "int4":
        return Int4(load())
    if cheat == "forge":
        return Forge(load(), load())
    if cheat == "lazy":
        return Lazy(load())
    name, _, number = cheat.partition(":")
    if name == "die-after" and number.isdigit():
        return DieAfter(load(), int(number))
    raise ConfigError(f"--cheat: {cheat!r} is unknown; known: int4, forge, lazy, die-after:N")
