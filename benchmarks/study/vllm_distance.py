"""How far the rows of an honest vLLM provider are from our engine's, and which roundings make the distance.

    python -m benchmarks.study.vllm_distance FOLDER [--json FILE]

FOLDER has the jobs that ``vllm_rows.py`` recorded. Each is prefilled here, with 1 thread and sdpa, with the
roundings of transformers and with those of ``roundings.py``. Per boundary: log2(D/N) of the comparator
(docs/protocol.md, section 3) as mean and spread of the jobs' means, mean spread of the rows in a job, largest
row; rows that are equal in every bit (they count in no mean); and the coherence: the mean cosine between the
deviations (a - b) / |a - b| of two positions of one job, which is near 0 for noise and grows with a bias that
all rows share. Margins are those of vLLM's tokens under our logits, in logits.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import machine
from benchmarks.study.roundings import FUSED, TRANSFORMERS, VLLM_CPU, WIDE, Widths, rounded
from verillm.comparator.compare import rows_statistics
from verillm.constants import PPM, SCORE_FRACTION_BITS, Dtype
from verillm.engine.transformers_engine import Engine
from verillm.model_store import resolve
from verillm.sampling.sampler import margins
from verillm.types import SamplingParams

U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]
Rows = list[U8]
"""One job's rows, per boundary: uint8 [n, row_bytes]."""
BOUNDARIES = (10, 20, 30)
GREEDY = SamplingParams(0, 0, PPM, 0)
VARIANTS = {
    "transformers": TRANSFORMERS,
    **{f.name: dataclasses.replace(TRANSFORMERS, **{f.name: WIDE}) for f in dataclasses.fields(Widths)},
    "vllm_cpu": VLLM_CPU,
    "fused": FUSED,
}


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A job of ``vllm_rows.py``: the fed tokens, where the output begins among all tokens, and its rows."""

    tokens: list[int]
    prompt: int
    rows: Rows

    @classmethod
    def load(cls, path: Path) -> Recorded:
        with np.load(path) as job:
            tokens = [*job["prompt"].tolist(), *job["output"].tolist()]
            rows = [job[f"rows{b}"].astype("<u2").view(np.uint8) for b in BOUNDARIES]
            return cls(tokens, len(job["prompt"]), rows)


def values(rows: U8) -> F64:
    """bf16 rows as float64 [n, d]."""
    return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def coherence(a: U8, b: U8) -> float:
    """Mean cosine over all pairs of different rows of a - b; NaN for fewer than two rows that differ."""
    deviations = values(a) - values(b)
    lengths = np.linalg.norm(deviations, axis=1, keepdims=True)
    units = deviations[lengths[:, 0] > 0] / lengths[lengths > 0][:, None]
    count = len(units)
    if count < 2:
        return float("nan")
    return float((np.square(units.sum(axis=0)).sum() - count) / (count * (count - 1)))


def distance(pairs: list[tuple[Rows, Rows]]) -> list[dict[str, float]]:
    """The figures of the module's docstring for jobs' rows in pairs, one dict per boundary."""
    table = []
    for boundary in range(len(pairs[0][0])):
        jobs = [(a[boundary], b[boundary]) for a, b in pairs]
        logs = [_logs(a, b) for a, b in jobs]
        found = [log for log in logs if len(log) > 1]
        rows = sum(len(a) for a, _ in jobs)
        figures: dict[str, float] = {}
        if len(found) > 1:
            means = np.array([log.mean() for log in found])
            figures = {
                "mean_log2": means.mean(),
                "job_sd": means.std(ddof=1),
                "row_sd": float(np.mean([log.std(ddof=1) for log in found])),
                "worst_job": means.max(),
                "worst_row": max(log.max() for log in found),
                "coherence": float(np.nanmean([coherence(a, b) for a, b in jobs])),
            }
        counts = {"rows": rows, "equal_rows": rows - sum(map(len, logs))}
        table.append({**counts, **{name: round(float(value), 4) for name, value in figures.items()}})
    return table


def _logs(a: U8, b: U8) -> F64:
    d, n = rows_statistics(a, b, Dtype.BF16)
    return np.log2(d[d > 0] / n[d > 0])


def margins_of(engine: Engine, job: Recorded, final: U8) -> Iterator[int]:
    """Margins (Q24) of the job's output tokens under the logits of our ``final`` rows."""
    first = job.prompt - 1
    for start, logits in engine.logit_blocks(final[first:]):
        at = first + start
        claimed = np.array(job.tokens[at + 1 : at + 1 + len(logits)])
        yield from margins(logits, GREEDY, at, claimed)[0].tolist()


def token_figures(found: list[int], jobs: int) -> dict[str, float]:
    lost = np.array([margin for margin in found if margin > 0], np.float64) / 2**SCORE_FRACTION_BITS
    return {
        "tokens": len(found),
        "losing_share": round(len(lost) / len(found), 5),
        "mean_positive_margin": round(float(lost.mean()), 4) if len(lost) else 0.0,
        "max_margin": round(float(lost.max(initial=0.0)), 4),
        "mean_sum_per_job": round(float(lost.sum()) / jobs, 4),
    }


def part(rows: Rows, where: slice) -> Rows:
    return [boundary[where] for boundary in rows]


def study(engine: Engine, jobs: list[Recorded]) -> dict[str, Any]:
    """The results file without the machine."""
    prefilled: dict[str, list[Rows]] = {}
    for name, widths in VARIANTS.items():
        with rounded(engine, widths):
            stores = [engine.prefill(job.tokens[:-1]).store for job in jobs]
        prefilled[name] = [[store.rows(b) for b in range(len(BOUNDARIES))] for store in stores]
        print(f"prefilled with the roundings of {name}", flush=True)
    ours, theirs = prefilled["transformers"], [job.rows for job in jobs]
    both = list(zip(theirs, ours, jobs, strict=True))
    lost = [m for job, rows in zip(jobs, ours, strict=True) for m in margins_of(engine, job, rows[-1])]
    return {
        "jobs": len(jobs),
        "output_tokens": len(jobs[0].tokens) - jobs[0].prompt,
        "boundaries": BOUNDARIES,
        "vllm_to_ours": distance([(a, b) for a, b, _ in both]),
        "prefill_rows": distance([(part(a, s), part(b, s)) for a, b, j in both for s in [slice(j.prompt)]]),
        "decode_rows": distance(
            [(part(a, s), part(b, s)) for a, b, j in both for s in [slice(j.prompt, None)]]
        ),
        "tokens": token_figures(lost, len(jobs)),
        "roundings": {
            name: {
                "to_ours": distance(list(zip(rows, ours, strict=True))),
                "to_vllm": distance(list(zip(rows, theirs, strict=True))),
            }
            for name, rows in prefilled.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare vLLM's rows with our engine's.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    host = machine(threads=1)
    jobs = [Recorded.load(path) for path in sorted(args.folder.glob("*.npz"))]
    torch.set_num_threads(1)
    engine = Engine(resolve(), Dtype.BF16, BOUNDARIES, threads=1)
    result = {"vllm": "vllm-cpu 0.32.0, bf16, eager", **study(engine, jobs), "machine": host}
    for boundary, figures in zip(BOUNDARIES, result["vllm_to_ours"], strict=True):
        print(f"boundary {boundary}: {figures}")
    print(f"tokens: {result['tokens']}")
    for name, pair in result["roundings"].items():
        for side, figures in pair.items():
            equal = [f"{f['equal_rows'] / f['rows']:.3f}" for f in figures]
            print(f"{name:13s} {side:8s} {[f.get('mean_log2') for f in figures]} equal {equal}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
