"""These tests run the kernels in Triton's interpreter, on the CPU.

Triton reads TRITON_INTERPRET when it is imported (``tests/conftest.py`` does that), when a kernel is defined
and when one first runs. So the kernels are imported here, while pytest collects, and the variable is set
again for each test of this folder. Other tests do not see it.
"""

from __future__ import annotations

import pytest

with pytest.MonkeyPatch.context() as environment:
    environment.setenv("TRITON_INTERPRET", "1")
    import tests.kernels.probes  # noqa: F401
    import verillm.kernels.comparator
    import verillm.kernels.store
    import verillm.kernels.tree  # noqa: F401


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
