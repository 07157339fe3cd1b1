"""EIP-712 identities against eth_account, and the pinned vectors."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import pytest
from eth_account import Account
from eth_account.messages import _hash_eip191_message, encode_defunct, encode_typed_data
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain import make_vectors, settlement_cases
from verillm import eip712
from verillm.constants import FinishReason, Role, Verdict
from verillm.errors import EncodingError, ProofError
from verillm.types import Commitment, Job, SignedVerdict

DOMAIN = eip712.domain(31337, "0x" + "c0" * 20)
KEY = settlement_cases.KEY

words = st.binary(min_size=32, max_size=32)
u32 = st.integers(0, 2**32 - 1)
addresses = st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex())
jobs = st.builds(
    Job,
    client=addresses,
    scheduler=addresses,
    model_id=words,
    prompt_hash=words,
    prompt_tokens=u32,
    max_output_tokens=u32,
    stop_hash=words,
    temperature_ppm=u32,
    top_k=u32,
    top_p_ppm=u32,
    seed=st.integers(0, 2**64 - 1),
    input_price=st.integers(0, 2**128 - 1),
    output_price=st.integers(0, 2**128 - 1),
    verifiers=st.integers(0, 255),
    deadline=st.integers(0, 2**64 - 1),
    nonce=st.integers(0, 2**256 - 1),
)
commitments = st.builds(
    Commitment, words, st.sampled_from(Role), u32, words, u32, u32, st.sampled_from(FinishReason), addresses
)
verdicts = st.builds(SignedVerdict, words, st.sampled_from(Verdict), st.integers(0, 65535), u32, addresses)


def reference_digest(encoded_type: str, values: tuple[object, ...]) -> bytes:
    """The digest by eth_account's own EIP-712 encoder."""
    name, inner = encoded_type[:-1].split("(")
    fields = [dict(zip(("type", "name"), part.split(" "), strict=True)) for part in inner.split(",")]
    message = {f["name"]: v for f, v in zip(fields, values, strict=True)}
    signable = encode_typed_data(
        domain_data={
            "name": "VeriLLM",
            "version": "1",
            "chainId": DOMAIN.chain_id,
            "verifyingContract": DOMAIN.contract,
        },
        message_types={name: fields},
        message_data=message,
    )
    return bytes(_hash_eip191_message(signable))


@given(jobs, commitments, verdicts)
@settings(max_examples=30, deadline=None)
def test_digests_equal_eth_account(job: Job, commitment: Commitment, verdict: SignedVerdict) -> None:
    assert eip712.job_id(job, DOMAIN) == reference_digest(eip712.JOB_TYPE, astuple(job))
    assert eip712.commitment_digest(commitment, DOMAIN) == reference_digest(
        eip712.COMMITMENT_TYPE, astuple(commitment)
    )
    assert eip712.verdict_digest(verdict, DOMAIN) == reference_digest(
        eip712.VERDICT_TYPE, astuple(verdict)[:-1]
    )


@given(words)
@settings(max_examples=20, deadline=None)
def test_signature_equals_eth_account_and_recovers(digest: bytes) -> None:
    signature = eip712.sign_digest(digest, KEY)
    assert signature == bytes(KEY.unsafe_sign_hash(digest).signature)
    assert eip712.recover_digest(digest, signature) == KEY.address


def test_prefill_digest_is_eip191() -> None:
    expected = bytes(_hash_eip191_message(encode_defunct(b"t" * 16 + b"r" * 32)))
    assert eip712.prefill_digest(b"t" * 16, b"r" * 32) == expected


def test_signatures_bind_signer_and_content() -> None:
    job = settlement_cases.sample_job()
    signature = eip712.sign_job(job, KEY, DOMAIN)
    assert eip712.recover_job(job, signature, DOMAIN) == KEY.address
    assert eip712.recover_job(replace(job, nonce=1), signature, DOMAIN) != KEY.address
    assert eip712.recover_job(job, signature, eip712.domain(1, DOMAIN.contract)) != KEY.address
    verdict = SignedVerdict(b"\1" * 32, Verdict.ACCEPT, 0, 0, KEY.address)
    signed = replace(verdict, signature=eip712.sign_verdict(verdict, KEY, DOMAIN))
    assert eip712.recover_verdict(signed, DOMAIN) == KEY.address
    other = Account.from_key(b"\2" * 32)
    commitment = Commitment(b"\1" * 32, Role.WORKER, 0, b"\2" * 32, 3, 4, FinishReason.EOS, other.address)
    signature = eip712.sign_commitment(commitment, other, DOMAIN)
    assert eip712.recover_commitment(commitment, signature, DOMAIN) == other.address


def test_malformed_signatures_are_refused() -> None:
    digest = b"\5" * 32
    good = eip712.sign_digest(digest, KEY)
    s = 2 * eip712.HALF_ORDER + 1 - int.from_bytes(good[32:64], "big")
    high_s = good[:32] + s.to_bytes(32, "big") + bytes([55 - good[64]])
    for bad, why in [
        (good[:64], "65"),
        (good[:64] + b"\x01", "27 or 28"),
        (high_s, "half"),
        (bytes(64) + b"\x1b", "no public key"),
    ]:
        with pytest.raises(ProofError, match=why):
            eip712.recover_digest(digest, bad)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt_tokens": 2**32}, "promptTokens"),
        ({"seed": -1}, "seed"),
        ({"input_price": 2**128}, "inputPrice"),
        ({"verifiers": 256}, "verifiers"),
        ({"model_id": b"\0" * 31}, "modelId"),
        ({"client": "0x12"}, "client"),
    ],
)
def test_fields_out_of_range_are_named(change: dict[str, object], field: str) -> None:
    with pytest.raises(EncodingError, match=field):
        eip712.job_id(settlement_cases.sample_job(**change), DOMAIN)


def test_stop_hash_separates_strings() -> None:
    assert eip712.stop_hash(["ab"]) != eip712.stop_hash(["a", "b"])
    assert eip712.stop_hash([]) != eip712.stop_hash([""])


@pytest.mark.parametrize("name", ["eip712.json", "vrf.json", "draw.json", "settlement.json"])
def test_vectors_are_current(name: str) -> None:
    assert json.loads((make_vectors.VECTORS / name).read_text()) == make_vectors.build()[name]
