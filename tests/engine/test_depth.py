"""A verifier that stops early: at a boundary, or once the evidence is decisive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.test_verification import PROMPT, Run, make_job
from verillm.calibrate import calibrate
from verillm.comparator.verdict import judge
from verillm.constants import Dtype, Verdict
from verillm.engine.depth import prefill_to
from verillm.engine.transformers_engine import Engine
from verillm.errors import InvalidRequest
from verillm.manifest import Manifest
from verillm.observe import observe
from verillm.types import TOKEN_BOUNDARY


@pytest.fixture(scope="module")
def manifest(tiny_folder) -> Manifest:
    return calibrate(tiny_folder, Dtype.FP32, (1, 2, 3), jobs=24, save=False)


@pytest.fixture(scope="module")
def engine(tiny_folder, manifest) -> Engine:
    return Engine.from_manifest(tiny_folder, manifest, threads=1)


@pytest.fixture(scope="module")
def honest(engine, manifest) -> Run:
    return Run(engine, manifest, make_job(manifest))


def look(engine, run, openings=None, output=None, **options):
    return observe(
        engine, run.job, PROMPT, output or run.output, run.finish, (), openings or run.openings, **options
    )


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_rows_up_to_a_boundary_are_those_of_the_whole_prefill(engine, depth):
    whole, tokens = engine.prefill([*PROMPT, 9, 8]).store, [*PROMPT, 9, 8]
    for again in (prefill_to(engine, tokens, depth), prefill_to(engine, tokens, depth)):
        assert again.boundaries == depth + 1
        for boundary in range(depth + 1):
            assert (again.rows(boundary) == whole.rows(boundary)).all()
    after = engine.prefill(tokens).store
    assert all((after.rows(b) == whole.rows(b)).all() for b in range(3))


def test_only_the_layers_up_to_the_boundary_run(engine):
    ran = []
    hooks = [
        layer.register_forward_hook(lambda *_, i=i: ran.append(i))
        for i, layer in enumerate(engine.model.get_decoder().layers)
    ]
    prefill_to(engine, PROMPT, 0)
    for hook in hooks:
        hook.remove()
    assert ran == [0]


@pytest.mark.parametrize("depth", [0, 1])
def test_honest_work_passes_at_any_depth(engine, manifest, honest, depth):
    seen = look(engine, honest, depth=depth)
    assert {row.boundary for row in seen.rows} == set(range(depth + 1))
    assert judge(seen, manifest.table).verdict is Verdict.ACCEPT
    # The first position that an output token is sampled from is 4; these are opened.
    assert [position for position, _ in seen.margins] == [5, 10, 14]


def test_a_changed_row_shows_at_its_depth_and_not_before(engine, manifest, honest):
    changed = []
    for opening in honest.openings:
        if opening.boundary == 1:
            row = np.frombuffer(opening.row, "<f4").copy()
            row[3] += 0.05 * np.abs(row).max()
            opening = replace(opening, row=row.tobytes())
        changed.append(opening)
    verdicts = [judge(look(engine, honest, changed, depth=d), manifest.table) for d in (0, 1)]
    assert [v.verdict for v in verdicts] == [Verdict.ACCEPT, Verdict.REJECT]
    assert verdicts[1].boundary == 1


def test_a_forged_token_shows_against_the_workers_own_row(engine, manifest, honest):
    """Without running the last layers: the token after an opened final row does not follow from it."""
    tokens = list(honest.output)
    tokens[5] = (tokens[5] + 1) % 290  # position 10, sampled from the opened row 9
    forged = Run(engine, manifest, honest.job, tokens)
    verdict = judge(look(engine, forged, depth=0), manifest.table)
    assert (verdict.verdict, verdict.boundary, verdict.position) == (Verdict.REJECT, TOKEN_BOUNDARY, 10)


def test_decisive_rows_save_the_logits(engine, manifest, honest, monkeypatch):
    other = engine.prefill([5, 60, 7, 8, 9, *honest.output[:-1]]).store
    openings = [replace(o, row=other.rows(o.boundary)[o.position].tobytes()) for o in honest.openings]
    monkeypatch.setattr(engine, "margins", lambda *_: pytest.fail("logits were computed"))
    seen = look(engine, honest, openings, until=manifest.table)
    assert judge(seen, manifest.table).verdict is Verdict.REJECT
    assert seen.margins == ()


def test_a_depth_that_the_model_lacks_is_refused(engine, honest):
    with pytest.raises(InvalidRequest, match="depth: boundary 3 is outside 0 to 2"):
        look(engine, honest, depth=3)
