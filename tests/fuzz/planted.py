"""A decoder with faults of every kind, run as the harness runs the real ones; prints its tally as JSON.

In a process of its own, because the harness forks and pytest's process has threads.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict

from tests.fuzz import harness
from tests.fuzz.target import Target
from verillm.errors import EncodingError

FAULTS = {
    10: "KeyError",
    20: "SIGSEGV",
    30: "MemoryError",
    40: "RecursionError",
    50: "hang",
    55: "loop",
    60: "SystemExit",
}


def recurse() -> None:
    recurse()


def feed(data: bytes) -> None:
    match FAULTS.get(int(data)):
        case "KeyError":
            raise KeyError("a field")
        case "SIGSEGV":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "MemoryError":
            bytearray(4 * harness.ADDRESS_SPACE)
        case "RecursionError":
            recurse()
        case "hang":
            while True:
                time.sleep(1)
        case "loop":
            while True:
                pass
        case "SystemExit":
            raise SystemExit(0)
    if int(data) % 3 == 0:
        raise EncodingError("data: divides by 3")


def main() -> None:
    harness.CPU_SECONDS, harness.WALL_SECONDS = 2.0, 5.0
    seeds = tuple(str(i).encode() for i in range(100))  # valid inputs come first, in order
    target = Target("planted", "test", 1, seeds, lambda rng, data, other: data, feed)
    print(json.dumps(asdict(harness.run([target], 100, 1)["planted"])))


if __name__ == "__main__":
    main()
