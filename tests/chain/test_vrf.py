"""ECVRF against published vectors and its properties."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain import vrf_cases
from tests.chain.make_vectors import PUBLISHED, VECTORS
from verillm import vrf
from verillm.errors import ConfigError, ProofError

secrets = st.integers(1, vrf.ORDER - 1).map(lambda x: x.to_bytes(32, "big"))


@pytest.mark.parametrize(("sk", "alpha", "pi", "beta"), PUBLISHED)
def test_published_vectors(sk: str, alpha: str, pi: str, beta: str) -> None:
    secret, text = bytes.fromhex(sk), bytes.fromhex(alpha)
    assert vrf.prove(secret, text).hex() == pi
    assert vrf.verify(vrf.public_key(secret), text, bytes.fromhex(pi)).hex() == beta


def test_file_holds_the_published_vectors() -> None:
    published = json.loads((VECTORS / "vrf.json").read_text())["published"]
    assert [v["pi"] for v in published] == ["0x" + row[2] for row in PUBLISHED]


@given(secrets, st.binary(max_size=80), st.integers(0, 80), st.integers(1, 255))
@settings(max_examples=50, deadline=None)
def test_any_changed_byte_is_refused(sk: bytes, alpha: bytes, index: int, flip: int) -> None:
    pk, pi = vrf.public_key(sk), vrf.prove(sk, alpha)
    assert vrf.verify(pk, alpha, pi) == vrf.beta(pi)
    bad = bytearray(pi)
    bad[index] ^= flip
    with pytest.raises(ProofError):
        vrf.verify(pk, alpha, bytes(bad))
    with pytest.raises(ProofError):
        vrf.verify(pk, alpha + b"\0", pi)


def test_other_key_and_malformed_input() -> None:
    sk, other = b"\1" * 32, b"\2" * 32
    pi = vrf.prove(sk, b"x")
    with pytest.raises(ProofError, match="does not verify"):
        vrf.verify(vrf.public_key(other), b"x", pi)
    with pytest.raises(ProofError, match="81"):
        vrf.verify(vrf.public_key(sk), b"x", pi[:-1])
    with pytest.raises(ProofError, match="33"):
        vrf.verify(b"\2" * 32, b"x", pi)
    with pytest.raises(ProofError, match="order"):
        vrf.verify(vrf.public_key(sk), b"x", pi[:49] + vrf.ORDER.to_bytes(32, "big"))
    with pytest.raises(ProofError, match="does not verify"):
        vrf.verify(vrf.public_key(sk), b"x", pi[:33] + bytes(48))
    for bad in (bytes(32), vrf.ORDER.to_bytes(32, "big"), b"\1" * 31):
        with pytest.raises(ConfigError, match="secret key"):
            vrf.public_key(bad)


@given(secrets, st.binary(min_size=32, max_size=32))
@settings(max_examples=20, deadline=None)
def test_hints_lead_to_the_challenge(sk: bytes, alpha: bytes) -> None:
    pk, pi = vrf.public_key(sk), vrf.prove(sk, alpha)
    hints = vrf.hints(pk, alpha, pi)
    assert vrf_cases.proof_of(hints) == pi
    (ax, ay), (bx, by) = hints.s_h, hints.c_gamma
    x = (hints.slope**2 - ax - bx) % vrf.FIELD
    y = (hints.slope * (ax - x) - ay) % vrf.FIELD
    for px, py in (hints.u, hints.s_h, hints.c_gamma, (x, y)):
        assert (py**2 - px**3 - 7) % vrf.FIELD == 0
    assert (hints.slope * (ax - bx) - ay - by) % vrf.FIELD == 0
    _, h = next(vrf_cases.candidates(pk, alpha))
    u, v = (bytes([2 + py % 2]) + px.to_bytes(32, "big") for px, py in (hints.u, (x, y)))
    digest = hashlib.sha256(b"\xfe\x02" + pk + h + pi[:33] + u + v + b"\0").digest()
    assert int.from_bytes(digest[:16], "big") == hints.c


@pytest.mark.parametrize("case", vrf_cases.bad_cases(), ids=lambda case: case["name"])
def test_what_the_contract_refuses_has_no_hints(case: dict) -> None:
    refused = vrf.VrfHints(**case["hints"])
    try:
        hints = vrf.hints(case["pk"], case["alpha"], vrf_cases.proof_of(refused))
    except ProofError:
        return
    assert hints != refused
    points = {"u": refused.u, "s_h": refused.s_h, "c_gamma": refused.c_gamma, "slope": refused.slope}
    assert replace(hints, **points) == refused


def test_tries_of_the_vectors_cover_one_to_six() -> None:
    hinted = json.loads((VECTORS / "vrf.json").read_text())["hinted"]
    assert {case["tries"] for case in hinted} == set(range(1, 7))
    assert len(hinted) >= 20


def test_hints_have_the_fields_of_the_contract() -> None:
    source = (Path(__file__).parents[2] / "contracts/src/libraries/Vrf.sol").read_text()
    struct = source.partition("struct VrfProof {")[2].partition("}")[0]
    names = re.findall(r"^    uint\S+ (\w+);", struct, re.MULTILINE)
    assert names == [re.sub(r"_(\w)", lambda m: m[1].upper(), f.name) for f in fields(vrf.VrfHints)]
