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


def verifier_alpha(verifier_seed: bytes, job_id: bytes) -> bytes:
    """VRF input for a job's verifiers: H(verifierSeed || jobId), with the seed of the round."""
    return keccak(verifier_seed + job_id)


def jury_beta(seed: bytes, dispute_id: int, level: int) -> bytes:
    """In place of a VRF output for a jury, 32 bytes: H(seed || disputeId u256 || u8 level)."""
    return keccak(seed + dispute_id.to_bytes(32, "big") + bytes([level]))


def draw_operators(
    beta: bytes, count: int, stakes: Sequence[tuple[str, int]], excluded: Collection[str] = ()
) -> list[str]:
    """Up to ``count`` distinct operators drawn by stake, in draw order.

    ``beta`` is the VRF output, or ``jury_beta`` for a jury (32 bytes). ``stakes`` is the epoch's
    list (operator, stake in token wei) by operator index. Fewer come back if fewer are eligible, or if
    MAX_POINTS points found no more.
    """
    ends = list(accumulate(stake for _, stake in stakes))
    total = ends[-1] if ends else 0
    skipped = {address_bytes(operator) for operator in excluded}
    chosen: list[str] = []
    seed = bytes([Tag.DRAW]) + keccak(beta)
    for i in range(MAX_POINTS if total else 0):
        if len(chosen) == count:
            break
        point = int.from_bytes(keccak(seed + i.to_bytes(4, "big")), "big") % total
        operator = stakes[bisect_right(ends, point)][0]
        if (key := address_bytes(operator)) not in skipped:
            skipped.add(key)
            chosen.append(operator)
    return chosen


def draw_worker(beta: bytes, stakes: Sequence[tuple[str, int]]) -> str:
    """The one operator that works on a job's attempt. Raises NotEnoughOperators if nobody has stake."""
    drawn = draw_operators(beta, 1, stakes)
    if not drawn:
        raise NotEnoughOperators(
            f"operators: none of the pool's {len(stakes)} has stake in this epoch; wait for the next"
        )
    return drawn[0]


def draw_verifiers(beta: bytes, count: int, stakes: Sequence[tuple[str, int]], worker: str) -> list[str]:
    """Who may verify a job, in draw order: up to ``count`` = job.verifiers + params.verifier_spares operators
    other than its worker."""
    return draw_operators(beta, count, stakes, [worker])


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
