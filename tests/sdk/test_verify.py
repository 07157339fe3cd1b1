"""The model accepts an honest receipt, and names a position for each way of tampering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sdk.parties import PROMPT, run_job, sign_job
from verillm.constants import Verdict
from verillm.engine.transformers_engine import Engine
from verillm.manifest import Manifest
from verillm.sdk.findings import Report
from verillm.sdk.receipt import Receipt
from verillm.sdk.verify import verify_receipt
from verillm.types import TOKEN_BOUNDARY


@pytest.fixture
def check(sdk_engine: Engine, sdk_manifest: Manifest):  # type: ignore[no-untyped-def]
    return lambda receipt: verify_receipt(receipt, sdk_engine, sdk_manifest)


def failed(report: Report) -> set[str]:
    return {finding.name for finding in report.findings if not finding.ok}


def test_honest_receipt_is_accepted(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    report = check(honest)
    assert failed(report) == set()
    assert report.ok
    assert report.verdict is Verdict.ACCEPT
    assert report.divergence is None


@pytest.mark.parametrize("index", [0, 3, 11])
def test_one_changed_token(check, honest: Receipt, index: int) -> None:  # type: ignore[no-untyped-def]
    output = list(honest.output)
    output[index] = (output[index] + 1) % 256
    report = check(replace(honest, output=tuple(output)))
    assert report.verdict is Verdict.REJECT
    assert {"output", "prefill"} <= failed(report)
    place = report.divergence
    assert place is not None
    assert place.position == len(PROMPT) + index
    assert place.boundary in (0, TOKEN_BOUNDARY)  # 0: the row of the changed token was opened, too


def test_one_changed_hidden_row(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    opening = honest.worker_opening
    target = opening.rows[4]
    values = np.frombuffer(target.row, np.float32) * np.float32(1.5)
    rows = tuple(replace(r, row=values.tobytes()) if r is target else r for r in opening.rows)
    report = check(replace(honest, worker_opening=replace(opening, rows=rows)))
    assert report.verdict is Verdict.REJECT
    assert {"worker-opening", "prefill"} <= failed(report)
    place = report.divergence
    assert place is not None
    assert (place.boundary, place.position) == (target.boundary, target.position)


def test_one_flipped_bit_of_a_row_is_found_by_its_proof(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    opening = honest.worker_opening
    target = opening.rows[-1]
    flipped = bytes([target.row[0] ^ 1]) + target.row[1:]
    rows = tuple(replace(r, row=flipped) if r is target else r for r in opening.rows)
    report = check(replace(honest, worker_opening=replace(opening, rows=rows)))
    assert not report.ok
    assert report.verdict is Verdict.ACCEPT  # within tolerance: only the hash tells
    place = report.divergence
    assert place is not None
    assert (place.boundary, place.position) == (target.boundary, target.position)


def test_swapped_prompt(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    report = check(replace(honest, prompt=tuple(reversed(honest.prompt))))
    assert report.verdict is Verdict.REJECT
    assert {"prompt", "output", "prefill"} <= failed(report)
    place = report.divergence
    assert place is not None
    assert place.name in ("prefill", "worker-opening")
    opened = sorted({row.position for row in honest.worker_opening.rows})
    assert place.position == opened[0]


def test_shorter_and_longer_prompts(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    for prompt in (honest.prompt[:-1], (*honest.prompt, 3), (*honest.prompt, 10**6)):
        report = check(replace(honest, prompt=prompt))
        assert report.verdict is Verdict.REJECT
        assert report.divergence is not None


@pytest.mark.parametrize("kept", [1, 6, 11])
def test_truncated_output(check, honest: Receipt, kept: int) -> None:  # type: ignore[no-untyped-def]
    report = check(replace(honest, output=honest.output[:kept]))
    assert report.verdict is Verdict.REJECT
    assert "output" in failed(report)
    place = report.divergence
    assert place is not None
    assert place.position == len(PROMPT) + kept - 1
    assert place.boundary == TOKEN_BOUNDARY


def test_empty_output(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    report = check(replace(honest, output=()))
    assert report.verdict is Verdict.REJECT
    assert report.divergence is not None


def test_receipt_of_another_job(check, honest: Receipt, sdk_engine, sdk_manifest) -> None:  # type: ignore[no-untyped-def]
    """Work that was done for one job is presented for another one."""
    other = run_job(sdk_engine, sdk_manifest, sign_job(sdk_manifest, (40, 41, 42), seed=5), (40, 41, 42))
    forged = replace(other, job=honest.job, job_id=honest.job_id, job_signature=honest.job_signature)
    report = check(forged)
    assert not report.ok
    assert {"worker-commitment", "prompt", "prefill"} <= failed(report)
    assert report.divergence is not None
    assert report.divergence.position is not None


def test_same_text_for_another_job(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    """Only the nonce differs, so the model agrees; the commitment names the job that it is of."""
    job_id = bytes(31) + b"\x01"
    report = check(replace(honest, job_id=job_id))
    assert report.verdict is Verdict.ACCEPT
    assert not report.ok
    assert report.divergence is not None
    assert report.divergence.position == 0


def test_greedy_and_masked_jobs_are_accepted(check, sdk_engine, sdk_manifest) -> None:  # type: ignore[no-untyped-def]
    for changes in ({"temperature_ppm": 0}, {"top_k": 5}, {"top_p_ppm": 800_000}):
        assert check(run_job(sdk_engine, sdk_manifest, sign_job(sdk_manifest, **changes))).ok


def test_outcome_that_contradicts_the_model(check, honest: Receipt) -> None:  # type: ignore[no-untyped-def]
    place = honest.settlement
    report = check(
        replace(honest, settlement=replace(place, record=replace(place.record, outcome=Verdict.REJECT)))
    )
    assert {"settlement", "outcome"} <= failed(report)
