"""Add up what forge and pytest counted in a log, and print one line: `N passed, N failed, N skipped`."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def count(log: str) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of the last forge summary and the last pytest summary in ``log``."""
    totals = [0, 0, 0]
    forge = re.findall(r"(\d+) tests passed, (\d+) failed, (\d+) skipped", log)
    pytest = re.findall(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", log, re.M)
    if forge:
        totals = [int(n) for n in forge[-1]]
    if pytest:
        for i, word in enumerate(("passed", "failed", "skipped")):
            found = re.search(rf"(\d+) {word}", pytest[-1])
            totals[i] += int(found.group(1)) if found else 0
    return totals[0], totals[1], totals[2]


def main() -> int:
    passed, failed, skipped = count(Path(sys.argv[1]).read_text())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
