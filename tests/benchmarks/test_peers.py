"""Peers: identical rows score lowest, noise is seen, evidence is as large as published, nothing crashes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.study.peers import (
    ActivationDifr,
    PeerUnavailable,
    Rows,
    TokenDifr,
    Toploc,
    peers,
    prefix_scores,
    toploc,
)
from benchmarks.study.peers.activation_difr import projection
from benchmarks.study.peers.token_difr import CLIP
from verillm.constants import Dtype
from verillm.engine.loading import TORCH_DTYPES
from verillm.errors import InvalidRequest
from verillm.sampling.sampler import Q24

D, PROMPT, OUTPUTS = 576, 5, 70
NO_MARGINS = np.zeros(OUTPUTS, dtype=np.int64)


def activations(seed: int = 0, prompt: int = PROMPT) -> torch.Tensor:
    """float32 [n, d] with a few large dimensions, as a final norm has."""
    draw = torch.Generator().manual_seed(seed)
    scale = torch.exp(torch.randn(D, generator=draw))
    return torch.randn(prompt + OUTPUTS - 1, D, generator=draw) * scale


def rows(values: torch.Tensor, dtype: Dtype = Dtype.BF16, prompt: int = PROMPT) -> Rows:
    return Rows(values.to(TORCH_DTYPES[dtype]).view(torch.uint8).numpy(), dtype, prompt)


def noisy(values: torch.Tensor, share: float) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return values * (1 + share * torch.randn(values.shape, generator=draw))


@pytest.fixture
def compiled() -> Toploc:
    try:
        return Toploc()
    except PeerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["activation-difr-3", "activation-difr-8", "toploc"])
def row_peer(request):
    """Every peer that looks at rows."""
    if request.param == "toploc":
        return request.getfixturevalue("compiled")
    return ActivationDifr(int(request.param[-1]))


def test_noise_raises_the_score(row_peer):
    """0 for identical rows, then the more noise the more."""
    honest = activations()
    own = rows(honest)
    scores = [
        row_peer.score(row_peer.prove(rows(noisy(honest, share))), own, NO_MARGINS)
        for share in (0.0, 0.01, 0.1, 1.0)
    ]
    assert scores[0] == 0
    assert scores == sorted(set(scores))


@pytest.mark.parametrize("dtype", list(Dtype))
def test_every_dtype_is_scored(row_peer, dtype):
    honest = activations()
    own = rows(honest, dtype)
    assert row_peer.score(row_peer.prove(own), own, NO_MARGINS) == 0
    other = rows(activations(seed=2), dtype)
    assert row_peer.score(row_peer.prove(other), own, NO_MARGINS) > 0


def test_a_prefix_is_scored_as_a_job_that_ends_there(row_peer):
    honest, late = activations(), activations()
    late[PROMPT + 40 :] = noisy(late[PROMPT + 40 :], 1.0)
    scores = prefix_scores(row_peer, rows(late), rows(honest), NO_MARGINS, [1, 33, 41, 42, OUTPUTS])
    assert scores[:3] == [0, 0, 0]
    assert min(scores[3:]) > 0


def test_evidence_is_as_large_as_published(compiled):
    """TOPLOC: 258 bytes for 32 tokens. Activation-DiFR: 25 to 75 % below it. Token-DiFR: none."""
    job = rows(activations()).sampled_from()
    assert compiled.bytes_per_token(Dtype.BF16) == 258 / 32
    assert len(compiled.prove(job)) == 258 * (1 + -(-(OUTPUTS - 1) // 32))
    assert TokenDifr().bytes_per_token(Dtype.BF16) == len(TokenDifr().prove(job)) == 0


@pytest.mark.parametrize(("dimensions", "saved"), [(3, 0.25), (1, 0.75)])
def test_projections_are_as_large_as_published(dimensions, saved):
    peer = ActivationDifr(dimensions)
    assert peer.bytes_per_token(Dtype.BF16) == pytest.approx((1 - saved) * 258 / 32, rel=0.01)
    assert len(peer.prove(rows(activations()))) == OUTPUTS * peer.bytes_per_token(Dtype.BF16)
    assert peer.bytes_per_token(Dtype.FP32) == 4 * dimensions


@given(st.integers(1, 16), st.integers(16, 200))
@settings(max_examples=20, deadline=None)
def test_projection_is_shared_and_orthogonal(dimensions, hidden_size):
    matrix = projection.__wrapped__(hidden_size, dimensions).double()
    gram = matrix.T @ matrix * dimensions / hidden_size
    torch.testing.assert_close(gram, torch.eye(dimensions, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(matrix.float(), projection(hidden_size, dimensions), atol=0, rtol=0)


def test_projection_distance_estimates_the_distance_of_the_rows():
    """So no part of a row is invisible: 3 % at 256 dimensions and 70 rows."""
    honest = activations()
    other = noisy(honest, 0.5)
    peer = ActivationDifr(256)
    score = peer.score(peer.prove(rows(other, Dtype.FP32)), rows(honest, Dtype.FP32), NO_MARGINS)
    assert score == pytest.approx((honest - other)[PROMPT - 1 :].norm(dim=1).mean().item(), rel=0.1)


@given(st.lists(st.integers(0, 20 * Q24), min_size=1, max_size=30), st.floats(0.01, 10))
@settings(max_examples=50, deadline=None)
def test_token_difr_is_the_mean_of_clipped_margins(margins, clip):
    own = rows(activations())
    score = TokenDifr(clip).score(b"", own, np.array(margins))
    assert score == pytest.approx(sum(min(margin / Q24, clip) for margin in margins) / len(margins))
    assert (score == 0) == (max(margins) == 0)


def test_token_difr_is_clipped_at_a_quantile_of_honest_margins():
    honest = np.arange(1001, dtype=np.int64) * Q24
    assert TokenDifr.calibrated(honest).clip == pytest.approx(999)
    assert TokenDifr.calibrated(NO_MARGINS).clip == CLIP


def test_toploc_rejects_above_its_own_thresholds(compiled):
    honest = activations()
    own = rows(honest)
    for share, accepted in ((0.0, True), (0.002, True), (1.0, False)):
        evidence = compiled.prove(rows(noisy(honest, share)))
        assert compiled.accepts(evidence, own) is accepted
        assert (compiled.score(evidence, own, NO_MARGINS) <= 1) is accepted


def test_toploc_accepts_its_own_proof_of_a_long_prompt(compiled):
    """Indices beyond the largest modulus, on which the package's other verifier fails."""
    prompt = 300
    own = rows(activations(prompt=prompt), prompt=prompt)
    assert prompt * D > 65_536
    assert compiled.score(compiled.prove(own), own, NO_MARGINS) == 0


def test_toploc_is_blind_to_signs_and_activation_difr_is_not(compiled):
    own, flipped = rows(activations()), rows(-activations())
    assert compiled.accepts(compiled.prove(flipped), own)
    difr = ActivationDifr(3)
    assert difr.score(difr.prove(flipped), own, NO_MARGINS) > 0


@pytest.mark.parametrize("change", [
    lambda proof: b"", lambda proof: b"\1\2", lambda proof: proof[:-1], lambda proof: proof + proof[:258],
    lambda proof: bytes(len(proof)), lambda proof: proof[:258] + bytes(2) + proof[260:],
])  # fmt: skip
def test_evidence_that_would_kill_toploc_never_reaches_it(compiled, change):
    own = rows(activations())
    evidence = change(compiled.prove(own))
    assert compiled.score(evidence, own, NO_MARGINS) == float("inf")
    assert not compiled.accepts(evidence, own)


def test_evidence_of_another_size_is_refused_by_activation_difr():
    own, peer = rows(activations()), ActivationDifr(3)
    assert peer.score(peer.prove(own)[:-1], own, NO_MARGINS) == float("inf")


def test_rows_that_are_no_numbers(row_peer):
    """No crash, and not accepted by a verifier whose own rows are numbers."""
    own, broken = rows(activations()), rows(torch.full((PROMPT + OUTPUTS - 1, D), float("nan")))
    assert row_peer.score(row_peer.prove(broken), own, NO_MARGINS) > 1


def test_rows_too_short_for_toploc_are_refused(compiled):
    with pytest.raises(InvalidRequest, match="128"):
        compiled.prove(Rows(np.zeros((3, 126), dtype=np.uint8), Dtype.BF16, 2))


def test_a_missing_package_is_reported_with_the_command_that_installs_it(monkeypatch):
    def fail(name: str) -> None:
        raise ImportError("undefined symbol")

    monkeypatch.setattr(toploc, "import_module", fail)
    found, missing = peers(NO_MARGINS)
    assert [peer.name for peer in found] == ["token-difr", "activation-difr-3", "activation-difr-8"]
    assert "make peers" in missing["toploc"]
    assert "undefined symbol" in missing["toploc"]


@pytest.mark.parametrize(
    ("values", "prompt"),
    [(np.zeros((3, 5), np.uint8), 1), (np.zeros((3, 4), np.uint8), 4), (np.zeros((3, 4), np.uint8), 0),
     (np.zeros((3, 4), np.int8), 1), (np.zeros(4, np.uint8), 1)],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused(values, prompt):
    with pytest.raises(InvalidRequest, match="rows"):
        Rows(values, Dtype.BF16, prompt)


@pytest.mark.parametrize("outputs", [0, OUTPUTS + 1])
def test_prefixes_outside_the_job_are_refused(outputs):
    with pytest.raises(InvalidRequest, match="outputs"):
        rows(activations()).prefix(outputs)
