"""Compile ``contracts/src`` with py-solc-x into ``verillm/chain/abi/*.json``, which ship with the package.

Run ``python -m verillm.chain.compile`` after a change of the contracts; without a change it does nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import solcx
from solcx.exceptions import SolcError

from verillm.chain.artifacts import ABI_DIR
from verillm.errors import ChainError, ConfigError, VeriLLMError

ROOT = Path(__file__).resolve().parents[2]
HASH_FILE = "sources.json"
SOLC = ROOT / "scripts" / "solc"
MAX_CODE_BYTES = 24_576
"""EIP-170 limit of deployed code."""
_IMPORT = re.compile(r"""import\s+(?:[^"';]*?\sfrom\s+)?["']([^"']+)["']\s*;""")


def read_sources(root: Path = ROOT) -> dict[str, str]:
    """Path to content of every file of ``contracts/src`` and of all that they import. Raises ConfigError."""
    pending = [p.relative_to(root).as_posix() for p in sorted((root / "contracts" / "src").rglob("*.sol"))]
    if not pending:
        raise ConfigError(f"contracts: no Solidity files in {root}/contracts/src; use a source checkout")
    sources: dict[str, str] = {}
    while pending:
        name = pending.pop()
        if name in sources:
            continue
        path = root / "node_modules" / name if name.startswith("@") else root / name
        try:
            sources[name] = path.read_text()
        except OSError as error:
            raise ConfigError(f"contracts: cannot read {name}: {error}; run `make setup`") from error
        for target in _IMPORT.findall(sources[name]):
            pending.append(_resolve(name, target))
    return dict(sorted(sources.items()))


def _resolve(importer: str, target: str) -> str:
    if not target.startswith("."):
        return target
    parts = importer.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def compiler_settings(root: Path = ROOT) -> dict[str, Any]:
    """solc's settings as ``foundry.toml`` has them, so that forge tests the code that is deployed."""
    try:
        profile = tomllib.loads((root / "foundry.toml").read_text())["profile"]["default"]
    except (OSError, ValueError) as error:
        raise ConfigError(f"contracts: cannot read foundry.toml: {error}; use a source checkout") from error
    return {
        "optimizer": {"enabled": profile["optimizer"], "runs": profile["optimizer_runs"]},
        "viaIR": profile["via_ir"],
        "evmVersion": profile["evm_version"],
        "metadata": {"bytecodeHash": "none", "appendCBOR": False},
        "outputSelection": {"*": {"*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"]}},
    }


def standard_input(root: Path = ROOT) -> dict[str, Any]:
    """solc's standard JSON input for all contracts."""
    sources = {name: {"content": text} for name, text in read_sources(root).items()}
    return {"language": "Solidity", "sources": sources, "settings": compiler_settings(root)}


def source_hash(standard: dict[str, Any]) -> str:
    """SHA-256 hex over sources and compiler settings."""
    return hashlib.sha256(json.dumps(standard, sort_keys=True).encode()).hexdigest()


def compiled_hash() -> str | None:
    """The source hash that the files in ``abi/`` were made from, or None if there are none."""
    path = ABI_DIR / HASH_FILE
    return json.loads(path.read_text())["sha256"] if path.exists() else None


def compile_contracts(standard: dict[str, Any], solc: Path = SOLC) -> dict[str, dict[str, Any]]:
    """Contract name to {abi, bytecode} for every deployable contract of ``contracts/src``.

    Raises ConfigError if the compiler is missing, ChainError with solc's message otherwise.
    """
    if not solc.exists():
        raise ConfigError(f"solc: {solc} is missing; use a source checkout and run `make setup`")
    try:
        output = solcx.compile_standard(standard, solc_binary=solc)
    except SolcError as error:
        raise ChainError(f"solc: {error.message or error.stderr_data}") from error
    compiled = {}
    for source, contracts in sorted(output["contracts"].items()):
        if not source.startswith("contracts/src/") or source.startswith("contracts/src/libraries/"):
            continue
        for name, artifact in contracts.items():
            code, deployed = (artifact["evm"][k]["object"] for k in ("bytecode", "deployedBytecode"))
            if len(deployed) // 2 > MAX_CODE_BYTES:
                raise ChainError(f"{name}: {len(deployed) // 2} bytes of code; the limit is {MAX_CODE_BYTES}")
            if code:
                compiled[name] = {"abi": artifact["abi"], "bytecode": code}
    return compiled


def write_artifacts(root: Path = ROOT, solc: Path = SOLC) -> bool:
    """Bring ``abi/`` up to date; False if it was already. Raises ConfigError or ChainError."""
    standard = standard_input(root)
    digest = source_hash(standard)
    if digest == compiled_hash():
        return False
    compiled = compile_contracts(standard, solc)
    ABI_DIR.mkdir(exist_ok=True)
    for old in ABI_DIR.glob("*.json"):
        old.unlink()
    for name, artifact in compiled.items():
        (ABI_DIR / f"{name}.json").write_text(json.dumps(artifact, separators=(",", ":")) + "\n")
    (ABI_DIR / HASH_FILE).write_text(json.dumps({"sha256": digest}) + "\n")
    return True


if __name__ == "__main__":
    try:
        print("contracts: compiled" if write_artifacts() else "contracts: up to date")
    except VeriLLMError as error:
        sys.exit(str(error))
