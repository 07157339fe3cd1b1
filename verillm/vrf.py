"""ECVRF-SECP256K1-SHA256-TAI: the RFC 9381 construction (section 5) on secp256k1.

Suite string 0xFE, cofactor 1, SHA-256, try-and-increment, RFC 6979 nonce, 16-byte challenge. A proof is
Gamma (33 bytes, compressed) || c (16) || s (32). Point arithmetic is libsecp256k1's (coincurve).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import coincurve

from verillm.errors import ConfigError, ProofError

FIELD = 2**256 - 2**32 - 977
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SUITE = b"\xfe"
PROOF_BYTES = 81
CHALLENGE_BYTES = 16


@dataclass(frozen=True)
class VrfHints:
    """A proof as ``Vrf.sol`` checks it, field by field its ``VrfProof``; points are (x, y)."""

    gamma_prefix: int
    gamma_x: int
    c: int
    s: int
    u: tuple[int, int]
    s_h: tuple[int, int]
    c_gamma: tuple[int, int]
    slope: int


def public_key(sk: bytes) -> bytes:
    """The 33-byte compressed public key of a 32-byte secret. Raises ConfigError outside 1 to n - 1."""
    _scalar(sk)
    return coincurve.PrivateKey(sk).public_key.format()


def prove(sk: bytes, alpha: bytes) -> bytes:
    """The 81-byte proof for input ``alpha`` (RFC 9381 5.1); deterministic."""
    x = _scalar(sk)
    y = public_key(sk)
    h = _encode_to_curve(y, alpha)
    gamma = _multiply(h, x)
    k = _nonce(sk, h)
    u = coincurve.PrivateKey(k.to_bytes(32, "big")).public_key.format()
    c = _challenge(y, h, gamma, u, _multiply(h, k))
    s = (k + c * x) % ORDER
    return gamma + c.to_bytes(CHALLENGE_BYTES, "big") + s.to_bytes(32, "big")


def verify(pk: bytes, alpha: bytes, pi: bytes) -> bytes:
    """Check a proof (RFC 9381 5.3) and return beta, 32 bytes. Raises ProofError."""
    if len(pi) != PROOF_BYTES:
        raise ProofError(f"vrf proof: has {len(pi)} bytes; it must have {PROOF_BYTES}")
    y = _point(pk, "vrf public key")
    gamma = _point(pi[:33], "vrf proof: gamma")
    c = int.from_bytes(pi[33:49], "big")
    s = int.from_bytes(pi[49:], "big")
    if s >= ORDER:
        raise ProofError("vrf proof: s is not below the group order")
    h = _encode_to_curve(pk, alpha)
    u = _combine(_base(s), _scaled(y, ORDER - c if c else 0))
    v = _combine(_scaled(_point(h, "H"), s), _scaled(gamma, ORDER - c if c else 0))
    if u is None or v is None or _challenge(pk, h, pi[:33], u.format(), v.format()) != c:
        raise ProofError("vrf proof: does not verify for this public key and input")
    return beta(pi)


def hints(pk: bytes, alpha: bytes, pi: bytes) -> VrfHints:
    """The form of a proof that the contract checks. Raises ProofError as ``verify`` does."""
    verify(pk, alpha, pi)
    return _hints(pk, _encode_to_curve(pk, alpha), pi)


def beta(pi: bytes) -> bytes:
    """proof_to_hash (RFC 9381 5.2), 32 bytes; only meaningful for a verified proof."""
    return hashlib.sha256(SUITE + b"\x03" + pi[:33] + b"\x00").digest()


def _hints(pk: bytes, h: bytes, pi: bytes) -> VrfHints:
    """Needs 0 < c, 0 < s < n, U finite and s*H, c*Gamma of different x; odds of 2^-120 are left out."""
    c, s = int.from_bytes(pi[33:49], "big"), int.from_bytes(pi[49:], "big")
    base = coincurve.PrivateKey(s.to_bytes(32, "big")).public_key
    u = coincurve.PublicKey.combine_keys([base, coincurve.PublicKey(_multiply(pk, ORDER - c))]).point()
    s_h = coincurve.PublicKey(_multiply(h, s)).point()
    c_gamma = coincurve.PublicKey(_multiply(pi[:33], c)).point()
    slope = (s_h[1] + c_gamma[1]) * pow(s_h[0] - c_gamma[0], -1, FIELD) % FIELD
    return VrfHints(pi[0], int.from_bytes(pi[1:33], "big"), c, s, u, s_h, c_gamma, slope)


def _scalar(sk: bytes) -> int:
    x = int.from_bytes(sk, "big")
    if len(sk) != 32 or not 1 <= x < ORDER:
        raise ConfigError("vrf secret key: must be 32 bytes between 1 and the group order")
    return x


def _point(data: bytes, name: str) -> coincurve.PublicKey:
    if len(data) != 33:
        raise ProofError(f"{name}: has {len(data)} bytes; a compressed point has 33")
    try:
        return coincurve.PublicKey(data)
    except ValueError as error:
        raise ProofError(f"{name}: is not a point of the curve") from error


def _multiply(point: bytes, scalar: int) -> bytes:
    return coincurve.PublicKey(point).multiply(scalar.to_bytes(32, "big")).format()


def _scaled(point: coincurve.PublicKey, scalar: int) -> coincurve.PublicKey | None:
    """scalar * point; None is the point at infinity."""
    return point.multiply(scalar.to_bytes(32, "big")) if scalar else None


def _base(scalar: int) -> coincurve.PublicKey | None:
    return coincurve.PrivateKey(scalar.to_bytes(32, "big")).public_key if scalar else None


def _combine(a: coincurve.PublicKey | None, b: coincurve.PublicKey | None) -> coincurve.PublicKey | None:
    if a is None or b is None:
        return a or b
    try:
        return coincurve.PublicKey.combine_keys([a, b])
    except ValueError:  # a = -b: the sum is the point at infinity
        return None


def _encode_to_curve(pk: bytes, alpha: bytes) -> bytes:
    """Try-and-increment (RFC 9381 5.4.1.1): the first counter whose hash is an x coordinate, even y."""
    for counter in range(256):
        digest = hashlib.sha256(SUITE + b"\x01" + pk + alpha + bytes([counter]) + b"\x00").digest()
        try:
            return coincurve.PublicKey(b"\x02" + digest).format()
        except ValueError:
            continue
    raise ProofError("vrf input: no curve point in 256 tries")


def _challenge(*points: bytes) -> int:
    digest = hashlib.sha256(SUITE + b"\x02" + b"".join(points) + b"\x00").digest()
    return int.from_bytes(digest[:CHALLENGE_BYTES], "big")


def _nonce(sk: bytes, h: bytes) -> int:
    """RFC 6979 section 3.2 with message ``h`` (RFC 9381 5.4.2.1); q and the hash both have 256 bits."""
    reduced = int.from_bytes(hashlib.sha256(h).digest(), "big") % ORDER
    material = sk + reduced.to_bytes(32, "big")
    key, value = b"\x00" * 32, b"\x01" * 32
    for separator in (b"\x00", b"\x01"):
        key = hmac.digest(key, value + separator + material, "sha256")
        value = hmac.digest(key, value, "sha256")
    while True:
        value = hmac.digest(key, value, "sha256")
        k = int.from_bytes(value, "big")
        if 1 <= k < ORDER:
            return k
        key = hmac.digest(key, value + b"\x00", "sha256")
        value = hmac.digest(key, value, "sha256")
