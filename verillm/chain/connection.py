"""One JSON-RPC endpoint, one sender: calls, transactions and events with typed errors.

Every failure is a ChainError of one line: an unreachable endpoint, another chain, too little ETH, or the
contract's own custom error with its arguments.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from eth_abi import decode as abi_decode
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_utils.abi import collapse_if_tuple
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.contract import Contract
from web3.exceptions import (
    ContractCustomError,
    ContractLogicError,
    LogTopicError,
    TransactionNotFound,
    Web3Exception,
    Web3RPCError,
)

from verillm.errors import ChainError

POLL_SECONDS = 0.1
RECEIPT_SECONDS = 120.0
REQUEST_SECONDS = 20.0
LOG_BLOCKS = 2000
"""Most blocks in one eth_getLogs request."""
EXTRA_GAS = 300_000
"""On top of 6/5 of the estimate. A stake change that lands in a new epoch writes a checkpoint (22,100 gas) in
each of 11 tree nodes where the estimate overwrote one."""
MAX_TIP = 10**9
"""Largest priority fee per gas, wei."""
ERROR_STRING = bytes.fromhex("08c379a0")
PANIC = bytes.fromhex("4e487b71")


@dataclass(frozen=True)
class Event:
    """A decoded log. ``args`` as web3 decodes them: ints, bytes, checksummed addresses."""

    name: str
    args: dict[str, Any]
    block: int
    transaction: bytes


Receipt = dict[str, Any]
"""A transaction receipt as eth_getTransactionReceipt gives it."""


class Connection:
    """An endpoint and an optional account that signs. Thread-safe: one lock orders nonces.

    Raises ChainError if the endpoint does not answer or serves another chain than ``chain_id``.
    """

    def __init__(
        self, rpc_url: str, chain_id: int | None = None, account: LocalAccount | None = None
    ) -> None:
        self.rpc_url = rpc_url
        self.account = account
        self.web3 = Web3(HTTPProvider(rpc_url, request_kwargs={"timeout": REQUEST_SECONDS}))
        self._errors: dict[bytes, tuple[str, list[str]]] = {}
        self._nonce: int | None = None
        self._lock = threading.Lock()
        with self._translated("eth_chainId"):
            self.chain_id = self.web3.eth.chain_id
        if chain_id is not None and self.chain_id != chain_id:
            raise ChainError(
                f"chain id: {rpc_url} serves chain {self.chain_id}, the address book is for {chain_id}; "
                "use the endpoint or the address book of the other"
            )

    def contract(self, address: str, abi: list[dict[str, Any]]) -> Contract:
        """Bind an ABI at an address; its custom errors are decoded from then on."""
        for entry in abi:
            if entry["type"] == "error":
                types = [collapse_if_tuple(i) for i in entry["inputs"]]
                selector = keccak(f"{entry['name']}({','.join(types)})".encode())[:4]
                self._errors[selector] = (entry["name"], types)
        return self.web3.eth.contract(address=Web3.to_checksum_address(address), abi=abi)

    def call(self, contract: Contract, name: str, *args: Any) -> Any:
        """Read from a contract at the latest block."""
        with self._translated(name):
            return contract.get_function_by_name(name)(*args).call()

    def send(self, contract: Contract, name: str, *args: Any) -> Receipt:
        """Send one transaction and wait for its receipt. Raises ChainError also if it reverts."""
        with self._translated(name):
            data = contract.encode_abi(name, args)
        return self._transact(name, {"to": contract.address, "data": data})

    def deploy(self, abi: list[dict[str, Any]], bytecode: str, *args: Any) -> str:
        """Deploy a contract and return its address."""
        with self._translated("deploy"):
            data = self.web3.eth.contract(abi=abi, bytecode=bytecode).constructor(*args).data_in_transaction
        return self._transact("deploy", {"data": data})["contractAddress"]

    def transfer(self, to: str, wei: int) -> Receipt:
        """Send ``wei`` of the chain's coin."""
        return self._transact("transfer", {"to": Web3.to_checksum_address(to), "value": wei})

    def _transact(self, name: str, fields: dict[str, Any]) -> Receipt:
        account = self.account
        if account is None:
            raise ChainError(f"{name}: this client has no key; give it an account to send transactions")
        transaction: Any = {"from": account.address, "value": 0, **fields}
        with self._lock, self._translated(name):
            # Estimating runs the call, so a revert is reported here, before anything is paid.
            gas = self.web3.eth.estimate_gas(transaction)
            price = self.web3.eth.gas_price
            if self._nonce is None:
                self._nonce = self.web3.eth.get_transaction_count(account.address, "pending")
            envelope = {
                "chainId": self.chain_id,
                "nonce": self._nonce,
                "gas": gas + gas // 5 + EXTRA_GAS,
                "maxFeePerGas": 2 * price,
                "maxPriorityFeePerGas": min(price, MAX_TIP),
            }
            signed = account.sign_transaction({**transaction, **envelope})
            try:
                digest = bytes(self.web3.eth.send_raw_transaction(signed.raw_transaction))
            except Exception:
                self._nonce = None  # another process may have used it: ask the endpoint again
                raise
            self._nonce += 1
        receipt = self.wait_receipt(digest, name)
        if receipt["status"] != 1:
            with self._translated(name):
                self.web3.eth.call({**transaction, "gas": envelope["gas"]}, receipt["blockNumber"])
            raise ChainError(f"{name}: transaction 0x{digest.hex()} reverted without a reason")
        return receipt

    def wait_receipt(self, transaction: bytes, name: str = "transaction") -> Receipt:
        """Wait until a transaction is in a block. Raises ChainError after RECEIPT_SECONDS."""
        deadline = time.monotonic() + RECEIPT_SECONDS
        while True:
            with self._translated(name):
                try:
                    return dict(self.web3.eth.get_transaction_receipt(HexBytes(transaction)))
                except TransactionNotFound:
                    pass
            if time.monotonic() > deadline:
                raise ChainError(f"{name}: 0x{transaction.hex()} is in no block after {RECEIPT_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def block_number(self) -> int:
        """Number of the latest block."""
        with self._translated("eth_blockNumber"):
            return self.web3.eth.block_number

    def block(self, number: Any = "latest") -> dict[str, Any]:
        """A block's header as eth_getBlockByNumber gives it."""
        with self._translated("eth_getBlockByNumber"):
            return dict(self.web3.eth.get_block(number))  # type: ignore[arg-type]

    def wait_block(self, number: int, timeout: float = 600.0) -> int:
        """Wait until the latest block is at least ``number`` and return it. Raises ChainError."""
        deadline = time.monotonic() + timeout
        while (latest := self.block_number()) < number:
            if time.monotonic() > deadline:
                raise ChainError(
                    f"block: {latest} after waiting {timeout:.0f} s for {number}; is the chain alive?"
                )
            time.sleep(POLL_SECONDS)
        return latest

    def events(
        self,
        contract: Contract,
        name: str,
        from_block: int,
        to_block: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> Iterator[Event]:
        """Events ``name`` of a contract in block order, read LOG_BLOCKS blocks at a time."""
        last = self.block_number() if to_block is None else to_block
        for start in range(from_block, last + 1, LOG_BLOCKS):
            end = min(start + LOG_BLOCKS - 1, last)
            with self._translated(name):
                logs = contract.events[name].get_logs(filters, from_block=start, to_block=end)
            for log in logs:
                yield Event(name, dict(log["args"]), log["blockNumber"], bytes(log["transactionHash"]))

    def emitted(self, contract: Contract, name: str, receipt: Receipt) -> dict[str, Any]:
        """Arguments of the one event ``name`` of a contract in a receipt. Raises ChainError without it."""
        for log in receipt["logs"]:
            if log["address"] == contract.address:
                with self._translated(name):
                    try:
                        return dict(contract.events[name]().process_log(log)["args"])
                    except LogTopicError:
                        continue
        raise ChainError(f"{name}: the transaction emitted no such event")

    def decode_error(self, data: bytes) -> str:
        """``Name(arguments)`` of a revert's data."""
        selector, body = data[:4], data[4:]
        if selector == ERROR_STRING:
            return str(abi_decode(["string"], body)[0])
        if selector == PANIC:
            return f"Panic({abi_decode(['uint256'], body)[0]:#x})"
        if selector not in self._errors:
            return f"unknown error 0x{data.hex()}" if data else "reverted without a reason"
        name, types = self._errors[selector]
        return f"{name}({', '.join(map(_shown, abi_decode(types, body)))})"

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except ContractCustomError as error:
            raise ChainError(f"{name}: {self.decode_error(_revert_data(error))}") from error
        except ContractLogicError as error:
            data = _revert_data(error)
            raise ChainError(f"{name}: {self.decode_error(data) if data else error.message}") from error
        except requests.RequestException as error:
            raise ChainError(
                f"rpc: {self.rpc_url} does not answer ({type(error).__name__}); check that it runs"
            ) from error
        except Web3RPCError as error:
            text = str(error)
            if "insufficient funds" in text.lower():
                sender = self.account.address if self.account else "the sender"
                raise ChainError(f"{name}: {sender} has not enough ETH for gas; send it some") from error
            raise ChainError(f"{name}: {text.splitlines()[0]}") from error
        except (Web3Exception, ValueError) as error:
            raise ChainError(f"{name}: {str(error).splitlines()[0]}") from error


def _revert_data(error: ContractLogicError) -> bytes:
    data = error.data
    if isinstance(data, dict):
        data = data.get("data")
    return bytes.fromhex(data.removeprefix("0x")) if isinstance(data, str) else b""


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, (tuple, list)) and not isinstance(value, str):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)
