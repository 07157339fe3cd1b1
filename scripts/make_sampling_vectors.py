"""Write tests/vectors/sampling.json from the Python reference. Run after a deliberate change of the noise."""

from __future__ import annotations

import json
import random
from pathlib import Path

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


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "tests" / "vectors" / "sampling.json"
    path.write_text(json.dumps(vectors(), indent=1) + "\n")
    print(f"wrote {path}")
