"""RLP block headers, with which ``Randomness`` proves a block's ``mixHash`` against its block hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rlp
from eth_hash.auto import keccak

from verillm.errors import ChainError

# In header order; (name in eth_getBlock, whether it is an integer). Later forks only append fields.
FIELDS = (
    ("parentHash", False),
    ("sha3Uncles", False),
    ("miner", False),
    ("stateRoot", False),
    ("transactionsRoot", False),
    ("receiptsRoot", False),
    ("logsBloom", False),
    ("difficulty", True),
    ("number", True),
    ("gasLimit", True),
    ("gasUsed", True),
    ("timestamp", True),
    ("extraData", False),
    ("mixHash", False),
    ("nonce", False),
    ("baseFeePerGas", True),
    ("withdrawalsRoot", False),
    ("blobGasUsed", True),
    ("excessBlobGas", True),
    ("parentBeaconBlockRoot", False),
    ("requestsHash", False),
)
NUMBER = 8
REQUIRED = 15
"""Fields that every header has, up to and including nonce."""


def encode_header(block: Mapping[str, Any]) -> bytes:
    """RLP of a block's header from its eth_getBlock fields (ints, bytes or hex strings).

    Raises ChainError for a field that is no such value, and if the keccak is not the block's hash: the
    endpoint has header fields unknown here.
    """
    values: list[bytes | int] = []
    for i, (name, is_integer) in enumerate(FIELDS):
        value = block.get(name)
        if value is None:
            if i < REQUIRED:
                raise ChainError(f"block: the endpoint gave no {name}")
            break
        values.append(_integer(value, name) if is_integer else _bytes(value, name))
    header = rlp.encode(values)
    if keccak(header) != _bytes(block.get("hash"), "hash"):
        raise ChainError(f"block {values[NUMBER]!r}: the header's hash is not the block's; update verillm")
    return header


def _integer(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 256:
        raise ChainError(f"block: the endpoint's {name} is not an integer from 0 to 2^256 - 1")
    return value


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)
    try:
        return bytes.fromhex(value.removeprefix("0x"))
    except (AttributeError, ValueError) as error:
        raise ChainError(f"block: the endpoint's {name} is neither bytes nor hex") from error
