"""One deployment through one endpoint: every contract call as a small method.

Amounts are token wei, ids ints, hashes 32-byte ``bytes``, addresses checksummed hex. Methods that send a
transaction wait for its receipt. Every failure is a ChainError of one line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from eth_account.signers.local import LocalAccount

from verillm.chain.addresses import AddressBook
from verillm.chain.artifacts import load_artifact
from verillm.chain.audit import AuditCalls
from verillm.chain.connection import Connection, Event, Receipt
from verillm.chain.court import CourtCalls
from verillm.chain.roundlog import RoundLog
from verillm.chain.staking import StakingCalls
from verillm.chain.tribunal import TribunalCalls
from verillm.params import Params

ARTIFACTS = {
    "token": "TestToken",
    "timelock": "Timelock",
    "parameters": "Parameters",
    "staking": "Staking",
    "randomness": "Randomness",
    "rounds": "Rounds",
    "court": "Court",
    "tribunal": "Tribunal",
    "audit": "Audit",
    "inquiry": "Inquiry",
}


class ChainClient(StakingCalls, CourtCalls, TribunalCalls, AuditCalls):
    """Calls of one deployment, with an account that signs if one is given. Thread-safe.

    Raises ChainError if the endpoint does not answer or serves another chain than the address book's.
    """

    def __init__(self, rpc_url: str, addresses: AddressBook, account: LocalAccount | None = None) -> None:
        self.addresses = addresses
        self.domain = addresses.domain
        self.connection = Connection(rpc_url, addresses.chain_id, account)
        self.chain_id = self.connection.chain_id
        self._spending = threading.Lock()
        self._endpoints = {}
        self._versions: dict[int, Params] = {}
        self._round_log = RoundLog(self)
        self._contracts = {
            key: self.connection.contract(getattr(addresses, key), load_artifact(name)["abi"])
            for key, name in ARTIFACTS.items()
        }

    @property
    def params(self) -> Params:
        """The current version of the parameters, asked of the chain each time."""
        return self.params_at(self.params_version())

    def params_version(self) -> int:
        """The latest version's number; the first is 1."""
        return self._call("parameters", "version")

    def params_at(self, version: int) -> Params:
        """A version of the parameters; a round keeps that of its ``params_version``."""
        if version not in self._versions:
            self._versions[version] = Params(*self._call("parameters", "at", version))
        return self._versions[version]

    def paused(self) -> bool:
        """Has the guardian paused new rounds and deposits?"""
        return self._call("parameters", "paused")

    def block_number(self) -> int:
        """Number of the latest block."""
        return self.connection.block_number()

    def wait_block(self, number: int, timeout: float = 600.0) -> int:
        """Wait until block ``number`` exists; returns the latest."""
        return self.connection.wait_block(number, timeout)

    def wait_receipt(self, transaction: bytes) -> Receipt:
        """Wait until a transaction is in a block."""
        return self.connection.wait_receipt(transaction)

    def transfer_eth(self, to: str, wei: int) -> Receipt:
        """Send ``wei`` of the chain's coin, for gas."""
        return self.connection.transfer(to, wei)

    def events(
        self,
        contract: str,
        name: str,
        from_block: int | None = None,
        to_block: int | None = None,
        **filters: Any,
    ) -> Iterator[Event]:
        """Events of a contract (a key of ARTIFACTS) in block order, in bounded reads.

        ``filters`` are values of indexed arguments; without ``from_block`` from the deployment on.
        """
        start = self.addresses.deploy_block if from_block is None else from_block
        return self.connection.events(self._contracts[contract], name, start, to_block, filters)

    def _history(
        self, contract: str, names: Sequence[str], topic: bytes, from_block: int, to_block: int
    ) -> list[Event]:
        return self.connection.history(self._contracts[contract], names, topic, from_block, to_block)

    def _call(self, contract: str, name: str, *args: Any) -> Any:
        return self.connection.call(self._contracts[contract], name, *args)

    def _send(self, contract: str, name: str, *args: Any) -> Receipt:
        return self.connection.send(self._contracts[contract], name, *args)

    def _emitted(self, receipt: Receipt, contract: str, name: str) -> dict[str, Any]:
        return self.connection.emitted(self._contracts[contract], name, receipt)
