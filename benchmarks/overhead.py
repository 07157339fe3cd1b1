"""What commitments cost: the share they add to decoding, and the hash rate of one core.

Two copies of one job decode in turns, token by token, one with a commitment and one without, so that a busy
machine slows both alike. ``commit_overhead`` is the median over tokens of (with - without) / without, plus
what falls on few tokens, spread over all: hashing a block of rows, timed where it happens, and building the
final trees. Of two dtypes the worse.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine

from verillm.commitment import RowStore, build_commitment
from verillm.commitment.fast import U8, row_roots
from verillm.constants import Dtype, FinishReason
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.model_store import DEFAULT_MODEL, resolve
from verillm.types import SamplingParams

PROMPT = "Explain in a few paragraphs how a Merkle tree lets a stranger check one row of a large table."
OPERATOR = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
HASH_SHAPE = (8192, 2304)
"""Rows x bytes of the hash measurement: 576 fp32 values per row, 18.9 MB."""


class Uncommitted(RowStore):
    """Keeps the latest rows, which the engine reads back for logits; checks and hashes nothing."""

    _latest: U8

    def append_rows(self, boundary: int, first_position: int, rows: U8) -> None:
        self._latest = rows

    def rows(self, boundary: int) -> U8:
        return self._latest


class Timed(RowStore):
    """Sums up the seconds of hashing."""

    hash_s = 0.0

    def _hash(self, boundary: int) -> None:
        start = time.perf_counter()
        super()._hash(boundary)
        self.hash_s += time.perf_counter() - start


class SwitchedEngine(Engine):
    """An engine that commits only while ``committing``; otherwise just the last boundary leaves the model."""

    committing = True

    def new_store(self) -> RowStore:
        if self.committing:
            return Timed(len(self.boundaries), self.hidden_size, self.dtype)
        return Uncommitted(1, self.hidden_size, self.dtype)

    def _forward(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        hidden = super()._forward(*args, **kwargs)
        return hidden if self.committing else hidden[-1:]


def measure_dtype(folder: Path, dtype: Dtype, boundaries: int, tokens: int) -> dict[str, Any]:
    """Decode ``tokens`` output tokens with and without a commitment, in turns."""
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    ends = [layers * (b + 1) // boundaries for b in range(boundaries)]
    engine = SwitchedEngine(folder, dtype, ends)
    engine.eos_token_ids = ()  # every run has the same length
    prompt = engine.chat([{"role": "user", "content": PROMPT}])
    spec = GenerationSpec(SamplingParams(temperature_ppm=700_000, seed=1), tokens)
    states: dict[bool, SequenceState] = {}
    steps: dict[bool, Generator[tuple[int, int], None, Any]] = {}
    for committing in (True, False):
        engine.committing = committing
        states[committing] = engine.prefill(prompt)
        steps[committing] = engine.decode_batch([states[committing]], [spec])
    store = states[True].store
    assert isinstance(store, Timed)
    store.hash_s = 0.0
    times: dict[bool, list[float]] = {True: [], False: []}
    for i in range(tokens):
        for committing in (True, False) if i % 2 else (False, True):
            engine.committing = committing
            start = time.perf_counter()
            next(steps[committing])
            times[committing].append(time.perf_counter() - start)
    if states[True].output != states[False].output:
        raise SystemExit("overhead: the two runs sampled different tokens, so they do not compare")
    hash_s, build_s = store.hash_s, min(build_time(states[True], len(prompt)) for _ in range(3))
    # The first token comes from the prefill and the second step warms up. Two tokens make one pair: with
    # goes first in one and last in the other, so that what the first of two warms for the second cancels out.
    on, off = (
        [(a + b) / 2 for a, b in zip(times[c][2::2], times[c][3::2], strict=False)] for c in (True, False)
    )
    added = [a - b for a, b in zip(on, off, strict=True)]
    base = statistics.median(off)
    overhead = statistics.median(x / y for x, y in zip(added, off, strict=True))
    overhead += (hash_s + build_s) / tokens / base
    return {
        "dtype": dtype.name.lower(),
        "prompt_tokens": len(prompt),
        "output_tokens": tokens,
        "boundaries": boundaries,
        "token_s": base,
        "added_s": statistics.median(added),
        "hash_s": hash_s,
        "build_s": build_s,
        "commit_overhead": overhead,
    }


def build_time(state: SequenceState, prompt_tokens: int) -> float:
    """Seconds to build all trees of a finished job."""
    start = time.perf_counter()
    build_commitment(
        state.store,
        job_id=bytes(32),
        operator=OPERATOR,
        model_id=bytes(32),
        tokens=[*state.fed, state.output[-1]],
        prompt_tokens=prompt_tokens,
        finish_reason=FinishReason.LENGTH,
    )
    return time.perf_counter() - start


def hash_rate(repeats: int = 9) -> float:
    """Row bytes hashed to chunk roots per second by one core: the best of ``repeats``."""
    rows = np.random.default_rng(0).integers(0, 256, HASH_SHAPE, dtype=np.uint8)
    row_roots(rows[:1])
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        row_roots(rows)
        best = min(best, time.perf_counter() - start)
    return rows.nbytes / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="model name, folder or .gguf (default: %(default)s)"
    )
    parser.add_argument(
        "--tokens", type=int, default=256, help="output tokens per run (default: %(default)s)"
    )
    parser.add_argument("--boundaries", type=int, default=3, help="boundaries (default: %(default)s)")
    options = parser.parse_args()
    if options.tokens < 8:
        parser.error("--tokens: at least 8")
    folder, place = resolve(options.model), machine()
    rate = hash_rate()
    rows = [measure_dtype(folder, d, options.boundaries, options.tokens) for d in (Dtype.FP32, Dtype.BF16)]
    result = {
        "commit_overhead": max(row["commit_overhead"] for row in rows),
        "hash_bytes_per_s": rate,
        "rows": rows,
        "machine": place,
    }
    print("dtype  prompt output  token ms  added us  hashes ms  trees ms  overhead")
    for row in rows:
        print(
            f"{row['dtype']:6} {row['prompt_tokens']:6} {row['output_tokens']:6} {row['token_s'] * 1e3:9.2f} "
            f"{row['added_s'] * 1e6:9.0f} {row['hash_s'] * 1e3:10.2f} {row['build_s'] * 1e3:9.2f} "
            f"{row['commit_overhead']:9.2%}"
        )
    print(f"hash rate: {rate / 1e6:.0f} MB/s of rows on one core (chunk leaves and their trees)")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
