"""Mutated inputs for every decoder of what strangers send: none may crash one, or take its time or memory.

    python benchmarks/fuzz.py [--inputs N] [--seed S] [--processes P] [--json FILE]

Receipts, openings, rows, proofs, protobuf messages, gRPC services below the socket, manifests, tables, logs
and answers of the chain: ``tests/fuzz`` has the list. An input may be accepted or refused with a typed error;
any other exception, a signal, more than a GiB of new memory or too long a time is a crash, saved as hex with
its index.
Exit status 1 on any crash. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads: the children are forked
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machine import machine

from tests.fuzz import harness
from tests.fuzz.targets import all_targets

ROW = "{:26}{:10}{:>9}{:>10}{:>9}{:>9}{:>9}{:>10}"


def show_progress(total: int) -> harness.Callable[[int], None]:
    """One line per twentieth of the inputs."""
    begun, shown = time.monotonic(), [0]

    def progress(done: int) -> None:
        if done * 20 // total > shown[0]:
            shown[0] = done * 20 // total
            print(f"fuzz: {done} of {total} inputs, {time.monotonic() - begun:.0f} s", flush=True)

    return progress


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs over all targets")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same inputs")
    parser.add_argument("--processes", type=int, default=1, help="children at once")
    parser.add_argument("--json", type=Path, help="file to write")
    args = parser.parse_args()
    begun = time.monotonic()
    targets = all_targets()
    print(f"fuzz: {len(targets)} targets, built in {time.monotonic() - begun:.0f} s", flush=True)
    begun = time.monotonic()
    tallies = harness.run(targets, args.inputs, args.seed, args.processes, show_progress(args.inputs))
    seconds = time.monotonic() - begun
    print(ROW.format("target", "side", "inputs", "accepted", "refused", "crashes", "slowest", "memory"))
    for target in targets:
        t = tallies[target.name]
        print(ROW.format(target.name, target.side, t.inputs, t.accepted, t.typed, t.crashes,
                         f"{t.slowest_seconds:.2f} s", f"{t.peak_bytes / 2**20:.0f} MiB"))  # fmt: skip
        for crash in t.kept:
            print(f"  CRASH {crash.kind} at input {crash.index}: {crash.message}\n    {crash.input[:200]}")
    crashes = sum(t.crashes for t in tallies.values())
    inputs = sum(t.inputs for t in tallies.values())
    print(f"fuzz: {inputs} inputs, {crashes} crashes, {seconds:.0f} s, seed {args.seed}")
    if args.json:
        result = {
            "inputs": inputs,
            "crashes": crashes,
            "seed": args.seed,
            "seconds": round(seconds, 1),
            "processes": args.processes,
            "machine": machine(),
            "targets": {t.name: {"side": t.side, **asdict(tallies[t.name])} for t in targets},
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
