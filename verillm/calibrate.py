"""Measure the honest variation of a model on this host, and write its manifest.

Honest workers differ in batch size, padding, threads and attention kernel; each job here is decoded with one
such setting and prefilled with another. The prompts and seeds are fixed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from eth_hash.auto import keccak

from verillm.commitment import OutputMatrix
from verillm.comparator.calibration import DEFAULT_FALSE_POSITIVE_RATE, HonestJob
from verillm.comparator.calibration import calibrate as make_table
from verillm.comparator.compare import ratio_q40, rows_statistics
from verillm.constants import CHUNK_BYTES, PPM, Dtype
from verillm.engine.finish import GenerationSpec
from verillm.engine.loading import WEIGHT_DTYPE
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.errors import ConfigError
from verillm.manifest import SAMPLER_VERSION, Manifest, config_hash, make_manifest, weights_root
from verillm.model_store import manifest_path
from verillm.sampling.sampler import margins
from verillm.types import SamplingParams

OUTPUT_TOKENS = 24
BATCH_SIZES = (1, 4, 2, 4, 3, 4, 4, 2)
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
Progress = Callable[[str], None]


def default_boundaries(layers: int) -> tuple[int, ...]:
    """Three segments of about equal length; fewer for a model with fewer layers."""
    return tuple(sorted({max(1, round(layers * part / 3)) for part in (1, 2, 3)}))


def calibrate(
    folder: str | os.PathLike[str],
    dtype: Dtype,
    boundaries: Sequence[int] | None = None,
    *,
    jobs: int = 24,
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
    measured = measure(engine, jobs, progress)
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


def measure(engine: Engine, jobs: int, progress: Progress = lambda line: None) -> list[HonestJob]:
    """Run ``jobs`` honest jobs in batches of 1 to 4 and compare decode with prefill."""
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
            found.append(_compare(engine, state, spec, prompt))
        batch += 1
        progress(f"calibrate: {len(found)}/{jobs} jobs")
    engine.configure(threads=1, attn="sdpa")
    return found


def _prompt(engine: Engine, number: int) -> list[int]:
    """Chat and plain prompts, from a few tokens to a few hundred."""
    count = len(TOPICS)
    topic, other = TOPICS[number % count], TOPICS[(3 * number + number // count) % count]
    if number >= count:
        topic = f"{topic} {other} {number}"
    if number % 4 == 3:
        tokens = engine.encode(" ".join(TOPICS[: 1 + number % count]) + " " + topic)
    elif engine.tokenizer.chat_template and number % 2 == 0:
        tokens = engine.chat([{"role": "user", "content": topic}])
    else:
        tokens = engine.encode(topic)
    return tokens[: engine.max_positions // 2]


def _spec(number: int) -> GenerationSpec:
    """Temperatures 0, 0.7, 1 and 1.3; every third job with top-k and top-p."""
    temperature = (0, 700_000, PPM, 1_300_000)[number % 4]
    masked = number % 3 == 2
    sampling = SamplingParams(temperature, 40 if masked else 0, 950_000 if masked else PPM, 1000 + number)
    return GenerationSpec(sampling, OUTPUT_TOKENS)


def _compare(engine: Engine, state: SequenceState, spec: GenerationSpec, prompt: int) -> HonestJob:
    own = engine.prefill(state.fed).store
    ratios = []
    for boundary in range(len(engine.boundaries)):
        d, n = rows_statistics(state.store.rows(boundary), own.rows(boundary), engine.dtype)
        # Bit-equal rows (prompt rows that the same kernel made twice) tell nothing about other hosts.
        different = [ratio_q40(int(a), int(b)) for a, b in zip(d, n, strict=True) if a > 0]
        ratios.append(tuple(different or [0]))
    final = own.rows(len(engine.boundaries) - 1)[prompt - 1 :]
    found: list[int] = []
    for start, logits in engine.logit_blocks(final):
        claimed = np.asarray(state.output[start : start + len(logits)], np.int64)
        found += margins(logits, spec.sampling, prompt - 1 + start, claimed)[0].tolist()
    return HonestJob(tuple(ratios), tuple(found))


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
