"""Write the sampling and comparator vectors from the Python reference, after a deliberate change of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from verillm.comparator.compare import exceeds, row_statistics
from verillm.constants import Dtype
from verillm.sampling.gumbel import gumbel_q24
from verillm.sampling.philox import noise_word, philox4x32

KEYS = [
    ((0, 0, 0, 0), (0, 0)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)),
]
EDGE_WORDS = [0, 1, 2, 3, 2**28 - 1, 2**28, 2**28 + 1, 2**31 - 1, 2**31, 2**32 - 3, 2**32 - 2, 2**32 - 1]


def vectors() -> dict[str, object]:
    """All vectors; seeds are decimal strings because JSON numbers stop being exact at 2^53."""
    rng = random.Random(20509)
    cases = [(0, 0, 0), (2**64 - 1, 2**32 - 1, 2**32 - 1), (1, 2, 3), (2**32, 0, 49151)]
    cases += [(rng.getrandbits(64), rng.randrange(8192), rng.randrange(200_000)) for _ in range(196)]
    words = [noise_word(*c) for c in cases]
    edge = EDGE_WORDS + [rng.getrandbits(b) for b in range(1, 33)]
    return {
        "seed": [str(s) for s, _, _ in cases],
        "position": [p for _, p, _ in cases],
        "token": [t for _, _, t in cases],
        "word": words,
        "gumbelQ24": [gumbel_q24(w) for w in words],
        "edgeWord": edge,
        "edgeGumbelQ24": [gumbel_q24(w) for w in edge],
        "philoxCounter": [list(c) for c, _ in KEYS],
        "philoxKey": [list(k) for _, k in KEYS],
        "philoxOutput": [list(philox4x32(c, k)) for c, k in KEYS],
    }


WORDS = {Dtype.BF16: "<u2", Dtype.FP16: "<u2", Dtype.FP32: "<u4"}
SIGN = {Dtype.BF16: 0x8000, Dtype.FP16: 0x8000, Dtype.FP32: 0x80000000}
INFINITY = {Dtype.BF16: 0x7F80, Dtype.FP16: 0x7C00, Dtype.FP32: 0x7F800000}


def row_pairs(dtype: Dtype) -> list[tuple[str, list[int], list[int]]]:
    """(name, words of a, words of b): edge cases, then random rows at several distances."""
    sign, infinity = SIGN[dtype], INFINITY[dtype]
    rng = np.random.default_rng(int(dtype))
    subnormal = [1, 2, 3, sign | 1, 5, 0]
    one = infinity // 2
    pairs = [
        ("zeros", [0, 0, 0], [0, 0, 0]),
        ("negative zero equals zero", [0, sign, 0], [sign, 0, 0]),
        ("zero against one value", [0], [one]),
        ("sign flip", [one, one], [one, one | sign]),
        ("all signs flipped", [one, 7, one + 9], [one | sign, 7 | sign, (one + 9) | sign]),
        ("subnormals", subnormal, [2, 2, 3, sign | 1, 4, sign]),
        ("subnormal against normal", subnormal, [infinity // 64, *subnormal[1:]]),
        ("largest", [infinity - 1] * 5, [(infinity - 1) | sign] * 5),
        ("small values vanish beside a large one", [infinity - 1, 9, 9], [infinity - 1, sign | 9, 12]),
    ]
    for size, steps in ((64, 1), (65, 4), (200, 40)):
        a = rng.integers(0, infinity, size) | rng.choice([0, sign], size)
        normal = one + rng.integers(-(one // 16), one // 16, size) | rng.choice([0, sign], size)
        pairs.append((f"any bits, {size} values", a.tolist(), (a ^ rng.integers(0, 2, size)).tolist()))
        pairs.append((f"{steps} steps, {size} values", normal.tolist(), (normal + steps).tolist()))
    return pairs


def comparator_vectors() -> dict[str, list[object]]:
    """Parallel arrays; D, N and the tolerance are decimal strings. Each pair appears at the largest tolerance
    that it exceeds and at the next, which it does not (once only if D = 0)."""
    names = ("name", "dtype", "a", "b", "d", "n", "toleranceQ40", "diverges")
    out: dict[str, list[object]] = {name: [] for name in names}
    for dtype in Dtype:
        for name, a, b in row_pairs(dtype):
            raw_a, raw_b = (np.array(x, dtype=WORDS[dtype]).tobytes() for x in (a, b))
            d, n = row_statistics(raw_a, raw_b, dtype)
            limit = -((-d << 40) // n) if n else 0  # smallest tolerance that passes
            for tolerance in [limit - 1, limit] if limit else [0]:
                hexes = ("0x" + raw_a.hex(), "0x" + raw_b.hex())
                verdict = exceeds(d, n, tolerance)
                values = (name, int(dtype), *hexes, str(d), str(n), str(tolerance), verdict)
                for key, value in zip(names, values, strict=True):
                    out[key].append(value)
    return out


if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "tests" / "vectors"
    for name, content in (("sampling", vectors()), ("comparator", comparator_vectors())):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(f"wrote {folder / name}.json")
