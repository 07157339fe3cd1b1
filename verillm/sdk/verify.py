"""Check a receipt without the network: hashes, signatures, proofs and draws here, the model in ``rerun``.

``check_receipt`` needs no torch. ``verify_receipt`` reruns the prefill with an engine, even if a hash check
failed, so that a position is named whenever the content itself is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from verillm.constants import Role
from verillm.sdk import checks
from verillm.sdk.findings import Finding, Report, run_check
from verillm.sdk.keychain import OWN_KEYS, Keys
from verillm.sdk.receipt import Receipt
from verillm.types import ModelSpec

if TYPE_CHECKING:
    from verillm.manifest import Manifest


def check_receipt(receipt: Receipt, spec: ModelSpec | None = None, keys: Keys = OWN_KEYS) -> list[Finding]:
    """Every check that needs neither model nor network; a failed one never stops the others.

    ``spec`` is the manifest's; without it, row openings cannot be checked and count as failed. ``keys`` (a
    ``ChainClient``) knows keys that replaced others; without it operators and schedulers must use their own.
    """
    rounds = receipt.round
    opening = receipt.worker_opening
    todo: list[tuple[str, Callable[[], str]]] = [
        ("job", lambda: checks.check_job(receipt)),
        ("prompt", lambda: checks.check_prompt(receipt)),
        ("worker-commitment", lambda: checks.check_commitment(receipt, receipt.worker, Role.WORKER, keys)),
        ("output", lambda: checks.check_output(receipt)),
        ("worker-draw", lambda: checks.check_worker_draw(receipt, keys)),
        ("round", lambda: checks.check_leaf(receipt, receipt.worker, rounds.leaf, rounds.root)),
        ("worker-opening", lambda: checks.check_opening(receipt, receipt.worker, opening, spec)),
        ("verifier-draw", lambda: checks.check_verifier_draw(receipt, keys)),
        ("settlement", lambda: checks.check_settlement(receipt)),
    ]
    for i, entry in enumerate(receipt.verifiers):
        todo.append((f"verifier-{i}", partial(checks.check_verifier, receipt, entry, spec, keys)))
    if spec is not None:
        todo.append(("model", lambda: checks.check_model(receipt, spec)))
    return [run_check(name, check) for name, check in todo]


def verify_receipt(
    receipt: Receipt, engine: Any, manifest: Manifest, keys: Keys = OWN_KEYS, depth: int | None = None
) -> Report:
    """All of ``check_receipt`` and the model's verdict. ``engine`` is an ``Engine`` of the manifest;
    ``depth`` is the boundary at which a quick look stops."""
    from verillm.sdk.rerun import rerun

    findings = check_receipt(receipt, manifest.spec, keys)
    verdict, model_findings = rerun(receipt, engine, manifest, depth)
    return Report((*findings, *model_findings), verdict)
