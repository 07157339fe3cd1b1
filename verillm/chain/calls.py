"""What the groups of contract calls share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from verillm.chain.addresses import AddressBook
from verillm.chain.connection import Connection, Event, Receipt
from verillm.errors import ChainError


class ContractCalls(ABC):
    """Base of the call groups; ``ChainClient`` is all of them over one connection.

    ``contract`` is "token", "staking", "randomness", "rounds", "court" or "tribunal".
    """

    addresses: AddressBook
    connection: Connection
    _spending: threading.Lock

    @abstractmethod
    def _call(self, contract: str, name: str, *args: Any) -> Any:
        """Read from a contract."""

    @abstractmethod
    def _send(self, contract: str, name: str, *args: Any) -> Receipt:
        """Send a transaction to a contract and wait for its receipt."""

    @abstractmethod
    def _emitted(self, receipt: Receipt, contract: str, name: str) -> dict[str, Any]:
        """Arguments of the one event ``name`` of a contract in a receipt."""

    @abstractmethod
    def events(
        self,
        contract: str,
        name: str,
        from_block: int | None = None,
        to_block: int | None = None,
        **filters: Any,
    ) -> Iterator[Event]:
        """Events of a contract in block order."""

    @property
    def address(self) -> str:
        """The account's address. Raises ChainError for a client without an account."""
        if self.connection.account is None:
            raise ChainError("account: this client has no key; give it an account")
        return self.connection.account.address

    def _spend(self, amount: int, contract: str, name: str, *args: Any) -> Receipt:
        """Send a call that pulls ``amount`` token wei from the account, with the approval it needs."""
        spender = getattr(self.addresses, contract)
        with self._spending:
            if self._call("token", "allowance", self.address, spender) < amount:
                self._send("token", "approve", spender, amount)
            return self._send(contract, name, *args)
