"""The output head: its error bound holds, and every dtype gives the integers of exact logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from verillm.constants import PPM, Dtype
from verillm.engine.head import OutputHead
from verillm.engine.loading import TORCH_DTYPES
from verillm.errors import InvalidRequest, RowError
from verillm.sampling.sampler import margins
from verillm.types import SamplingParams

HOWS = (SamplingParams(), SamplingParams(700_000, seed=5), SamplingParams(PPM, 40, 900_000, 6))


def make(dtype: Dtype, vocab: int, d: int, rows: int, scale: float = 1.0) -> tuple[OutputHead, np.ndarray]:
    torch.manual_seed(vocab + d)
    weight = (torch.randn(vocab, d) / 3).bfloat16()
    values = (torch.randn(rows, d) * scale).to(TORCH_DTYPES[dtype])
    return OutputHead(weight, dtype), values.contiguous().view(torch.uint8).numpy()


@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize(("vocab", "d", "rows"), [(1000, 64, 1), (1003, 576, 3), (5000, 72, 65)])
def test_approximate_logits_are_within_their_bound(dtype, vocab, d, rows):
    """Of every token; rows of large norm included."""
    for scale in (0.01, 1.0, 100.0):
        head, data = make(dtype, vocab, d, rows, scale)
        for row in head.rows(data):
            approx = (row._approx.astype(np.uint32) << 16).view(np.float32)
            assert float(np.abs(row.logits() - approx).max()) <= row._bound


@pytest.mark.parametrize("dtype", list(Dtype))
def test_tokens_and_margins_are_those_of_exact_logits(dtype):
    head, data = make(dtype, 3000, 96, 70)
    exact = np.stack([row.logits() for row in head.rows(data)])
    claimed = np.random.default_rng(1).integers(0, 3000, 70)
    for how in HOWS:
        gaps, best = margins(exact, how, 9, claimed)
        found = head.margins(data, how, 9, claimed.tolist())
        assert found[0].tolist() == gaps.tolist()
        assert found[1].tolist() == best.tolist()
        assert head.sample(head.values(data), [how] * 70, range(9, 79)) == best.tolist()


def test_exact_logits_are_the_dot_products():
    head, data = make(Dtype.BF16, 500, 100, 4)
    rows = torch.from_numpy(data).view(torch.bfloat16).double()
    expected = (rows @ head.weight.double().T).numpy()
    found = np.stack([row.logits() for row in head.rows(data)])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(head.logits(data), expected, rtol=1e-4, atol=1e-4)


def test_nan_rows_and_huge_logits_are_errors():
    head, _ = make(Dtype.FP32, 300, 16, 1)
    for bad in (np.nan, np.inf, 1e30):
        row = np.full((1, 16), bad, "<f4").view(np.uint8)
        with pytest.raises(RowError, match="logits"):
            head.sample(head.values(row), [HOWS[1]], [0])


def test_claims_must_fit_the_rows():
    head, data = make(Dtype.BF16, 300, 16, 3)
    with pytest.raises(InvalidRequest, match="claimed"):
        head.margins(data, HOWS[0], 0, [1, 2])
    with pytest.raises(InvalidRequest, match="vocabulary"):
        head.margins(data, HOWS[0], 0, [1, 2, 300])
    assert head.margins(data[:0], HOWS[0], 0, [])[0].tolist() == []
