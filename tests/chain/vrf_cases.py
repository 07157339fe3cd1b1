"""Proofs in the contract's form: good ones by number of tries, and what a cheat could hand in instead."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import coincurve

from verillm import vrf
from verillm.vrf import FIELD, ORDER, VrfHints

SECRETS = [x.to_bytes(32, "big") for x in (1, 7, 2**255 + 19, ORDER - 1)]
MAX_TRIES = 6
ONE = (1).to_bytes(32, "big")
SECRET, NONCE = 7, 11
KEY = vrf.public_key(SECRET.to_bytes(32, "big"))
ALPHA = hashlib.sha256(b"bad").digest()

POINT = "VrfPointWrong(bytes32,address)"
CHALLENGE = "VrfProofInvalid(uint256,uint256)"
SCALAR = "VrfScalarInvalid(uint256,uint256)"
GAMMA = "VrfGammaInvalid(uint8)"
DEGENERATE = "VrfSumDegenerate()"
SLOPE = "VrfSlopeWrong(uint256)"
BAD_KEY = "VrfKeyInvalid(bytes)"


def proof_of(hints: VrfHints) -> bytes:
    """The 81 bytes that the fields gamma, c and s stand for."""
    head = bytes([hints.gamma_prefix]) + hints.gamma_x.to_bytes(32, "big")
    return head + hints.c.to_bytes(16, "big") + hints.s.to_bytes(32, "big")


def candidates(pk: bytes, alpha: bytes) -> Iterator[tuple[int, bytes]]:
    """(try, point) for each try that hits the curve; RFC 9381 takes the first."""
    for counter in range(256):
        text = b"\xfe\x01" + pk + alpha + bytes([counter, 0])
        try:
            point = coincurve.PublicKey(b"\x02" + hashlib.sha256(text).digest())
        except ValueError:
            continue
        yield counter + 1, point.format()


def good_cases(published: list[dict[str, bytes]]) -> list[dict[str, Any]]:
    """The published proofs, and each secret at each number of tries."""
    inputs = [(row["sk"], row["alpha"]) for row in published]
    for sk in SECRETS:
        pk = vrf.public_key(sk)
        alphas = [hashlib.sha256(i.to_bytes(4, "big")).digest() for i in range(1000)]
        tries = {next(candidates(pk, alpha))[0]: alpha for alpha in reversed(alphas)}
        inputs += [(sk, tries[n + 1]) for n in range(MAX_TRIES)]
    cases = []
    for sk, alpha in inputs:
        pk, pi = vrf.public_key(sk), vrf.prove(sk, alpha)
        tried, _ = next(candidates(pk, alpha))
        row = {"sk": sk, "pk": pk, "alpha": alpha, "pi": pi, "beta": vrf.beta(pi), "tries": tried}
        cases.append(row | {"hints": asdict(vrf.hints(pk, alpha, pi))})
    return cases


def bad_cases() -> list[dict[str, Any]]:
    """Each with the error that the contract reverts with."""
    (_, h), (_, later) = islice(candidates(KEY, ALPHA), 2)
    good = _answer(h, _times(h, SECRET))
    cases = [
        *_wrong_statements(h, later, good),
        *_degenerate_sums(h, good),
        *_wrong_fields(good),
        *_wrong_hints(h, good),
    ]
    rows = [{"name": name, "error": error, "pk": KEY, "hints": asdict(hints)} for name, error, hints in cases]
    rows += [
        {"name": name, "error": error, "pk": pk, "hints": asdict(good)} for name, error, pk in _wrong_keys()
    ]
    return [row | {"alpha": ALPHA} for row in rows]


Case = tuple[str, str, VrfHints]


def _wrong_statements(h: bytes, later: bytes, good: VrfHints) -> list[Case]:
    """Every hint is true, but not of a proof."""
    return [
        ("a later try of the input", POINT, _answer(later, _times(later, SECRET))),
        ("gamma under another secret", CHALLENGE, _answer(h, _times(h, SECRET + 1))),
        ("gamma negated", CHALLENGE, _answer(h, _negated(_times(h, SECRET)))),
        ("gamma of another input", CHALLENGE, _answer(h, _times(later, SECRET))),
        ("another c", CHALLENGE, _hints(h, good, c=good.c ^ 1)),
        ("another s", CHALLENGE, _hints(h, good, s=good.s ^ 1)),
        ("s negated", CHALLENGE, _hints(h, good, s=ORDER - good.s)),
    ]


def _degenerate_sums(h: bytes, good: VrfHints) -> list[Case]:
    """Gamma = -(s/c) H makes the chord vertical, and any slope fit; Gamma = (s/c) H makes V infinite."""
    c, s = good.c, good.s
    multiple = _times(h, s * pow(c, -1, ORDER))
    cases = []
    for name, gamma in (("V = 2sH by a free slope", _negated(multiple)), ("V at infinity", multiple)):
        changes = {"s_h": _xy(_times(h, s)), "c_gamma": _xy(_times(gamma, c))}
        cases.append((name, DEGENERATE, replace(good, **_gamma(gamma), **changes, slope=5)))
    infinite = c * SECRET % ORDER
    cases.append(("U at infinity", POINT, replace(good, s=infinite, u=(0, 0), s_h=_xy(_times(h, infinite)))))
    return cases


def _wrong_fields(good: VrfHints) -> list[Case]:
    beyond = next(x for x in range(ORDER, FIELD) if pow(x**3 + 7, (FIELD - 1) // 2, FIELD) == 1)
    return [
        ("c = 0", SCALAR, replace(good, c=0)),
        ("s = 0", SCALAR, replace(good, s=0)),
        ("s = n", SCALAR, replace(good, s=ORDER)),
        ("s = 2^256 - 1", SCALAR, replace(good, s=2**256 - 1)),
        *[(f"gamma prefix {p}", GAMMA, replace(good, gamma_prefix=p)) for p in (0, 1, 4, 255)],
        ("gamma x = 0", POINT, replace(good, gamma_x=0)),
        ("gamma x = 5: no point", POINT, replace(good, gamma_x=5)),
        ("gamma x of a point beyond n", POINT, replace(good, gamma_x=beyond)),
        ("gamma x = p + 1", POINT, replace(good, gamma_x=FIELD + 1)),
    ]


def _wrong_hints(h: bytes, good: VrfHints) -> list[Case]:
    """Each of the first four would make a forged gamma pass, if the contract believed one false hint."""
    gamma = _times(h, SECRET + 1)
    forged = _answer(h, gamma)
    fits_v = vrf._hints(KEY, h, _signed(h, gamma, NONCE, SECRET + 1))
    v = _times(h, NONCE)
    s_h = _xy(_plus(v, _times(gamma, forged.c)))
    c_gamma = _xy(_plus(_times(h, forged.s), _negated(v)))
    flipped = {name: _flip(getattr(good, name)) for name in ("u", "s_h", "c_gamma")}
    return [
        ("U that is not sG - cY", POINT, replace(fits_v, u=_xy(_times(vrf.public_key(ONE), NONCE)))),
        ("s*H chosen to reach V", POINT, replace(forged, s_h=s_h, slope=_slope(s_h, forged.c_gamma))),
        (
            "c*Gamma chosen to reach V",
            POINT,
            replace(forged, c_gamma=c_gamma, slope=_slope(forged.s_h, c_gamma)),
        ),
        ("slope chosen to reach V", SLOPE, _free_slope(h, gamma)),
        ("slope negated", SLOPE, replace(good, slope=FIELD - good.slope)),
        ("points at zero", POINT, replace(good, u=(0, 0), s_h=(0, 0), c_gamma=(0, 0))),
        *[(f"{name} negated", POINT, replace(good, **{name: point})) for name, point in flipped.items()],
        ("points swapped", POINT, replace(good, s_h=good.c_gamma, c_gamma=good.s_h)),
    ]


def _free_slope(h: bytes, gamma: bytes) -> VrfHints:
    """A forged answer with a slope that leads the addition to kH's x and parity, all that is hashed."""
    for nonce in range(1, 100):
        forged = _answer(h, gamma, nonce)
        v = _times(h, nonce)
        x = int.from_bytes(v[1:], "big")
        square = (x + forged.s_h[0] + forged.c_gamma[0]) % FIELD
        root = pow(square, (FIELD + 1) // 4, FIELD)
        for slope in (root, FIELD - root):
            y = (slope * (forged.s_h[0] - x) - forged.s_h[1]) % FIELD
            if slope * slope % FIELD == square and 2 + y % 2 == v[0]:
                return replace(forged, slope=slope)
    raise AssertionError("one nonce in two has such a slope")


def _wrong_keys() -> list[tuple[str, str, bytes]]:
    return [
        ("key of another", POINT, vrf.public_key((SECRET + 1).to_bytes(32, "big"))),
        ("key negated", POINT, _negated(KEY)),
        ("key of x = 5: no point", POINT, b"\x02" + (5).to_bytes(32, "big")),
        ("key of x = p + 1", POINT, b"\x02" + (FIELD + 1).to_bytes(32, "big")),
        ("key prefix 4", BAD_KEY, b"\x04" + KEY[1:]),
        ("key of 32 bytes", BAD_KEY, KEY[:-1]),
        ("key of 65 bytes", BAD_KEY, coincurve.PublicKey(KEY).format(compressed=False)),
    ]


def _answer(h: bytes, gamma: bytes, nonce: int = NONCE) -> VrfHints:
    """What the prover of a true Gamma would send: U = kG, V = kH, s = k + cx."""
    return vrf._hints(KEY, h, _signed(h, gamma, nonce, SECRET))


def _signed(h: bytes, gamma: bytes, nonce: int, secret: int) -> bytes:
    u = _times(vrf.public_key(ONE), nonce)
    text = b"\xfe\x02" + KEY + h + gamma + u + _times(h, nonce) + b"\x00"
    c = int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
    s = (nonce + c * secret) % ORDER
    return gamma + c.to_bytes(16, "big") + s.to_bytes(32, "big")


def _hints(h: bytes, good: VrfHints, **changes: int) -> VrfHints:
    return vrf._hints(KEY, h, proof_of(replace(good, **changes)))


def _gamma(point: bytes) -> dict[str, Any]:
    return {"gamma_prefix": point[0], "gamma_x": int.from_bytes(point[1:], "big")}


def _times(point: bytes, scalar: int) -> bytes:
    return coincurve.PublicKey(point).multiply((scalar % ORDER).to_bytes(32, "big")).format()


def _plus(a: bytes, b: bytes) -> bytes:
    return coincurve.PublicKey.combine_keys([coincurve.PublicKey(a), coincurve.PublicKey(b)]).format()


def _negated(point: bytes) -> bytes:
    return bytes([point[0] ^ 1]) + point[1:]


def _xy(point: bytes) -> tuple[int, int]:
    return coincurve.PublicKey(point).point()


def _flip(point: tuple[int, int]) -> tuple[int, int]:
    return point[0], FIELD - point[1]


def _slope(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Of the line through a and -b."""
    return (a[1] + b[1]) * pow(a[0] - b[0], -1, FIELD) % FIELD
