"""Every kernel against the plain code, bit for bit, on the device's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import plain_keccak
import torch

from verillm.comparator.compare import rows_statistics as plain_statistics
from verillm.kernels import comparator, rows, sampler, tree
from verillm.kernels.draws import Draws
from verillm.kernels.launch import DTYPES
from verillm.kernels.stream import RowHasher
from verillm.sampling import noise
from verillm.sampling import sampler as plain_sampler
from verillm.types import SamplingParams

# The plain sampler's numpy noise: the image's numba may not take its numpy.
plain_sampler.noise_q24 = noise.noise_q24_numpy

SHAPES = [(1, 1), (1, 64), (3, 577), (5, 2), (9, 66), (64, 4096), (257, 576), (1000, 33), (33, 8192)]
Generator = np.random.Generator


def random_tensor(random: Generator, n: int, d: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Random bits of every exponent but the last, so finite: subnormals and both zeros among them."""
    word, wide = (torch.int32, np.uint32) if dtype == torch.float32 else (torch.int16, np.uint16)
    exponent = int(torch.tensor(float("inf"), dtype=dtype).view(word)) & (
        0x7FFFFFFF if wide is np.uint32 else 0x7FFF
    )
    bits = random.integers(0, np.iinfo(wide).max, (n, d), dtype=wide, endpoint=True)
    bits[(bits & exponent) == exponent] ^= wide(exponent & -exponent)
    bits.reshape(-1)[:2] = [0, 1 << (8 * bits.itemsize - 1)][: bits.size]
    return torch.from_numpy(bits.view(np.int32 if wide is np.uint32 else np.int16)).view(dtype).to(device)


def as_bytes(x: torch.Tensor) -> np.ndarray:
    return x.contiguous().cpu().view(torch.uint8).numpy()


def views(random: Generator, dtype: torch.dtype, device: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Rows in every layout that an engine may hand over."""
    base = random_tensor(random, 96, 200, dtype, device)
    yield "transposed", base.T
    yield "every third value", base[:, 1::3]
    yield "every second row", base[::2]
    yield "shifted by one", base[:, 1:]
    yield "shifted by four", base[:, 4:132]
    yield "repeated", base[5:6].expand(7, -1)
    yield "batch boundary", base.view(48, 2, 200)[:, 1]


def expect(what: str, got: np.ndarray, wanted: np.ndarray) -> int:
    """How many values were compared. Raises AssertionError naming the first that differs."""
    if got.shape != wanted.shape:
        raise AssertionError(f"{what}: shape {got.shape}, expected {wanted.shape}")
    if not np.array_equal(got, wanted):
        first = np.argwhere(got != wanted)[0].tolist()
        raise AssertionError(f"{what}: {int((got != wanted).sum())} values differ, the first at {first}")
    return got.size


def check_rows(random: Generator, device: str, shapes: list[tuple[int, int]] = SHAPES) -> int:
    count = 0
    for dtype in DTYPES:
        cases = [(f"{n}x{d}", random_tensor(random, n, d, dtype, device)) for n, d in shapes]
        for name, x in [*cases, *views(random, dtype, device)]:
            data = as_bytes(x)
            records = rows.hash_rows(x, keep=True)
            kept = records[:, : -rows.TRAILER_WORDS].contiguous().view(torch.uint8).cpu().numpy()
            what, roots = f"rows {dtype} {name}", plain_keccak.row_roots(data)
            count += expect(what, rows.row_roots(x).cpu().numpy(), roots)
            count += expect(f"{what} kept", kept[:, : data.shape[1]], data)
            hashed = records[:, -rows.TRAILER_WORDS : -1].contiguous().view(torch.uint8).cpu().numpy()
            count += expect(f"{what} record", hashed, roots)
    return count


def check_flags(random: Generator, device: str) -> int:
    """NaN and Inf anywhere in a row set its flag, and nothing else does."""
    count = 0
    for dtype in DTYPES:
        x = random_tensor(random, 500, 99, dtype, device)
        wanted = random.random(500) < 0.3
        for i in np.flatnonzero(wanted).tolist():
            x[i, int(random.integers(99))] = [float("nan"), float("inf"), -float("inf")][i % 3]
        count += expect(f"flags {dtype}", rows.hash_rows(x)[:, -1].cpu().numpy(), wanted.astype(np.int64))
    return count


def check_tree(random: Generator, device: str, sizes: tuple[int, ...] = (1, 2, 3, 31, 1000, 4097)) -> int:
    count = 0
    for n in sizes:
        roots = random.integers(0, 256, (n, 32), dtype=np.uint8)
        tokens = random.integers(0, 2**32, n, dtype=np.int64)
        words, ids = torch.from_numpy(roots).view(torch.int64).to(device), torch.from_numpy(tokens).to(device)
        wanted = plain_keccak.tree_levels(plain_keccak.row_leaves(roots, tokens))
        for level, plain in zip(tree.boundary_levels(words, ids), wanted, strict=True):
            count += expect(f"tree of {n}", level.view(torch.uint8).cpu().numpy(), plain)
    return count


def check_sampler(
    random: Generator,
    device: str,
    shapes: tuple[tuple[int, int], ...] = ((300, 512), (9, 49152), (5, 128256)),
) -> int:
    count = 0
    slack = plain_sampler.TOP_P_SLACK_PPM
    for n, vocab in (*((3, v) for v in (1, 2, 5, 511, 513)), *shapes):
        logits = (random.standard_normal((n, vocab)) * 4).astype(np.float32)
        logits[n // 2, : vocab // 2] = logits[n // 2, 0]  # ties
        logits[0, -1] = [2.0**30, -(2.0**30), 1e-40, -0.0][n % 4]
        params = [
            SamplingParams(
                [0, 1, 700_000, 1_000_000, 10_000_000][i % 5],
                [0, 1, 40][i % 3],
                [1_000_000, 900_000][i % 2],
                int(random.integers(0, 2**64, dtype=np.uint64, endpoint=False)) if i % 7 else 2**64 - 1,
            )
            for i in range(n)
        ]
        positions = [int(random.integers(0, 2**32)) if i % 6 else 2**32 - 1 for i in range(n)]
        claimed = random.integers(0, vocab, n)
        values = [plain_sampler.logits_q24(row) for row in logits]
        masks = [plain_sampler._thresholds(v, p, 0)[0] for v, p in zip(values, params, strict=True)]
        pairs = [plain_sampler._thresholds(v, p, slack) for v, p in zip(values, params, strict=True)]
        wanted = np.array(
            [
                [
                    int(part[0])
                    for part in plain_sampler.margins(
                        logits[i : i + 1], params[i], positions[i], claimed[i : i + 1]
                    )
                ]
                for i in range(n)
            ]
        )
        on_device = torch.from_numpy(logits).to(device)
        draws = Draws.of(params, positions, device, masks)
        strict, loose = (torch.tensor(c).to(device) for c in zip(*pairs, strict=True))
        tokens = torch.from_numpy(claimed).to(device)
        margins, best = sampler.margins(on_device, draws, tokens, strict, loose)
        count += expect(f"margins {n}x{vocab}", margins, wanted[:, 0])
        count += expect(f"tokens {n}x{vocab}", best, wanted[:, 1])
        strided = on_device.T.contiguous().T
        count += expect(f"strided tokens {n}x{vocab}", sampler.sample(strided, draws), wanted[:, 1])
    return count


def check_comparator(random: Generator, device: str, shapes: list[tuple[int, int]] = SHAPES) -> int:
    count = 0
    for dtype, storage in DTYPES.items():
        pairs = []
        for n, d in shapes:
            a = random_tensor(random, n, d, dtype, device)
            near = a.clone().view(torch.int32 if dtype == torch.float32 else torch.int16)
            near[:, ::2] ^= 3
            pairs.append((f"near {n}x{d}", a, near.view(dtype)))
            pairs.append((f"far {n}x{d}", a, random_tensor(random, n, d, dtype, device)))
        pairs.append(("strided", a.T.contiguous().T, near.view(dtype)))
        for name, a, b in pairs:
            got = comparator.rows_statistics(a, b)
            wanted = plain_statistics(as_bytes(a), as_bytes(b), storage)
            for what, x, y in zip(("D", "N"), got, wanted, strict=True):
                count += expect(f"{what} of {dtype} {name}", x, y)
    return count


def check_stream(random: Generator, device: str, steps: int = 100) -> int:
    """Rows hashed beside other work, of tensors freed at once, equal the plain code; NaN is flagged."""
    hasher, count = RowHasher(device), 0
    noise_matrix = torch.randn((512, 512), device=device)
    kept, pending = [], []
    for step in range(steps):
        hidden = [random_tensor(random, 3, 2 * 130, torch.bfloat16, device).view(3, 2, 130) for _ in range(4)]
        if step == steps // 2:
            hidden[2][1, 0, 77] = float("nan")
        kept.append(np.concatenate([as_bytes(x[:, 0]) for x in hidden]))
        pending.append(hasher.submit(*(x[:, 0] for x in hidden)))
        del hidden
        noise_matrix = torch.tanh(noise_matrix @ noise_matrix)
    for step, (data, parts) in enumerate(zip(kept, pending, strict=True)):
        results = [part.wait() for part in parts]
        finite = np.concatenate([r[2] for r in results])
        wanted = np.ones(12, bool)
        wanted[7] = step != steps // 2
        count += expect(f"finite rows of step {step}", finite, wanted)
        count += expect(f"rows of step {step}", np.concatenate([r[0] for r in results]), data)
        roots = np.concatenate([r[1] for r in results])
        count += expect(f"roots of step {step}", roots[finite], plain_keccak.row_roots(data[finite]))
    return count


CHECKS: dict[str, Callable[[Generator, str], int]] = {
    "row roots": check_rows,
    "NaN and Inf flags": check_flags,
    "tree levels": check_tree,
    "tokens and margins": check_sampler,
    "comparator sums": check_comparator,
    "side stream": check_stream,
}
