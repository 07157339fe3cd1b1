"""The parts of the vLLM study that need no vLLM."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.study.roundings import TRANSFORMERS, WIDE, Widths, rounded
from benchmarks.study.vllm_distance import coherence, distance
from benchmarks.study.vllm_rows import joined
from verillm.constants import PPM, Dtype
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.types import SamplingParams

PROMPTS = ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4], [250, 17])


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> Engine:
    engine = Engine(tiny_folder, Dtype.BF16, (1, 2, 3), threads=1)
    for name, parameter in engine.model.named_parameters():
        if "norm" in name:  # a fresh model's are all 1, and hide one rounding
            parameter.data = torch.linspace(0.5, 1.5, len(parameter)).to(parameter.dtype)
    return engine


def decoded(engine: Engine) -> list[bytes]:
    """The rows of two jobs that decode together, so with a mask."""
    states = [engine.prefill(prompt) for prompt in PROMPTS]
    spec = GenerationSpec(SamplingParams(0, 0, PPM, 0), 5)
    for _ in engine.decode_batch(states, [spec, spec]):
        pass
    return [state.store.rows(b).tobytes() for state in states for b in range(3)]


def bf16(values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).to(torch.bfloat16).view(torch.uint8).numpy()


def test_the_roundings_of_transformers_change_no_bit(engine: Engine) -> None:
    plain = decoded(engine)
    with rounded(engine, TRANSFORMERS):
        assert decoded(engine) == plain


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Widths)])
def test_every_width_changes_rows_a_little_and_only_inside_the_block(engine: Engine, name: str) -> None:
    plain = engine.prefill(PROMPTS[0]).store.rows(2)
    with rounded(engine, dataclasses.replace(TRANSFORMERS, **{name: WIDE})):
        wide = engine.prefill(PROMPTS[0]).store.rows(2)
    (figures,) = distance([([plain], [wide])] * 2)
    assert figures["equal_rows"] < len(plain) * 2
    assert figures["worst_row"] < -8
    assert engine.prefill(PROMPTS[0]).store.rows(2).tobytes() == plain.tobytes()


def test_coherence_is_the_mean_cosine_over_pairs() -> None:
    rng = np.random.default_rng(5)
    a, b = (bf16(rng.standard_normal((6, 32), np.float32)) for _ in range(2))
    a[2] = b[2]  # a row without a deviation has no direction, and does not count
    deviations = [
        torch.from_numpy(x.copy()).view(torch.bfloat16).double()
        - torch.from_numpy(y.copy()).view(torch.bfloat16).double()
        for i, (x, y) in enumerate(zip(a, b, strict=True))
        if i != 2
    ]
    cosines = [float(u @ v / (u.norm() * v.norm())) for u, v in combinations(deviations, 2)]
    assert coherence(a, b) == pytest.approx(np.mean(cosines))


def test_coherence_of_one_shared_deviation_is_one() -> None:
    base = np.zeros((4, 16), np.float32)
    assert coherence(bf16(base + np.arange(16, dtype=np.float32)), bf16(base)) == pytest.approx(1)


def test_equal_rows_are_counted_and_left_out_of_the_mean() -> None:
    ones = np.ones((3, 16), np.float32)
    other = ones.copy()
    other[1:] = 1.0078125  # the next bf16 after 1
    (figures,) = distance([([bf16(ones)], [bf16(other)])] * 2)
    assert (figures["rows"], figures["equal_rows"]) == (6, 2)
    assert figures["mean_log2"] == pytest.approx(np.log2(2.0**-14 / (1 + 1.0078125**2)), abs=1e-3)


def test_pieces_join_by_position_and_a_gap_or_repeat_is_an_error() -> None:
    rows = np.arange(10, dtype=np.uint16).reshape(5, 2)
    pieces = [(20, 0, rows[:3]), (10, 3, rows[3:4]), (10, 0, rows[:3]), (10, 4, rows[4:])]
    assert joined(pieces, 10).tolist() == rows.tolist()
    with pytest.raises(ValueError, match="boundary 10: rows from 4 follow those up to 3"):
        joined([pieces[2], pieces[3]], 10)
    with pytest.raises(ValueError, match="boundary 10: rows from 0 follow those up to 3"):
        joined([pieces[2], pieces[2]], 10)
