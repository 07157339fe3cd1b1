"""The address book of one deployment: which contracts a client talks to, on which chain."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from eth_utils import is_hex_address, to_checksum_address

from verillm.eip712 import Domain
from verillm.errors import ConfigError, EncodingError
from verillm.params import Params, load_params
from verillm.sdk.jsoncodec import parse_json

CONTRACTS = (
    "token",
    "timelock",
    "parameters",
    "staking",
    "randomness",
    "rounds",
    "court",
    "tribunal",
    "audit",
    "inquiry",
)


@dataclass(frozen=True)
class AddressBook:
    """Contract addresses of one deployment, and the parameter profile that it began with."""

    chain_id: int
    token: str
    timelock: str
    parameters: str
    staking: str
    randomness: str
    rounds: str
    court: str
    tribunal: str
    audit: str
    inquiry: str
    params_profile: str
    deploy_block: int = 0
    """First block with events of this deployment."""

    @property
    def domain(self) -> Domain:
        """EIP-712 domain of jobs, commitments and verdicts."""
        return Domain(self.chain_id, self.rounds)

    @property
    def params(self) -> Params:
        """The first version; ``ChainClient.params`` knows the current one."""
        return load_params(self.params_profile)

    def write(self, path: str | Path) -> None:
        """Write the JSON file. Raises ConfigError."""
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n")
        except OSError as error:
            raise ConfigError(
                f"address book: cannot write {path}: {error.strerror}; choose another path"
            ) from error

    @classmethod
    def read(cls, path: str | Path) -> AddressBook:
        """Read the JSON file. Raises ConfigError naming what is missing or wrong."""
        try:
            values = parse_json(Path(path).read_text(), "file")
        except (OSError, UnicodeDecodeError, EncodingError) as error:
            raise ConfigError(f"address book: cannot read {path}: {error}") from error
        names = {f.name for f in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ConfigError(f"address book: {path} must have exactly the fields {', '.join(sorted(names))}")
        for name in CONTRACTS:
            if not is_hex_address(values[name]):
                raise ConfigError(f"address book: {name} in {path} is not an address")
            values[name] = to_checksum_address(values[name])
        for name in ("chain_id", "deploy_block"):
            if type(values[name]) is not int or not 0 <= values[name] < 2**64:
                raise ConfigError(f"address book: {name} in {path} must be a number from 0 to 2^64 - 1")
        if not isinstance(values["params_profile"], str):
            raise ConfigError(f"address book: params_profile in {path} must be a string")
        load_params(values["params_profile"])
        return cls(**values)
