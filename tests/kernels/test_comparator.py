"""D and N of the kernel against the plain reference, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.values import DTYPES, edge_values, random_rows, row_bytes
from verillm.comparator.compare import rows_statistics as reference
from verillm.constants import MAX_HIDDEN_SIZE
from verillm.errors import RowError
from verillm.kernels.comparator import rows_statistics
from verillm.kernels.launch import DTYPES as STORAGE


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    d, n = rows_statistics(a, b)
    expected = reference(row_bytes(a), row_bytes(b), STORAGE[a.dtype])
    assert (d.tolist(), n.tolist()) == (expected[0].tolist(), expected[1].tolist())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 577), (2, 64)])
def test_sums_equal_the_reference(n, d, dtype):
    a = random_rows(n, d, dtype)
    check(a, a)
    check(a, (a.double() * 1.01).clamp(torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype))
    check(a, random_rows(n, d, dtype, seed=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_subnormals_zeros_and_extremes(dtype):
    edges = edge_values(dtype)
    pairs = torch.cartesian_prod(torch.arange(len(edges)), torch.arange(len(edges)))
    check(edges[pairs[:, :1]], edges[pairs[:, 1:]])
    check(torch.zeros((1, 5), dtype=dtype), -torch.zeros((1, 5), dtype=dtype))


def test_the_largest_sums_fit():
    top = torch.full((1, MAX_HIDDEN_SIZE), torch.finfo(torch.float32).max)
    check(top, -top)


def test_rows_of_any_strides():
    a, b = random_rows(40, 40, torch.float16), random_rows(40, 40, torch.float16, seed=1)
    check(a.T, b)
    check(a[::2, 1::3], b[1::2, 2::3])
    check(a[3:4].expand(5, -1), b[:5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_of_either_row_are_refused_and_the_pair_is_named(dtype, bad):
    good, spoilt = torch.ones((3, 9), dtype=dtype), torch.ones((3, 9), dtype=dtype)
    spoilt[2, 8] = bad
    for a, b in ((good, spoilt), (spoilt, good)):
        with pytest.raises(RowError, match=r"rows\[2\]: one of the pair contains NaN or Inf"):
            rows_statistics(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.zeros((2, 4)), torch.zeros((2, 5))),
        (torch.zeros((2, 4)), torch.zeros((2, 4), dtype=torch.float16)),
        (torch.zeros((1, MAX_HIDDEN_SIZE + 1)), torch.zeros((1, MAX_HIDDEN_SIZE + 1))),
    ],
    ids=["shapes", "dtypes", "too-wide"],
)
def test_unequal_or_too_wide_rows_are_refused(a, b):
    with pytest.raises(RowError, match="expected one dtype and shape"):
        rows_statistics(a, b)
