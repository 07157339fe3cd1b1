"""Vectors, and a committed job of odd shape with everything needed to verify its openings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verillm.commitment.job import CommittedJob, RowStore, build_commitment
from verillm.commitment.opening import RowOpening, verify_opening
from verillm.constants import Dtype, FinishReason, Role
from verillm.types import Commitment

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "commitment.json"


def unhex(value: str) -> bytes:
    return bytes.fromhex(value.removeprefix("0x"))


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    return json.loads(VECTORS.read_text())


@dataclass(frozen=True)
class Case:
    """One job of the vectors, committed by the worker's code."""

    vector: dict[str, Any]
    store: RowStore
    job: CommittedJob
    commitment: Commitment
    model_id: bytes

    def verify(self, opening: RowOpening, **changes: Any) -> None:
        arguments = {
            "commitment": self.commitment,
            "model_id": self.model_id,
            "parts": self.job.parts,
            "dtype": self.store.dtype,
            "hidden_size": self.store.hidden_size,
        }
        verify_opening(opening, **(arguments | changes))


def make_case(vector: dict[str, Any]) -> Case:
    n = vector["rows_per_boundary"]
    store = RowStore(vector["boundaries_count"], vector["hidden_size"], Dtype(vector["dtype"]))
    rows = np.frombuffer(b"".join(unhex(r) for r in vector["rows"]), np.uint8).reshape(
        store.boundaries, n, -1
    )
    first = n // 2  # a prefill block, then row by row as in decoding
    for b in range(store.boundaries):
        store.append_rows(b, 0, rows[b, :first])
    for t in range(first, n):
        for b in range(store.boundaries):
            store.append_rows(b, t, rows[b, t : t + 1])
    job_id, model_id = unhex(vector["job_id"]), unhex(vector["model_id"])
    finish = FinishReason(vector["finish_reason"])
    job = build_commitment(
        store,
        job_id=job_id,
        operator=vector["operator"],
        model_id=model_id,
        tokens=vector["tokens"],
        prompt_tokens=vector["prompt_tokens"],
        finish_reason=finish,
    )
    commitment = Commitment(
        job_id=job_id,
        role=Role.WORKER,
        attempt=0,
        job_root=job.job_root,
        prompt_tokens=vector["prompt_tokens"],
        output_tokens=vector["output_tokens"],
        finish_reason=finish,
        operator=vector["operator"],
    )
    return Case(vector, store, job, commitment, model_id)


@pytest.fixture(scope="session")
def cases(vectors: dict[str, Any]) -> list[Case]:
    return [make_case(vector) for vector in vectors["jobs"]]


@pytest.fixture(scope="session")
def case(cases: list[Case]) -> Case:
    """7 tokens, 3 boundaries, 37 fp32 values: no power of two anywhere."""
    return cases[0]
