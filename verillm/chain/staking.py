"""Calls of the token and ``Staking``."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import Receipt, backwards
from verillm.errors import ChainError
from verillm.types import ModelSpec

SCHEDULER_POOL = bytes(32)
"""The "model id" under which schedulers stake."""


@dataclass(frozen=True)
class OperatorInfo:
    """What an operator or scheduler said last; ``endpoint`` is empty if it never registered."""

    endpoint: str


class StakingCalls(ContractCalls):
    """Token balances, registration, keys and stakes."""

    _endpoints: dict[str, tuple[str, int]]
    """Operator to its endpoint, and the last block that was searched for it."""

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
        try:
            self._call("staking", "model", model_id)
        except ChainError as error:
            if "ModelUnknown" not in str(error):
                raise
            return False
        return True

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

    def release_seat(self, model_id: bytes, operator: str) -> Receipt:
        """Free the seat of an operator that has not been drawn for ``unbonding_blocks``. Anyone may."""
        return self._send("staking", "releaseSeat", model_id, operator)

    def withdraw_unbonded(self, model_id: bytes) -> Receipt:
        """Pay out what has finished unbonding."""
        return self._send("staking", "withdrawUnbonded", model_id)

    def set_endpoint(self, model_id: bytes, endpoint: str) -> Receipt:
        """Be reachable elsewhere."""
        return self._send("staking", "setEndpoint", model_id, endpoint)

    def operator(self, operator: str) -> OperatorInfo:
        """The endpoint that an operator gave last, in any pool."""
        latest = self.connection.block_number()
        found, seen = self._endpoints.get(operator, ("", self.addresses.deploy_block - 1))
        for start, end in backwards(seen + 1, latest):
            news = [
                event
                for name in ("OperatorRegistered", "EndpointChanged")
                for event in self.events("staking", name, start, end, operator=operator)
            ]
            if news:
                found = max(news, key=lambda event: (event.block, event.index)).args["endpoint"]
                break
        self._endpoints[operator] = (found, latest)
        return OperatorInfo(found)

    def set_signer(self, signer: str) -> Receipt:
        """Let another key sign commitments and verdicts for the account from the next epoch on; the account's
        own address ends that."""
        return self._send("staking", "setSigner", signer)

    def signer_at(self, operator: str, epoch: int) -> str:
        """The key that signs for an operator in an epoch: its own address unless it named another."""
        return self._call("staking", "signerAt", operator, epoch)

    def is_signer(self, operator: str, signer: str, epoch: int) -> bool:
        """May ``signer`` sign for the operator in rounds of this epoch? An operator always may for itself."""
        return operator == signer or self._call("staking", "isSigner", operator, signer, epoch)

    def rotate_vrf_key(self, vrf_public_key: bytes) -> Receipt:
        """Draw with another key (33 bytes) from the next epoch on."""
        return self._send("staking", "rotateVrfKey", vrf_public_key)

    def vrf_public_key(self, scheduler: str) -> bytes:
        """A scheduler's key (33 bytes) now; empty before the first epoch after its registration."""
        return self._call("staking", "vrfPublicKey", scheduler)

    def vrf_key_at(self, scheduler: str, epoch: int) -> bytes:
        """A scheduler's key in an epoch, with which its draws of that epoch are checked."""
        return self._call("staking", "vrfKeyAt", scheduler, epoch)

    def is_vrf_key(self, scheduler: str, key: bytes, epoch: int) -> bool:
        """Is this the key of the scheduler's draws in an epoch?"""
        return self.vrf_key_at(scheduler, epoch) == key

    def stake_of(self, model_id: bytes, operator: str) -> int:
        """All of an operator's stake in a pool that can be slashed, active or leaving."""
        return self._call("staking", "stakeOf", model_id, operator)

    def stakes(self, model_id: bytes, epoch: int) -> list[tuple[str, int]]:
        """(operator, stake) by operator index, as draws of ``epoch`` use them."""
        operators, weights = self._call("staking", "stakesAt", model_id, epoch)
        if len(operators) != len(weights):
            raise ChainError(f"stakes: the endpoint gave {len(weights)} stakes of {len(operators)} operators")
        return list(zip(operators, weights, strict=True))

    def draw(self, model_id: bytes, epoch: int, beta: bytes, count: int, excluded: list[str]) -> list[str]:
        """The contract's own draw, equal to ``verillm.draw.draw_operators``."""
        return list(self._call("staking", "draw", model_id, epoch, beta, count, excluded))

    def epoch_seed(self, epoch: int) -> bytes:
        """The contract's own epoch seed, equal to ``verillm.draw.epoch_seed``."""
        return self._call("staking", "epochSeed", epoch)

    @cached_property
    def epoch_blocks(self) -> int:
        """Blocks per epoch; no version of the parameters changes it."""
        blocks: int = self._call("staking", "epochBlocks")
        if blocks < 1:
            raise ChainError("epoch: the endpoint says that epochs have no blocks")
        return blocks

    def current_epoch(self) -> int:
        """Epoch of the latest block."""
        return self.connection.block_number() // self.epoch_blocks

    def wait_epoch(self, epoch: int, timeout: float = 600.0) -> int:
        """Wait until ``epoch`` has begun; returns the latest block."""
        return self.connection.wait_block(epoch * self.epoch_blocks, timeout)
