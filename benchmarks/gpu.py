"""The kernels on a real GPU: bit-exact against plain code, and how fast. One command, under 4 minutes:

    PYTHONPATH=. python benchmarks/gpu.py --json benchmarks/results/gpu.json

Every part runs on its own: one that fails is named, the rest still run, and the exit code is 1. Without a GPU
the exit code is 2. Times are medians of device events after a warm-up. ``copy`` is the share of the rate at
which the same card copies memory, counting the bytes a kernel must read; ``integer`` the share of its
measured rate of 32-bit logic operations (and, by formula: multiprocessors x 64 lanes x clock).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

if not torch.cuda.is_available():
    print("gpu: no CUDA GPU that torch can use; run this on a machine with one", file=sys.stderr)
    raise SystemExit(2)

import gpu_clock
import numpy as np
import triton
from gpu_checks import CHECKS, random_tensor
from gpu_decode import decode_overhead

from verillm.kernels import comparator, rows, sampler, tree
from verillm.kernels.draws import Draws
from verillm.types import SamplingParams

SECONDS = 200
"""After this, what is left is left out."""
ROWS = [
    (8192, 4096, torch.bfloat16),
    (8192, 4096, torch.float16),
    (4096, 4096, torch.float32),
    (65536, 576, torch.bfloat16),
    (8192, 8192, torch.bfloat16),
    (1, 4096, torch.bfloat16),
    (32, 4096, torch.bfloat16),
    (128, 4096, torch.bfloat16),
]
LOGITS = [(1, 128256), (8, 128256), (64, 128256), (64, 49152)]
PAIRS = [(8192, 4096, torch.bfloat16), (8192, 8192, torch.bfloat16), (4096, 4096, torch.float32)]
WARPS_AND_ROWS = [(w, r) for w in (1, 2, 4) for r in (1, 2, 4, 8, 16)]
SCAN_BLOCKS = [(64, 2), (128, 1), (128, 2), (128, 4), (256, 2), (256, 4), (512, 4)]


class Run:
    """What is known so far, written to the file after each part."""

    def __init__(self, path: str | None) -> None:
        self.path, self.start = path, time.monotonic()
        self.random = np.random.default_rng()
        self.result: dict[str, Any] = {
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
            "checks": {},
            "failures": {},
        }

    def late(self) -> bool:
        return time.monotonic() - self.start > SECONDS

    def part(self, name: str, work: Callable[[], None]) -> None:
        """Run ``work``; print and keep its failure."""
        if self.late():
            self.result["failures"][name] = f"left out after {SECONDS} s"
            print(f"{name}: {self.result['failures'][name]}", flush=True)
            return
        began = time.monotonic()
        try:
            work()
        except Exception:
            self.result["failures"][name] = traceback.format_exc()
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
        self.result["seconds"] = time.monotonic() - self.start
        print(f"  ({name}: {time.monotonic() - began:.1f} s)", flush=True)
        if self.path:
            Path(self.path).write_text(json.dumps(self.result, indent=1) + "\n")

    def ceilings(self) -> None:
        self.result["ceilings"] = c = gpu_clock.ceilings()
        print(
            f"{c['card']}, driver {c['driver']}, {c['processors']} multiprocessors, {c['max_clock_mhz']} MHz"
        )
        print(f"torch {torch.__version__}, triton {triton.__version__}")
        formula = c["integer_ops_per_s_by_formula"] or float("nan")
        print(f"copy {c['copy_bytes_per_s'] / 1e9:.0f} GB/s (read and written)")
        print(
            f"integer {c['integer_ops_per_s'] / 1e12:.2f} T ops/s measured, {formula / 1e12:.2f} by formula"
        )
        print(
            f"keccak-f alone {c['permutations_per_s'] / 1e9:.2f} G/s at {c['permutations_warps']} warps, "
            f"{c['permutations_share_of_integer_rate']:.1%} of the integer rate at {c['keccak_ops']} each"
        )

    def check(self, name: str) -> None:
        count = CHECKS[name](self.random, "cuda")
        self.result["checks"][name] = count
        print(f"exact: {name}, {count:,} values")

    def line(self, table: str, what: dict[str, Any], us: float, read: float, operations: float) -> None:
        """Keep and print one timing: ``read`` bytes and ``operations`` in ``us`` microseconds."""
        ceilings = self.result.get("ceilings", {})
        copy = read / us * 1e6 / ceilings.get("copy_bytes_per_s", float("nan"))
        integer = operations / us * 1e6 / ceilings.get("integer_ops_per_s", float("nan"))
        entry = {
            **what,
            "us": us,
            "bytes_per_s": read / us * 1e6,
            "copy_share": copy,
            "integer_share": integer,
        }
        self.result.setdefault(table, []).append(entry)
        title = " ".join(f"{key} {value}" for key, value in what.items())
        rate = f"{us:9.1f} us {read / us / 1e3:8.1f} GB/s"
        print(f"{table:11} {title:44} {rate}  copy {copy:6.1%}  integer {integer:6.1%}", flush=True)

    def time_rows(self, table: str, n: int, d: int, dtype: torch.dtype, **extra: Any) -> float:
        x = random_tensor(self.random, min(n, 64), d, dtype, "cuda").repeat(max(1, n // 64), 1)[:n]
        us = gpu_clock.median_us(lambda: rows.hash_rows(x))
        size = d * x.element_size()
        hashes = n * (2 * ((size + 127) // 128) - 1)
        what = {"rows": n, "d": d, "dtype": str(dtype).removeprefix("torch."), **extra}
        self.line(table, what, us, n * size, hashes * gpu_clock.KECCAK_OPS)
        return us

    def rows(self) -> None:
        for n, d, dtype in ROWS:
            self.time_rows("rows", n, d, dtype)
        x = random_tensor(self.random, 4096, 4097, torch.bfloat16, "cuda")[:, 1:]
        us = gpu_clock.median_us(lambda: rows.hash_rows(x))
        self.line(
            "rows", {"unaligned rows": 4096, "d": 4096}, us, x.numel() * 2, 4096 * 127 * gpu_clock.KECCAK_OPS
        )

    def tree(self) -> None:
        for n in (640, 65536):
            roots = torch.randint(-(2**62), 2**62, (n, 4), device="cuda")
            tokens = torch.randint(0, 2**32, (n,), device="cuda")
            us = gpu_clock.median_us(
                lambda r=roots, t=tokens: tree.boundary_levels(r, t), calls=4, launches=40
            )
            self.line("tree", {"rows": n}, us, 32 * n, 2 * n * gpu_clock.KECCAK_OPS)

    def time_scan(self, table: str, n: int, vocab: int, **extra: Any) -> float:
        logits = torch.randn((n, vocab), device="cuda") * 4
        params = [SamplingParams(700_000, seed=i) for i in range(n)]
        draws = Draws.of(params, range(n), "cuda")
        us = gpu_clock.median_us(lambda: sampler.launch(logits, draws))
        self.line(
            table, {"rows": n, "vocab": vocab, **extra}, us, 4 * n * vocab, n * vocab * gpu_clock.SCAN_OPS
        )
        return us

    def scan(self) -> None:
        for n, vocab in LOGITS:
            self.time_scan("sampler", n, vocab)

    def pairs(self) -> None:
        for n, d, dtype in PAIRS:
            a = torch.randn((n, d), device="cuda").to(dtype)
            b = (a.float() * 1.01).to(dtype)
            us = gpu_clock.median_us(lambda a=a, b=b: comparator.launch(a, b))
            what = {"pairs": n, "d": d, "dtype": str(dtype).removeprefix("torch.")}
            self.line("comparator", what, us, 2 * n * d * a.element_size(), 0)

    def decode(self) -> None:
        self.result["decode"] = decode_overhead(self.late)
        for e in self.result["decode"]:
            print(
                f"decode {e['model']}, batch {e['batch']}: step {e['step_ms']:.2f} ms, hashing "
                f"{e['boundaries']} boundaries adds {e['added_us']:.0f} us, {e['overhead']:.2%} "
                f"(host {e['submit_us']:.0f} us), same tokens: {e['same_tokens']}"
            )

    def engine(self) -> None:
        from gpu_engine import engine_overhead  # needs all of verillm[worker]

        self.result["engine"] = engine_overhead(self.late)

    def sweep(
        self, module: Any, names: tuple[str, str], settings: list[Any], measure: Callable[..., float]
    ) -> None:
        """Time ``settings`` of two constants of ``module``; afterwards they are what they were."""
        default = tuple(getattr(module, name) for name in names)
        timed = {}
        try:
            for setting in settings:
                for name, value in zip(names, setting, strict=True):
                    setattr(module, name, value)
                timed[setting] = measure(**dict(zip(names, setting, strict=True)))
        finally:
            for name, value in zip(names, default, strict=True):
                setattr(module, name, value)
        best = min(timed, key=timed.__getitem__)
        print(f"best {names}: {best}, {timed[default] / timed[best]:.2f} times as fast as {default}")

    def sweep_rows(self) -> None:
        for n in (8192, 1024):
            self.sweep(
                rows,
                ("WARPS", "ROWS_PER_PROGRAM"),
                WARPS_AND_ROWS,
                lambda n=n, **setting: self.time_rows("sweep_rows", n, 4096, torch.bfloat16, **setting),
            )

    def sweep_scan(self) -> None:
        for n in (64, 1):
            self.sweep(
                sampler,
                ("BLOCK", "WARPS"),
                SCAN_BLOCKS,
                lambda n=n, **setting: self.time_scan("sweep_scan", n, 128256, **setting),
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the results here, after each part")
    run = Run(parser.parse_args().json)
    run.part("ceilings", run.ceilings)
    for name in CHECKS:
        run.part(f"check of {name}", lambda name=name: run.check(name))
    for name, work in {
        "rows": run.rows,
        "tree": run.tree,
        "sampler": run.scan,
        "comparator": run.pairs,
        "decode": run.decode,
        "engine": run.engine,
        "sweep of rows": run.sweep_rows,
        "sweep of the sampler": run.sweep_scan,
    }.items():
        run.part(name, work)
    failures = run.result["failures"]
    print(f"{len(run.result['checks'])} of {len(CHECKS)} checks exact, {run.result['seconds']:.0f} s")
    print(f"FAILED: {', '.join(failures)}" if failures else "all parts ran")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
