"""How well cheats are told from honest work, on real models: honest matrix, cheat matrix, peers.

    python benchmarks/detection.py [--quick] [--json FILE] [--plots FOLDER] [--raw FILE]

Honest jobs are decoded in many honest ways and verified in many others; none may be rejected. Cheats compute
what they claim to. Evidence is weighed after 1, 2, 4, ... output tokens, on those tokens' rows and margins
alone; TOPLOC, Token-DiFR and Activation-DiFR score the same activations (`make peers` installs TOPLOC).

--quick is one model and dtype with few jobs, within 10 minutes on 2 cores. Without it: the full study, hours.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

from machine import machine
from study.cheats import CHEATS
from study.claims import OPENED, PREFIXES, Outcome
from study.lab import Subject, lab
from study.plots import draw
from study.summary import result, table
from study.tasks import CONTROL, Task, run
from study.variants import decodes, prefills

from verillm.constants import Dtype

SMOLLM, GEMMA = "smollm2-135m", "gemma3-270m"
STRANGER = {SMOLLM: GEMMA, GEMMA: SMOLLM}
SLOW_VERIFIERS = ("chunks of 1", "chunks of 7")
"""Only some jobs are verified token by token: it takes as long as the job."""
QUICK_PROVIDERS = ("batch 1", "batch 8", "eager", "after right padding", "other engine", "vLLM's roundings")
QUICK_VERIFIERS = ("plain", "eager", "right padding", "chunks of 32", "prefix cache", "vLLM's roundings")
TASK_JOBS = 8
PROVIDER_JOBS = 1000
"""Every provider has jobs of its own: more prompts than the same ones again would be."""
PACKAGES = ("verillm", "torch", "transformers", "numpy", "toploc")


def honest_tasks(subject: Subject, seed: int, jobs: int, quick: bool) -> list[Task]:
    providers = QUICK_PROVIDERS if quick else tuple(decodes(subject.dtype, subject.model == SMOLLM))
    every = QUICK_VERIFIERS if quick else tuple(prefills(subject.dtype, subject.model == SMOLLM))
    usual = tuple(name for name in every if name not in SLOW_VERIFIERS)
    tasks = []
    for index, provider in enumerate(providers):
        for first in range(0, jobs, TASK_JOBS):
            verifiers = every if first == 0 else usual
            number, count = index * PROVIDER_JOBS + first, min(TASK_JOBS, jobs - first)
            tasks.append(Task(subject, STRANGER[subject.model], provider, seed, number, count, verifiers))
    return tasks


def cheat_tasks(subject: Subject, seed: int, jobs: int, tokens: int) -> list[Task]:
    """The control has twice as many jobs, the first half of them those of the cheats."""
    stranger = STRANGER[subject.model]
    control = [Task(subject, stranger, CONTROL, seed, first, jobs, (), tokens) for first in (0, jobs)]
    return control + [Task(subject, stranger, name, seed, 0, jobs, (), tokens) for name in CHEATS]


def plan(quick: bool, seed: int) -> list[Task]:
    if quick:
        subject = Subject(SMOLLM, Dtype.BF16)
        return cheat_tasks(subject, seed, 8, 32) + honest_tasks(subject, seed, 16, quick)
    subjects = (
        (Subject(SMOLLM, Dtype.BF16), 30, 16),
        (Subject(GEMMA, Dtype.BF16), 4, 8),
        (Subject(SMOLLM, Dtype.FP32), 4, 0),  # honest fp32 is so exact that every cheat is far off
    )
    cheats = [task for subject, _, jobs in subjects if jobs for task in cheat_tasks(subject, seed, jobs, 64)]
    honest = [task for subject, jobs, _ in subjects for task in honest_tasks(subject, seed, jobs, quick)]
    return cheats + sorted(honest, key=lambda task: task.first % PROVIDER_JOBS)  # something of all first


Done = dict[Task, list[Outcome]]


def load(raw: Path | None) -> Done:
    """What an earlier run of the same study finished. The file is this program's own pickle."""
    return pickle.loads(raw.read_bytes()) if raw is not None and raw.is_file() else {}


def keep(done: Done, raw: Path) -> None:
    """The file appears whole or not at all."""
    scratch = raw.with_name(f".{raw.name}.{os.getpid()}")
    scratch.write_bytes(pickle.dumps(done))
    scratch.replace(raw)


def perform(tasks: Sequence[Task], processes: int, raw: Path | None) -> Done:
    """Outcomes by task, those of an earlier run in ``raw`` included."""
    earlier = load(raw)
    done = {task: earlier[task] for task in tasks if task in earlier}
    tasks = [task for task in tasks if task not in done]
    started = time.perf_counter()
    for subject in dict.fromkeys(task.subject for task in tasks):
        lab(subject, STRANGER[subject.model])  # fetches, converts and calibrates once, not once per process
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run, task): task for task in tasks}
        for count, future in enumerate(as_completed(running), 1):
            task = running[future]
            done[task] = future.result()
            if raw is not None:
                keep(done, raw)
            seconds = time.perf_counter() - started
            print(f"[{seconds:5.0f} s] {count}/{len(tasks)} {task.label}", file=sys.stderr, flush=True)
    return done


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one model, few jobs")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the result here")
    parser.add_argument(
        "--plots", metavar="FOLDER", type=Path, help="write ROC curves and distributions here"
    )
    parser.add_argument("--raw", metavar="FILE", type=Path, help="keep comparisons here, and go on from them")
    parser.add_argument("--seed", type=int, default=1, help="of prompts and sampling (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one per core")
    options = parser.parse_args(arguments)
    place, started = machine(1), time.perf_counter()
    tasks = plan(options.quick, options.seed)
    done = perform(tasks, options.processes, options.raw)
    honest = [outcome for task in tasks if task.verifiers for outcome in done[task]]
    others = [outcome for task in tasks if not task.verifiers for outcome in done[task]]
    found = result(honest, others, options.seed)
    print(table(found))
    if "toploc" not in (others[0].peers if others else ()):
        print("toploc is not installed (`make peers`): its columns are empty")
    if options.plots:
        for path in draw(honest, others, options.plots):
            print(f"plot: {path}")
    if options.json:
        settings = {
            "quick": options.quick,
            "seed": options.seed,
            "opened_positions": OPENED,
            "prefixes": PREFIXES,
            "seconds": round(time.perf_counter() - started),
            "versions": versions(),
            "machine": place,
        }
        options.json.write_text(json.dumps({**found, **settings}, indent=1) + "\n")
    return int(found["honest_rejects"] > 0)


if __name__ == "__main__":
    sys.exit(main())
