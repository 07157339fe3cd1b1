"""Run a target's inputs in forked children, so that a segfault, a hang or a memory hog is seen and named.

The parent builds the targets once; a child inherits them. In memory that both share a child notes which
input it is at, so the parent knows which one killed it, makes it again from its index, and goes on after it.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

from tests.fuzz.target import Target
from verillm.errors import VeriLLMError

BATCH = 2000
"""Inputs per child."""
CPU_SECONDS, WALL_SECONDS = 20.0, 300.0
"""An input that takes more of either is a crash: a blow-up of time, or a hang. On a busy host a CPU second
takes many."""
ADDRESS_SPACE = 1 << 30
"""Bytes that a child may allocate on top of what it was forked with; beyond is a MemoryError, a crash."""
POLL_SECONDS = 0.02
KEPT = 5
"""Reproducers kept per target and kind of crash."""
AT, ACCEPTED, TYPED, SLOWEST_US, SLOWEST_AT, GROWN = range(6)
"""Words of the shared memory."""


@dataclass
class Crash:
    """An input that ended in anything but a value or a typed error; ``input`` is hex."""

    index: int
    kind: str
    message: str
    input: str


@dataclass
class Tally:
    """What a target's inputs came to. ``peak_bytes``: how far a child's memory grew, at most. The slowest
    input's seconds are CPU time; ``seconds`` is how long the children lived."""

    inputs: int = 0
    accepted: int = 0
    typed: int = 0
    slowest_seconds: float = 0.0
    slowest_index: int = 0
    peak_bytes: int = 0
    seconds: float = 0.0
    crashes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    kept: list[Crash] = field(default_factory=list)

    def add(self, crash: Crash) -> None:
        self.crashes += 1
        self.kinds[crash.kind] = self.kinds.get(crash.kind, 0) + 1
        if self.kinds[crash.kind] <= KEPT:
            self.kept.append(crash)


class Child:
    """A forked process that feeds inputs ``start`` to ``stop`` of a target."""

    def __init__(self, target: Target, seed: int, start: int, stop: int) -> None:
        self.target, self.seed, self.start, self.stop = target, seed, start, stop
        self._shared = memoryview(mmap(-1, 64)).cast("q")
        self._shared[AT] = start
        self._begun = time.monotonic()
        self._last, self._moved = start, (self._begun, 0.0)
        self._pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            code = 1
            try:
                self._feed_all(write)
                code = 0
            finally:
                os._exit(code)
        os.close(write)

    def _feed_all(self, write: int) -> None:
        """In the child."""
        logging.disable(logging.CRITICAL)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = _virtual_bytes() + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        shared, target = self._shared, self.target
        for index in range(self.start, self.stop):
            shared[AT] = index
            data = target.input(self.seed, index)
            begun = time.process_time()
            crash = _feed(target, data, shared)
            took = int((time.process_time() - begun) * 1e6)
            if crash is not None:
                os.write(write, json.dumps([index, *crash]).encode() + b"\n")
            if took > shared[SLOWEST_US]:
                shared[SLOWEST_US], shared[SLOWEST_AT] = took, index
        shared[AT] = self.stop
        shared[GROWN] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    def finished(self) -> str | None:
        """How the process ended: "" if well, else why it died; None while it runs."""
        now = time.monotonic(), _cpu_seconds(self.pid)
        if self._shared[AT] != self._last:
            self._last, self._moved = self._shared[AT], now
        late = now[0] - self._moved[0] > WALL_SECONDS or now[1] - self._moved[1] > CPU_SECONDS
        if late:
            os.kill(self.pid, signal.SIGKILL)
        pid, status = os.waitpid(self.pid, 0 if late else os.WNOHANG)
        if pid == 0:
            return None
        if late:
            return "took too long"
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        return "" if os.WEXITSTATUS(status) == 0 else f"exit {os.WEXITSTATUS(status)}"

    def collect(self, tally: Tally, died: str) -> int:
        """Add the results; returns the index to go on from."""
        with os.fdopen(self._pipe) as pipe:
            found = [json.loads(line) for line in pipe]
        for index, kind, message in found:
            tally.add(self._crash(index, kind, message))
        at = self.stop
        if died:
            at = self._shared[AT] + 1
            tally.add(self._crash(at - 1, died, "the process died"))
        tally.inputs += at - self.start
        tally.accepted += self._shared[ACCEPTED]
        tally.typed += self._shared[TYPED]
        tally.peak_bytes = max(tally.peak_bytes, 1024 * self._shared[GROWN])
        tally.seconds += time.monotonic() - self._begun
        if self._shared[SLOWEST_US] / 1e6 > tally.slowest_seconds:
            tally.slowest_seconds = self._shared[SLOWEST_US] / 1e6
            tally.slowest_index = self._shared[SLOWEST_AT]
        return at

    def _crash(self, index: int, kind: str, message: str) -> Crash:
        return Crash(index, kind, message, self.target.input(self.seed, index).hex())


def _feed(target: Target, data: bytes, shared: Any) -> tuple[str, str] | None:
    """(kind, message) of a crash, if it is one."""
    try:
        target.feed(data)
    except VeriLLMError:
        shared[TYPED] += 1
    except BaseException as error:  # MemoryError, RecursionError and SystemExit are crashes, too
        return type(error).__name__, str(error)[:300]
    else:
        shared[ACCEPTED] += 1
    return None


def _cpu_seconds(pid: int) -> float:
    """User and system time of a child that was not waited for (proc(5), fields 14 and 15 of stat)."""
    with open(f"/proc/{pid}/stat") as file:
        numbers = file.read().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def _virtual_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def shares(targets: Sequence[Target], inputs: int) -> list[int]:
    """Inputs of each target: by weight, at least its valid ones, ``inputs`` in sum where that allows."""
    total = sum(target.weight for target in targets)
    counts = [max(len(t.seeds) + 1, inputs * t.weight // total) for t in targets]
    heaviest = max(range(len(targets)), key=lambda i: targets[i].weight)
    counts[heaviest] += max(0, inputs - sum(counts))
    return counts


def run(
    targets: Sequence[Target],
    inputs: int,
    seed: int,
    processes: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Tally]:
    """Feed ``inputs`` inputs in all; the tally of each target by its name."""
    tallies = {target.name: Tally() for target in targets}
    batches = list(_batches(targets, inputs, seed))[::-1]
    running: list[Child] = []
    while batches or running:
        while batches and len(running) < processes:
            running.append(Child(*batches.pop()))
        for child in list(running):
            died = child.finished()
            if died is None:
                continue
            running.remove(child)
            at = child.collect(tallies[child.target.name], died)
            if at < child.stop:
                batches.append((child.target, seed, at, child.stop))
            progress(sum(tally.inputs for tally in tallies.values()))
        time.sleep(POLL_SECONDS)
    return tallies


def _batches(targets: Sequence[Target], inputs: int, seed: int) -> Iterator[tuple[Target, int, int, int]]:
    for target, count in zip(targets, shares(targets, inputs), strict=True):
        for start in range(0, count, BATCH):
            yield target, seed, start, min(start + BATCH, count)
