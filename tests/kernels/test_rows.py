"""Row hashes of the kernel against the plain reference, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.values import DTYPES, edge_values, random_rows, row_bytes
from verillm.commitment.hashing import row_chunk_root
from verillm.errors import ConfigError, RowError
from verillm.kernels import launch
from verillm.kernels import rows as kernel
from verillm.kernels.rows import HASH_WORDS, hash_rows, row_roots


def expected(rows: torch.Tensor) -> list[bytes]:
    return [row_chunk_root(row.tobytes()) for row in row_bytes(rows)]


def roots(rows: torch.Tensor) -> list[bytes]:
    return [root.tobytes() for root in row_roots(rows).numpy()]


SHAPES = [
    pytest.param(3, 577, torch.bfloat16, id="odd-d-10-chunks-last-of-2-bytes"),
    pytest.param(2, 160, torch.float32, id="5-chunks-odd-node-promoted"),
    pytest.param(1, 64, torch.float16, id="one-row-of-one-full-chunk"),
    pytest.param(4, 33, torch.float32, id="second-chunk-of-one-value"),
    pytest.param(2, 1, torch.bfloat16, id="one-value"),
    pytest.param(5, 94, torch.float16, id="d-of-4-byte-units"),
]


@pytest.mark.parametrize(("n", "d", "dtype"), SHAPES)
def test_roots_equal_the_reference_at_odd_shapes(n, d, dtype):
    rows = random_rows(n, d, dtype)
    assert roots(rows) == expected(rows)


LAYOUTS = {
    "transposed": lambda x: x[:40, :6].T,
    "every-second-value": lambda x: x[:5, 1::2],
    "every-second-row": lambda x: x[::2],
    "shifted-by-one-value": lambda x: x[:5, 1:],
    "shifted-by-four-values": lambda x: x[:5, 4:44],
    "one-row-repeated": lambda x: x[3:4].expand(4, -1),
    "a-boundary-of-a-batch": lambda x: x.view(20, 2, 44)[:, 1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_roots_of_any_strides(layout):
    rows = LAYOUTS[layout](random_rows(40, 44, torch.bfloat16))
    assert roots(rows) == expected(rows)


def test_roots_do_not_depend_on_the_tiling(monkeypatch):
    """Two programs of 4 rows, 8 messages at a time; the second program has fewer rows."""
    monkeypatch.setattr(kernel, "INTERPRETED", False)
    monkeypatch.setattr(kernel, "FEW_ROWS", 4)
    monkeypatch.setattr(kernel, "lanes", lambda messages, warps: 8)
    rows = random_rows(5, 130, torch.bfloat16)
    assert roots(rows) == expected(rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_row_with_nan_or_inf_is_flagged_and_no_other(dtype):
    edges = edge_values(dtype)
    rows = torch.ones((len(edges) + 5, 67), dtype=dtype)
    rows[: len(edges), 66] = edges
    bits = rows.view(torch.int32 if dtype == torch.float32 else torch.int16)
    exponent = int(torch.tensor(float("inf"), dtype=dtype).view(bits.dtype))
    rows[-5, 0], rows[-4, 3], rows[-3, 66] = float("nan"), float("inf"), float("-inf")
    bits[-2, 1] = exponent | 1  # the NaN with the smallest payload
    bits[-1, 66] = -1  # and the one with all bits set
    assert hash_rows(rows)[:, -1].tolist() == [0] * len(edges) + [1] * 5


def test_the_first_row_with_nan_is_named():
    with pytest.raises(RowError, match=r"rows\[1\]: the row contains NaN or Inf"):
        row_roots(torch.tensor([[1.0, 2.0], [1.0, float("nan")], [float("inf"), 0.0]]))


@pytest.mark.parametrize("d", [5, 67])
def test_records_keep_the_row_zero_padded_to_words(d):
    rows = random_rows(3, d, torch.bfloat16)
    records = hash_rows(rows, keep=True)
    kept = records[:, : -HASH_WORDS - 1].contiguous().view(torch.uint8).numpy()
    assert (kept[:, : 2 * d] == row_bytes(rows)).all()
    assert not kept[:, 2 * d :].any()
    assert [r.tobytes() for r in launch.hash_bytes(records[:, -5:-1]).numpy()] == expected(rows)


def test_no_rows_have_no_roots():
    assert row_roots(torch.zeros((0, 8))).shape == (0, 32)


@pytest.mark.parametrize(
    "rows", [torch.zeros((2, 4), dtype=torch.float64), torch.zeros((2, 0)), torch.zeros(4)], ids=str
)
def test_other_dtypes_and_shapes_are_refused(rows):
    with pytest.raises(RowError, match="rows: torch"):
        row_roots(rows)


def test_cpu_tensors_are_refused_outside_the_interpreter(monkeypatch):
    monkeypatch.setattr(launch, "INTERPRETED", False)
    with pytest.raises(ConfigError, match="CUDA"):
        row_roots(torch.zeros((1, 4)))
