"""keccak256 (the EVM's, not SHA3-256) of a byte string."""

from __future__ import annotations

from eth_hash.backends import pycryptodome
from eth_hash.main import Keccak256

_KECCAK = Keccak256(pycryptodome.CryptodomeBackend())  # the pinned backend, whatever else is installed


def keccak256(data: bytes) -> bytes:
    """32-byte keccak256 of ``data``."""
    return _KECCAK(data)
