"""The integer comparator against exact fractions, the shared vectors and its own edges."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verillm.comparator.compare import (
    diverges,
    exceeds,
    paper_statistics,
    ratio_q40,
    row_statistics,
    rows_statistics,
)
from verillm.constants import MAX_HIDDEN_SIZE, Dtype
from verillm.errors import RowError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "comparator.json").read_text())
LAYOUT = {Dtype.BF16: (8, 7), Dtype.FP16: (5, 10), Dtype.FP32: (8, 23)}


def decode(word: int, dtype: Dtype) -> tuple[Fraction, int]:
    """Value in units of 2^-(bias + fraction bits), and the exponent that counts for alignment."""
    exponent_bits, fraction_bits = LAYOUT[dtype]
    sign = -1 if word >> (exponent_bits + fraction_bits) else 1
    exponent = (word >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = word & ((1 << fraction_bits) - 1)
    significand = fraction + (1 << fraction_bits) if exponent else fraction
    return Fraction(sign * significand) * 2 ** max(exponent, 1), max(exponent, 1)


def reference(a: list[int], b: list[int], dtype: Dtype) -> tuple[int, int]:
    """D and N from exact fractions: quantise each value to the common grid, towards zero."""
    fraction_bits = LAYOUT[dtype][1]
    largest = max(decode(w, dtype)[1] for w in a + b)
    grid = Fraction(2) ** (largest + fraction_bits - 23)
    q_a, q_b = ([int(decode(w, dtype)[0] / grid) for w in row] for row in (a, b))
    return sum((x - y) ** 2 for x, y in zip(q_a, q_b, strict=True)), sum(x * x for x in q_a + q_b)


def raw(words: list[int], dtype: Dtype) -> bytes:
    return np.array(words, dtype=f"<u{dtype.itemsize}").tobytes()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Dtype, list[int], list[int]]:
    dtype = draw(st.sampled_from(list(Dtype)))
    exponent_bits, fraction_bits = LAYOUT[dtype]
    top = (((1 << exponent_bits) - 1) << fraction_bits) - 1
    magnitude = st.one_of(st.integers(0, top), st.integers(0, 1 << fraction_bits), st.just(top))
    sign = st.sampled_from([0, 1 << (exponent_bits + fraction_bits)])
    word = st.builds(lambda s, m: s | m, sign, magnitude)
    size = draw(st.integers(1, 12))
    rows = st.lists(word, min_size=size, max_size=size)
    return dtype, draw(rows), draw(rows)


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_equals_exact_fractions(case: tuple[Dtype, list[int], list[int]]) -> None:
    dtype, a, b = case
    d, n = row_statistics(raw(a, dtype), raw(b, dtype), dtype)
    assert (d, n) == reference(a, b, dtype)
    assert row_statistics(raw(b, dtype), raw(a, dtype), dtype) == (d, n)
    assert row_statistics(raw(a, dtype), raw(a, dtype), dtype)[0] == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([-20, -3, 5, 30]))
def test_scale_free(seed: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(50).astype(np.float32)
    b = a + rng.standard_normal(50).astype(np.float32) * np.float32(0.01)
    scaled = [(x * np.float32(2.0**shift)).tobytes() for x in (a, b)]
    assert row_statistics(*scaled, Dtype.FP32) == row_statistics(a.tobytes(), b.tobytes(), Dtype.FP32)


def test_ratio_is_half_the_squared_relative_l2() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal(2048).astype(np.float32)
    b = a + rng.standard_normal(2048).astype(np.float32) * np.float32(0.02)
    d, n = row_statistics(a.tobytes(), b.tobytes(), Dtype.FP32)
    relative = np.linalg.norm(a - b) / np.linalg.norm(a)
    assert np.sqrt(2 * d / n) == pytest.approx(relative, rel=1e-3)


def test_vectors_match() -> None:
    keys = ("dtype", "a", "b", "d", "n", "toleranceQ40", "diverges")
    seen = set()
    for dtype, a, b, d, n, tolerance, expected in zip(*(VECTORS[k] for k in keys), strict=True):
        row_a, row_b = (bytes.fromhex(x[2:]) for x in (a, b))
        words = f"<u{Dtype(dtype).itemsize}"
        assert row_statistics(row_a, row_b, Dtype(dtype)) == (int(d), int(n))
        exact = [np.frombuffer(x, words).tolist() for x in (row_a, row_b)]
        assert reference(*exact, Dtype(dtype)) == (int(d), int(n))
        assert diverges(row_a, row_b, Dtype(dtype), int(tolerance)) is expected
        seen.add((dtype, expected))
    assert seen == {(t, e) for t in (1, 2, 3) for e in (True, False)}


def test_many_rows_equal_one_by_one() -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((7, 33)).astype(np.float16).view(np.uint8)
    b = rng.standard_normal((7, 33)).astype(np.float16).view(np.uint8)
    d, n = rows_statistics(a, b, Dtype.FP16)
    assert d.dtype == n.dtype == np.uint64
    one_by_one = [row_statistics(x, y, Dtype.FP16) for x, y in zip(a, b, strict=True)]
    assert list(zip(d.tolist(), n.tolist(), strict=True)) == one_by_one


def test_largest_row_fits_64_bits() -> None:
    top = np.full(MAX_HIDDEN_SIZE, np.finfo(np.float32).max, np.float32)
    d, n = row_statistics(top.tobytes(), (-top).tobytes(), Dtype.FP32)
    assert d == MAX_HIDDEN_SIZE * (2 * (2**24 - 1)) ** 2
    assert n == 2 * MAX_HIDDEN_SIZE * (2**24 - 1) ** 2


def test_zero_rows_and_the_limit_itself_do_not_diverge() -> None:
    zero = bytes(8)
    assert row_statistics(zero, zero, Dtype.BF16) == (0, 0)
    assert ratio_q40(0, 0) == 0
    assert not exceeds(0, 0, 0)
    assert not exceeds(1, 4, 1 << 38)
    assert exceeds(1, 4, (1 << 38) - 1)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (b"\x80\x7f", b"\x00\x00", "NaN or Inf"),
        (b"\x00\x00", b"\xc0\xff", "NaN or Inf"),
        (b"\x00\x00\x00", b"\x00\x00\x00", "bytes of BF16"),
        (b"", b"", "bytes of BF16"),
        (bytes(2), bytes(4), "differ"),
        (bytes(2 * MAX_HIDDEN_SIZE + 2), bytes(2 * MAX_HIDDEN_SIZE + 2), "8192"),
    ],
)
def test_bad_rows_are_errors(a: bytes, b: bytes, message: str) -> None:
    with pytest.raises(RowError, match=message):
        row_statistics(a, b, Dtype.BF16)


def test_paper_statistics_count_only_what_they_say() -> None:
    a = np.array([1.0, 1.0, 1.0, 4.0, -2.0], np.float32)
    b = np.array([1.0, 1.5, 1.0 + 2**-20, 2.0, 2.0], np.float32)
    found = paper_statistics(a.tobytes(), b.tobytes(), Dtype.FP32)
    assert found.exponent_differs == pytest.approx(1 / 5)
    assert found.large_deviation == pytest.approx(2 / 4)  # 1.5 and the flipped sign
    assert found.small_deviation == pytest.approx(2 / 4)
    assert found.mean_error == pytest.approx((0.5 + 2**-20 + 4.0) / 4)
    apart = paper_statistics(a[:1].tobytes(), a[3:4].tobytes(), Dtype.FP32)
    assert (apart.exponent_differs, apart.mean_error) == (1.0, 0.0)
