"""``verillm-sim``: tables of the closed forms."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sim.closed_forms import committee_all_bad, committee_bad_majority, deterrence_stake, opening_detection
from sim.params import load_params
from verillm.errors import VeriLLMError

Row = dict[str, Any]
PERCENT = {"all_bad", "bad_majority", "detection"}


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="verillm-sim", description="Closed forms of VeriLLM's economics: what a cheat risks."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    committee = commands.add_parser("committee", help="chance that drawn verifiers are all, or mostly, bad")
    committee.add_argument("--population", type=int, default=100, help="operators of equal stake")
    committee.add_argument("--bad", type=int, nargs="+", default=[10, 20, 33], help="bad ones among them")
    committee.add_argument("--size", type=int, nargs="+", default=[1, 3, 5, 7], help="verifiers drawn")
    openings = commands.add_parser("openings", help="chance that opened positions hit a wrong row")
    openings.add_argument("--rows", type=int, default=512, help="rows of the job (prompt + output - 1)")
    openings.add_argument("--wrong", type=int, nargs="+", default=[1, 5, 50], help="wrong rows among them")
    openings.add_argument("--opened", type=int, nargs="+", help="positions opened")
    stake = commands.add_parser("stake", help="stake at which one cheated job does not pay")
    stake.add_argument("--fee", type=int, default=10**18, help="worker fee of one job, token wei")
    stake.add_argument("--saving-bps", type=int, default=8000, help="share of the fee saved, 1/10,000")
    stake.add_argument(
        "--detection", type=float, nargs="+", default=[0.01, 0.1, 0.5, 0.99], help="chance to be caught"
    )
    stake.add_argument("--profile", default="mainnet", help="parameter profile (default mainnet)")
    for command in (committee, openings, stake):
        command.add_argument("--json", action="store_true", help="print JSON rows instead of a table")
    return parser


def committee_rows(args: argparse.Namespace) -> list[Row]:
    """One row per (bad, size)."""
    return [
        {
            "population": args.population,
            "bad": bad,
            "size": size,
            "all_bad": committee_all_bad(args.population, bad, size),
            "bad_majority": committee_bad_majority(args.population, bad, size),
        }
        for bad in args.bad
        for size in args.size
    ]


def opening_rows(args: argparse.Namespace) -> list[Row]:
    """One row per (wrong, opened)."""
    counts = args.opened
    if counts is None:
        counts = sorted({load_params(name).opened_positions for name in ("devnet", "mainnet")} | {64})
    return [
        {"rows": args.rows, "wrong": wrong, "opened": k, "detection": opening_detection(args.rows, wrong, k)}
        for wrong in args.wrong
        for k in counts
    ]


def stake_rows(args: argparse.Namespace) -> list[Row]:
    """One row per slashing reason and chance of detection."""
    params = load_params(args.profile)
    rows = []
    for reason in ("divergence", "token_fraud"):
        slash = getattr(params, f"slash_bps_{reason}")
        for chance in args.detection:
            found = deterrence_stake(args.fee, args.saving_bps, Fraction(str(chance)), slash, params)
            rows.append(
                {
                    "reason": reason,
                    "detection": found.detection,
                    "slash_bps": slash,
                    "stake": found.stake,
                    "fees": found.multiple,
                    "min_stake": params.min_stake,
                    "enough": found.enough,
                }
            )
    return rows


def _cell(name: str, value: Any) -> str:
    if name in PERCENT:
        percent = float(value) * 100
        return f"{percent:.3g} %" if percent >= 0.1 or percent == 0 else f"{percent:.2e} %"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{float(value):.4g}" if isinstance(value, Fraction) else str(value)


def print_table(rows: Sequence[Row]) -> None:
    """Right-aligned columns with a header."""
    cells = [list(rows[0])] + [[_cell(name, value) for name, value in row.items()] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Exit code 0, or 2 for a bad argument."""
    args = build_parser().parse_args(argv)
    rows_of = {"committee": committee_rows, "openings": opening_rows, "stake": stake_rows}
    try:
        rows = rows_of[args.command](args)
    except (VeriLLMError, ValueError) as error:
        print(f"verillm-sim: {error}; see verillm-sim {args.command} --help", file=sys.stderr)
        return 2
    if args.json:
        plain = [{k: float(v) if isinstance(v, Fraction) else v for k, v in row.items()} for row in rows]
        print(json.dumps(plain, indent=2))
    else:
        print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
