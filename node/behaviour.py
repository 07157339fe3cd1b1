"""What a worker really computes for each task. The honest one is here; ``cheats`` has the dishonest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine, SequenceState

OnToken = Callable[[int, int], None]
"""(index of the sequence in its batch, token)."""


class Behaviour:
    """An operator's way to run a model. ``prefill`` and ``decode`` run in the model's thread."""

    accuses = True
    """Whether its verdicts follow from what it measured, and lead to challenges."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def prefill(self, tokens: Sequence[int]) -> SequenceState:
        """Rows of every token at every boundary, before the kind of task is known."""
        return self.engine.prefill(tokens)

    def decode(
        self, states: Sequence[SequenceState], specs: Sequence[GenerationSpec], on_token: OnToken
    ) -> None:
        """Decode prefilled sequences as one batch; fills each state's store, output and finish reason."""
        for index, token in self.engine.decode_batch(states, specs):
            on_token(index, token)

    def streamed(self, tokens: int) -> None:
        """Called after ``tokens`` more output tokens went out to the scheduler."""
