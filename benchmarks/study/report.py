"""Print the tables of docs/detection.md from a result of benchmarks/detection.py.

python -m benchmarks.study.report benchmarks/results/detection.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _area(value: float | None) -> str:
    """1.000 only if it is 1."""
    if value is None:
        return "-"
    return "1" if value == 1 else f"{min(value, 0.9999):.4f}"


def _last(name: str) -> Callable[[Row], str]:
    return lambda row: _number(row[name][-1]) if row.get(name) else "-"


def _at(by_tokens: dict[str, float], tokens: int) -> float | None:
    """JSON keys are strings; outputs may be shorter than ``tokens``."""
    known = [int(k) for k in by_tokens if int(k) <= tokens]
    return by_tokens[str(max(known))] if known else None


def _best_peer(row: Row, tokens: int) -> str:
    found = {name: _at(areas, tokens) for name, areas in row["peers_auc_by_tokens"].items()}
    best = max((area for area in found.values() if area is not None), default=None)
    return _area(best)


CHEATS: tuple[Column, ...] = (
    ("cheat", lambda row: row["name"]),
    ("rejected", lambda row: f"{row['rejected']}/{row['jobs']}"),
    ("tokens, FPR 1e-3", lambda row: _number(row["tokens_needed_by_fpr"]["0.001"])),
    ("tokens, FPR 1e-4", lambda row: _number(row["tokens_needed_by_fpr"]["0.0001"])),
    ("AUC, 2 tokens", lambda row: _area(_at(row["auc_by_tokens"], 2))),
    ("best peer", lambda row: _best_peer(row, 2)),
    ("AUC, 32 tokens", lambda row: _area(_at(row["auc_by_tokens"], 32))),
    ("best peer", lambda row: _best_peer(row, 32)),
    (
        "by TOPLOC's thresholds",
        lambda row: "-" if row["toploc_rejected"] is None else f"{row['toploc_rejected']}",
    ),
    ("random depth", lambda row: f"{row['random_depth_caught']:.0%}"),
    ("relative L2", _last("relative_l2")),
    ("cosine", _last("cosines")),
    ("P_e", lambda row: _number(row["paper"]["exponent_differs"]) if "paper" in row else "-"),
)


def honest(key: str) -> tuple[Column, ...]:
    return (
        (key, lambda row: row[key]),
        ("comparisons", lambda row: str(row["comparisons"])),
        ("rejects", lambda row: str(row["rejects"])),
        ("largest E", lambda row: f"10^{row['largest_log10_e']:.1f}"),
        ("relative L2", _last("relative_l2")),
        ("cosine", _last("cosines")),
        ("P_e", lambda row: _number(row["paper"]["exponent_differs"]) if "paper" in row else "-"),
    )


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(show(row) for _, show in columns) + " |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = json.loads(Path(sys.argv[1]).read_text())
    for subject in dict.fromkeys((row["model"], row["dtype"]) for row in found["cheats"]):
        for kind, columns in (
            ("cheats", CHEATS), ("by_provider", honest("provider")), ("by_verifier", honest("verifier"))
        ):  # fmt: skip
            rows = [row for row in found[kind] if (row["model"], row["dtype"]) == subject]
            print(f"\n### {subject[0]}, {subject[1]}: {kind}\n\n{table(rows, columns)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
