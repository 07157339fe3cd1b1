"""``verillm verify``: check a receipt, offline or against the chain, and rerun its prefill."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verillm.cli.config import Network, add_network_flags, read_network
from verillm.cli.job_commands import parse_job_id
from verillm.constants import Verdict
from verillm.errors import ConfigError
from verillm.manifest import Manifest
from verillm.model_store import DEFAULT_MODEL, resolve
from verillm.sdk.findings import Finding, Report
from verillm.sdk.keychain import OWN_KEYS, Keys
from verillm.sdk.models import load_models
from verillm.sdk.onchain import check_chain
from verillm.sdk.receipt import Receipt
from verillm.sdk.verify import check_receipt, verify_receipt
from verillm.types import TOKEN_BOUNDARY

if TYPE_CHECKING:
    from verillm.chain import ChainClient


def add(commands: Any) -> None:
    """Register the command."""
    verify = commands.add_parser("verify", help="check a receipt and rerun its prefill")
    verify.add_argument("receipt", help="the receipt's JSON file")
    verify.add_argument(
        "--offline", action="store_true", help="use no network: everything but the chain's word"
    )
    verify.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help=f"model folder, .gguf, hub id or name (default {DEFAULT_MODEL})",
    )
    verify.add_argument("--manifest", metavar="FILE", help="the model's manifest (default: from the folder)")
    verify.add_argument("--hashes-only", action="store_true", help="do not run the model; needs no torch")
    verify.add_argument("--job", metavar="0xID", help="the job that the receipt must be of")
    verify.add_argument(
        "--quick",
        action="store_true",
        help="stop the prefill at a boundary drawn now, and once the evidence is decisive: cheaper, but "
        "it may miss what shows deeper only, and name a later position than the first",
    )
    verify.add_argument("--threads", type=int, help="CPU threads for the model")
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    add_network_flags(verify)
    verify.set_defaults(run=verify_file)


def verify_file(args: argparse.Namespace) -> int:
    """Exit code 0 accepted, 1 rejected, 3 if the model could not run and nothing else is wrong."""
    network = read_network(args)
    if not args.offline and (network.rpc is None or network.address_book is None):
        raise ConfigError("rpc: give --rpc and --address-book (or --network FILE), or --offline")
    receipt = Receipt.load(args.receipt)
    extra = []
    if args.job:
        wanted = parse_job_id(args.job)
        same = wanted == receipt.job_id
        message = "as asked" if same else f"the receipt is of job 0x{receipt.job_id.hex()}"
        extra.append(Finding("job-id", same, message, None if same else TOKEN_BOUNDARY, None if same else 0))
    keys: Keys = OWN_KEYS
    if not args.offline:
        keys = chain = _chain(network)
        extra += check_chain(receipt, chain)
    report = _check(args, network, receipt, keys)
    report = Report((*report.findings, *extra), report.verdict)
    (_print_json if args.json else _print_report)(receipt, report)
    if report.ok:
        return 0
    failed = [f for f in report.findings if not f.ok and f.name != "prefill"]
    return 3 if report.verdict is Verdict.UNABLE and not failed else 1


def _chain(network: Network) -> ChainClient:
    from verillm.chain import AddressBook, ChainClient

    return ChainClient(network.need("rpc"), AddressBook.read(network.need("address_book")))


def _check(args: argparse.Namespace, network: Network, receipt: Receipt, keys: Keys) -> Report:
    if args.hashes_only and not args.manifest and not network.models:
        raise ConfigError("manifest: --hashes-only needs --manifest FILE (or models in the network file)")
    folder, manifest = _find_model(args, network, receipt)
    if args.hashes_only:
        return Report(tuple(check_receipt(receipt, manifest.spec, keys)))
    try:
        from verillm.engine.transformers_engine import Engine
    except ImportError as error:
        raise ConfigError(
            f"{error.name}: not installed; pip install 'verillm[worker]', or use --hashes-only"
        ) from error
    from verillm.manifest import weights_root

    if weights_root(folder) != manifest.weights_root:
        raise ConfigError(
            f"--model: {folder} has other weights than the manifest; give the model of the receipt"
        )
    engine = Engine.from_manifest(folder, manifest, threads=args.threads)
    depth = secrets.randbelow(len(manifest.boundaries)) if args.quick else None
    return verify_receipt(receipt, engine, manifest, keys, depth)


def _find_model(args: argparse.Namespace, network: Network, receipt: Receipt) -> tuple[Path, Manifest]:
    """The model's folder and manifest: the flag's, else the one of the receipt's model."""
    if args.manifest:
        manifest = Manifest.load(args.manifest)
        folder = Path(args.manifest).parent if args.hashes_only else resolve(args.model)
        return folder, manifest
    known = load_models(network.models)
    if not any(model.model_id == receipt.job.model_id for model in known):
        known = load_models([resolve(args.model)])
    for model in known:
        if model.model_id == receipt.job.model_id:
            return model.folder, model.manifest
    have = ", ".join(f"{m.label} 0x{m.model_id.hex()}" for m in known)
    raise ConfigError(
        f"--model: the receipt is for model 0x{receipt.job.model_id.hex()}, the folder has {have}; "
        "give the right folder, or --manifest FILE to check against that one anyway"
    )


def _print_report(receipt: Receipt, report: Report) -> None:
    for finding in report.findings:
        print(f"{'ok    ' if finding.ok else 'FAILED'} {finding.name:18} {finding.message}")
    job = f"job 0x{receipt.job_id.hex()}"
    if report.ok:
        how = "hashes, signatures and proofs only" if report.verdict is None else "the model agrees"
        print(f"ACCEPT {job}: {how}")
        return
    place = report.divergence
    where = "" if place is None else f" at {_place(place)}"
    word = "UNABLE" if report.verdict is Verdict.UNABLE and place is None else "REJECT"
    print(f"{word} {job}{where}", flush=True)
    if place is not None:
        print(f"verillm: {place.name}: {place.message}", file=sys.stderr)


def _place(finding: Finding) -> str:
    if finding.boundary == TOKEN_BOUNDARY:
        return f"position {finding.position} (token)"
    return f"position {finding.position}, boundary {finding.boundary}"


def _print_json(receipt: Receipt, report: Report) -> None:
    place = report.divergence
    value = {
        "job_id": "0x" + receipt.job_id.hex(),
        "ok": report.ok,
        "verdict": report.verdict.name if report.verdict is not None else None,
        "boundary": place.boundary if place else None,
        "position": place.position if place else None,
        "findings": [asdict(finding) for finding in report.findings],
    }
    print(json.dumps(value))
