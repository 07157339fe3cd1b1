"""Tokens and margins of the kernels against the plain reference, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.probes import gumbel_kernel, logit_kernel, words_kernel
from verillm.constants import PPM
from verillm.errors import InvalidRequest, RowError
from verillm.kernels.draws import Draws
from verillm.kernels.sampler import margins, sample
from verillm.sampling import sampler as reference
from verillm.sampling.gumbel import SERIES_LIMIT, gumbel_q24_array
from verillm.sampling.gumbel import gumbel_q24 as gumbel_reference
from verillm.sampling.philox import noise_word
from verillm.types import SamplingParams

SEEDS = (0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
POSITIONS = (0, 1, 2**31, 2**32 - 1)


def signed(seed: int) -> int:
    return seed - 2**64 if seed >> 63 else seed


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_words_equal_the_reference(seed):
    for position in POSITIONS:
        out = torch.zeros(32, dtype=torch.int64)
        words_kernel[(1,)](torch.tensor([signed(seed)]), torch.tensor([position]), out, BLOCK=8)
        assert out.tolist() == [noise_word(seed, position, v) for v in range(32)]


def test_gumbel_equals_the_reference_at_extremes_and_at_random():
    limit = SERIES_LIMIT // 2
    near = [base + i for base in (0, limit, 2**31, 2**32) for i in range(-9, 9) if 0 <= base + i < 2**32]
    powers = [2**i - 1 for i in range(33)] + [2**32 - 2**i for i in range(32)]
    random = np.random.default_rng(3).integers(0, 2**32, 65000).tolist()
    words = [*near, *powers, *random]
    out = torch.zeros(len(words), dtype=torch.int64)
    gumbel_kernel[(1,)](torch.tensor(words), out, len(words), BLOCK=65536)
    assert out.tolist() == gumbel_q24_array(np.array(words, dtype=np.uint32)).tolist()
    few = len(near) + len(powers)
    assert out[:few].tolist() == [gumbel_reference(word) for word in words[:few]]


def test_logits_round_half_to_even_as_the_reference():
    ulps = np.arange(-40, 40)
    around = [(2.0**e * (1 + ulps * 2.0**-23)).astype(np.float32) for e in (-30, -25, -24, -23, -3, 0, 7, 29)]
    ties = (np.arange(-9, 10) * 0.5 * 2.0**-24).astype(np.float32)
    edges = np.array([0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 2.0**30, -(2.0**30)], np.float32)
    values = np.concatenate([*around, *(-a for a in around), ties, edges])
    out = torch.zeros(len(values), dtype=torch.int64)
    logit_kernel[(1,)](torch.from_numpy(values.view(np.int32)), out, len(values), BLOCK=2048)
    assert out.tolist() == reference.logits_q24(values).tolist()


def random_logits(rows: int, vocab: int, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * 4).astype(np.float32)


VARIED = [
    SamplingParams(0, seed=5),
    SamplingParams(700_000, seed=2**64 - 1),
    SamplingParams(10 * PPM, seed=2**63),
    SamplingParams(1, seed=2**32 - 1),
]
WHERE = [0, 2**32 - 1, 17, 2**31]


def both(
    logits: np.ndarray, params: list[SamplingParams], positions: list[int], claimed: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """(margins, tokens) of the kernels and of the reference; masks become thresholds."""
    values = [reference.logits_q24(row) for row in logits]
    masks = [reference._thresholds(v, p, 0)[0] for v, p in zip(values, params, strict=True)]
    slack = reference.TOP_P_SLACK_PPM
    pairs = [reference._thresholds(v, p, slack) for v, p in zip(values, params, strict=True)]
    rows = torch.from_numpy(logits)
    draws = Draws.of(params, positions, "cpu", masks)
    strict, loose = (torch.tensor(c) for c in zip(*pairs, strict=True))
    got_margins, got_tokens = margins(rows, draws, torch.tensor(claimed), strict, loose)
    assert sample(rows, draws).tolist() == got_tokens.tolist()
    expected = [
        reference.margins(logits[i : i + 1], params[i], positions[i], np.array([claimed[i]]))
        for i in range(len(logits))
    ]
    return [got_margins.tolist(), got_tokens.tolist()], [
        [int(margin[0]) for margin, _ in expected],
        [int(token[0]) for _, token in expected],
    ]


@pytest.mark.parametrize("vocab", [1, 3, 300, 1029])
def test_tokens_and_margins_equal_the_reference(vocab):
    """Of one split, part of a split, and three splits of which the last has five tokens."""
    got, expected = both(random_logits(4, vocab), VARIED, WHERE, [0, vocab - 1, vocab // 2, vocab - 1])
    assert got == expected


def test_masked_tokens_and_margins_equal_the_reference():
    masked = [
        SamplingParams(PPM, top_k=1, seed=1),
        SamplingParams(PPM, top_k=20, seed=2),
        SamplingParams(800_000, top_p_ppm=900_000, seed=3),
        SamplingParams(2 * PPM, top_k=50, top_p_ppm=500_000, seed=4),
        SamplingParams(0, top_k=5, top_p_ppm=500_000),
    ]
    got, expected = both(random_logits(5, 500, 2), masked, [*WHERE, 5], [3, 10, 499, 0, 412])
    assert got == expected
    assert any(got[0])


def test_the_sampled_token_has_no_margin():
    logits = random_logits(4, 300, 3)
    tokens = sample(torch.from_numpy(logits), Draws.of(VARIED, WHERE, "cpu"))
    got, expected = both(logits, VARIED, WHERE, tokens.tolist())
    assert got == expected == [[0] * 4, tokens.tolist()]


@pytest.mark.parametrize("ids", [(6, 5), (4, 3), (511, 512), (7, 519)])
def test_ties_go_to_the_lowest_id(ids):
    """Within a noise block, between lanes, and between splits."""
    logits = torch.full((1, 520), -3.0)
    logits[0, list(ids)] = 2.5
    assert sample(logits, Draws.of([SamplingParams()], [0], "cpu")).tolist() == [min(ids)]


def test_logits_of_any_strides():
    logits = torch.from_numpy(random_logits(300, 12))
    draws = Draws.of(VARIED[1:3], WHERE[1:3], "cpu")
    for view in (logits.T[:2], logits.T[1:11:5], logits.T[:2].contiguous()[:, 1::3]):
        assert sample(view, draws).tolist() == sample(view.contiguous(), draws).tolist()


BAD = [float("nan"), float("inf"), -float("inf"), 2.0**30 * (1 + 2.0**-23)]


@pytest.mark.parametrize(("bad", "token"), [*((value, 3) for value in BAD), (BAD[0], 520)])
def test_logits_that_cannot_be_sampled_are_refused_and_the_row_is_named(bad, token):
    logits = torch.zeros((2, token + 1))
    logits[1, token] = bad
    with pytest.raises(RowError, match=r"logits\[1\]: NaN, Inf"):
        sample(logits, Draws.of([SamplingParams()] * 2, [0] * 2, "cpu"))


def test_other_shapes_and_tokens_are_refused():
    draws = Draws.of([SamplingParams()] * 2, [0, 1], "cpu")
    with pytest.raises(InvalidRequest, match=r"expected int64 \[3\]"):
        sample(torch.zeros((3, 8)), draws)
    with pytest.raises(RowError, match="float32"):
        sample(torch.zeros((2, 8), dtype=torch.float16), draws)
    for claimed in ([0, 8], [-1, 0]):
        with pytest.raises(InvalidRequest, match="vocabulary of 8"):
            margins(torch.zeros((2, 8)), draws, torch.tensor(claimed))


def test_no_rows_have_no_tokens():
    assert sample(torch.zeros((0, 8)), Draws.of([], [], "cpu")).shape == (0,)
