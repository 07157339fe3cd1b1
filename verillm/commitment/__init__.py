"""Commitments to a job's hidden rows and tokens. Importing this needs neither numba nor torch; the
worker's names (``RowStore``, ``build_commitment``, ``prefill_root``, ``OutputMatrix``) load numba on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from verillm.commitment.hashing import token_list_hash
from verillm.commitment.keccak import keccak256
from verillm.commitment.merkle import MerkleTree, tree_root, verify_proof
from verillm.commitment.opening import JobRootParts, RowOpening, verify_opening

if TYPE_CHECKING:
    from verillm.commitment.job import CommittedJob, RowStore, build_commitment, prefill_root
    from verillm.commitment.matrix import OutputMatrix

__all__ = [
    "CommittedJob",
    "JobRootParts",
    "MerkleTree",
    "OutputMatrix",
    "RowOpening",
    "RowStore",
    "build_commitment",
    "keccak256",
    "prefill_root",
    "token_list_hash",
    "tree_root",
    "verify_opening",
    "verify_proof",
]


def __getattr__(name: str) -> Any:
    """Load the worker half on first use."""
    if name in __all__:
        module = "matrix" if name == "OutputMatrix" else "job"
        return getattr(import_module(f"verillm.commitment.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
