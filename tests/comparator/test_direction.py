"""Rounding points anywhere, a changed model points one way; and values come out of the bits exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verillm.comparator.compare import row_values
from verillm.comparator.direction import Direction, direction, pair_cosines, unit_deviations
from verillm.constants import Dtype
from verillm.errors import RowError

WIDTH = 96


def fp32(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(len(values), -1)


def deviated(rng: np.random.Generator, rows: int, shared: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the same with noise of 1 %, plus ``shared`` times a common vector."""
    base = rng.normal(size=(rows, WIDTH))
    noise = rng.normal(size=(rows, WIDTH)) + shared * rng.normal(size=WIDTH)
    return fp32(base), fp32(base + 0.01 * noise)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_fp32_values_are_those_of_the_bits(values: list[float]) -> None:
    rows = np.array([values], "<f4")
    assert np.array_equal(row_values(rows.view(np.uint8).reshape(1, -1), Dtype.FP32), rows.astype(np.float64))


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_fp16_values_are_those_of_the_bits(values: list[float]) -> None:
    rows = np.array([values], "<f2")
    assert np.array_equal(row_values(rows.view(np.uint8).reshape(1, -1), Dtype.FP16), rows.astype(np.float64))


@given(st.lists(st.integers(0, 0xFFFF).filter(lambda w: w >> 7 & 0xFF != 0xFF), min_size=1, max_size=9))
def test_bf16_values_are_the_upper_half_of_fp32(words: list[int]) -> None:
    rows = np.array([words], "<u2")
    wide = (rows.astype("<u4") << 16).view("<f4").astype(np.float64)
    assert np.array_equal(row_values(rows.view(np.uint8).reshape(1, -1), Dtype.BF16), wide)


def seen(units: np.ndarray) -> Direction:
    """Far apart, and all of different tokens."""
    found = direction(1, units, range(0, 10 * len(units), 10), range(len(units)))
    assert found is not None
    return found


def test_unrelated_deviations_have_no_direction_and_shared_ones_do() -> None:
    rng = np.random.default_rng(1)
    apart = seen(unit_deviations(*deviated(rng, 24, 0.0), Dtype.FP32))
    along = seen(unit_deviations(*deviated(rng, 24, 1.0), Dtype.FP32))
    assert abs(apart.cosine) < 0.02
    assert along.cosine == pytest.approx(0.5, abs=0.05)  # half of each deviation is shared
    assert (along.boundary, along.pairs) == (1, 24 * 23 // 2)


def test_rows_that_are_alike_make_no_pair() -> None:
    """Neighbours, and rows of one token."""
    units = unit_deviations(*deviated(np.random.default_rng(5), 3, 1.0), Dtype.FP32)
    cosines = units @ units.T
    assert pair_cosines(units, [0, 3, 7], [1, 2, 3]).tolist() == [cosines[0, 2], cosines[1, 2]]
    assert pair_cosines(units, [0, 10, 20], [1, 2, 1]).tolist() == [cosines[0, 1], cosines[1, 2]]
    assert direction(0, units, [0, 1, 2], [1, 2, 3]) is None


def test_the_scale_of_rows_and_of_deviations_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    base, noise = rng.normal(size=(8, WIDTH)), rng.normal(size=(8, WIDTH)) + 1
    found = [
        seen(unit_deviations(fp32(scale * base), fp32(scale * (base + size * noise)), Dtype.FP32)).cosine
        for scale, size in ((1.0, 0.01), (1e-30, 0.01), (1e30, 0.1))
    ]
    assert found == pytest.approx([found[0]] * 3, rel=1e-3)


def test_equal_rows_and_rows_below_the_floor_do_not_count() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(5, WIDTH))
    other = base.copy()
    other[1] += 0.01
    other[2] *= 1 + 1e-6  # far below what fp32 kernels of other hardware differ by
    units = unit_deviations(fp32(base), fp32(other), Dtype.FP32)
    assert units.any(axis=1).tolist() == [False, True, False, False, False]
    assert direction(0, units, range(0, 50, 10), range(5)) is None


def test_nan_is_refused() -> None:
    rows = fp32(np.ones((2, 4)))
    bad = fp32(np.array([[1, 1, 1, 1], [1, np.nan, 1, 1]]))
    with pytest.raises(RowError, match="NaN"):
        unit_deviations(rows, bad, Dtype.FP32)
