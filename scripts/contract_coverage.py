"""Line and branch coverage of contracts/src by `forge coverage`, as a table; fails below a minimum.

    python scripts/contract_coverage.py [--min 95] [--lcov FILE]

Each row is one source file: covered/all lines, covered/all branches, then what no test reaches: line numbers
(`12-14`), and lines with a branch never taken (`20?`). Lines inside assembly blocks do not count: without the
optimizer, solc's source maps do not lead there, so forge calls them missed although they run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from verillm.errors import ConfigError, EncodingError, VeriLLMError

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "contracts/src/"
BUILD = ROOT / "cache" / "coverage"
OPENZEPPELIN = ROOT / "node_modules" / "@openzeppelin" / "contracts"


@dataclass
class FileCoverage:
    """How often each line, and each branch of a line, was taken."""

    lines: dict[int, int] = field(default_factory=dict)
    branches: list[tuple[int, int]] = field(default_factory=list)  # (line, times taken)


def parse_lcov(text: str) -> dict[str, FileCoverage]:
    """Coverage by path of the files under contracts/src in an LCOV report."""
    files: dict[str, FileCoverage] = {}
    current = FileCoverage()
    for line in text.splitlines():
        tag, _, value = line.partition(":")
        if tag == "SF":
            current = FileCoverage()
            if value.startswith(SOURCES):
                files[value.removeprefix(SOURCES)] = current
        elif tag == "DA":
            number, hits = value.split(",")[:2]
            current.lines[int(number)] = int(hits)
        elif tag == "BRDA":
            number, _, _, taken = value.split(",")
            current.branches.append((int(number), 0 if taken == "-" else int(taken)))
    if not files:
        raise EncodingError(f"the LCOV report names no file under {SOURCES}; remove it and run again")
    return files


def assembly_lines(source: str) -> set[int]:
    """Numbers of the lines inside the assembly blocks of a Solidity source, their last line included."""
    inside: set[int] = set()
    depth = 0
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("//")[0]
        if depth:
            inside.add(number)
            depth += code.count("{") - code.count("}")
        elif re.match(r"\s*assembly\b.*\{", code):
            depth = code.count("{") - code.count("}")
    return inside


def drop_assembly(files: dict[str, FileCoverage]) -> None:
    """Forget what the report says of lines inside assembly."""
    for name, file in files.items():
        for number in assembly_lines((ROOT / SOURCES / name).read_text()):
            file.lines.pop(number, None)


def missed(file: FileCoverage) -> str:
    """Line numbers never run, joined to ranges over lines without code, then lines of untaken branches."""
    ranges: list[list[int]] = []
    inside = False
    for number, hits in sorted(file.lines.items()):
        if hits == 0 and inside:
            ranges[-1][1] = number
        elif hits == 0:
            ranges.append([number, number])
        inside = hits == 0
    words = [f"{a}-{b}" if a < b else str(a) for a, b in ranges]
    branches = sorted({line for line, taken in file.branches if not taken and file.lines.get(line, 1)})
    return " ".join(words + [f"{line}?" for line in branches])


def share(covered: int, total: int) -> float:
    return 100 * covered / total if total else 100.0


def table(files: dict[str, FileCoverage]) -> tuple[list[str], float, float]:
    """The rows of the table, and the percentages of all lines and of all branches that were covered."""
    rows = [f"{'file':32}{'lines':>17}{'branches':>17}  missed"]
    sums = [0, 0, 0, 0]

    def row(name: str, counts: list[int], rest: str) -> str:
        cells = [f"{c}/{n} {share(c, n):5.1f}%" for c, n in (counts[:2], counts[2:])]
        return f"{name:32}{cells[0]:>17}{cells[1]:>17}  {rest}".rstrip()

    for name, file in sorted(files.items()):
        counts = [
            sum(hits > 0 for hits in file.lines.values()),
            len(file.lines),
            sum(taken > 0 for _, taken in file.branches),
            len(file.branches),
        ]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        rows.append(row(name, counts, missed(file)))
    rows.append(row("total", sums, ""))
    return rows, share(*sums[:2]), share(*sums[2:])


def annotate_checkpoints() -> None:
    """Copy OpenZeppelin into the build folder, its Checkpoints' assembly marked as memory-safe.

    Those blocks write to scratch space only, but do not say so, and without the optimizer solc then keeps
    every variable of a contract that uses them on the stack, which overflows.
    """
    target = BUILD / "openzeppelin"
    if not OPENZEPPELIN.is_dir():
        raise ConfigError(f"{OPENZEPPELIN} is missing; run `make setup`")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(OPENZEPPELIN, target, ignore=shutil.ignore_patterns("build"))
    path = target / "utils" / "structs" / "Checkpoints.sol"
    path.write_text(re.sub(r"\bassembly \{", 'assembly ("memory-safe") {', path.read_text()))


def measure(report: Path) -> None:
    """Run all Solidity tests and write their LCOV report."""
    log = BUILD / "forge.log"
    print(f"coverage: compiling without the optimizer and running every test (log: {log})", flush=True)
    command = ["forge", "coverage", "--ir-minimum", "--exclude-tests", "--report", "lcov", "--report-file"]
    with log.open("w") as out:
        done = subprocess.run(
            [*command, str(report)],
            cwd=ROOT,
            env={**os.environ, "FOUNDRY_PROFILE": "coverage"},
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode or not report.exists():
        raise ConfigError("forge coverage failed:\n" + "\n".join(log.read_text().splitlines()[-30:]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--min", type=float, default=95.0, help="least percentage of lines, and of branches")
    parser.add_argument("--lcov", type=Path, help="read this LCOV report instead of running the tests")
    args = parser.parse_args()
    report = args.lcov
    if report is None:
        report = BUILD / "lcov.info"
        report.unlink(missing_ok=True)
        annotate_checkpoints()
        measure(report)
    elif not report.exists():
        raise ConfigError(f"--lcov {report} does not exist")
    files = parse_lcov(report.read_text())
    drop_assembly(files)
    rows, lines, branches = table(files)
    print("\n".join(rows))
    if min(lines, branches) < args.min:
        print(f"coverage: {lines:.1f}% of lines, {branches:.1f}% of branches; {args.min:g}% are needed")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VeriLLMError as error:
        sys.exit(f"coverage: {error}")
