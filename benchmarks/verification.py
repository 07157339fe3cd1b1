"""Cost of verification against generation, per job: decode with KV cache against one prefill and the checks.

    python benchmarks/verification.py [--json FILE] [--threads N]

Both sides include what the protocol adds: hashing of rows, the sampler, logits, margins, 16 opened positions.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from machine import machine

from verillm.calibrate import TOPICS, default_boundaries
from verillm.commitment import build_commitment, token_list_hash
from verillm.constants import Dtype, FinishReason
from verillm.eip712 import stop_hash
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.model_store import resolve
from verillm.types import Job
from verillm.verification import observe

PROMPT_TOKENS = 64
OUTPUT_TOKENS = (16, 256, 512)
OPENED = 16
ADDRESS = "0x" + "00" * 20


def measure(engine: Engine, prompt: list[int], output_tokens: int) -> tuple[float, float]:
    """(seconds to generate and commit, seconds to prefill and check) of one job without EOS."""
    job = Job(
        ADDRESS, ADDRESS, b"\0" * 32, token_list_hash(prompt), len(prompt), output_tokens, stop_hash(()),
        700_000, 0, 1_000_000, 7, 1, 1, 1, 0, 0,
    )  # fmt: skip
    started = time.perf_counter()
    state = engine.prefill(prompt)
    for _ in engine.decode_batch([state], [GenerationSpec(job.sampling, output_tokens)]):
        pass
    committed = build_commitment(
        state.store,
        job_id=b"\0" * 32,
        operator=ADDRESS,
        model_id=job.model_id,
        tokens=[*prompt, *state.output],
        prompt_tokens=len(prompt),
        finish_reason=FinishReason.LENGTH,
    )
    generation = time.perf_counter() - started
    rows = len(prompt) + output_tokens - 1
    openings = [o for i in range(OPENED) for o in committed.open(i * rows // OPENED)]
    started = time.perf_counter()
    seen = observe(engine, job, prompt, state.output, FinishReason.LENGTH, (), openings)
    verification = time.perf_counter() - started
    if seen.unable is not None:
        raise SystemExit(f"verification failed: {seen.unable}")
    return generation, verification


def run(model: str, threads: int) -> list[dict[str, Any]]:
    folder = resolve(model)
    rows: list[dict[str, Any]] = []
    for dtype in (Dtype.FP32, Dtype.BF16):
        layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
        engine = Engine(folder, dtype, default_boundaries(layers), threads=threads)
        engine.eos_token_ids = ()  # every job has its full length
        prompt = engine.encode(" ".join(TOPICS * 4))[:PROMPT_TOKENS]
        measure(engine, prompt, 4)  # compile and warm up
        for output_tokens in OUTPUT_TOKENS:
            generation, verification = measure(engine, prompt, output_tokens)
            rows.append(
                {
                    "dtype": dtype.name.lower(),
                    "prompt_tokens": len(prompt),
                    "output_tokens": output_tokens,
                    "generation_s": round(generation, 4),
                    "verification_s": round(verification, 4),
                    "ratio": round(verification / generation, 4),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Verification against generation time per job.")
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument("--model", default="smollm2-135m", help="name, folder, .gguf file or hub id")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    place = machine(args.threads)
    rows = run(args.model, args.threads)
    print(f"{'dtype':6} {'prompt':>6} {'output':>6} {'generation':>11} {'verification':>12} {'ratio':>7}")
    for row in rows:
        print(
            f"{row['dtype']:6} {row['prompt_tokens']:6} {row['output_tokens']:6} "
            f"{row['generation_s']:9.2f} s "
            f"{row['verification_s']:10.2f} s {row['ratio']:7.1%}"
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump([{**row, **place} for row in rows], file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
