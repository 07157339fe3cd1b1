"""The stateful invariants with at least a million calls each; writes calls, reverts and seconds as JSON.

    python scripts/deep_invariants.py [--json benchmarks/results/invariants.json] [--seed N]

Takes runs and depth from the profile `deep` of foundry.toml; the environment's FOUNDRY_INVARIANT_RUNS and
FOUNDRY_INVARIANT_DEPTH override them. The seed is random and printed; the same seed repeats the same calls.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from verillm.errors import ConfigError, EncodingError, VeriLLMError

ROOT = Path(__file__).resolve().parent.parent
UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def seconds(duration: str) -> float:
    """A duration as forge writes it, such as `1m 3s 20ms`."""
    parts = re.findall(r"(\d+)\s*(d|h|ms|m|µs|ns|s)\b", duration)
    if not parts:
        raise EncodingError(f"{duration!r} is no duration that forge writes")
    return sum(int(number) * UNITS[unit] for number, unit in parts)


def invariants(output: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What `forge test --json` says of each invariant, by `Contract.function`."""
    results = {}
    for suite, content in output.items():
        for name, result in content["test_results"].items():
            kind = result["kind"].get("Invariant")
            if kind is None:
                if result["status"] != "Success":
                    raise ConfigError(f"{suite} {name} failed: {result['reason']}")
                continue
            results[f"{suite.split(':')[-1]}.{name.removesuffix('()')}"] = {
                "status": result["status"],
                "reason": result["reason"],
                "runs": kind["runs"],
                "calls": kind["calls"],
                "reverts": kind["reverts"],
                "seconds": round(seconds(result["duration"]), 1),
            }
    if not results:
        raise ConfigError("forge found no function named invariant_*")
    return results


def run(seed: int) -> dict[str, Any]:
    env = {**os.environ, "FOUNDRY_PROFILE": "deep"}
    print("invariants: compiling", flush=True)
    # A build of everything: the tests deploy contracts by name, which a build of the tests alone leaves out.
    if subprocess.run(["forge", "build", "-q"], cwd=ROOT, env=env, check=False).returncode:
        raise ConfigError("forge build failed")
    print(f"invariants: running with seed {seed:#x}; this takes long", flush=True)
    command = ["forge", "test", "--json", "--match-test", "^invariant_", "--fuzz-seed", hex(seed)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            parsed: dict[str, Any] = json.loads(line)
            return parsed
    raise ConfigError(f"forge test wrote no results: {done.stderr or done.stdout}"[-2000:])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "benchmarks/results/invariants.json", help="file to write"
    )
    parser.add_argument("--seed", type=lambda s: int(s, 0), help="repeat a run: the seed it printed")
    parser.add_argument(
        "--min-calls", type=int, default=1_000_000, help="fail if an invariant saw fewer calls"
    )
    args = parser.parse_args()
    seed = secrets.randbits(64) if args.seed is None else args.seed
    start = time.monotonic()
    results = invariants(run(seed))
    total = round(time.monotonic() - start, 1)
    args.json.write_text(
        json.dumps({"seed": hex(seed), "seconds": total, "invariants": results}, indent=2) + "\n"
    )
    print(f"{'invariant':60}{'calls':>10}{'reverts':>9}{'seconds':>9}  status")
    for name, r in sorted(results.items()):
        print(f"{name:60}{r['calls']:>10}{r['reverts']:>9}{r['seconds']:>9}  {r['status']}")
        if r["reason"]:
            print(f"  {r['reason']}")
    failed = [n for n, r in results.items() if r["status"] != "Success" or r["calls"] < args.min_calls]
    if failed:
        print(f"invariants: failed, or fewer than {args.min_calls} calls: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VeriLLMError as error:
        sys.exit(f"invariants: {error}")
