"""``verillm calibrate`` and ``verillm deploy``: what makes a model and a deployment exist."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from verillm.cli.config import add_network_flags, read_network
from verillm.constants import Dtype
from verillm.errors import ConfigError
from verillm.model_store import DEFAULT_MODEL, manifest_path, resolve

if TYPE_CHECKING:
    from verillm.chain.deploy import Plan

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
    calibrate.add_argument("--jobs", type=int, default=48, help="honest jobs to measure (default 48)")
    calibrate.add_argument("--out", metavar="FILE", help="manifest to write (default: in the model folder)")
    calibrate.set_defaults(run=calibrate_model)
    deploy = commands.add_parser("deploy", help="deploy the contracts, or say what that would do")
    deploy.add_argument("--profile", default="devnet", help="parameter profile (default devnet)")
    deploy.add_argument(
        "--token", metavar="0x", help="existing ERC-20 (default: a test token; not on mainnet)"
    )
    deploy.add_argument(
        "--proposer",
        metavar="0x",
        action="append",
        default=[],
        help="who may change parameters by the timelock; repeatable (default: the deployer; not on mainnet)",
    )
    deploy.add_argument(
        "--guardian", metavar="0x", help="who may pause new rounds (default: the deployer; not on mainnet)"
    )
    deploy.add_argument(
        "--dir", metavar="DIR", default="deployments", help="where DIR/<chain id>.json is written"
    )
    deploy.add_argument("--force", action="store_true", help="replace an address book that is there")
    deploy.add_argument("--dry-run", action="store_true", help="print all transactions and send none")
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
    from verillm.chain.deploy import Settings, book_path, deploy, estimate, plan

    network = read_network(args)
    chain = Connection(network.need("rpc"))
    account = network.account(chain.chain_id)
    settings = Settings(args.profile, args.token, tuple(args.proposer), args.guardian)
    if args.dry_run:
        _print_plan(todo := plan(chain, account.address, settings), estimate(chain, todo))
        return 0
    path = book_path(args.dir, chain.chain_id, args.force)
    book = deploy(chain.rpc_url, account, settings)
    book.write(path)
    print(f"{path}: chain {book.chain_id}, Rounds {book.rounds}")
    return 0


def _print_plan(todo: Plan, gas: list[int]) -> None:
    print(f"chain {todo.book.chain_id}, from {todo.sender}, first nonce {todo.nonce}")
    for i, (step, cost) in enumerate(zip(todo.steps, gas, strict=True)):
        verb = "create" if step.creates else "call  "
        size = len(step.data) // 2 - 1
        print(f"{todo.nonce + i:5} {verb} {step.name:18} {step.address} {cost:>10,} gas {size:>7,} bytes")
    print(f"{len(gas)} transactions, {sum(gas):,} gas; nothing was sent")


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
