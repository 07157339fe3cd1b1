"""Cost of verification against generation, per job, in one run on the same threads.

    python benchmarks/verification.py [--json FILE] [--threads N] [--quick]

Generation is ``model.generate`` of plain transformers, greedy: no commitment, no verifiable sampler. Ours is
the engine's decode with its commitment. Verification is all that a verifier does: the prefill of prompt and
output, its own commitment to the rows, the margin of every output token, 16 opened positions and the finish
rule. The split repeats the same public steps one by one. Verification is the median of runs before, between
and after the two generations, so that a busy machine slows all alike; ``ratio`` is verification / plain
generation. ``cpu_ratio`` is the same of CPU seconds over all threads, which other processes disturb less; it
is the larger one, since the prefill gains from threads what decode does not.

Bad regimes are rows too: one or few output tokens, a long prompt, and a large decode batch (8 jobs decode
together and are verified one by one).

The plan for 1 %: the prefill is nearly all that is left.
(1) Fused projections, norms and attention; how much they give was not measured.
(2) Random-depth verification recomputes only the layers up to a boundary that is drawn after the commitment:
of three boundaries two thirds of the layers on average, and logits only where the last one is drawn.
(3) Verifiers take several jobs at once: prefills of short jobs share one pass over the weights.
A larger model helps by itself: memory bounds its decode, arithmetic its prefill.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from machine import machine

from verillm.calibrate import TOPICS, default_boundaries
from verillm.commitment import RowOpening, RowStore, build_commitment, prefill_root, token_list_hash
from verillm.comparator.compare import row_statistics
from verillm.constants import Dtype, FinishReason
from verillm.eip712 import stop_hash
from verillm.engine.finish import first_violation
from verillm.engine.transformers_engine import Engine, GenerationSpec, SequenceState
from verillm.model_store import resolve
from verillm.observe import observe
from verillm.types import Job

OPENED = 16
ADDRESS = "0x" + "00" * 20
CASES = ((64, 1, 1), (64, 16, 1), (64, 256, 1), (64, 512, 1), (2048, 64, 1), (64, 64, 8))
"""(prompt tokens, output tokens, jobs that decode together)."""
QUICK = ((64, 16, 1), (64, 64, 1))
REPEATS = 2
"""Verifications before, between and after the two generations, each."""


@dataclass
class Work:
    """A finished job, as its verifier gets it."""

    job: Job
    prompt: list[int]
    output: list[int]
    openings: list[RowOpening]


def cost(call: Callable[[], Any]) -> tuple[float, float]:
    """(wall, CPU) seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def seconds(call: Callable[[], Any]) -> float:
    return cost(call)[0]


def plain(engine: Engine, prompts: list[list[int]], output_tokens: int) -> None:
    """Greedy generation with transformers alone; all prompts have one length."""
    ids = torch.tensor(prompts)
    limits = {"max_new_tokens": output_tokens, "min_new_tokens": output_tokens}
    with torch.inference_mode():
        engine.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **limits
        )


def make_job(prompt: list[int], output_tokens: int, seed: int) -> Job:
    return Job(
        ADDRESS, ADDRESS, b"\0" * 32, token_list_hash(prompt), len(prompt), output_tokens, stop_hash(()),
        700_000, 0, 1_000_000, seed, 1, 1, 1, 0, 0,
    )  # fmt: skip


def generate(engine: Engine, prompts: list[list[int]], output_tokens: int) -> list[Work]:
    """Decode with the engine and commit."""
    jobs = [make_job(prompt, output_tokens, seed) for seed, prompt in enumerate(prompts)]
    states = [engine.prefill(prompt) for prompt in prompts]
    for _ in engine.decode_batch(states, [GenerationSpec(job.sampling, output_tokens) for job in jobs]):
        pass
    return [finish(job, prompt, state) for job, prompt, state in zip(jobs, prompts, states, strict=True)]


def finish(job: Job, prompt: list[int], state: SequenceState) -> Work:
    committed = build_commitment(
        state.store,
        job_id=b"\0" * 32,
        operator=ADDRESS,
        model_id=job.model_id,
        tokens=[*prompt, *state.output],
        prompt_tokens=len(prompt),
        finish_reason=FinishReason.LENGTH,
    )
    rows = committed.rows_per_boundary
    openings = [o for i in range(OPENED) for o in committed.open(i * rows // OPENED)]
    return Work(job, prompt, state.output, openings)


def verify(engine: Engine, work: Work) -> None:
    fed = [*work.prompt, *work.output[:-1]]
    store = engine.prefill(fed).store
    prefill_root(store, fed)
    seen = observe(
        engine, work.job, work.prompt, work.output, FinishReason.LENGTH, (), work.openings, own=store
    )
    if seen.unable is not None or not seen.finish_ok:
        raise SystemExit(f"verification failed: {seen}")


def split(engine: Engine, work: Work) -> dict[str, float]:
    """Seconds of each step of ``verify``."""
    fed, first = [*work.prompt, *work.output[:-1]], len(work.prompt) - 1
    store = engine.prefill(fed).store
    final = store.rows(store.boundaries - 1)[first:]

    def commit() -> None:
        own = RowStore(store.boundaries, store.hidden_size, store.dtype)
        for boundary in range(store.boundaries):
            own.append_rows(boundary, 0, store.rows(boundary))
        prefill_root(own, fed)

    def compare() -> None:
        for o in work.openings:
            row_statistics(o.row, store.rows(o.boundary)[o.position], engine.dtype)
        first_violation(work.output, FinishReason.LENGTH, (), (), work.job.max_output_tokens, engine.decode)

    hashing = seconds(commit)
    started = time.perf_counter()
    judges = list(engine.head.rows(final))
    logits = time.perf_counter() - started

    def judge() -> None:
        for i, judge in enumerate(judges):
            judge.margin(work.job.sampling, first + i, work.output[i])

    return {
        "prefill_s": seconds(lambda: engine.prefill(fed)) - hashing,
        "logits_s": logits,
        "sampling_s": seconds(judge),
        "hashing_s": hashing,
        "comparing_s": seconds(compare),
    }


def measure(engine: Engine, case: tuple[int, int, int]) -> dict[str, Any]:
    prompt_tokens, output_tokens, batch = case
    text = engine.encode(" ".join(TOPICS * 40))
    prompts = [text[i : i + prompt_tokens] for i in range(batch)]
    works = generate(engine, prompts, output_tokens)
    times: list[tuple[float, float]] = []
    parts: list[dict[str, float]] = []

    def verifications() -> None:
        for _ in range(REPEATS):
            times.append(cost(lambda: [verify(engine, work) for work in works]))
            each = [split(engine, work) for work in works]
            parts.append({name: sum(part[name] for part in each) for name in each[0]})

    verifications()
    reference, reference_cpu = cost(lambda: plain(engine, prompts, output_tokens))
    verifications()
    ours, ours_cpu = cost(lambda: generate(engine, prompts, output_tokens))
    verifications()
    verification, verification_cpu = (statistics.median(kind) for kind in zip(*times, strict=True))
    return {
        "dtype": engine.dtype.name.lower(),
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "batch": batch,
        "plain_generation_s": round(reference, 4),
        "generation_s": round(ours, 4),
        "verification_s": round(verification, 4),
        **{name: round(statistics.median(part[name] for part in parts), 4) for name in parts[0]},
        "ratio": round(verification / reference, 4),
        "plain_generation_cpu_s": round(reference_cpu, 4),
        "generation_cpu_s": round(ours_cpu, 4),
        "verification_cpu_s": round(verification_cpu, 4),
        "cpu_ratio": round(verification_cpu / reference_cpu, 4),
    }


def run(model: str, threads: int, cases: tuple[tuple[int, int, int], ...]) -> Iterator[dict[str, Any]]:
    folder = resolve(model)
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    torch.set_num_threads(threads)
    for dtype in (Dtype.BF16, Dtype.FP32):
        engine = Engine(folder, dtype, default_boundaries(layers), threads=threads)
        engine.eos_token_ids = ()  # every job has its full length
        measure(engine, (64, 4, 1))  # compile and warm up
        for case in cases:
            yield measure(engine, case)


HEADER = (
    "dtype  prompt output batch |  plain s   ours s | verify s  ratio    CPU |"
    " prefill  logits sampling hashing comparing"
)


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['dtype']:6} {row['prompt_tokens']:6} {row['output_tokens']:6} {row['batch']:5} |"
        f" {row['plain_generation_s']:8.2f} {row['generation_s']:8.2f} |"
        f" {row['verification_s']:8.3f} {row['ratio']:6.2%} {row['cpu_ratio']:6.2%} |"
        f" {row['prefill_s']:7.3f} {row['logits_s']:7.3f} {row['sampling_s']:8.3f}"
        f" {row['hashing_s']:7.4f} {row['comparing_s']:9.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Verification against generation time per job.")
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument("--model", default="smollm2-135m", help="name, folder, .gguf file or hub id")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two short cases per dtype")
    args = parser.parse_args()
    place = machine(args.threads)
    print(HEADER)
    rows: list[dict[str, Any]] = []
    for row in run(args.model, args.threads, QUICK if args.quick else CASES):
        rows.append({**row, **place})
        print(line(row), flush=True)
        if args.json:
            Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
