"""Honest jobs in a row, judged as the nodes judge them: none may be rejected.

    python benchmarks/honest.py [--jobs N] [--cheat int4|forge] [--json FILE]

Every job is decoded in a batch of 1 to 4 with 2 threads, committed, opened at drawn positions, and verified
by one prefill with 1 thread; a part of both sides uses the eager attention kernel instead of sdpa. Prompts
and seeds differ from those of calibration. Exit status 1 if an honest job is not accepted, or if a token of
one contradicts its own committed row. ``--cheat`` runs a cheating worker instead; its exit status is 0.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

from node.behaviour import Behaviour
from node.cheats import make_behaviour
from verillm import eip712
from verillm.calibrate import calibrate
from verillm.commitment import build_commitment, token_list_hash, verify_opening
from verillm.comparator.compare import ratio_q40, rows_statistics
from verillm.comparator.tolerance import FLOORS_Q40
from verillm.comparator.verdict import JobVerdict
from verillm.constants import PPM, Dtype, Role, Verdict
from verillm.draw import opened_positions
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.manifest import Manifest
from verillm.model_store import DEFAULT_MODEL, manifest_path, resolve
from verillm.types import Commitment, Job, SamplingParams
from verillm.verification import find_token_fraud, verify_job

OPENED = 8
BATCHES = (1, 3, 2, 4)
DECODE_THREADS, VERIFY_THREADS = 2, 1
OUTPUT_TOKENS = (1, 2, 5, 12, 25, 60, 120, 200)
TEMPERATURES_PPM = (0, 700_000, PPM, 1_500_000)
MASKS = ((0, PPM), (0, PPM), (50, PPM), (0, 900_000), (20, 950_000))
CLIENT, SCHEDULER, WORKER = ("0x" + f"{n:040x}" for n in (1, 2, 3))
DOMAIN = eip712.domain(31337, "0x" + f"{4:040x}")
QUESTIONS = (
    "Why is the sky dark at night?",
    "Write a haiku about rust on a ship.",
    "How many minutes are there in a leap year? Think step by step.",
    "What should I cook with lentils, onions and one lemon?",
    "Erkl\u00e4re kurz, warum Brot aufgeht.",
    "\u00bfQu\u00e9 diferencia hay entre un r\u00edo y un arroyo?",
    "Make a table of the planets with their day lengths.",
    "Reply with one word: is ice lighter than water?",
)
TEXTS = (
    "The committee met on Tuesday and adjourned without a vote, as it had the week before. ",
    "import asyncio\n\nasync def main() -> None:\n    async with asyncio.timeout(3):\n        await ",
    "SELECT name, COUNT(*) FROM visits WHERE day >= '2021-03-01' GROUP BY name HAVING ",
    "Chapter 4. In which the innkeeper's daughter learns to read the tide, and her brother does not. ",
    "Ingredients: 200 g flour, 3 eggs, 1/2 l milk, salt.\n1. Mix.\n2. Wait.\n3. ",
    "x = 3; y = x * x + 7; therefore y = 16. Next, let z = y - ",
    '{"id": 4711, "tags": ["red", "blue"], "price": 19.90, "stock": ',
    "\u041f\u0440\u0438\u0432\u0435\u0442! \u65e5\u672c\u8a9e\u306e\u6587\u3002 La pluie tombe. ",
    "Dear Ms. Okafor,\n\nthank you for your letter of 9 May about the broken heating in flat 12. ",
    "A glacier is a slow river: snow falls, is pressed to ice, and creeps downhill under its own weight. ",
)


@dataclass
class Tally:
    """What the jobs of one dtype showed. ``rows`` are all rows of all jobs, not only the opened ones;
    ``worst_rows`` the largest ratios to the tolerance: (ratio, job, boundary, position, job's rows)."""

    jobs: int = 0
    rejects: int = 0
    unable: int = 0
    frauds: int = 0
    output_tokens: int = 0
    rows: int = 0
    rows_beyond: int = 0
    jobs_beyond: int = 0
    rows_rejected: int = 0
    relative_l2: float = 0.0
    margin: float = 0.0
    margin_sum: float = 0.0
    reasons: list[str] = field(default_factory=list)
    worst_rows: list[tuple[float, int, int, int, int]] = field(default_factory=list)


def prompt_of(engine: Engine, number: int, rng: random.Random) -> list[int]:
    """Chat, text, code, other languages, repetition and plain noise; 1 to about 700 tokens."""
    question = f"{rng.choice(QUESTIONS)} ({rng.randrange(1000)})"
    match number % 8:
        case 0:
            return engine.chat([{"role": "user", "content": question}])
        case 1:
            return engine.encode(rng.choice(TEXTS))
        case 2:
            return engine.encode("".join(rng.choices(TEXTS, k=rng.randrange(4, 30))) + question)
        case 3:
            first, answer = rng.choice(QUESTIONS), rng.choice(TEXTS)
            turns = [("system", "You answer briefly."), ("user", first), ("assistant", answer)]
            return engine.chat([{"role": r, "content": c} for r, c in [*turns, ("user", question)]])
        case 4:
            return [rng.randrange(engine.vocab_size) for _ in range(rng.randrange(4, 80))]
        case 5:
            word = rng.choice(("tick", "0", "the sea,", "ha"))
            return engine.encode(" ".join([word] * rng.randrange(5, 90)))
        case 6:
            return engine.encode(question)[: rng.randrange(1, 5)]
        case _:
            passage = "".join(rng.sample(TEXTS, rng.randrange(2, len(TEXTS))))
            return engine.chat([{"role": "user", "content": f"Summarise:\n{passage}"}])


def spec_of(number: int, rng: random.Random) -> GenerationSpec:
    top_k, top_p = MASKS[rng.randrange(len(MASKS))]
    temperature = TEMPERATURES_PPM[number % 4 if number % 8 < 4 else (number + 1) % 4]
    stop = ("\n\n",) if rng.random() < 0.15 else ()
    sampling = SamplingParams(temperature, top_k, top_p, rng.getrandbits(64))
    return GenerationSpec(sampling, rng.choice(OUTPUT_TOKENS), stop)


def generate(
    behaviour: Behaviour, seed: int, jobs: int
) -> Iterator[tuple[list[int], GenerationSpec, SequenceState]]:
    """Decode the jobs batch by batch: (prompt, spec, finished sequence)."""
    engine, done = behaviour.engine, 0
    for batch in itertools.count():
        if done == jobs:
            return
        numbers = range(done, min(done + BATCHES[batch % len(BATCHES)], jobs))
        rngs = [random.Random(f"honest {seed} {number}") for number in numbers]
        prompts = [prompt_of(engine, number, rng) for number, rng in zip(numbers, rngs, strict=True)]
        specs = [spec_of(number, rng) for number, rng in zip(numbers, rngs, strict=True)]
        engine.configure(threads=DECODE_THREADS, attn="eager" if batch % 4 == 2 else "sdpa")
        states = [behaviour.prefill(prompt) for prompt in prompts]
        behaviour.decode(states, specs, lambda index, token: None)
        yield from zip(prompts, specs, states, strict=True)
        done += len(numbers)


def check(
    engine: Engine,
    manifest: Manifest,
    tally: Tally,
    prompt: list[int],
    spec: GenerationSpec,
    s: SequenceState,
) -> None:
    """Commit, open, verify and judge one job, and add it to the tally."""
    sampling, number = spec.sampling, tally.jobs
    job = Job(
        CLIENT, SCHEDULER, manifest.model_id, token_list_hash(prompt), len(prompt), spec.max_output_tokens,
        eip712.stop_hash(spec.stop), sampling.temperature_ppm, sampling.top_k, sampling.top_p_ppm,
        sampling.seed, 1, 1, 1, 2**40, number,
    )  # fmt: skip
    job_id = eip712.job_id(job, DOMAIN)
    tokens = [*prompt, *s.output]
    if s.finish_reason is None:
        raise SystemExit("honest: a sequence did not finish")
    committed = build_commitment(
        s.store, job_id=job_id, operator=WORKER, model_id=job.model_id, tokens=tokens,
        prompt_tokens=len(prompt), finish_reason=s.finish_reason,
    )  # fmt: skip
    commitment = Commitment(
        job_id, Role.WORKER, 0, committed.job_root, len(prompt), len(s.output), s.finish_reason, WORKER
    )
    positions = opened_positions(job_id, job_id, committed.rows_per_boundary, OPENED)
    openings = [opening for position in positions for opening in committed.open(position)]
    for opening in openings:
        verify_opening(
            opening, commitment=commitment, model_id=job.model_id, parts=committed.parts,
            dtype=engine.dtype, hidden_size=engine.hidden_size,
        )  # fmt: skip
    own = engine.prefill(tokens[:-1])
    verdict = verify_job(
        engine, manifest.table, job, prompt, s.output, s.finish_reason, spec.stop, openings,
        own=own.store, token_root=committed.token_root,
    )  # fmt: skip
    every_row = [committed.open_row(len(engine.boundaries) - 1, t) for t in range(len(tokens) - 1)]
    fraud = find_token_fraud(engine, every_row, job, tokens, manifest.spec.token_margin_q24)
    tally.jobs += 1
    tally.output_tokens += len(s.output)
    if fraud is not None:
        tally.frauds += 1
        tally.reasons.append(f"job {number}: token fraud {fraud}")
    _add_verdict(tally, manifest, verdict, number)
    _add_rows(tally, manifest, number, s, own)


def _add_verdict(tally: Tally, manifest: Manifest, verdict: JobVerdict, number: int) -> None:
    tally.rejects += verdict.verdict is Verdict.REJECT
    tally.unable += verdict.verdict is Verdict.UNABLE
    if verdict.verdict is not Verdict.ACCEPT:
        where = f"boundary {verdict.boundary}, position {verdict.position}"
        tally.reasons.append(f"job {number}: {verdict.verdict.name}, {where}: {verdict.reason}")
    seen = verdict.statistics
    for b in range(len(manifest.boundaries)):
        if f"relative_l2_{b}" in seen:
            ratio = seen[f"relative_l2_{b}"] / seen[f"relative_l2_limit_{b}"]
            tally.relative_l2 = max(tally.relative_l2, ratio)
    if "max_margin" in seen:
        limit = manifest.table.token_limit_q24 / 2**24
        tally.margin = max(tally.margin, seen["max_margin"] / limit)
        tally.margin_sum = max(tally.margin_sum, seen["mean_margin"] / seen["mean_margin_limit"])


def _add_rows(
    tally: Tally, manifest: Manifest, number: int, worker: SequenceState, own: SequenceState
) -> None:
    beyond = 0
    for b, limits in enumerate(manifest.table.boundaries):
        d, n = rows_statistics(worker.store.rows(b), own.store.rows(b), manifest.row_dtype)
        ratios = np.array([ratio_q40(int(x), int(y)) for x, y in zip(d, n, strict=True)], float)
        tally.rows += len(ratios)
        beyond += int((ratios > limits.row_tolerance_q40).sum())
        tally.rows_rejected += int((ratios > limits.row_reject_q40).sum())
        worst = int(ratios.argmax())
        entry = (ratios[worst] / limits.row_tolerance_q40, number, b, worst, len(ratios))
        tally.worst_rows = sorted([*tally.worst_rows, entry], reverse=True)[:10]
    tally.rows_beyond += beyond
    tally.jobs_beyond += beyond > 0


def run(folder: Path, dtype: Dtype, jobs: int, seed: int, cheat: str | None) -> Tally:
    path = manifest_path(folder, dtype)
    manifest = Manifest.load(path) if path.is_file() else calibrate(folder, dtype, progress=print)
    engine = Engine.from_manifest(folder, manifest, threads=VERIFY_THREADS)
    worker = Behaviour(engine)
    if cheat is not None:
        worker = make_behaviour(cheat, lambda: Engine.from_manifest(folder, manifest, threads=DECODE_THREADS))
    tally = Tally()
    for number, (prompt, spec, state) in enumerate(generate(worker, seed, jobs)):
        engine.configure(threads=VERIFY_THREADS, attn="eager" if number % 7 == 3 else "sdpa")
        check(engine, manifest, tally, prompt, spec, state)
        print(f"{dtype.name.lower()}: {tally.jobs}/{jobs} jobs", end="\r", file=sys.stderr, flush=True)
    return tally


def table(rows: dict[str, Tally], floors: dict[str, float]) -> str:
    lines = [
        "dtype   jobs rejects unable frauds  tokens  mean L2/limit  margin/limit  margin sum/limit     rows"
        "  beyond tolerance"
    ]
    for name, t in rows.items():
        lines.append(
            f"{name:6} {t.jobs:5} {t.rejects:7} {t.unable:6} {t.frauds:6} {t.output_tokens:7} "
            f"{t.relative_l2:14.3f} {t.margin:13.3f} {t.margin_sum:17.3f} {t.rows:8} "
            f"{t.rows_beyond:9} ({t.jobs_beyond} jobs)"
        )
    lines += [f"{name}: row floor, relative L2 {floor:.2g}" for name, floor in floors.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or folder (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=50, help="jobs per dtype (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of prompts and sampling (default: %(default)s)")
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "fp32"], choices=["bf16", "fp16", "fp32"])
    parser.add_argument("--cheat", choices=["int4", "forge"], help="run this cheating worker instead")
    options = parser.parse_args(arguments)
    folder = resolve(options.model)
    rows: dict[str, Tally] = {}
    for name in options.dtypes:
        rows[name] = run(folder, Dtype[name.upper()], options.jobs, options.seed, options.cheat)
    floors = {name: math.sqrt(2 * FLOORS_Q40[Dtype[name.upper()]] / 2**40) for name in rows}
    print(table(rows, floors))
    for name, tally in rows.items():
        for reason in tally.reasons[:20]:
            print(f"{name}: {reason}")
    if options.json:
        result: dict[str, Any] = {
            "worker": options.cheat or "honest",
            "seed": options.seed,
            "opened_positions": OPENED,
            "machine": machine(DECODE_THREADS),
            "dtypes": {name: vars(tally) for name, tally in rows.items()},
        }
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    failed = any(t.rejects or t.unable or t.frauds for t in rows.values())
    return int(failed and options.cheat is None)


if __name__ == "__main__":
    sys.exit(main())
