"""Calls of the token, ``Staking`` and ``Randomness``."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import POLL_SECONDS, Receipt
from verillm.chain.header import encode_header
from verillm.errors import ChainError
from verillm.types import ModelSpec

SCHEDULER_POOL = bytes(32)
"""The "model id" under which schedulers stake."""


@dataclass(frozen=True)
class OperatorInfo:
    """What an operator or scheduler registered last; ``endpoint`` is empty if it never did."""

    endpoint: str


class StakingCalls(ContractCalls):
    """Token balances, registration, stakes and the randomness of fixed blocks."""

    def token_balance(self, owner: str) -> int:
        """Token wei of ``owner``."""
        return self._call("token", "balanceOf", owner)

    def mint_test_token(self, to: str, amount: int) -> Receipt:
        """Mint token wei; only the dev chains' TestToken allows it."""
        return self._send("token", "mint", to, amount)

    def register_model(self, spec: ModelSpec) -> Receipt:
        """Put a model's spec on chain, which opens its pool. Does nothing if it is there."""
        return self._send("staking", "registerModel", astuple(spec))

    def model_registered(self, model_id: bytes) -> bool:
        """Is this model's spec on chain?"""
        return any(self.events("staking", "ModelRegistered", modelId=model_id))

    def register_operator(self, model_id: bytes, amount: int, endpoint: str) -> Receipt:
        """Enter a model's pool with ``amount`` token wei, reachable at ``endpoint``; from next epoch on."""
        return self._spend(amount, "staking", "registerOperator", model_id, amount, endpoint)

    def register_scheduler(self, amount: int, endpoint: str, vrf_public_key: bytes) -> Receipt:
        """Stake as a scheduler that draws with ``vrf_public_key`` (33 bytes)."""
        return self._spend(amount, "staking", "registerScheduler", amount, endpoint, vrf_public_key)

    def increase_stake(self, model_id: bytes, amount: int) -> Receipt:
        """Add token wei to the account's stake in a pool; it counts from the next epoch."""
        return self._spend(amount, "staking", "increaseStake", model_id, amount)

    def request_unbond(self, model_id: bytes, amount: int) -> Receipt:
        """Stop staking ``amount``; ``withdraw_unbonded`` pays it out after ``unbonding_blocks``."""
        return self._send("staking", "requestUnbond", model_id, amount)

    def withdraw_unbonded(self, model_id: bytes) -> Receipt:
        """Pay out what has finished unbonding."""
        return self._send("staking", "withdrawUnbonded", model_id)

    def operator(self, operator: str) -> OperatorInfo:
        """The endpoint with which an operator registered last, in any pool."""
        found = list(self.events("staking", "OperatorRegistered", operator=operator))
        return OperatorInfo(found[-1].args["endpoint"] if found else "")

    def vrf_public_key(self, scheduler: str) -> bytes:
        """A scheduler's key (33 bytes), empty if it is not registered."""
        return self._call("staking", "vrfPublicKey", scheduler)

    def stake_of(self, model_id: bytes, operator: str) -> int:
        """All of an operator's stake in a pool that can be slashed, active or leaving."""
        return self._call("staking", "stakeOf", model_id, operator)

    def stakes(self, model_id: bytes, epoch: int) -> list[tuple[str, int]]:
        """(operator, stake) by operator index, as draws of ``epoch`` use them."""
        operators, weights = self._call("staking", "stakesAt", model_id, epoch)
        return list(zip(operators, weights, strict=True))

    def draw(self, model_id: bytes, epoch: int, beta: bytes, count: int, excluded: list[str]) -> list[str]:
        """The contract's own draw, equal to ``verillm.draw.draw_operators``."""
        return list(self._call("staking", "draw", model_id, epoch, beta, count, excluded))

    def epoch_seed(self, epoch: int) -> bytes:
        """The contract's own epoch seed, equal to ``verillm.draw.epoch_seed``."""
        return self._call("staking", "epochSeed", epoch)

    def current_epoch(self) -> int:
        """Epoch of the latest block."""
        return self.connection.block_number() // self.addresses.params.epoch_blocks

    def wait_epoch(self, epoch: int, timeout: float = 600.0) -> int:
        """Wait until ``epoch`` has begun; returns the latest block."""
        return self.connection.wait_block(epoch * self.addresses.params.epoch_blocks, timeout)

    def randomness(self, request_id: int) -> bytes | None:
        """A request's 32 bytes, or None while they are not known."""
        if not self._call("randomness", "known", request_id):
            return None
        return self._call("randomness", "value", request_id)

    def poke(self, request_id: int) -> Receipt:
        """Prove the requested block's randomness with its header; past 256 blocks it moves to a new block."""
        number = self._call("randomness", "targetBlock", request_id)
        return self._send("randomness", "poke", request_id, encode_header(self.connection.block(number)))

    def wait_randomness(self, request_id: int, timeout: float = 600.0) -> bytes:
        """Wait for a request's block, poke if nobody did, and return the 32 bytes. Raises ChainError."""
        deadline = time.monotonic() + timeout
        while (value := self.randomness(request_id)) is None:
            if time.monotonic() > deadline:
                raise ChainError(f"randomness: request {request_id} has none after {timeout:.0f} s")
            if self.connection.block_number() > self._call("randomness", "targetBlock", request_id):
                self._poke_unless_known(request_id)
            else:
                time.sleep(POLL_SECONDS)
        return value

    def _poke_unless_known(self, request_id: int) -> None:
        try:
            self.poke(request_id)
        except ChainError:  # another party may have poked in the same moment
            if self.randomness(request_id) is None:
                raise
