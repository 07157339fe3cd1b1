"""Measure the honest variation of a model on this host, and write its manifest.

Honest workers differ in batch size, padding, threads and attention kernel; each job here is decoded with one
such setting and prefilled with another. Other engines and hardware also round in other places: for 2-byte
rows every other job is prefilled in float32 and rounded at the boundaries only, which is as far from this
engine as vLLM is (docs/detection.md). The prompts and seeds are fixed.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from eth_hash.auto import keccak
from numpy.typing import NDArray

from verillm.commitment import OutputMatrix
from verillm.commitment.job import RowStore
from verillm.comparator.calibration import DEFAULT_FALSE_POSITIVE_RATE, HonestJob
from verillm.comparator.calibration import calibrate as make_table
from verillm.comparator.compare import ratio_q40, rows_statistics
from verillm.comparator.direction import pair_cosines, unit_deviations
from verillm.comparator.repetition import countable
from verillm.constants import CHUNK_BYTES, PPM, Dtype
from verillm.engine.finish import GenerationSpec
from verillm.engine.loading import TORCH_DTYPES, WEIGHT_DTYPE
from verillm.engine.running import value_bytes
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.errors import ConfigError, EncodingError
from verillm.manifest import SAMPLER_VERSION, Manifest, config_hash, make_manifest, weights_root
from verillm.model_store import manifest_path
from verillm.types import SamplingParams

OUTPUT_TOKENS = 48
"""Long enough for greedy jobs to repeat themselves: then the deviations of rows resemble each other more."""
BATCH_SIZES = (1, 8, 2, 4, 3, 6)
DECODE_THREADS = (1, 1, 2, 1)
PREFILL_THREADS = (2, 1)
TOPICS = (
    "List three uses of copper.",
    "Explain in two sentences how a bicycle stays upright.",
    "Write a short story about a lighthouse keeper who finds a message in a bottle after a storm.",
    "def fibonacci(n):",
    "What is 17 times 23? Show each step.",
    "Translate 'the cat sleeps on the warm roof' into French, German and Spanish.",
    "Give me a packing list for a week of hiking in cold rain, grouped by purpose, with one reason per item.",
    "Summarise: The river rises in the hills, crosses a plain of wheat, and meets the sea in a wide delta "
    "where birds winter. Its floods once fed the fields; now dams hold them back, and the delta shrinks.",
)
DIRECTION_ROWS = 32
"""Rows of a job whose pairs are measured: about as many as a verifier opens, evenly spaced."""
U8 = NDArray[np.uint8]
Progress = Callable[[str], None]


def default_boundaries(layers: int) -> tuple[int, ...]:
    """Three segments of about equal length; fewer for a model with fewer layers."""
    return tuple(sorted({max(1, round(layers * part / 3)) for part in (1, 2, 3)}))


def calibrate(
    folder: str | os.PathLike[str],
    dtype: Dtype,
    boundaries: Sequence[int] | None = None,
    *,
    jobs: int = 48,
    false_positive_rate: float = DEFAULT_FALSE_POSITIVE_RATE,
    name: str | None = None,
    save: bool = True,
    progress: Progress = lambda line: None,
) -> Manifest:
    """The manifest of the model in ``folder`` for rows of ``dtype``; ``save`` writes it to ``manifest_path``.

    ``boundaries`` default to thirds of the layers, ``name`` to the folder's. Raises ConfigError, EngineError.
    """
    started = time.perf_counter()
    folder = Path(folder)
    ends = tuple(boundaries) if boundaries is not None else default_boundaries(_layers(folder))
    engine = Engine(folder, dtype, ends, threads=1)
    progress(f"calibrate: {dtype.name.lower()}, boundaries {list(ends)}, {jobs} honest jobs")
    wide = None if dtype is Dtype.FP32 else Engine(folder, Dtype.FP32, ends, threads=1)
    measured = measure(engine, wide, jobs, progress)
    table = make_table(measured, dtype, false_positive_rate)
    manifest = make_manifest(
        _content(folder, engine, name or folder.name),
        OutputMatrix(engine.output_matrix_bytes()).root,
        table,
    )
    if save:
        manifest.save(manifest_path(folder, dtype))
    seconds = time.perf_counter() - started
    progress(f"calibrate: model id 0x{manifest.model_id.hex()} ({seconds:.0f} s)")
    return manifest


def manifest_of(
    folder: str | os.PathLike[str], dtype: Dtype, progress: Progress = lambda line: None
) -> Manifest:
    """The manifest that is saved with the model, or else a new calibration's.

    A manifest of an earlier version of this package counts as none. Raises ConfigError, EngineError.
    """
    path = manifest_path(folder, dtype)
    if path.is_file():
        try:
            manifest = Manifest.load(path)
            if len(manifest.table.boundaries) == len(manifest.boundaries):
                return manifest
        except EncodingError as error:
            progress(f"calibrate: {path.name} is not of this version ({error})")
    return calibrate(folder, dtype, progress=progress)


def measure(
    engine: Engine, wide: Engine | None, jobs: int, progress: Progress = lambda line: None
) -> list[HonestJob]:
    """Run ``jobs`` honest jobs in batches of 1 to 8 and compare decode with prefill; ``wide`` is the same
    model in float32, for every other job."""
    found: list[HonestJob] = []
    batch = 0
    while len(found) < jobs:
        size = min(BATCH_SIZES[batch % len(BATCH_SIZES)], jobs - len(found))
        numbers = range(len(found), len(found) + size)
        specs = [_spec(number) for number in numbers]
        engine.configure(threads=DECODE_THREADS[batch % 4], attn="sdpa" if batch % 3 else "eager")
        states = [engine.prefill(_prompt(engine, number)) for number in numbers]
        prompts = [len(state.fed) for state in states]
        for _ in engine.decode_batch(states, specs):
            pass
        engine.configure(threads=PREFILL_THREADS[batch % 2], attn="eager" if batch % 5 == 4 else "sdpa")
        for state, spec, prompt in zip(states, specs, prompts, strict=True):
            if wide is not None and len(found) % 2:
                own = _rounded(wide.prefill(state.fed).store, engine.dtype)
            else:
                store = engine.prefill(state.fed).store
                own = [store.rows(b) for b in range(store.boundaries)]
            found.append(_compare(engine, state, spec, prompt, own))
        batch += 1
        progress(f"calibrate: {len(found)}/{jobs} jobs")
    engine.configure(threads=1, attn="sdpa")
    return found


def _prompt(engine: Engine, number: int) -> list[int]:
    """Chat, plain text, one phrase again and again, and noise; from one token to a few hundred."""
    count = len(TOPICS)
    topic, other = TOPICS[number % count], TOPICS[(3 * number + number // count) % count]
    text = f"{topic} {other} {number}" if number >= count else topic
    kind = number % 8
    if kind == 3:
        tokens = engine.encode(" ".join(TOPICS[: 1 + number // 8 % count]) + " " + text)
    elif kind == 5:
        tokens = engine.encode(topic[: 4 + number % 5] * (4 + number))
    elif kind == 7:
        rng = random.Random(number)
        tokens = [rng.randrange(engine.vocab_size) for _ in range(1 + number)]
    elif engine.tokenizer.chat_template and kind in (0, 4, 6):
        tokens = engine.chat([{"role": "user", "content": text}])
    else:
        tokens = engine.encode(text)
    if not engine.tokenizer.chat_template and engine.tokenizer.bos_token_id is not None:
        tokens = [engine.tokenizer.bos_token_id, *tokens]  # a base model expects one; templates have theirs
    return tokens[: engine.max_positions // 2]


def _spec(number: int) -> GenerationSpec:
    """Temperatures 0, 0.7, 1 and 1.3; every third job with top-k and top-p."""
    temperature = (0, 700_000, PPM, 1_300_000)[number % 4]
    masked = number % 3 == 2
    sampling = SamplingParams(temperature, 40 if masked else 0, 950_000 if masked else PPM, 1000 + number)
    return GenerationSpec(sampling, OUTPUT_TOKENS)


def _compare(
    engine: Engine, state: SequenceState, spec: GenerationSpec, prompt: int, own: Sequence[U8]
) -> HonestJob:
    """A decoded job against ``own`` rows of the same tokens: uint8 [n, row_bytes] at each boundary."""
    every, cosines = [], []
    for boundary, ours in enumerate(own):
        theirs = state.store.rows(boundary)
        d, n = rows_statistics(theirs, ours, engine.dtype)
        every.append([ratio_q40(int(a), int(b)) for a, b in zip(d, n, strict=True)])
        usable = np.flatnonzero(countable(state.fed))
        spaced = usable[np.unique(np.linspace(0, len(usable) - 1, DIRECTION_ROWS).astype(int))]
        units = unit_deviations(theirs[spaced], ours[spaced], engine.dtype)
        cosines.append(tuple(pair_cosines(units, spaced, np.asarray(state.fed)[spaced]).tolist()))
    counts = countable(state.fed)
    keep = [i for i, position in enumerate(zip(*every, strict=True)) if any(position) and counts[i]]
    ratios = tuple(tuple(rows[i] for i in keep) for rows in every)
    found, _ = engine.margins(own[-1][prompt - 1 :], spec.sampling, prompt - 1, state.output)
    return HonestJob(ratios, tuple(cosines), tuple(found.tolist()))


def _rounded(store: RowStore, dtype: Dtype) -> list[U8]:
    """float32 rows of every boundary in ``dtype``."""
    wide = (torch.from_numpy(store.rows(b).copy()).view(torch.float32) for b in range(store.boundaries))
    return [value_bytes(rows.to(TORCH_DTYPES[dtype])) for rows in wide]


def _layers(folder: Path) -> int:
    try:
        return int(json.loads((folder / "config.json").read_text())["num_hidden_layers"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"model: {folder}/config.json has no num_hidden_layers: {error}") from error


def _content(folder: Path, engine: Engine, name: str) -> dict[str, Any]:
    """Every manifest field but version, tolerance and spec."""
    return {
        "name": name,
        "config_hash": config_hash(folder),
        "weights_root": weights_root(folder),
        "tokenizer_hash": keccak(engine.tokenizer.backend_tokenizer.to_str().encode()),
        "chat_template_hash": keccak((engine.tokenizer.chat_template or "").encode()),
        "row_dtype": engine.dtype,
        "weight_dtype": WEIGHT_DTYPE,
        "boundaries": engine.boundaries,
        "chunk_bytes": CHUNK_BYTES,
        "eos_token_ids": engine.eos_token_ids,
        "vocab_size": engine.vocab_size,
        "hidden_size": engine.hidden_size,
        "max_positions": engine.max_positions,
        "sampler_version": SAMPLER_VERSION,
    }
