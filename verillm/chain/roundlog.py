"""Rounds rebuilt from the events of ``Rounds``, since the chain itself keeps only each round's hash.

What is rebuilt, or kept from an earlier call, is believed only if it has that hash.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from verillm.chain.calls import ContractCalls
from verillm.chain.connection import Event, backwards
from verillm.errors import ChainError, RoundMoved
from verillm.settlement import lines_hash, round_hash
from verillm.types import Line, Round

P = ParamSpec("P")
T = TypeVar("T")

CHANGES = ("RoundRequeued", "VerificationsCommitted", "RoundSettled")
MAX_KEPT = 4096
"""Most rounds, and most commit blocks of rounds, that are kept."""
TRIES = 3
"""The chain may move on between reading the hash and reading the events."""


@dataclass(frozen=True)
class RoundInfo(Round):
    """A round with its number, the block of its commitment and, once it is settled, its lines.

    ``closed``: it was paid or refunded.
    """

    round_id: int = 0
    commit_block: int = 0
    debits: tuple[Line, ...] = ()
    credits: tuple[Line, ...] = ()
    closed: bool = False

    @property
    def verified(self) -> bool:
        """The verifiers' commitments are posted."""
        return self.position_block != 0

    @property
    def settled(self) -> bool:
        """The settlement is posted."""
        return self.final_block != 0


def on_round(method: Callable[P, T]) -> Callable[P, T]:
    """A call that reads a round and brings it along is repeated if somebody moved the round on meanwhile."""

    @wraps(method)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(TRIES - 1):
            try:
                return method(*args, **kwargs)
            except RoundMoved:
                continue
        return method(*args, **kwargs)

    return repeated


class RoundLog:
    """Finds and follows rounds through one client. Thread-safe."""

    def __init__(self, chain: ContractCalls) -> None:
        self._chain = chain
        self._commits: dict[int, int] = {}
        self._rounds: dict[int, tuple[RoundInfo, int]] = {}  # and the last block that was read for it
        self._lock = threading.Lock()

    def note(self, round_id: int, commit_block: int) -> None:
        """Remember where a round was committed, so that no search is needed."""
        with self._lock:
            _keep(self._commits, round_id, commit_block)

    def round(self, round_id: int) -> RoundInfo:
        """The round as it stands. Raises ChainError if there is none, or if the events give another hash."""
        for _ in range(TRIES):
            state = self._chain._call("rounds", "stateOf", round_id)
            if state == bytes(32):
                raise ChainError(f"round: there is no round {round_id}")
            for info, block in self._candidates(round_id):
                hashed = round_hash(info)
                if state in (hashed, _complement(hashed)):
                    info = replace(info, closed=state != hashed)
                    with self._lock:
                        _keep(self._rounds, round_id, (info, block))
                    return info
        raise ChainError(
            f"round: the events of round {round_id} do not give the hash that the chain keeps; "
            f"does {self._chain.connection.rpc_url} serve all logs?"
        )

    def _candidates(self, round_id: int) -> Iterator[tuple[RoundInfo, int]]:
        """What the round may be, and the last block read for that; the cheapest to get first."""
        kept = self._rounds.get(round_id)
        if kept is not None:
            yield kept
            yield self._follow(*kept)
        committed = self._committed(round_id)
        # A round changes after settleBy only if somebody requeues what can no longer be settled.
        info, block = self._follow(committed, committed.commit_block, committed.settle_by)
        yield info, block
        yield self._follow(info, block)

    def _follow(self, info: RoundInfo, block: int, to_block: int | None = None) -> tuple[RoundInfo, int]:
        """The round after the events from ``block`` on, at most up to ``to_block``."""
        latest = self._chain.connection.block_number()
        last = latest if to_block is None else min(latest, to_block)
        topic = info.round_id.to_bytes(32, "big")
        # ``block`` itself is read again: the round may have been committed and changed in one block.
        for event in self._chain._history("rounds", CHANGES, topic, block, last):
            info = _after(info, event)
        return info, max(block, last)

    def _committed(self, round_id: int) -> RoundInfo:
        """The round as it was committed."""
        block = self._commits.get(round_id)
        if block is not None:
            for event in self._chain.events("rounds", "RoundCommitted", block, block, roundId=round_id):
                return _begin(event)
        for _ in range(2):
            for event in self._search(round_id):
                self.note(event.args["roundId"], event.block)
                if event.args["roundId"] == round_id:
                    return _begin(event)
            with self._lock:
                self._commits.clear()  # a reorganisation may have moved its neighbours
        raise ChainError(
            f"round: found no event of round {round_id} since block {self._chain.addresses.deploy_block}; "
            f"does {self._chain.connection.rpc_url} serve all logs?"
        )

    def _search(self, round_id: int) -> Iterator[Event]:
        """Commitments backwards from the latest block, or from a later round that is known: ids ascend."""
        with self._lock:
            later = [block for known, block in self._commits.items() if known > round_id]
            earlier = [block for known, block in self._commits.items() if known < round_id]
        end = min(later, default=self._chain.connection.block_number())
        first = max(earlier, default=self._chain.addresses.deploy_block)
        for start, stop in backwards(first, end):
            yield from reversed(list(self._chain.events("rounds", "RoundCommitted", start, stop)))


def _keep(kept: dict[int, Any], key: int, value: Any) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]


def _complement(word: bytes) -> bytes:
    return bytes(255 - byte for byte in word)


def _begin(event: Event) -> RoundInfo:
    info = RoundInfo(*_values(event.args["round"]))
    return replace(info, round_id=event.args["roundId"], commit_block=event.block)


def _after(info: RoundInfo, event: Event) -> RoundInfo:
    args = event.args
    if event.name == "RoundRequeued":
        name = "position_block" if info.verified else "verifier_block"
        return replace(info, **{name: args["targetBlock"]})
    if event.name == "VerificationsCommitted":
        return replace(
            info,
            verification_root=args["root"],
            verifications=args["count"],
            verifier_seed=args["verifierSeed"],
            position_block=args["positionBlock"],
        )
    debits, credits = (tuple(Line(*_values(line)) for line in args[side]) for side in ("debits", "credits"))
    return replace(
        info,
        settlement_root=args["root"],
        position_seed=args["positionSeed"],
        final_block=args["finalBlock"],
        debits=debits,
        credits=credits,
        debits_hash=lines_hash(debits),
        credits_hash=lines_hash(credits),
        total=sum(line.amount for line in debits),
    )


def _values(struct: Any) -> Any:
    """A decoded struct's values in order: web3 gives a mapping in events, a tuple from calls."""
    return struct.values() if hasattr(struct, "values") else struct
