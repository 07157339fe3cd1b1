"""Calls of ``Randomness``: seeds of blocks, computed here from their headers."""

from __future__ import annotations

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import Receipt
from verillm.chain.header import encode_header
from verillm.errors import ChainError, SeedExpired

REACH = 256
"""How many blocks back the chain knows a block's hash, and so can check its header."""


class RandomnessCalls(ContractCalls):
    """prevrandao of blocks that were fixed in advance."""

    def wait_seed(self, block_number: int, timeout: float = 600.0) -> bytes:
        """Wait until a block is past and return its 32 bytes; no transaction is needed.

        Raises SeedExpired if the chain could no longer check them and nobody made it keep them.
        """
        self.connection.wait_block(block_number + 1, timeout)
        if self._in_reach(block_number):
            block = self.connection.block(block_number)
            encode_header(block)  # checks that mixHash is of the block with this hash
            return bytes(block["mixHash"])
        kept = self.randomness(block_number)
        if kept is None:
            raise _expired(block_number)
        return kept

    def randomness(self, block_number: int) -> bytes | None:
        """A block's 32 bytes if somebody made the chain keep them."""
        if not self._call("randomness", "known", block_number):
            return None
        return self._call("randomness", "valueOf", block_number)

    def poke(self, block_number: int) -> Receipt:
        """Make the chain keep the seed of one of the last 256 blocks. Anyone may."""
        header = encode_header(self.connection.block(block_number))
        return self._send("randomness", "poke", block_number, header)

    def _header(self, block_number: int) -> bytes:
        """What a transaction shows for a block's seed: its header, or nothing if the chain keeps the seed.

        Raises SeedExpired.
        """
        if self.randomness(block_number) is not None:
            return b""
        if (latest := self.connection.block_number()) <= block_number:
            raise ChainError(
                f"randomness: block {block_number} is to come, the latest is {latest}; wait for it"
            )
        if not self._in_reach(block_number):
            raise _expired(block_number)
        return encode_header(self.connection.block(block_number))

    def _in_reach(self, block_number: int) -> bool:
        # The transaction that shows the header lands in a later block.
        return self.connection.block_number() + 1 - block_number <= REACH


def _expired(block_number: int) -> SeedExpired:
    return SeedExpired(
        f"randomness: nobody showed block {block_number}'s within {REACH} blocks; requeue what waits for it"
    )
