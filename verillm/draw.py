"""Stake-weighted draws of workers, verifiers, jurors, and opened positions: protocol section 5."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate

from eth_hash.auto import keccak

from verillm.constants import Tag
from verillm.eip712 import address_bytes
from verillm.errors import NotEnoughOperators

MAX_POINTS = 256
"""Most points tried in one draw."""


def epoch_seed(chain_id: int, staking: str, epoch: int) -> bytes:
    """H(0x0d || chainId u256 || stakingContract(20) || epoch u64), 32 bytes."""
    return keccak(
        bytes([Tag.EPOCH_SEED])
        + chain_id.to_bytes(32, "big")
        + address_bytes(staking, "staking")
        + epoch.to_bytes(8, "big")
    )


def worker_alpha(seed: bytes, job_id: bytes, attempt: int) -> bytes:
    """VRF input for the worker of a job's attempt: H(epochSeed || jobId || u32 attempt)."""
    return keccak(seed + job_id + attempt.to_bytes(4, "big"))


def verifier_alpha(round_randomness: bytes, job_id: bytes) -> bytes:
    """VRF input for a job's verifiers: H(roundRandomness || jobId)."""
    return keccak(round_randomness + job_id)


def draw_operators(
    beta: bytes, count: int, stakes: Sequence[tuple[str, int]], excluded: Collection[str] = ()
) -> list[str]:
    """``count`` distinct operators drawn by stake, in draw order.

    ``beta`` is the VRF output, or the dispute's randomness for a jury (32 bytes). ``stakes`` is the epoch's
    list (operator, stake in token wei) by operator index. Raises NotEnoughOperators.
    """
    if count == 0:
        return []
    ends = list(accumulate(stake for _, stake in stakes))
    total = ends[-1] if ends else 0
    barred = {address_bytes(a) for a in excluded}
    skipped = set(barred)
    chosen: list[str] = []
    seed = bytes([Tag.DRAW]) + keccak(beta)
    for i in range(MAX_POINTS if total else 0):
        point = int.from_bytes(keccak(seed + i.to_bytes(4, "big")), "big") % total
        operator = stakes[bisect_right(ends, point)][0]
        key = address_bytes(operator)
        if key in skipped:
            continue
        skipped.add(key)
        chosen.append(operator)
        if len(chosen) == count:
            return chosen
    eligible = sum(1 for operator, stake in stakes if stake and address_bytes(operator) not in barred)
    raise NotEnoughOperators(
        f"operators: the draw found {len(chosen)} of {count} in {MAX_POINTS} points; "
        f"{eligible} are eligible; wait for more stake or ask for fewer"
    )


def opened_positions(randomness: bytes, job_id: bytes, n: int, count: int) -> list[int]:
    """Sorted distinct row positions in [0, n) to open, min(count, n) of them."""
    wanted = min(count, n)
    found: set[int] = set()
    prefix = bytes([Tag.POSITIONS]) + randomness + job_id
    i = 0
    while len(found) < wanted:
        found.add(int.from_bytes(keccak(prefix + i.to_bytes(4, "big")), "big") % n)
        i += 1
    return sorted(found)
