"""Whose keys a receipt's signatures and draws may be made with."""

from __future__ import annotations

from typing import Protocol

import coincurve
from eth_utils import to_checksum_address

from verillm.commitment import keccak256
from verillm.errors import ProofError


class Keys(Protocol):
    """Who knows the keys of operators and schedulers by epoch: ``ChainClient``, or nobody (``OwnKeys``)."""

    def is_signer(self, operator: str, signer: str, epoch: int) -> bool: ...

    def is_vrf_key(self, scheduler: str, key: bytes, epoch: int) -> bool: ...


class OwnKeys:
    """Without the chain's word operators sign, and schedulers draw, with their own keys."""

    def is_signer(self, operator: str, signer: str, epoch: int) -> bool:
        return operator == signer

    def is_vrf_key(self, scheduler: str, key: bytes, epoch: int) -> bool:
        return address_of(key) == scheduler


OWN_KEYS = OwnKeys()


def hint(keys: Keys) -> str:
    """What to add to a finding about a key that nobody knows."""
    return "; only the chain knows of other keys" if keys is OWN_KEYS else ""


def address_of(public_key: bytes) -> str:
    """Checksummed address of a compressed secp256k1 key. Raises ProofError."""
    try:
        point = coincurve.PublicKey(public_key).format(compressed=False)
    except ValueError as error:
        raise ProofError("vrf_public_key: is not a point of the curve") from error
    return to_checksum_address(keccak256(point[1:])[12:])
