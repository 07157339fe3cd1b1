"""Judging a row from approximate logits: always the integers of the reference on the exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.constants import PPM
from verillm.errors import InvalidRequest, RowError
from verillm.sampling import headrow, kernel, race
from verillm.sampling.gumbel import gumbel_q24
from verillm.sampling.headrow import HeadRow
from verillm.sampling.philox import noise_word
from verillm.sampling.sampler import margins, sample
from verillm.types import SamplingParams

ERROR = 0.02


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round-half-even to bfloat16 bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def floats(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Case:
    """A row whose approximate logits are off by up to ERROR and then rounded."""

    def __init__(self, vocab: int, d: int, spread: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.weights = bfloat16(rng.standard_normal((vocab, d)) * spread / np.sqrt(d))
        self.values = floats(bfloat16(rng.standard_normal(d))).astype(np.float64)
        self.exact = kernel.exact_logits(self.values, self.weights, np.arange(vocab))
        self.approx = bfloat16(self.exact + rng.uniform(-ERROR, ERROR, vocab))
        self.row = HeadRow(self.values, self.weights, self.approx, ERROR * 1.01)


params = st.builds(
    SamplingParams,
    st.sampled_from([0, 1, 20_000, 700_000, PPM, 3 * PPM]),
    st.sampled_from([0, 0, 1, 2, 40, 10**6]),
    st.sampled_from([PPM, PPM, 990_000, 900_000, 500_000, 1]),
    st.integers(0, 2**64 - 1),
)


@settings(max_examples=150, deadline=None)
@given(
    params,
    st.sampled_from([1, 3, 255, 256, 257, 1500]),
    st.sampled_from([1, 63, 64, 65, 130]),
    st.sampled_from([0.0, 0.01, 1.0, 6.0]),
    st.integers(0, 2**32 - 1),
)
def test_equals_the_reference(how: SamplingParams, vocab: int, d: int, spread: float, seed: int) -> None:
    case = Case(vocab, d, spread, seed)
    for claimed in {0, vocab - 1, seed % vocab, sample(case.exact, how, seed)}:
        gaps, best = margins(case.exact[None], how, seed, np.array([claimed]))
        assert case.row.margin(how, seed, claimed) == (gaps[0], best[0])
    assert case.row.sample(how, seed) == best[0]


@pytest.mark.parametrize(
    ("how", "share"),
    [
        (SamplingParams(), 0.0),
        (SamplingParams(700_000, seed=3), 0.0),
        (SamplingParams(700_000, top_k=50, seed=3), 0.0),
        (SamplingParams(700_000, top_p_ppm=950_000, seed=3), 0.1),
    ],
)
def test_few_rows_need_all_exact_logits(monkeypatch, how, share) -> None:
    """Otherwise this is the slow reference under another name."""
    calls = []
    whole = HeadRow.logits
    monkeypatch.setattr(HeadRow, "logits", lambda row: calls.append(1) or whole(row))
    for seed in range(60):
        case = Case(5000, 64, 4.0, seed)
        assert case.row.sample(how, seed) == sample(case.exact, how, seed)
    assert len(calls) <= share * 60


def test_ties_go_to_the_lowest_token() -> None:
    weights = bfloat16(np.ones((700, 64)))
    row = HeadRow(np.ones(64), weights, bfloat16(np.full(700, 64.0)), ERROR)
    assert row.sample(SamplingParams(), 0) == 0
    assert row.margin(SamplingParams(), 0, 699) == (0, 0)


def test_a_product_outside_its_bound_is_not_trusted() -> None:
    """A machine whose matrix product is worse than said: the tokens that are looked at show it."""
    case = Case(500, 64, 4.0, 1)
    case.approx[7] = bfloat16(np.array([500.0]))[0]
    row = HeadRow(case.values, case.weights, case.approx, ERROR)
    assert row.sample(SamplingParams(), 0) == int(np.argmax(case.exact))


def test_too_many_contenders_take_the_long_way(monkeypatch) -> None:
    monkeypatch.setattr(headrow, "MOST", 2)
    case = Case(900, 64, 0.5, 2)
    for how in (SamplingParams(3 * PPM, seed=1), SamplingParams(PPM, top_k=9), SamplingParams()):
        assert case.row.sample(how, 4) == sample(case.exact, how, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**40])
def test_rows_without_usable_logits_are_errors(bad: float) -> None:
    values = np.ones(8)
    values[3] = bad
    weights = bfloat16(np.ones((20, 8)))
    row = HeadRow(values, weights, bfloat16(np.full(20, 8.0)), np.inf)
    with pytest.raises(RowError, match="logits"):
        row.sample(SamplingParams(PPM), 0)
    with pytest.raises(RowError, match="logits"):
        row.margin(SamplingParams(), 0, 3)


@pytest.mark.parametrize("token", [-1, 20])
def test_a_claim_outside_the_vocabulary_is_refused(token: int) -> None:
    case = Case(20, 4, 1.0, 0)
    with pytest.raises(InvalidRequest, match="vocabulary"):
        case.row.margin(SamplingParams(), 0, token)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(1, 600))
def test_compiled_noise_equals_the_reference(seed: int, position: int, vocab: int) -> None:
    expected = [gumbel_q24(noise_word(seed, position, v)) for v in range(vocab)]
    words = np.uint64(seed), np.uint64(position)
    assert kernel.noise_row(*words, vocab).tolist() == expected
    some = np.arange(vocab)[::7]
    assert kernel.noise_at(*words, some).tolist() == expected[::7]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 700), st.integers(0, 2**32))
def test_extremes_of_bfloat16_bits(size: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal(size) - (2.0 if seed % 2 else 0.0)
    bits = bfloat16(values)
    assert race.argmax(bits) == int(np.argmax(floats(bits)))
    assert race.magnitude(bits) == float(np.abs(floats(bits)).max())
