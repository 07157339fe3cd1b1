"""Protocol parameters, read from the one file that contracts, node and simulation share."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from verillm.errors import ConfigError


@dataclass(frozen=True)
class Params:
    """One profile of ``params.json``. ``*_blocks`` are block counts, ``*_bps`` 1/10,000, amounts token wei.

    The field order is the field order of the Solidity struct ``Params``.
    """

    min_stake: int
    dispute_bond: int
    epoch_blocks: int
    unbonding_blocks: int
    escrow_delay_blocks: int
    randomness_delay_blocks: int
    settle_blocks: int
    challenge_window_blocks: int
    opening_deadline_blocks: int
    jury_commit_blocks: int
    jury_reveal_blocks: int
    appeal_blocks: int
    jury_size: int
    max_appeals: int
    max_attempts: int
    verifier_spares: int
    opened_positions: int
    slash_bps_divergence: int
    slash_bps_token_fraud: int
    slash_bps_withheld: int
    slash_bps_settlement: int
    slash_bps_no_show: int
    challenger_share_bps: int
    juror_share_bps: int
    verifier_fee_bps: int
    scheduler_fee_bps: int

    def as_tuple(self) -> tuple[int, ...]:
        """Values in field order, as the contracts' constructor takes them."""
        return tuple(getattr(self, f.name) for f in fields(self))


def load_params(profile: str) -> Params:
    """Read one profile. Raises ConfigError if the profile is unknown."""
    timelock_seconds(profile)
    return Params(**_read()[profile])


def timelock_seconds(profile: str) -> int:
    """How long a profile's deployment makes a change of parameters wait. Raises ConfigError."""
    delays: dict[str, int] = _read()["timelock_seconds"]
    if profile not in delays:
        known = ", ".join(delays)
        raise ConfigError(f"profile: unknown parameter profile {profile!r}; known profiles: {known}")
    return delays[profile]


@cache
def _read() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("verillm").joinpath("params.json").read_text())
    return content
