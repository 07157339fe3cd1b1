"""A model without torch's work, and one honest job on it: what every fuzz target's valid inputs are made of.

Eight float32 values per row, three boundaries, 32 tokens. A row follows from the tokens before it alone, so
two honest parties have the same rows to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tests.sdk import parties
from verillm import draw, eip712
from verillm.commitment import CommittedJob, OutputMatrix, RowStore, build_commitment
from verillm.comparator.calibration import HonestJob
from verillm.comparator.calibration import calibrate as make_table
from verillm.constants import CHUNK_BYTES, Dtype, Role
from verillm.engine.finish import GenerationSpec, finish_reason
from verillm.engine.transformers_engine import SequenceState
from verillm.errors import EngineError
from verillm.manifest import SAMPLER_VERSION, Manifest, make_manifest
from verillm.rpc.codec import Opening, SignedCommitment
from verillm.sampling.sampler import margins, sample
from verillm.sdk.receipt import Receipt
from verillm.types import SamplingParams

HIDDEN, VOCAB, EOS = 8, 32, 31
WEIGHTS = np.random.default_rng(7).standard_normal((VOCAB, HIDDEN)).astype("<f4")


class ToyEngine:
    """What the protocol asks of ``Engine``."""

    dtype = Dtype.FP32
    boundaries = (1, 2, 3)
    hidden_size, vocab_size, max_positions = HIDDEN, VOCAB, 64
    eos_token_ids = (EOS,)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token % 26) for token in tokens)

    def row(self, boundary: int, tokens: Sequence[int]) -> np.ndarray:
        """float32 [HIDDEN]: the row of the last of ``tokens``."""
        return np.random.default_rng([boundary, *tokens]).standard_normal(HIDDEN).astype("<f4")

    def prefill(self, tokens: Sequence[int]) -> SequenceState:
        ids = list(tokens)
        store = RowStore(len(self.boundaries), HIDDEN, self.dtype)
        for boundary in range(len(self.boundaries)):
            rows = np.stack([self.row(boundary, ids[: t + 1]) for t in range(len(ids))])
            store.append_rows(boundary, 0, rows.view(np.uint8))
        return SequenceState(ids, store, [])

    def decode_batch(
        self, states: Sequence[SequenceState], specs: Sequence[GenerationSpec]
    ) -> Iterator[tuple[int, int]]:
        for index, (state, spec) in enumerate(zip(states, specs, strict=True)):
            while state.finish_reason is None:
                if state.output:
                    state.fed.append(state.output[-1])
                    for boundary in range(len(self.boundaries)):
                        row = self.row(boundary, state.fed).view(np.uint8)[None]
                        state.store.append_rows(boundary, len(state.fed) - 1, row)
                last = self.logits(state.store.rows(len(self.boundaries) - 1)[-1:])[0]
                state.output.append(sample(last, spec.sampling, len(state.fed) - 1))
                state.finish_reason = finish_reason(
                    state.output, self.eos_token_ids, spec.stop, spec.max_output_tokens, self.decode
                )
                yield index, state.output[-1]

    def logits(self, rows: np.ndarray) -> np.ndarray:
        if rows.shape[1] != 4 * HIDDEN:
            raise EngineError(f"engine: rows of {rows.shape[1]} bytes")
        return np.ascontiguousarray(rows).view("<f4") @ WEIGHTS.T

    def margins(
        self, rows: np.ndarray, params: SamplingParams, first_position: int, claimed: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        return margins(self.logits(rows), params, first_position, np.asarray(claimed))


def toy_manifest() -> Manifest:
    """The toy's manifest, with the tolerances of jobs that agree to the bit."""
    exact = [HonestJob(((1, 2, 1, 2),) * 3, ((),) * 3, (0,) * 20) for _ in range(6)]
    content: dict[str, Any] = {
        "name": "toy",
        "config_hash": b"\1" * 32,
        "weights_root": b"\2" * 32,
        "tokenizer_hash": b"\3" * 32,
        "chat_template_hash": b"\4" * 32,
        "row_dtype": Dtype.FP32,
        "weight_dtype": Dtype.FP32,
        "boundaries": ToyEngine.boundaries,
        "chunk_bytes": CHUNK_BYTES,
        "eos_token_ids": ToyEngine.eos_token_ids,
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "max_positions": ToyEngine.max_positions,
        "sampler_version": SAMPLER_VERSION,
    }
    matrix = OutputMatrix(WEIGHTS.view(np.uint8).reshape(VOCAB, -1))
    return make_manifest(content, matrix.root, make_table(exact, Dtype.FP32))


@dataclass(frozen=True)
class Work:
    """One party's rows of the job, with its signed commitment."""

    signed: SignedCommitment
    committed: CommittedJob
    store: RowStore

    def open(self, positions: Sequence[int]) -> Opening:
        rows = tuple(row for position in positions for row in self.committed.open(position))
        return Opening(self.signed.commitment.operator, self.committed.parts, rows)


class ToyWorld:
    """An honest settled job. ``rows`` of a cheat go through ``commit``."""

    def __init__(self) -> None:
        self.engine: Any = ToyEngine()
        self.manifest = toy_manifest()
        job = parties.sign_job(self.manifest, max_output_tokens=20)
        self.receipt: Receipt = parties.run_job(self.engine, self.manifest, job)

    @cached_property
    def greedy_receipt(self) -> Receipt:
        """Another job, to splice with."""
        prompt = (3, 1, 4, 1)
        job = parties.sign_job(self.manifest, prompt, max_output_tokens=3, temperature_ppm=0, verifiers=1)
        return parties.run_job(self.engine, self.manifest, job, prompt)

    @property
    def positions(self) -> list[int]:
        """The positions that the round opens."""
        r = self.receipt
        count = parties.PARAMS.opened_positions
        return draw.opened_positions(r.position_randomness, r.job_id, len(r.tokens) - 1, count)

    @property
    def honest_rows(self) -> np.ndarray:
        """float32 [boundaries, P + O - 1, HIDDEN]."""
        store = self.engine.prefill(self.receipt.tokens[:-1]).store
        count = len(self.engine.boundaries)
        return np.stack([store.rows(b).view("<f4") for b in range(count)])

    def commit(self, rows: np.ndarray, role: Role = Role.WORKER, operator: str | None = None) -> Work:
        """Commit to float32 [boundaries, P + O - 1, HIDDEN] as the job's worker or another operator."""
        r = self.receipt
        store = RowStore(len(rows), HIDDEN, Dtype.FP32)
        for boundary, block in enumerate(rows):
            store.append_rows(boundary, 0, np.ascontiguousarray(block, "<f4").view(np.uint8))
        name = operator or r.worker.commitment.operator
        committed = build_commitment(
            store, job_id=r.job_id, operator=name, model_id=r.job.model_id, tokens=r.tokens,
            prompt_tokens=len(r.prompt), finish_reason=r.finish_reason,
        )  # fmt: skip
        commitment = replace(r.worker.commitment, role=role, operator=name, job_root=committed.job_root)
        signature = eip712.sign_commitment(commitment, parties.OPERATORS[name], parties.DOMAIN)
        return Work(SignedCommitment(commitment, signature), committed, store)
