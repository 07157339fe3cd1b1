"""The comparator's sums D and N on the device: section 3 of ``docs/protocol.md``."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from verillm.constants import MAX_HIDDEN_SIZE, Dtype
from verillm.errors import RowError
from verillm.kernels.launch import OPTIONS, check_rows, on_device

_LAYOUT = {Dtype.BF16: (8, 7), Dtype.FP16: (5, 10), Dtype.FP32: (8, 23)}
"""dtype: (exponent bits, fraction bits)."""
SMALLEST_BLOCK = 256
"""Values per program for small d, so that few kernels need compiling."""


@triton.jit
def _aligned(bits, exponent, largest, FRACTION: tl.constexpr):
    """Signed 24-bit significands in int64, shifted right to the pair's ``largest`` exponent."""
    fraction = bits & ((1 << FRACTION) - 1)
    significand = (fraction | tl.where(exponent > 0, 1 << FRACTION, 0)) << (23 - FRACTION)
    magnitude = significand >> tl.minimum(largest - tl.maximum(exponent, 1), 24)
    return tl.where(bits < 0, -magnitude, magnitude).to(tl.int64)


@triton.jit
def statistics_kernel(
    a,
    a_row_step,
    a_step,
    b,
    b_row_step,
    b_step,
    d,
    results,
    EXPONENT: tl.constexpr,
    FRACTION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``results`` int64 [rows, 3]: D, N, and whether row i of a or b holds NaN or Inf. The rows are signed
    integers with the values' bits; one program has all ``d`` <= BLOCK values of a pair."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(a + row * a_row_step + i.to(tl.int64) * a_step, mask=i < d, other=0).to(tl.int32)
    y = tl.load(b + row * b_row_step + i.to(tl.int64) * b_step, mask=i < d, other=0).to(tl.int32)
    all_ones: tl.constexpr = (1 << EXPONENT) - 1
    x_exponent, y_exponent = (x >> FRACTION) & all_ones, (y >> FRACTION) & all_ones
    largest = tl.maximum(tl.max(tl.maximum(x_exponent, y_exponent), 0), 1)
    x_value = _aligned(x, x_exponent, largest, FRACTION)
    y_value = _aligned(y, y_exponent, largest, FRACTION)
    difference = x_value - y_value
    tl.store(results + row * 3, tl.sum(difference * difference, 0))
    tl.store(results + row * 3 + 1, tl.sum(x_value * x_value + y_value * y_value, 0))
    tl.store(results + row * 3 + 2, (largest == all_ones).to(tl.int64))


def warps(block: int) -> int:
    """Warps of a program that holds ``block`` values of both rows in registers: at most 32 per thread."""
    return max(1, min(8, block // 256))


def launch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What ``rows_statistics`` reads, without waiting for the device: int64 [n, 3], D, N and 1 if one of the
    pair holds NaN or Inf. Who reads a sum must read the flag. Raises as ``rows_statistics``, but looks at no
    value."""
    dtype = check_rows("a", a)
    check_rows("b", b)
    if a.shape != b.shape or a.dtype != b.dtype or a.shape[1] > MAX_HIDDEN_SIZE:
        kinds = f"{a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
        raise RowError(f"rows: {kinds}, expected one dtype and shape [n, d <= {MAX_HIDDEN_SIZE}]")
    n, d = a.shape
    results = torch.empty((n, 3), dtype=torch.int64, device=a.device)
    if n == 0:
        return results
    word = torch.int32 if a.element_size() == 4 else torch.int16
    exponent, fraction = _LAYOUT[dtype]
    block = max(SMALLEST_BLOCK, triton.next_power_of_2(d))
    x, y = a.view(word), b.view(word)
    with on_device(a):
        statistics_kernel[(n,)](
            *(x, *x.stride(), y, *y.stride(), d, results),
            EXPONENT=exponent,
            FRACTION=fraction,
            BLOCK=block,
            num_warps=warps(block),
            **OPTIONS,
        )
    return results


def rows_statistics(a: torch.Tensor, b: torch.Tensor) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(D, N) of each pair of rows of two tensors [n, d] of one dtype, any strides: uint64 [n] on the host.

    Waits for the device. Raises RowError naming the pair for NaN or Inf, and for unequal or bad shapes or
    dtypes; ConfigError for another device.
    """
    out = launch(a, b).cpu().numpy()
    if out[:, 2].any():
        raise RowError(f"rows[{int(out[:, 2].argmax())}]: one of the pair contains NaN or Inf")
    return out[:, 0].astype(np.uint64), out[:, 1].astype(np.uint64)
