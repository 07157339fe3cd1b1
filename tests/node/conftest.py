"""A manifest of the tiny model, and helpers to build signed jobs. No chain here."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from eth_account import Account

from verillm import eip712
from verillm.commitment import token_list_hash
from verillm.constants import Dtype
from verillm.rpc import codec
from verillm.types import Job

DOMAIN = eip712.domain(31337, "0x" + "11" * 20)
CLIENT = Account.from_key("0x" + "c1" * 32)
SCHEDULER = Account.from_key("0x" + "5c" * 32)


@pytest.fixture(scope="session")
def tiny_manifest(tiny_folder):
    from verillm.calibrate import calibrate

    return calibrate(tiny_folder, Dtype.FP32, boundaries=(1, 3), jobs=24)


@pytest.fixture
def tiny_engine(tiny_folder, tiny_manifest):
    from verillm.engine.transformers_engine import Engine

    return Engine.from_manifest(tiny_folder, tiny_manifest)


def make_submission(model_id: bytes, prompt=(1, 2, 3, 4), **changes) -> codec.Submission:
    """A job over ``prompt``, signed by CLIENT for SCHEDULER; ``changes`` are fields of the job."""
    stop = changes.pop("stop", ())
    job = Job(
        client=CLIENT.address,
        scheduler=SCHEDULER.address,
        model_id=model_id,
        prompt_hash=token_list_hash(prompt),
        prompt_tokens=len(prompt),
        max_output_tokens=8,
        stop_hash=eip712.stop_hash(stop),
        temperature_ppm=0,
        top_k=0,
        top_p_ppm=1_000_000,
        seed=7,
        input_price=10,
        output_price=20,
        verifiers=2,
        deadline=int(time.time()) + 3600,
        nonce=1,
    )
    job = replace(job, **changes)
    return codec.Submission(job, eip712.sign_job(job, CLIENT, DOMAIN), tuple(prompt), tuple(stop))
