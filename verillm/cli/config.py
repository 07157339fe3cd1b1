"""Where a command finds its network: flags first, then a network file (JSON or TOML)."""

from __future__ import annotations

import argparse
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from verillm.errors import ConfigError, EncodingError
from verillm.sdk.jsoncodec import parse_json
from verillm.sdk.keys import KEY_VARIABLE, load_private_key

DEFAULT_FILE = "verillm.json"
DEV_CHAIN_ID = 31337


@dataclass(frozen=True)
class Network:
    """Settings of one network. Paths are absolute or relative to the working directory. ``dev_account`` is an
    index into anvil's public development keys, for chain 31337 only."""

    rpc: str | None = None
    scheduler: str | None = None
    address_book: str | None = None
    models: tuple[str, ...] = ()
    keyfile: str | None = None
    password_file: str | None = None
    dev_account: int | None = None

    def need(self, name: str) -> str:
        """The setting, or ConfigError saying how to give it."""
        value = getattr(self, name)
        if value is None:
            flag = "--" + name.replace("_", "-")
            raise ConfigError(f"{name}: is not set; give {flag}, or --network FILE with {name!r}")
        return str(value)

    def account(self, chain_id: int) -> LocalAccount:
        """The account of the keyfile, the environment or, on a development chain, ``dev_account``."""
        if self.dev_account is not None and self.keyfile is None:
            if chain_id != DEV_CHAIN_ID:
                raise ConfigError(
                    f"dev_account: only for chain {DEV_CHAIN_ID}, this is chain {chain_id}; give --keyfile"
                )
            from verillm.chain.devnet import account

            return account(self.dev_account)
        key: LocalAccount = Account.from_key(_valid(load_private_key(self.keyfile, self.password_file)))
        return key


def _valid(secret: bytes) -> bytes:
    from verillm import vrf

    try:
        vrf.public_key(secret)
    except ConfigError:
        raise ConfigError(
            f"{KEY_VARIABLE}: is not a secp256k1 key; it must be below the group order"
        ) from None
    return secret


def add_network_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that name a network."""
    group = parser.add_argument_group(
        "network", f"flags win over the network file (default ./{DEFAULT_FILE})"
    )
    group.add_argument(
        "--network", metavar="FILE", help="JSON or TOML with rpc, scheduler, address_book, models"
    )
    group.add_argument("--rpc", metavar="URL", help="the chain's JSON-RPC endpoint")
    group.add_argument("--scheduler", metavar="HOST:PORT", help="the scheduler's gRPC address")
    group.add_argument("--address-book", metavar="FILE", help="addresses of the deployed contracts")
    group.add_argument(
        "--models", metavar="PATH", nargs="+", help="manifest files, or model folders with manifest-*.json"
    )
    group.add_argument("--keyfile", metavar="FILE", help=f"eth keyfile of the client (or set {KEY_VARIABLE})")
    group.add_argument("--password-file", metavar="FILE", help="file that holds the keyfile's password")


def read_network(args: argparse.Namespace) -> Network:
    """The network file's settings, overridden by flags. Raises ConfigError naming file and field."""
    path = Path(args.network or DEFAULT_FILE)
    network = _from_file(path) if args.network or path.is_file() else Network()
    names = ("rpc", "scheduler", "address_book", "models", "keyfile", "password_file")
    flags: dict[str, Any] = {name: v for name in names if (v := getattr(args, name, None)) is not None}
    if "models" in flags:
        flags["models"] = tuple(flags["models"])
    return replace(network, **flags)


def _from_file(path: Path) -> Network:
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else parse_json(text, "file")
    except OSError as error:
        raise ConfigError(f"--network: cannot read {path}: {error.strerror}; check the path") from error
    except (ValueError, RecursionError, EncodingError) as error:
        raise ConfigError(f"--network: {path} is neither JSON nor TOML: {error}") from error
    known = {f.name for f in fields(Network)}
    if not isinstance(values, dict) or not values.keys() <= known:
        raise ConfigError(f"--network: {path} must be an object with only {', '.join(sorted(known))}")
    return Network(**{name: _checked(path, name, value) for name, value in values.items()})


def _checked(path: Path, name: str, value: Any) -> Any:
    """A file's value; paths in it are relative to the file."""
    if name == "dev_account":
        if type(value) is not int or not 0 <= value < 1000:
            raise ConfigError(f"--network: {name} in {path} must be a number from 0 to 999")
        return value
    items = [value] if name != "models" or isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"--network: {name} in {path} must be a string" + " or a list" * (name == "models"))
    if name in ("address_book", "models", "keyfile", "password_file"):
        items = [str(path.parent / item) for item in items]
    return tuple(items) if name == "models" else items[0]
