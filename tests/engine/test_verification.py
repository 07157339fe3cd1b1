"""An honest job passes; one change anywhere is rejected, with its position."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from verillm.calibrate import calibrate
from verillm.commitment import RowOpening, build_commitment, token_list_hash, verify_opening
from verillm.constants import Dtype, FinishReason, Role, Verdict
from verillm.eip712 import stop_hash
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.errors import InvalidRequest
from verillm.manifest import Manifest
from verillm.observe import observe
from verillm.types import TOKEN_BOUNDARY, Commitment, Job
from verillm.verification import find_token_fraud, verify_job

PROMPT = [5, 6, 7, 8, 9]
OPERATOR = "0x" + "11" * 20
POSITIONS = (0, 4, 9, 13)


@pytest.fixture(scope="module")
def manifest(tiny_folder) -> Manifest:
    return calibrate(tiny_folder, Dtype.FP32, (1, 2, 3), jobs=24, save=False)


@pytest.fixture(scope="module")
def engine(tiny_folder, manifest) -> Engine:
    return Engine.from_manifest(tiny_folder, manifest, threads=1)


def make_job(manifest: Manifest, **changes) -> Job:
    job = Job(
        client=OPERATOR,
        scheduler=OPERATOR,
        model_id=manifest.model_id,
        prompt_hash=token_list_hash(PROMPT),
        prompt_tokens=len(PROMPT),
        max_output_tokens=12,
        stop_hash=stop_hash(()),
        temperature_ppm=1_000_000,
        top_k=0,
        top_p_ppm=1_000_000,
        seed=11,
        input_price=1,
        output_price=1,
        verifiers=1,
        deadline=2**40,
        nonce=0,
    )
    return replace(job, **changes)


class Run:
    """One worker's run of a job; ``tokens`` replaces the output by another text with honest rows for it."""

    def __init__(self, engine: Engine, manifest: Manifest, job: Job, tokens: list[int] | None = None) -> None:
        self.job, state = job, engine.prefill(PROMPT)
        for _ in engine.decode_batch([state], [GenerationSpec(job.sampling, job.max_output_tokens)]):
            pass
        self.output, self.finish = state.output, state.finish_reason or FinishReason.LENGTH
        if tokens is not None:
            self.output, state = tokens, engine.prefill([*PROMPT, *tokens[:-1]])
        self.store = state.store
        self.committed = build_commitment(
            self.store,
            job_id=b"\x01" * 32,
            operator=OPERATOR,
            model_id=manifest.model_id,
            tokens=[*PROMPT, *self.output],
            prompt_tokens=len(PROMPT),
            finish_reason=self.finish,
        )
        count = len(PROMPT) + len(self.output) - 1
        self.openings = [o for p in POSITIONS if p < count for o in self.committed.open(p)]


@pytest.fixture(scope="module")
def honest(engine, manifest) -> Run:
    return Run(engine, manifest, make_job(manifest))


def verify(engine, manifest, run: Run, **changes):
    arguments = {
        "prompt": PROMPT,
        "output": run.output,
        "finish_reason": run.finish,
        "stop": (),
        "openings": run.openings,
        "token_root": run.committed.token_root,
        **changes,
    }
    return verify_job(engine, manifest.table, run.job, **arguments)


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature_ppm": 0}, {"top_k": 20, "top_p_ppm": 900_000}, {"max_output_tokens": 1}],
)
def test_honest_jobs_are_accepted(engine, manifest, settings):
    run = Run(engine, manifest, make_job(manifest, **settings))
    verdict = verify(engine, manifest, run)
    assert verdict.verdict is Verdict.ACCEPT, verdict.reason
    assert find_token_fraud(engine, run.openings, run.job, [*PROMPT, *run.output]) is None


def test_openings_lead_to_the_committed_root(engine, manifest, honest):
    committed = honest.committed
    counts = len(PROMPT), len(honest.output)
    signed = Commitment(
        b"\x01" * 32, Role.WORKER, 0, committed.job_root, *counts, honest.finish, OPERATOR
    )
    for opening in honest.openings:
        verify_opening(
            opening,
            commitment=signed,
            model_id=manifest.model_id,
            parts=committed.parts,
            dtype=manifest.row_dtype,
            hidden_size=manifest.hidden_size,
        )


@pytest.mark.parametrize("index", [0, 5, 11])
def test_changed_token_is_rejected_at_its_position(engine, manifest, honest, index):
    """Forged text with honest rows: only the margins can tell."""
    tokens = list(honest.output)
    tokens[index] = (tokens[index] + 1) % 290
    forged = Run(engine, manifest, honest.job, tokens)
    verdict = verify(engine, manifest, forged)
    assert (verdict.verdict, verdict.boundary) == (Verdict.REJECT, TOKEN_BOUNDARY)
    assert verdict.position == len(PROMPT) + index
    final = [forged.committed.open_row(2, len(PROMPT) - 1 + index)]
    fraud = find_token_fraud(engine, final, honest.job, [*PROMPT, *tokens])
    assert fraud is not None
    assert (fraud.position, fraud.claimed) == (len(PROMPT) - 1 + index, tokens[index])
    assert fraud.better == honest.output[index]
    masked = replace(honest.job, top_k=5)
    assert find_token_fraud(engine, final, masked, [*PROMPT, *tokens]) is None


@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_changed_row_is_rejected_at_its_place(engine, manifest, honest, boundary):
    changed = []
    for opening in honest.openings:
        if (opening.boundary, opening.position) == (boundary, 9):
            row = np.frombuffer(opening.row, "<f4").copy()
            row[3] += 0.05 * np.abs(row).max()
            opening = replace(opening, row=row.tobytes())
        changed.append(opening)
    verdict = verify(engine, manifest, honest, openings=changed)
    assert (verdict.verdict, verdict.boundary, verdict.position) == (Verdict.REJECT, boundary, 9)


def test_swapped_prompt_is_refused(engine, manifest, honest):
    with pytest.raises(InvalidRequest, match="prompt"):
        verify(engine, manifest, honest, prompt=[5, 6, 7, 9, 8])


def test_rows_of_another_prompt_are_rejected(engine, manifest, honest):
    """The worker ran on an altered prompt and committed to its rows."""
    other = engine.prefill([5, 60, 7, 8, 9, *honest.output[:-1]]).store
    openings = [replace(o, row=other.rows(o.boundary)[o.position].tobytes()) for o in honest.openings]
    verdict = verify(engine, manifest, honest, openings=openings)
    assert (verdict.verdict, verdict.boundary, verdict.position) == (Verdict.REJECT, 0, 4)


def test_truncated_output_is_rejected(engine, manifest, honest):
    short = Run(engine, manifest, honest.job, honest.output[:7])
    verdict = verify(engine, manifest, short)
    assert (verdict.verdict, verdict.boundary) == (Verdict.REJECT, TOKEN_BOUNDARY)
    assert verdict.position == len(PROMPT) + 6


def test_padded_empty_or_foreign_output_is_rejected(engine, manifest, honest):
    end = len(PROMPT) + 12
    for output, position in (
        ([*honest.output, 1], end),
        ([], len(PROMPT)),
        ([*honest.output[:-1], 300], end - 1),
    ):
        verdict = verify(engine, manifest, honest, output=output, openings=[], token_root=None)
        assert (verdict.verdict, verdict.position) == (Verdict.REJECT, position)


def test_commitment_to_other_tokens_is_rejected(engine, manifest, honest):
    opening: RowOpening = replace(honest.openings[-1], token=1)
    verdict = verify(engine, manifest, honest, openings=[opening])
    assert (verdict.verdict, verdict.position) == (Verdict.REJECT, opening.position)
    verdict = verify(engine, manifest, honest, token_root=b"\0" * 32)
    assert (verdict.verdict, verdict.boundary) == (Verdict.REJECT, TOKEN_BOUNDARY)


def test_another_seed_or_temperature_is_rejected(engine, manifest, honest):
    for changes in ({"seed": 12}, {"temperature_ppm": 3_000_000}, {"top_k": 1}):
        run = Run(engine, manifest, replace(honest.job, **changes))
        run.job = honest.job
        assert verify(engine, manifest, run).verdict is Verdict.REJECT, changes


def test_no_engine_is_unable_not_reject(engine, manifest, honest):
    empty = engine.new_store()
    observation = observe(
        engine, honest.job, PROMPT, honest.output, honest.finish, (), honest.openings, own=empty
    )
    assert observation.unable is not None
    assert verify(engine, manifest, honest, own=empty).verdict is Verdict.UNABLE


def test_opening_outside_the_job_is_refused(engine, manifest, honest):
    outside = replace(honest.openings[0], position=len(PROMPT) + len(honest.output) - 1)
    with pytest.raises(InvalidRequest, match="openings"):
        observe(engine, honest.job, PROMPT, honest.output, honest.finish, (), [outside])
