"""Static and symbolic analysis of the contracts: slither on contracts/src, halmos on contracts/test/symbolic.

    python scripts/analysis.py [slither|halmos ...] [--timeout 300]

Fails if slither reports a finding of high or medium impact that the source does not explain
(`// slither-disable-next-line CHECK` below a comment that says why), or if a symbolic check is not proved: a
counterexample, a solver that gives up, a loop that was cut off, or a file that takes longer than --timeout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from verillm.errors import ConfigError, VeriLLMError

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".venv-analysis" / "bin"
BUILD = ROOT / "cache" / "analysis"
CHECKS = ROOT / "contracts" / "test" / "symbolic"
# What slither would report at many lines: check, pattern of the description, one reason for all of them.
EXPLAINED = [
    ("uninitialized-local", "", "solc sets local values to zero and refuses a storage pointer without one"),
    ("unused-return", r"\bNone\b.*\) = ", "a tuple with an empty place leaves that value out on purpose"),
]
EXITS = {0: "proved", 1: "COUNTEREXAMPLE", 2: "SOLVER GAVE UP", 3: "STUCK", 4: "EVERY PATH REVERTS"}


def run(command: list[str], log: Path, timeout: float, profile: str) -> bool:
    """Run a tool, its output to ``log``; False if it had to be killed after ``timeout`` seconds."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "FOUNDRY_PROFILE": profile},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                # Halmos waits for its solvers on SIGTERM, for ever.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return True


def report(path: Path, log: Path) -> dict[str, Any]:
    if not path.exists():
        raise ConfigError("the tool wrote no report:\n" + "\n".join(log.read_text().splitlines()[-20:]))
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def slither(timeout: float) -> int:
    """Number of unexplained findings of high or medium impact."""
    path, log = BUILD / "slither.json", BUILD / "slither.log"
    path.unlink(missing_ok=True)
    print(f"analysis: slither on contracts/src (log: {log})", flush=True)
    for check, _, reason in EXPLAINED:
        print(f"  without {check}: {reason}")
    command = [str(TOOLS / "slither"), ".", "--json", str(path)]
    if not run(command, log, timeout, "default"):
        raise ConfigError(f"slither took longer than --timeout {timeout:g} s")
    result = report(path, log)
    if not result["success"]:
        raise ConfigError(f"slither failed: {result['error']}")
    findings = [f for f in result["results"].get("detectors", []) if not explained(f)]
    for finding in sorted(findings, key=lambda f: (f["impact"], f["check"])):
        print(f"{finding['impact']:8}{finding['check']:26}{finding['description'].splitlines()[0]}")
    print(f"analysis: slither has {len(findings)} unexplained findings")
    return len(findings)


def explained(finding: dict[str, Any]) -> bool:
    return any(
        finding["check"] == check and re.search(pattern, finding["description"])
        for check, pattern, _ in EXPLAINED
    )


def halmos(timeout: float) -> int:
    """Number of symbolic checks that are not proved, over all contracts of contracts/test/symbolic."""
    unproved = 0
    for source in sorted(CHECKS.glob("*.t.sol")):
        for contract in re.findall(r"^contract (\w+)", source.read_text(), re.M):
            unproved += prove(contract, timeout)
    print(f"analysis: halmos leaves {unproved} checks unproved")
    return unproved


def prove(contract: str, timeout: float) -> int:
    """Run the checks of one contract and print a line for each; the number that are not proved."""
    path, log = BUILD / f"{contract}.json", BUILD / f"{contract}.log"
    path.unlink(missing_ok=True)
    print(f"analysis: halmos on {contract} (log: {log})", flush=True)
    command = [str(TOOLS / "halmos"), "--contract", contract, "--forge-build-out", "out/symbolic"]
    if not run([*command, "--no-status", "--json-output", str(path)], log, timeout, "symbolic"):
        print(f"  NOT PROVED in {timeout:g} s: {contract}")
        return 1
    unproved = 0
    for results in report(path, log)["test_results"].values():
        for result in results:
            verdict = EXITS.get(result["exitcode"], "ERROR")
            if result["exitcode"] == 0 and result["num_bounded_loops"]:
                verdict = "LOOP CUT OFF"
            unproved += verdict != "proved"
            print(f"  {verdict}  {result['name'].split('(')[0]}  {result['time'][0]:.1f} s")
    return unproved


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="*", metavar="slither|halmos", help="which to run; both by default")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds for slither, and for each contract"
    )
    args = parser.parse_args()
    runs = {"slither": slither, "halmos": halmos}
    for tool in args.tools:
        if tool not in runs:
            raise ConfigError(f"unknown tool {tool}: choose slither, halmos, or nothing for both")
        if not (TOOLS / tool).exists():
            raise ConfigError(f"{TOOLS / tool} is missing; run `make analysis`, or scripts/setup_analysis.sh")
    BUILD.mkdir(parents=True, exist_ok=True)
    return 1 if sum(runs[tool](args.timeout) for tool in args.tools or runs) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VeriLLMError as error:
        sys.exit(f"analysis: {error}")
