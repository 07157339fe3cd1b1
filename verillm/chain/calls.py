"""What the groups of contract calls share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from verillm.chain.addresses import AddressBook
from verillm.chain.connection import Connection, Event, Receipt, backwards
from verillm.errors import ChainError
from verillm.params import Params

E = TypeVar("E", bound=IntEnum)


def answered(kind: type[E], value: int) -> E:
    """The member of an enum that a contract answered. Raises ChainError if it has none of this number."""
    try:
        return kind(value)
    except ValueError as error:
        raise ChainError(f"{kind.__name__}: the endpoint answered {value}, which is unknown") from error


class ContractCalls(ABC):
    """Base of the call groups; ``ChainClient`` is all of them over one connection.

    ``contract`` is one of ``addresses.CONTRACTS``.
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

    @abstractmethod
    def _history(
        self, contract: str, names: Sequence[str], topic: bytes, from_block: int, to_block: int
    ) -> list[Event]:
        """All events of these names whose first indexed argument is ``topic`` (32 bytes), in chain order."""

    @abstractmethod
    def params_at(self, version: int) -> Params:
        """A version of the parameters."""

    def _newest(self, contract: str, name: str, **filters: Any) -> Event | None:
        """The newest such event, searched from the latest block back: what is asked for is mostly recent."""
        for start, end in backwards(self.addresses.deploy_block, self.connection.block_number()):
            found = list(self.events(contract, name, start, end, **filters))
            if found:
                return found[-1]
        return None

    @property
    def address(self) -> str:
        """The account's address. Raises ChainError for a client without an account."""
        if self.connection.account is None:
            raise ChainError("account: this client has no key; give it an account")
        return self.connection.account.address

    def _spend(self, amount: int, contract: str, name: str, *args: Any) -> Receipt:
        """Send a call that pulls ``amount`` token wei from the account, with the approval it needs.

        Stakes go to ``Staking``; escrow and bonds to ``Rounds``, whichever court takes them.
        """
        spender = self.addresses.staking if contract == "staking" else self.addresses.rounds
        with self._spending:
            if self._call("token", "allowance", self.address, spender) < amount:
                self._send("token", "approve", spender, amount)
            return self._send(contract, name, *args)
