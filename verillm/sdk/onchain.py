"""The chain's word on a receipt: roots, randomness and stakes that the receipt repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from verillm.errors import ProofError
from verillm.sdk.findings import Finding, run_check
from verillm.sdk.receipt import Receipt, Terms

if TYPE_CHECKING:
    from verillm.chain import ChainClient


def check_chain(receipt: Receipt, chain: ChainClient) -> list[Finding]:
    """Compare the receipt with the deployment that ``chain`` talks to; one finding per fact.

    Raises ChainError if the endpoint fails; a receipt of another deployment is a failed finding.
    """
    home = run_check("chain-deployment", lambda: _deployment(receipt, chain))
    if not home.ok:
        return [home]
    info = chain.round(receipt.round.round_id)
    params = chain.params_at(info.params_version)
    job, a, d = receipt.job, receipt.assignment, receipt.verifier_draw
    facts: dict[str, list[tuple[str, Any, Any]]] = {
        "chain-round": [
            ("scheduler", job.scheduler, info.scheduler),
            ("model_id", job.model_id, info.model_id),
            ("round.epoch", receipt.round.epoch, info.epoch),
            ("round.root", receipt.round.root, info.root),
            ("round.leaf.count", receipt.round.leaf.count, info.jobs),
            ("round.verification_root", receipt.round.verification_root, info.verification_root),
            *[("verifiers.leaf.count", entry.leaf.count, info.verifications) for entry in receipt.verifiers],
        ],
        "chain-vrf-key": [
            ("assignment.vrf_public_key", a.vrf_public_key, chain.vrf_key_at(job.scheduler, a.epoch)),
            ("verifier_draw.vrf_public_key", d.vrf_public_key, chain.vrf_key_at(job.scheduler, info.epoch)),
        ],
        "chain-randomness": [
            ("verifier_draw.randomness", d.randomness, info.verifier_seed),
            ("position_randomness", receipt.position_randomness, info.position_seed),
        ],
        "chain-stakes": [
            ("assignment.stakes", list(a.stakes), list(map(tuple, chain.stakes(job.model_id, a.epoch)))),
            (
                "verifier_draw.stakes",
                list(d.stakes),
                list(map(tuple, chain.stakes(job.model_id, info.epoch))),
            ),
        ],
        "chain-settlement": [("settlement.root", receipt.settlement.root, info.settlement_root)],
        "chain-terms": [
            (f"terms.{field.name}", getattr(receipt.terms, field.name), getattr(params, field.name))
            for field in fields(Terms)
        ],
    }
    return [home, *(run_check(name, _equal(pairs)) for name, pairs in facts.items())]


def _deployment(receipt: Receipt, chain: ChainClient) -> str:
    book = chain.addresses
    return _equal(
        [
            ("chain_id", receipt.chain_id, chain.chain_id),
            ("contract", receipt.contract, book.rounds),
            ("staking", receipt.staking, book.staking),
        ]
    )()


def _equal(pairs: list[tuple[str, Any, Any]]) -> Callable[[], str]:
    def check() -> str:
        for name, claimed, true in pairs:
            if claimed != true:
                raise ProofError(f"{name}: is {_shown(claimed)}, the chain has {_shown(true)}")
        return "as on chain: " + ", ".join(name for name, _, _ in pairs)

    return check


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return f"another list ({len(value)} entries)" if isinstance(value, list) else str(value)
