"""The tiny model in fp32, where honest runs agree to 1e-6, and the real one in bf16, where they do not."""

from __future__ import annotations

import pytest

from tests.field.jobs import Subject
from tests.node.conftest import tiny_engine, tiny_manifest
from tests.node.test_worker import chain, start
from verillm.calibrate import calibrate
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine

__all__ = ["chain", "start", "tiny_engine", "tiny_manifest"]


@pytest.fixture(scope="session")
def tiny(tiny_folder) -> Subject:
    manifest = calibrate(tiny_folder, Dtype.FP32, (1, 2, 3), jobs=24, save=False)
    return Subject(Engine.from_manifest(tiny_folder, manifest, threads=1), manifest)


@pytest.fixture(scope="session")
def real(smollm2_folder, smollm2_bf16) -> Subject:
    """SmolLM2-135M with bf16 rows: one unit in the last place is 1 part in 128."""
    return Subject(Engine.from_manifest(smollm2_folder, smollm2_bf16, threads=1), smollm2_bf16)
