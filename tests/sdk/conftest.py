"""One honest receipt on the tiny model, shared by the SDK's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.parties import run_job
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.manifest import Manifest
from verillm.sdk.receipt import Receipt


@pytest.fixture(scope="session")
def sdk_manifest(tiny_folder: Path) -> Manifest:
    from verillm.calibrate import calibrate

    return calibrate(tiny_folder, Dtype.FP32, (1, 2, 3), jobs=24, save=False)


@pytest.fixture(scope="session")
def sdk_engine(tiny_folder: Path, sdk_manifest: Manifest) -> Engine:
    return Engine.from_manifest(tiny_folder, sdk_manifest, threads=1)


@pytest.fixture(scope="session")
def honest(sdk_engine: Engine, sdk_manifest: Manifest) -> Receipt:
    return run_job(sdk_engine, sdk_manifest)
