"""Sampling: known answers, the distribution against softmax, masks and margins."""

import json
import math
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.constants import PPM
from verillm.errors import InvalidRequest, RowError
from verillm.sampling.gumbel import gumbel_q24, gumbel_q24_array
from verillm.sampling.noise import noise_q24, noise_q24_numpy
from verillm.sampling.philox import noise_word, philox4x32
from verillm.sampling.sampler import (
    NO_THRESHOLD,
    Q24,
    logits_q24,
    margin_q24,
    margins,
    sample,
    scores_q24,
    top_k_threshold,
    top_p_threshold,
)
from verillm.types import SamplingParams

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "sampling.json").read_text())
GREEDY = SamplingParams()
PLAIN = SamplingParams(PPM, seed=7)
MASKED = SamplingParams(800_000, top_k=20, top_p_ppm=900_000, seed=2**63 + 5)


def random_logits(rows: int, vocab: int = 300, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * 3).astype(np.float32)


def test_philox_known_answers() -> None:
    assert philox4x32((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert philox4x32((ones,) * 4, (ones, ones)) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def test_vectors_match() -> None:
    cases = zip(
        VECTORS["seed"],
        VECTORS["position"],
        VECTORS["token"],
        VECTORS["word"],
        VECTORS["gumbelQ24"],
        strict=True,
    )
    for seed, position, token, word, g in cases:
        assert noise_word(int(seed), position, token) == word
        assert gumbel_q24(word) == g
    assert [gumbel_q24(w) for w in VECTORS["edgeWord"]] == VECTORS["edgeGumbelQ24"]
    for counter, key, out in zip(
        VECTORS["philoxCounter"], VECTORS["philoxKey"], VECTORS["philoxOutput"], strict=True
    ):
        assert list(philox4x32(tuple(counter), tuple(key))) == out


words = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16),
    st.integers(2**32 - 2**16, 2**32 - 1),
    st.integers(2**28 - 9, 2**28 + 9),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(words, min_size=20, max_size=20))
def test_gumbel_close_to_the_real_formula_and_array_equal(chosen: list[int]) -> None:
    getcontext().prec = 40
    for word in chosen:
        u = Decimal(2 * word + 1) / Decimal(2**33)
        exact = -(-(1 - u).ln()).ln()
        assert abs(Decimal(gumbel_q24(word)) / Q24 - exact) < Decimal("2e-7")
    assert gumbel_q24_array(np.array(chosen, dtype=np.uint32)).tolist() == [gumbel_q24(w) for w in chosen]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(1, 70))
def test_noise_paths_equal_the_reference(seed: int, position: int, vocab: int) -> None:
    expected = [gumbel_q24(noise_word(seed, position, v)) for v in range(vocab)]
    assert noise_q24_numpy(seed, position, vocab).tolist() == expected
    assert noise_q24(seed, position, vocab).tolist() == expected


def test_noise_rejects_a_seed_over_64_bits() -> None:
    with pytest.raises(InvalidRequest, match="seed"):
        noise_q24(2**64, 0, 4)
    with pytest.raises(InvalidRequest, match="position"):
        noise_q24(0, 2**32, 4)


@pytest.mark.parametrize("params", [PLAIN, MASKED])
def test_distribution_is_softmax(params: SamplingParams) -> None:
    logits = random_logits(1, 40)[0]
    n = 4000
    counts = np.bincount([sample(logits, params, p) for p in range(n)], minlength=40)
    p = np.exp(logits.astype(np.float64) * PPM / params.temperature_ppm)
    p /= p.sum()
    if params.masked:
        order = np.argsort(-logits)
        keep = np.searchsorted(np.cumsum(p[order]), params.top_p_ppm / PPM) + 1
        allowed = np.zeros(40, bool)
        allowed[order[: min(keep, params.top_k)]] = True
        assert counts[~allowed].sum() == 0
        p = np.where(allowed, p, 0) / p[allowed].sum()
    big = p * n >= 5
    observed = np.append(counts[big], counts[~big].sum())
    expected = np.append(p[big] * n, max(p[~big].sum() * n, 1e-9))
    used = expected > 1
    chi2 = float((((observed - expected) ** 2 / expected)[used]).sum())
    degrees = int(used.sum()) - 1
    assert chi2 < degrees + 4.5 * math.sqrt(2 * degrees)  # a fixed seed: about 1e-5


def test_rounding_is_half_to_even_and_bad_logits_are_errors() -> None:
    tiny = np.array([0.5, 1.5, 2.5, -0.5, -1.5], dtype=np.float64) / Q24
    assert logits_q24(tiny).tolist() == [0, 2, 2, 0, -2]
    for bad in (np.nan, np.inf, -np.inf, 2.0**31):
        with pytest.raises(RowError, match="logits"):
            logits_q24(np.array([0.0, bad]))
    with pytest.raises(RowError, match="logits"):
        logits_q24(np.array([]))


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    assert sample(np.array([1.0, 3.0, 3.0], np.float32), GREEDY, 9) == 1
    assert margin_q24(np.array([1.0, 3.0, 3.0], np.float32), GREEDY, 9, 2) == 0
    assert margin_q24(np.array([1.0, 3.0, 3.0], np.float32), GREEDY, 9, 0) == 2 * Q24


def test_temperature_scales_the_noise_downwards() -> None:
    logits = logits_q24(random_logits(1)[0])
    params = SamplingParams(333_333, seed=3)
    expected = [
        int(v) + (333_333 * int(g)) // PPM for v, g in zip(logits, noise_q24(3, 5, len(logits)), strict=True)
    ]
    assert scores_q24(logits, params, 5).tolist() == expected


def test_thresholds_allow_ties() -> None:
    logits = logits_q24(np.array([5.0, 4.0, 4.0, 1.0]))
    assert top_k_threshold(logits, 2) == 4 * Q24
    assert top_k_threshold(logits, 0) == top_k_threshold(logits, 4) == NO_THRESHOLD
    # softmax masses: 0.569, 0.209, 0.209, 0.010
    assert top_p_threshold(logits, 500_000, PPM) == 5 * Q24
    assert top_p_threshold(logits, 700_000, PPM) == 4 * Q24
    assert top_p_threshold(logits, 999_000, PPM) == 1 * Q24
    assert top_p_threshold(logits, -1, PPM) == 5 * Q24
    assert top_p_threshold(logits, PPM, PPM) == NO_THRESHOLD


@settings(max_examples=30, deadline=None)
@given(st.integers(1, PPM - 1), st.integers(1, 3 * PPM), st.integers(0, 2**32))
def test_top_p_threshold_equals_a_full_sort(p: int, temperature: int, seed: int) -> None:
    logits = logits_q24(random_logits(1, 5000, seed)[0] / 3)
    ordered = np.sort(logits)[::-1]
    mass = np.cumsum(np.exp((ordered - ordered[0]) * (PPM / (Q24 * temperature))))
    expected = ordered[np.searchsorted(mass, mass[-1] * (1 - 1e-12) * p / PPM)]
    found = top_p_threshold(logits, p, temperature)
    assert abs(int(np.searchsorted(-ordered, -found)) - int(np.searchsorted(-ordered, -expected))) <= 1


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 3 * PPM),
    st.integers(0, 400),
    st.integers(1, PPM),
    st.integers(0, 2**64 - 1),
    st.integers(0, 9),
)
def test_honest_tokens_have_no_margin(t: int, k: int, p: int, seed: int, position: int) -> None:
    params = SamplingParams(t, k, p, seed)
    logits = random_logits(4, seed=position)
    tokens = np.array([sample(row, params, position + i) for i, row in enumerate(logits)])
    gaps, best = margins(logits, params, position, tokens)
    assert gaps.tolist() == [0] * 4
    assert best.tolist() == tokens.tolist()


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([GREEDY, PLAIN, SamplingParams(PPM, top_k=12, seed=4)]),
    st.integers(0, 2**32),
    st.integers(1, 99),
)
def test_margin_is_at_most_twice_the_perturbation(
    params: SamplingParams, seed: int, thousandths: int
) -> None:
    delta = thousandths / 1000
    logits = random_logits(1, seed=seed)[0].astype(np.float64)
    shifted = logits + np.random.default_rng(seed + 1).uniform(-delta, delta, logits.shape)
    token = sample(shifted, params, 3)
    assert margin_q24(logits, params, 3, token) <= 2 * delta * Q24 + 2


def test_top_p_gives_the_claimant_the_slack() -> None:
    logits = np.log(np.array([0.6, 0.29, 0.11])).astype(np.float32)
    claimed_last = [
        margin_q24(logits, SamplingParams(PPM, top_p_ppm=p, seed=s), 0, 2)
        for p in (880_000, 850_000)
        for s in range(40)
    ]
    # 0.88 + 1/64 passes 0.89: the last token may be in the set. 0.85 + 1/64 does not.
    within, outside = claimed_last[:40], claimed_last[40:]
    assert min(within) == 0
    assert min(outside) >= math.floor(math.log(0.29 / 0.11) * Q24) - Q24 // 1000


def test_forged_text_loses_and_masked_out_competitors_do_not_count() -> None:
    logits = random_logits(64)
    other = random_logits(64, seed=2)
    forged = np.array([sample(row, PLAIN, i) for i, row in enumerate(other)])
    gaps, _ = margins(logits, PLAIN, 0, forged)
    assert float(gaps.mean()) / Q24 > 0.8
    # vocabulary entry 1 has the better score but is not among the top 1
    row = np.array([1.0, 0.999, -30.0], np.float32)
    params = next(
        SamplingParams(PPM, top_k=1, seed=s)
        for s in range(100)
        if sample(row, SamplingParams(PPM, seed=s), 0) == 1
    )
    assert margin_q24(row, params, 0, 0) == 0
    assert margin_q24(row, params, 0, 1) > 0


def test_bad_claims_are_errors() -> None:
    with pytest.raises(InvalidRequest, match="vocabulary"):
        margin_q24(random_logits(1)[0], PLAIN, 0, 300)
    with pytest.raises(InvalidRequest, match="claimed"):
        margins(random_logits(2), PLAIN, 0, np.array([1]))
