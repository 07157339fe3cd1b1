"""Why a request failed, in one line: a contract's custom error with its arguments, or the endpoint's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from eth_abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_hash.auto import keccak
from eth_utils.abi import collapse_if_tuple
from web3.exceptions import ContractCustomError, ContractLogicError, Web3Exception, Web3RPCError

from verillm.errors import ChainError, RoundMoved, VeriLLMError

ERROR_STRING = bytes.fromhex("08c379a0")
PANIC = bytes.fromhex("4e487b71")


class Reverts:
    """Knows the custom errors of the contracts whose ABIs it learned."""

    def __init__(self, rpc_url: str, sender: str) -> None:
        self._rpc_url, self._sender = rpc_url, sender
        self._errors: dict[bytes, tuple[str, list[str]]] = {}

    def learn(self, abi: list[dict[str, Any]]) -> None:
        """Decode this ABI's errors from now on."""
        for entry in abi:
            if entry["type"] == "error":
                types = [collapse_if_tuple(i) for i in entry["inputs"]]
                selector = keccak(f"{entry['name']}({','.join(types)})".encode())[:4]
                self._errors[selector] = (entry["name"], types)

    def decode(self, data: bytes) -> str:
        """``Name(arguments)`` of a revert's data; its hex if it does not decode."""
        try:
            return self._decode(data)
        except (DecodingError, ValueError, OverflowError):
            return f"undecodable error 0x{data[:256].hex()}"

    def _decode(self, data: bytes) -> str:
        selector, body = data[:4], data[4:]
        if selector == ERROR_STRING:
            return str(abi_decode(["string"], body)[0])
        if selector == PANIC:
            return f"Panic({abi_decode(['uint256'], body)[0]:#x})"
        if selector not in self._errors:
            return f"unknown error 0x{data[:256].hex()}" if data else "reverted without a reason"
        name, types = self._errors[selector]
        return f"{name}({', '.join(map(_shown, abi_decode(types, body)))})"

    @contextmanager
    def translated(self, name: str) -> Iterator[None]:
        """Raise a ChainError of one line, which begins with ``name``, for whatever a request raises."""
        try:
            yield
        except ContractCustomError as error:
            text = self.decode(_revert_data(error))
            kind = RoundMoved if text.startswith("RoundMismatch(") else ChainError
            raise kind(f"{name}: {text}") from error
        except ContractLogicError as error:
            data = _revert_data(error)
            raise ChainError(f"{name}: {self.decode(data) if data else error.message}") from error
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "error"
            raise ChainError(f"rpc: {self._rpc_url} refused: HTTP {status}; check its key") from error
        except requests.RequestException as error:
            raise ChainError(
                f"rpc: {self._rpc_url} does not answer ({type(error).__name__}); check that it runs"
            ) from error
        except Web3RPCError as error:
            text = str(error)
            if "insufficient funds" in text.lower():
                raise ChainError(
                    f"{name}: {self._sender} has not enough ETH for gas; send it some"
                ) from error
            raise ChainError(f"{name}: {_first_line(error)}") from error
        except VeriLLMError:
            raise
        except (Web3Exception, ValueError) as error:
            raise ChainError(f"{name}: {_first_line(error)}") from error
        except Exception as error:  # web3 raises whatever a malformed answer leads it to
            reason = f"malformed answer: {type(error).__name__}: {_first_line(error)}"
            raise ChainError(f"{name}: {reason}") from error


def _revert_data(error: ContractLogicError) -> bytes:
    data = error.data
    if isinstance(data, dict):
        data = data.get("data")
    return hex_bytes(data)


def hex_bytes(value: object) -> bytes:
    """The bytes of a hex string; none if it is something else."""
    try:
        return bytes.fromhex(value.removeprefix("0x")) if isinstance(value, str) else b""
    except ValueError:
        return b""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, (tuple, list)) and not isinstance(value, str):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)
