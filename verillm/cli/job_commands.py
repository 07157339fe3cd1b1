"""``verillm run``, ``status`` and ``deposit``: what a client does with a scheduler."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import Any

from verillm.cli.config import add_network_flags, read_network
from verillm.errors import ConfigError, InvalidRequest
from verillm.sdk.client import Client, open_address_book
from verillm.sdk.generation import Reset

TOKEN = 10**18


def add(commands: Any) -> None:
    """Register the commands."""
    run = commands.add_parser("run", help="submit a prompt and stream the answer")
    run.add_argument("prompt", help="the user's message, or - to read it from stdin")
    run.add_argument("--model", help="name, name:dtype or 0x-id (default: the only one that fits)")
    run.add_argument("--max-tokens", type=int, default=128, help="most output tokens (default 128)")
    run.add_argument("--temperature", type=float, default=0.0, help="0 to 10; 0 is greedy (default)")
    run.add_argument("--top-k", type=int, default=0, help="0 is off (default)")
    run.add_argument("--top-p", type=float, default=1.0, help="1 is off (default)")
    run.add_argument("--seed", type=int, help="0 to 2^64 - 1 (default: random)")
    run.add_argument("--stop", action="append", default=[], help="stop string; may be given 4 times")
    run.add_argument("--verifiers", type=int, default=2, help="workers that check the job (default 2)")
    run.add_argument("--receipt", metavar="FILE", help="wait until the job is settled and save its receipt")
    run.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for the receipt")
    run.set_defaults(run=run_prompt)
    status = commands.add_parser("status", help="scheduler, models, balance and escrow; or one job")
    status.add_argument("--job", metavar="0xID", help="state of this job")
    status.set_defaults(run=show_status)
    deposit = commands.add_parser("deposit", help="put tokens into escrow with the scheduler")
    deposit.add_argument("amount", help="how much, for example 2.5")
    deposit.add_argument("--unit", choices=("token", "wei"), default="token", help="1 token is 10^18 wei")
    deposit.set_defaults(run=deposit_escrow)
    for command in (run, status, deposit):
        command.add_argument("--json", action="store_true", help="print one JSON object at the end")
        add_network_flags(command)


def open_client(args: argparse.Namespace) -> Client:
    """The client that flags and network file describe."""
    network = read_network(args)
    scheduler, rpc = network.need("scheduler"), network.need("rpc")
    book = open_address_book(network.need("address_book"))
    return Client(scheduler, rpc, network.account(book.chain_id), book, network.models)


def run_prompt(args: argparse.Namespace) -> int:
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    with open_client(args) as client:
        stream = client.generate(
            prompt,
            stream=True,
            model=args.model,
            max_tokens=args.max_tokens,
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            seed=args.seed,
            stop=args.stop,
            verifiers=args.verifiers,
        )
        for event in stream:
            if isinstance(event, Reset):
                _note(f"\n[{event.worker} took over; the answer starts again]")
            elif not args.json:
                print(event.text, end="", flush=True)
        result = stream.generation
        summary = {
            "job_id": "0x" + result.job_id.hex(),
            "worker": result.worker,
            "prompt_tokens": len(result.prompt_tokens),
            "output_tokens": len(result.tokens),
            "finish_reason": result.finish_reason.name,
        }
        if not args.json:
            print()
            _note(" ".join(f"{name}={value}" for name, value in summary.items()))
        if args.receipt:
            _note("waiting for the receipt: commitments, verifiers and settlement take a few blocks")
            result.receipt(timeout=args.timeout).save(args.receipt)
            _note(f"saved {args.receipt}; check it with: verillm verify {args.receipt} --offline")
        if args.json:
            print(json.dumps({**summary, "text": result.text, "tokens": result.tokens}))
    return 0


def show_status(args: argparse.Namespace) -> int:
    job_id = parse_job_id(args.job) if args.job else None
    with open_client(args) as client:
        if job_id is not None:
            found = client.scheduler.job_status(job_id)
            value = {"job_id": args.job, "state": found.state, "error": found.error}
        else:
            value = asdict(client.status())
    _show(value, args.json)
    return 0


def deposit_escrow(args: argparse.Namespace) -> int:
    amount = parse_amount(args.amount, args.unit)
    with open_client(args) as client:
        _show({"deposited": amount, "escrow": client.deposit_escrow(amount)}, args.json)
    return 0


def parse_job_id(text: str) -> bytes:
    """32 bytes of 0x-hex. Raises ConfigError."""
    try:
        value = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        value = b""
    if len(value) != 32:
        raise ConfigError(f"--job: {text!r} is not 0x and 64 hex digits; `verillm run` prints the job's id")
    return value


def parse_amount(text: str, unit: str) -> int:
    """Token wei, exactly. Raises InvalidRequest."""
    try:
        value = Decimal(text) * (TOKEN if unit == "token" else 1)
        whole = int(value)
    except (InvalidOperation, ValueError, OverflowError):
        raise InvalidRequest(f"amount: {text!r} is not a number; give for example 2.5") from None
    if whole != value or not 0 < whole < 2**128:
        raise InvalidRequest(f"amount: {text} {unit} must be a whole number of wei between 1 and 2^128 - 1")
    return whole


def _show(value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(value))
        return
    for name, item in value.items():
        shown = ", ".join(item) if isinstance(item, tuple) else item
        unit = f" wei ({item / TOKEN:.6g} tokens)" if name in ("balance", "escrow", "deposited") else ""
        print(f"{name:14}{shown}{unit}")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
