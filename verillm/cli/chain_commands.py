"""``verillm calibrate`` and ``verillm deploy``: what makes a model and a deployment exist."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from verillm.cli.config import add_network_flags, read_network
from verillm.constants import Dtype
from verillm.errors import ConfigError
from verillm.model_store import DEFAULT_MODEL, manifest_path, resolve

DTYPES = tuple(dtype.name.lower() for dtype in Dtype)


def add(commands: Any) -> None:
    """Register the commands."""
    calibrate = commands.add_parser(
        "calibrate", help="measure a model's honest variation here and write its manifest"
    )
    calibrate.add_argument(
        "model",
        nargs="?",
        default=DEFAULT_MODEL,
        help=f"folder, .gguf, hub id or name (default {DEFAULT_MODEL})",
    )
    calibrate.add_argument(
        "--dtype", choices=DTYPES, default="bf16", help="dtype of compute and rows (default bf16)"
    )
    calibrate.add_argument("--jobs", type=int, default=24, help="honest jobs to measure (default 24)")
    calibrate.add_argument("--out", metavar="FILE", help="manifest to write (default: in the model folder)")
    calibrate.set_defaults(run=calibrate_model)
    deploy = commands.add_parser("deploy", help="deploy the contracts (for development and tests)")
    deploy.add_argument("--profile", default="devnet", help="parameter profile (default devnet)")
    deploy.add_argument("--out", metavar="FILE", default="addresses.json", help="address book to write")
    add_network_flags(deploy)
    deploy.set_defaults(run=deploy_contracts)


def calibrate_model(args: argparse.Namespace) -> int:
    try:
        from verillm.calibrate import calibrate
    except ImportError as error:
        raise ConfigError(f"{error.name}: not installed; pip install 'verillm[worker]'") from error
    dtype = Dtype[args.dtype.upper()]
    folder = resolve(args.model)
    manifest = calibrate(folder, dtype, jobs=args.jobs, save=False, progress=_note)
    path = args.out or manifest_path(folder, dtype)
    manifest.save(path)
    print(f"{path}: model id 0x{manifest.model_id.hex()}")
    return 0


def deploy_contracts(args: argparse.Namespace) -> int:
    from verillm.chain.connection import Connection
    from verillm.chain.deploy import deploy

    network = read_network(args)
    rpc = network.need("rpc")
    book = deploy(rpc, network.account(Connection(rpc).chain_id), args.profile)
    book.write(args.out)
    print(f"{args.out}: chain {book.chain_id}, Rounds {book.rounds}")
    return 0


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
