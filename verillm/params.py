"""Protocol parameters, read from the one file that contracts, node and simulation share."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from importlib.resources import files

from verillm.errors import ConfigError


@dataclass(frozen=True)
class Params:
    """One profile of ``params.json``. ``*_blocks`` are block counts, ``*_bps`` 1/10,000, amounts token wei.

    The field order is the field order of the Solidity struct ``Params``.
    """

    epoch_blocks: int
    unbonding_blocks: int
    escrow_delay_blocks: int
    randomness_delay_blocks: int
    challenge_window_blocks: int
    opening_deadline_blocks: int
    jury_commit_blocks: int
    jury_reveal_blocks: int
    jury_size: int
    min_stake: int
    dispute_bond: int
    slash_bps_divergence: int
    slash_bps_token_fraud: int
    slash_bps_withheld: int
    slash_bps_settlement: int
    slash_bps_no_show: int
    challenger_share_bps: int
    juror_share_bps: int
    verifier_fee_bps: int
    scheduler_fee_bps: int
    opened_positions: int

    def as_tuple(self) -> tuple[int, ...]:
        """Values in field order, as the contracts' constructor takes them."""
        return tuple(getattr(self, f.name) for f in fields(self))


def load_params(profile: str) -> Params:
    """Read one profile. Raises ConfigError if the profile is unknown."""
    profiles = json.loads(files("verillm").joinpath("params.json").read_text())
    if profile not in profiles or profile.startswith("_"):
        known = ", ".join(k for k in profiles if not k.startswith("_"))
        raise ConfigError(f"profile: unknown parameter profile {profile!r}; known profiles: {known}")
    return Params(**profiles[profile])
