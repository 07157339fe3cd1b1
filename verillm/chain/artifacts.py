"""The compiled contracts that ship with the package; ``verillm.chain.compile`` writes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from verillm.errors import ConfigError

ABI_DIR = Path(__file__).parent / "abi"


@cache
def load_artifact(name: str) -> dict[str, Any]:
    """{abi, bytecode} of a contract. Raises ConfigError if it was not compiled."""
    path = ABI_DIR / f"{name}.json"
    if not path.exists():
        raise ConfigError(f"contracts: {path.name} is missing; run `python -m verillm.chain.compile`")
    return json.loads(path.read_text())
