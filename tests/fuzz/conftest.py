"""One honest job of the toy model."""

from __future__ import annotations

import pytest

from tests.fuzz.toy import ToyWorld


@pytest.fixture(scope="session")
def world() -> ToyWorld:
    return ToyWorld()
