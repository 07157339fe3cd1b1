"""Typed errors. Every message names the field, the limit, and what to do next."""

from __future__ import annotations


class VeriLLMError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(VeriLLMError):
    """A setting, path, key or URL is missing or wrong."""


class InvalidRequest(VeriLLMError):
    """A job or request field is out of its limits."""


class EncodingError(VeriLLMError):
    """Bytes, JSON or protobuf that do not decode to the type they claim."""


class RowError(VeriLLMError):
    """A hidden-state row that cannot be committed: NaN, Inf, wrong size or dtype."""


class ProofError(VeriLLMError):
    """A Merkle, VRF or signature proof that does not check."""


class EngineError(VeriLLMError):
    """The engine could not run (model not loaded, out of memory, data missing). Never a verdict."""


class ChainError(VeriLLMError):
    """The RPC endpoint or a contract call failed."""


class SeedExpired(ChainError):
    """A block's randomness was not shown within 256 blocks; the round must be requeued."""


class RoundMoved(ChainError):
    """A call brought a round as it no longer stands: somebody moved it on. Read it again and repeat."""


class InsufficientEscrow(ChainError):
    """The client's escrow does not cover the job's maximal cost."""


class NotEnoughOperators(VeriLLMError):
    """The pool has fewer eligible operators than the draw needs."""


class SchedulerError(VeriLLMError):
    """The scheduler refused or could not finish a job."""
