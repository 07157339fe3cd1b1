"""One JSON-RPC endpoint, one sender: calls, transactions and events with typed errors.

Every failure is a ChainError of one line: an unreachable endpoint, another chain, too little ETH, or the
contract's own custom error with its arguments.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils.abi import event_abi_to_log_topic
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.contract import Contract
from web3.exceptions import (
    LogTopicError,
    TransactionNotFound,
)
from web3.types import RPCEndpoint

from verillm.chain.reverts import Reverts, hex_bytes
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


@dataclass(frozen=True)
class Event:
    """A decoded log. ``args`` as web3 decodes them: ints, bytes, checksummed addresses."""

    name: str
    args: dict[str, Any]
    block: int
    index: int
    """Place among the block's logs."""
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
        self._reverts = Reverts(rpc_url, account.address if account else "the sender")
        self._nonce: int | None = None
        self._lock = threading.Lock()
        with self._reverts.translated("eth_chainId"):
            self.chain_id = self.web3.eth.chain_id
        if chain_id is not None and self.chain_id != chain_id:
            raise ChainError(
                f"chain id: {rpc_url} serves chain {self.chain_id}, the address book is for {chain_id}; "
                "use the endpoint or the address book of the other"
            )

    def contract(self, address: str, abi: list[dict[str, Any]]) -> Contract:
        """Bind an ABI at an address; its custom errors are decoded from then on."""
        self._reverts.learn(abi)
        return self.web3.eth.contract(address=Web3.to_checksum_address(address), abi=abi)

    def call(self, contract: Contract, name: str, *args: Any) -> Any:
        """Read from a contract at the latest block."""
        with self._reverts.translated(name):
            return contract.get_function_by_name(name)(*args).call()

    def send(self, contract: Contract, name: str, *args: Any) -> Receipt:
        """Send one transaction and wait for its receipt. Raises ChainError also if it reverts."""
        return self.transact(name, {"to": contract.address, "data": self.encode(contract, name, *args)})

    def encode(self, contract: Contract, name: str, *args: Any) -> str:
        """0x-hex data of a call."""
        with self._reverts.translated(name):
            return contract.encode_abi(name, args)

    def creation(self, abi: list[dict[str, Any]], bytecode: str, *args: Any) -> str:
        """0x-hex data of a contract's creation."""
        with self._reverts.translated("constructor"):
            return self.web3.eth.contract(abi=abi, bytecode=bytecode).constructor(*args).data_in_transaction

    def nonce_of(self, address: str) -> int:
        """The nonce of an account's next transaction."""
        with self._reverts.translated("eth_getTransactionCount"):
            return self.web3.eth.get_transaction_count(Web3.to_checksum_address(address), "pending")

    def request(self, method: str, *params: Any) -> Any:
        """One JSON-RPC request and its plain result. Raises ChainError, with the reason of a revert."""
        with self._reverts.translated(method):
            answer: Any = self.web3.provider.make_request(RPCEndpoint(method), params)
            error = answer.get("error")
            if error is None:
                return answer["result"]
        details = error if isinstance(error, dict) else {"message": error}
        revert = hex_bytes(details.get("data"))
        raise ChainError(f"{method}: {self._reverts.decode(revert) if revert else details.get('message')}")

    def transfer(self, to: str, wei: int) -> Receipt:
        """Send ``wei`` of the chain's coin."""
        return self.transact("transfer", {"to": Web3.to_checksum_address(to), "value": wei})

    def transact(self, name: str, fields: dict[str, Any]) -> Receipt:
        """Send one transaction of these fields (``to``, ``data``, ``value``) and wait for its receipt."""
        account = self.account
        if account is None:
            raise ChainError(f"{name}: this client has no key; give it an account to send transactions")
        transaction: Any = {"from": account.address, "value": 0, **fields}
        with self._lock, self._reverts.translated(name):
            # Estimating runs the call, so a revert is reported here, before anything is paid.
            gas = self.web3.eth.estimate_gas(transaction)
            price = self.web3.eth.gas_price
            if self._nonce is None:
                self._nonce = self.nonce_of(account.address)
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
            with self._reverts.translated(name):
                self.web3.eth.call({**transaction, "gas": envelope["gas"]}, receipt["blockNumber"])
            raise ChainError(f"{name}: transaction 0x{digest.hex()} reverted without a reason")
        return receipt

    def wait_receipt(self, transaction: bytes, name: str = "transaction") -> Receipt:
        """Wait until a transaction is in a block. Raises ChainError after RECEIPT_SECONDS."""
        deadline = time.monotonic() + RECEIPT_SECONDS
        while True:
            with self._reverts.translated(name):
                try:
                    return dict(self.web3.eth.get_transaction_receipt(HexBytes(transaction)))
                except TransactionNotFound:
                    pass
            if time.monotonic() > deadline:
                raise ChainError(f"{name}: 0x{transaction.hex()} is in no block after {RECEIPT_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def block_number(self) -> int:
        """Number of the latest block."""
        with self._reverts.translated("eth_blockNumber"):
            number: object = self.web3.eth.block_number
        if type(number) is not int or number < 0:
            raise ChainError("eth_blockNumber: the endpoint's answer is no block number")
        return number

    def block(self, number: Any = "latest") -> dict[str, Any]:
        """A block's header as eth_getBlockByNumber gives it."""
        with self._reverts.translated("eth_getBlockByNumber"):
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
            with self._reverts.translated(name):
                logs = contract.events[name].get_logs(filters, from_block=start, to_block=end)
            yield from (_event(name, log) for log in logs)

    def history(
        self, contract: Contract, names: Sequence[str], topic: bytes, from_block: int, to_block: int
    ) -> list[Event]:
        """All events of these names whose first indexed argument is ``topic`` (32 bytes), in chain order."""
        kinds = {event_abi_to_log_topic(contract.events[name].abi): name for name in names}
        found = []
        for start in range(from_block, to_block + 1, LOG_BLOCKS):
            where: Any = {
                "address": contract.address,
                "fromBlock": start,
                "toBlock": min(start + LOG_BLOCKS - 1, to_block),
                "topics": [["0x" + kind.hex() for kind in kinds], "0x" + topic.hex()],
            }
            with self._reverts.translated("eth_getLogs"):
                for log in self.web3.eth.get_logs(where):
                    name = kinds[bytes(log["topics"][0])]
                    found.append(_event(name, contract.events[name]().process_log(log)))
        return found

    def emitted(self, contract: Contract, name: str, receipt: Receipt) -> dict[str, Any]:
        """Arguments of the one event ``name`` of a contract in a receipt. Raises ChainError without it."""
        for log in receipt["logs"]:
            if log["address"] == contract.address:
                with self._reverts.translated(name):
                    try:
                        return dict(contract.events[name]().process_log(log)["args"])
                    except LogTopicError:
                        continue
        raise ChainError(f"{name}: the transaction emitted no such event")


def backwards(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges (start, end) of LOG_BLOCKS blocks from ``last`` down to ``first``."""
    while last >= first:
        start = max(first, last - LOG_BLOCKS + 1)
        yield start, last
        last = start - 1


def _event(name: str, log: Any) -> Event:
    block, index, transaction = log["blockNumber"], log["logIndex"], log["transactionHash"]
    whole = isinstance(transaction, bytes) and len(transaction) == 32
    if type(block) is not int or type(index) is not int or not whole:
        raise ChainError(f"{name}: the endpoint's log has no place in the chain")
    return Event(name, dict(log["args"]), block, index, bytes(transaction))
