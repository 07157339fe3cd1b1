"""ECVRF against published vectors and its properties."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
