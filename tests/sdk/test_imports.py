"""The client half stays light: no torch, transformers or numba, however much of it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "[m for m in ('torch', 'transformers', 'numba') if m in sys.modules]"


@pytest.mark.parametrize(
    "statement",
    [
        "import verillm, verillm.sdk",
        "import verillm; verillm.Client, verillm.AsyncClient, verillm.Receipt, verillm.check_receipt",
        "import verillm.cli.main as m; m.build_parser()",
    ],
)
def test_client_loads_nothing_heavy(statement: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {statement}; print({HEAVY})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors() -> None:
    import verillm

    with pytest.raises(AttributeError, match="nothing"):
        _ = verillm.nothing
