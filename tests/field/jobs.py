"""Honest jobs, and how a verifier with one plain prefill judges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.study.variants import decodes, prefills
from verillm.commitment import CommittedJob, build_commitment, token_list_hash
from verillm.comparator.verdict import JobVerdict
from verillm.constants import Verdict
from verillm.eip712 import stop_hash
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.manifest import Manifest
from verillm.types import Job, SamplingParams
from verillm.verification import verify_job

OPERATOR = "0x" + "11" * 20
JOB_ID = b"\x01" * 32
OPENED = 8


@dataclass
class Subject:
    """A model under test: the verifier's engine and the manifest that all parties go by."""

    engine: Engine
    manifest: Manifest

    def decode(
        self, prompts: Sequence[Sequence[int]], specs: Sequence[GenerationSpec], variant: str = "batch 1"
    ) -> list[SequenceState]:
        return decodes(self.engine.dtype)[variant](self.engine, prompts, specs)

    def prefill(self, tokens: Sequence[int], variant: str = "plain") -> SequenceState:
        return prefills(self.engine.dtype)[variant](self.engine, [tokens])[0]

    def job(self, prompt: Sequence[int], spec: GenerationSpec) -> Job:
        s = spec.sampling
        return Job(
            OPERATOR, OPERATOR, self.manifest.model_id, token_list_hash(prompt), len(prompt),
            spec.max_output_tokens, stop_hash(spec.stop), s.temperature_ppm, s.top_k, s.top_p_ppm, s.seed,
            1, 1, 1, 2**40, 0,
        )  # fmt: skip

    def commit(self, prompt: Sequence[int], state: SequenceState) -> CommittedJob:
        assert state.finish_reason is not None
        return build_commitment(
            state.store,
            job_id=JOB_ID,
            operator=OPERATOR,
            model_id=self.manifest.model_id,
            tokens=[*prompt, *state.output],
            prompt_tokens=len(prompt),
            finish_reason=state.finish_reason,
        )

    def verify(
        self, signed: Sequence[int], spec: GenerationSpec, state: SequenceState, **changes: Any
    ) -> JobVerdict:
        """Commit, open up to OPENED positions from first to last, and judge with a plain prefill. ``signed``
        is the client's prompt; ``changes`` are what a party says instead."""
        self.engine.configure(threads=1, attn="sdpa")
        committed = self.commit(signed, state)
        count = committed.rows_per_boundary
        positions = sorted({int(t) for t in np.linspace(0, count - 1, OPENED)})
        arguments = {
            "prompt": signed,
            "output": state.output,
            "finish_reason": state.finish_reason,
            "stop": spec.stop,
            "openings": [opening for t in positions for opening in committed.open(t)],
            "token_root": committed.token_root,
            **changes,
        }
        return verify_job(self.engine, self.manifest.table, self.job(signed, spec), **arguments)

    def accept(
        self, signed: Sequence[int], spec: GenerationSpec, state: SequenceState, **changes: Any
    ) -> None:
        verdict = self.verify(signed, spec, state, **changes)
        assert verdict.verdict is Verdict.ACCEPT, verdict

    def reject(
        self, signed: Sequence[int], spec: GenerationSpec, state: SequenceState, **changes: Any
    ) -> JobVerdict:
        verdict = self.verify(signed, spec, state, **changes)
        assert verdict.verdict is Verdict.REJECT, verdict
        return verdict


def with_rows(engine: Engine, state: SequenceState, rows: Sequence[np.ndarray]) -> SequenceState:
    """The same output, committed with other rows: uint8 [n, row_bytes] per boundary."""
    store = engine.new_store()
    for boundary, values in enumerate(rows):
        store.append_rows(boundary, 0, values)
    return replace(state, store=store)


def sampled(limit: int, seed: int = 1, temperature: float = 1.0, **settings: Any) -> GenerationSpec:
    return GenerationSpec(SamplingParams(round(temperature * 1_000_000), seed=seed), limit, **settings)


def rows_of(state: SequenceState) -> list[np.ndarray]:
    return [state.store.rows(b).copy() for b in range(state.store.boundaries)]
