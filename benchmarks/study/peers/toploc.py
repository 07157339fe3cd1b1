"""TOPLOC: a polynomial through the largest activations (Ong et al., arXiv 2501.16007), by its own package.

toploc 0.1.6 dies on some inputs: a null proof is a division by zero, a short one reads outside memory, and
fewer values than ``topk`` throw in a thread. So nothing reaches its verifier here that its builder cannot
have made. Of its two verifiers this uses the compiled one, since the other forgets to reduce indices by the
proof's modulus and rejects some identical activations of long prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from verillm.constants import Dtype
from verillm.errors import InvalidRequest

from .rows import Ints, PeerUnavailable, Rows

BATCH, TOPK = 32, 128
"""Decoded tokens in one proof and activations in it; the paper's setting, 258 bytes in 32 tokens."""
PROOF_BYTES = 2 + 2 * TOPK
MAX_EXPONENT_MISMATCHES, MAX_MANTISSA_MEAN, MAX_MANTISSA_MEDIAN = 38, 10.0, 8.0
"""Thresholds of the authors' validator (``vllm_validate_poly.py`` in PrimeIntellect-ai/toploc-experiments):
at least 90 of 128 exponents match; the mantissa errors of those are at most 10 on average, 8 in median."""
MANTISSA_LIMIT = 128.0
"""What that validator takes for the mantissa error if no exponent matches; 0.1.6 itself returns 2^64."""


@dataclass(frozen=True)
class ChunkResult:
    """What TOPLOC measures of one proof: the prompt's, or that of up to BATCH decoded rows."""

    exponent_mismatches: int
    mantissa_mean: float
    mantissa_median: float

    @property
    def ratio(self) -> float:
        """The largest of the three as a share of its threshold: above 1 is what the validator rejects."""
        return max(
            self.exponent_mismatches / MAX_EXPONENT_MISMATCHES,
            min(self.mantissa_mean, MANTISSA_LIMIT) / MAX_MANTISSA_MEAN,
            min(self.mantissa_median, MANTISSA_LIMIT) / MAX_MANTISSA_MEDIAN,
        )


def load() -> Any:
    """The package. Raises PeerUnavailable."""
    try:
        return import_module("toploc")
    except (ImportError, OSError) as error:
        raise PeerUnavailable(
            f"toploc: {error}; its wheel does not fit this torch: build it with `make peers` (C++ compiler)"
        ) from error


class Toploc:
    """Rows are taken as bf16, the only dtype that its verifier reads. Raises PeerUnavailable."""

    name = "toploc"

    def __init__(self) -> None:
        self._toploc = load()

    def bytes_per_token(self, dtype: Dtype) -> float:
        return PROOF_BYTES / BATCH

    def prove(self, rows: Rows) -> bytes:
        """One proof for the prompt's rows, and one for each BATCH decoded rows, PROOF_BYTES each.

        Raises InvalidRequest for rows of fewer than TOPK values.
        """
        prompt, decoded = _split(rows)
        proofs = self._toploc.build_proofs_bytes([prompt, *decoded], decode_batching_size=BATCH, topk=TOPK)
        return b"".join(proofs)

    def results(self, evidence: bytes, own: Rows) -> list[ChunkResult] | None:
        """TOPLOC's statistics of each proof; None for evidence that its builder cannot have made."""
        prompt, decoded = _split(own)
        proofs = [evidence[i : i + PROOF_BYTES] for i in range(0, len(evidence), PROOF_BYTES)]
        expected = 1 + -(-len(decoded) // BATCH)
        if len(evidence) != expected * PROOF_BYTES or any(proof[:2] == b"\0\0" for proof in proofs):
            return None
        return [
            ChunkResult(result.exp_mismatches, result.mant_err_mean, result.mant_err_median)
            for part, batch, its in ((prompt, len(prompt), proofs[:1]), (decoded, BATCH, proofs[1:]))
            for result in self._verify(part, batch, its)
        ]

    def _verify(self, activations: torch.Tensor, batch: int, proofs: list[bytes]) -> Iterator[Any]:
        yield from self._toploc.verify_proofs_bytes(
            activations, proofs, decode_batching_size=batch, topk=TOPK, skip_prefill=True
        )

    def score(self, evidence: bytes, own: Rows, margins: Ints) -> float:
        """The largest ratio over all proofs: above 1 if and only if TOPLOC rejects."""
        results = self.results(evidence, own)
        return float("inf") if results is None else max(result.ratio for result in results)

    def accepts(self, evidence: bytes, own: Rows) -> bool:
        """TOPLOC's own verdict."""
        results = self.results(evidence, own)
        return results is not None and all(result.ratio <= 1 for result in results)


def _split(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """bf16 [P, d] and [O - 1, d]: prompt and decoded."""
    values = rows.tensor().to(torch.bfloat16)
    if values.shape[1] < TOPK:
        raise InvalidRequest(f"rows: {values.shape[1]} values are fewer than TOPLOC's {TOPK}")
    return values[: rows.prompt_tokens], values[rows.prompt_tokens :]
