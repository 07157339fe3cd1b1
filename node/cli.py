"""``verillm-node``: run a worker or a scheduler, or register an operator on chain."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount

from node.log import setup_logging
from verillm import vrf
from verillm.chain import AddressBook, ChainClient
from verillm.errors import ConfigError, VeriLLMError
from verillm.manifest import Manifest
from verillm.sdk.keys import KEY_VARIABLE, load_private_key

TOKEN = 10**18
EPILOG = f"""The operator's key comes from --keyfile and --password-file (an eth keyfile, as made by
`cast wallet new`), or from the environment variable {KEY_VARIABLE} (64 hex digits). It signs commitments and
verdicts and pays gas, so its address needs some of the chain's coin; disputes also need tokens for a bond."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verillm-node", description="Serve verifiable LLM inference.", epilog=EPILOG
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    chain = common.add_argument_group("chain and key")
    chain.add_argument("--rpc", required=True, metavar="URL", help="JSON-RPC endpoint of the chain")
    chain.add_argument("--address-book", required=True, metavar="FILE", help="JSON file of the deployment")
    chain.add_argument("--keyfile", metavar="FILE", help="eth keyfile with the operator's key")
    chain.add_argument("--password-file", metavar="FILE", help="file with the keyfile's password")
    chain.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))

    worker = commands.add_parser(
        "worker", parents=[common], help="run models: inference, verification, jury duty", epilog=EPILOG
    )
    worker.add_argument("--port", type=int, required=True, help="gRPC port to listen on")
    worker.add_argument("--model", required=True, metavar="FOLDER", help="folder with the safetensors")
    worker.add_argument(
        "--manifest", action="append", required=True, metavar="FILE",
        help="manifest to serve the model under (one per row dtype; repeat for more)",
    )  # fmt: skip
    worker.add_argument(
        "--scheduler", required=True, metavar="HOST:PORT", help="has the transcripts of disputed jobs"
    )
    worker.add_argument("--state", required=True, metavar="DIR", help="folder for jury votes until revealed")
    worker.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: torch's)")
    worker.add_argument("--max-batch", type=int, default=8, metavar="N", help="sequences decoded together")
    worker.add_argument(
        "--cheat", metavar="KIND", help="cheat and be caught (demo): int4, forge, lazy, die-after:N"
    )

    scheduler = commands.add_parser(
        "scheduler", parents=[common], help="take jobs, draw workers and verifiers, settle", epilog=EPILOG
    )
    scheduler.add_argument("--port", type=int, required=True, help="gRPC port to listen on")
    scheduler.add_argument("--state", required=True, metavar="DIR", help="folder for jobs and receipts")
    scheduler.add_argument(
        "--manifest", action="append", required=True, metavar="FILE", help="model to serve; repeat"
    )
    scheduler.add_argument(
        "--round-interval", type=float, default=10.0, metavar="S", help="seconds between rounds (10)"
    )

    register = commands.add_parser(
        "register", parents=[common], help="stake and publish an endpoint", epilog=EPILOG
    )
    register.add_argument("--role", choices=("worker", "scheduler"), default="worker", help="worker")
    register.add_argument("--endpoint", required=True, metavar="HOST:PORT", help="where this node is reached")
    register.add_argument("--stake", type=_tokens, required=True, metavar="N", help="tokens to stake")
    register.add_argument(
        "--manifest", action="append", default=[], metavar="FILE", help="worker: model to serve; repeat"
    )
    return parser


def _connect(args: argparse.Namespace) -> tuple[LocalAccount, ChainClient]:
    key: LocalAccount = Account.from_key(load_private_key(args.keyfile, args.password_file))
    return key, ChainClient(args.rpc, AddressBook.read(args.address_book), key)


def _worker(args: argparse.Namespace) -> None:
    key, chain = _connect(args)
    manifests = [Manifest.load(path) for path in args.manifest]
    # Imported late: --help and the other commands need no torch.
    from node.app import WorkerNode, WorkerOptions
    from node.cheats import make_behaviour
    from verillm.engine.transformers_engine import Engine

    def load(manifest: Manifest) -> Engine:
        return Engine.from_manifest(args.model, manifest, threads=args.threads)

    models = [
        (manifest, make_behaviour(args.cheat, lambda manifest=manifest: load(manifest)))  # type: ignore[misc]
        for manifest in manifests
    ]
    options = WorkerOptions(args.port, Path(args.state), args.scheduler, args.max_batch)
    node = WorkerNode(key, chain, models, options)
    _wait_for_signal()
    node.stop()


def _scheduler(args: argparse.Namespace) -> None:
    key, chain = _connect(args)
    manifests = {m.model_id: m for m in (Manifest.load(path) for path in args.manifest)}
    from node.scheduler_app import SchedulerNode, SchedulerOptions

    node = SchedulerNode(
        key, chain, manifests, SchedulerOptions(args.port, Path(args.state), args.round_interval)
    )
    _wait_for_signal()
    node.stop()


def _register(args: argparse.Namespace) -> None:
    key, chain = _connect(args)
    if args.role == "scheduler":
        chain.register_scheduler(args.stake, args.endpoint, vrf.public_key(bytes(key.key)))
        print(f"{key.address}: scheduler with {args.stake / TOKEN:g} tokens at stake, at {args.endpoint}")
        return
    if not args.manifest:
        raise ConfigError("--manifest: required for a worker; name the model's manifest")
    for path in args.manifest:
        manifest = Manifest.load(path)
        model_id = manifest.model_id
        if not chain.model_registered(model_id):
            chain.register_model(manifest.spec)
        chain.register_operator(model_id, args.stake, args.endpoint)
        stake = f"{args.stake / TOKEN:g} tokens at stake for {manifest.name} 0x{model_id.hex()}"
        print(f"{key.address}: {stake}, at {args.endpoint}; drawn from the next epoch on")


def _tokens(text: str) -> int:
    """Token wei of a decimal number of tokens."""
    try:
        value = Decimal(text) * TOKEN
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if value <= 0 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} must be above 0, with at most 18 decimals")
    return int(value)


def _wait_for_signal() -> None:
    """Until SIGINT or SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; typed errors become one line on stderr and exit status 1."""
    args = _parser().parse_args(argv)
    setup_logging(args.log_level)
    try:
        {"worker": _worker, "scheduler": _scheduler, "register": _register}[args.command](args)
    except VeriLLMError as error:
        print(f"verillm-node: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
