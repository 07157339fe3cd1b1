"""One model, one thread: prefills run alone, waiting decodes run together as a static batch."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from node.behaviour import Behaviour
from node.log import NodeLog
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import SequenceState
from verillm.errors import EngineError


@dataclass
class _Call:
    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass
class _Decode:
    state: SequenceState
    spec: GenerationSpec
    on_token: Callable[[int], None]
    future: Future[SequenceState] = field(default_factory=Future)


class ModelRunner:
    """Owns the engine's thread. Futures fail with EngineError whatever went wrong inside."""

    def __init__(self, behaviour: Behaviour, max_batch: int, log: NodeLog) -> None:
        self.behaviour = behaviour
        self.running = 0
        self._max_batch = max_batch
        self._log = log
        self._queue: queue.SimpleQueue[_Call | _Decode | None] = queue.SimpleQueue()
        self._ahead: deque[_Call | _Decode | None] = deque()
        self._thread = threading.Thread(target=self._loop, name="model", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """Items that wait for the model, about."""
        return self._queue.qsize() + len(self._ahead)

    def prefill(self, tokens: Sequence[int]) -> Future[SequenceState]:
        """Rows of ``tokens`` at every boundary."""
        return self.call(lambda: self.behaviour.prefill(tokens))

    def decode(
        self, state: SequenceState, spec: GenerationSpec, on_token: Callable[[int], None]
    ) -> Future[SequenceState]:
        """Decode one sequence in the next batch; ``on_token`` runs in the model's thread."""
        item = _Decode(state, spec, on_token)
        self._queue.put(item)
        return item.future

    def call(self, function: Callable[[], Any]) -> Future[Any]:
        """Run ``function``, which uses the engine, in the model's thread."""
        item = _Call(function)
        self._queue.put(item)
        return item.future

    def close(self) -> None:
        """Finish what is queued and stop the thread."""
        self._queue.put(None)
        self._thread.join(timeout=30)

    def _loop(self) -> None:
        while (item := self._ahead.popleft() if self._ahead else self._queue.get()) is not None:
            items = [item]
            if isinstance(item, _Decode):
                while not self._queue.empty():
                    self._ahead.append(self._queue.get())
                others = [x for x in self._ahead if isinstance(x, _Decode)][: self._max_batch - 1]
                for other in others:
                    self._ahead.remove(other)
                items += others
            self.running = len(items)
            self._run(items)
            self.running = 0

    def _run(self, items: list[_Call | _Decode]) -> None:
        try:
            results = self._compute(items)
        except Exception as error:  # whatever the engine or numpy raises is "unable", never a verdict
            self._log.exception("engine_failed", items=len(items))
            failure = error if isinstance(error, EngineError) else EngineError(f"engine: {error}")
            for item in items:
                item.future.set_exception(failure)
            return
        for item, result in zip(items, results, strict=True):
            item.future.set_result(result)

    def _compute(self, items: list[_Call | _Decode]) -> list[Any]:
        if isinstance(items[0], _Call):
            return [items[0].function()]
        decodes = [item for item in items if isinstance(item, _Decode)]
        states = [item.state for item in decodes]
        self.behaviour.decode(
            states, [item.spec for item in decodes], lambda i, token: decodes[i].on_token(token)
        )
        return states
