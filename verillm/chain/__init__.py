"""The contracts: addresses, deployment and calls."""

from verillm.chain.addresses import AddressBook
from verillm.chain.client import ChainClient

__all__ = ["AddressBook", "ChainClient"]
