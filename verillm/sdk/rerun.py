"""The model's word on a receipt: one prefill over its tokens, whatever its hashes say. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from verillm import eip712
from verillm.commitment import RowOpening, token_list_hash
from verillm.commitment.opening import check_row
from verillm.comparator.verdict import judge
from verillm.constants import Verdict
from verillm.engine.transformers_engine import Engine
from verillm.errors import InvalidRequest, RowError
from verillm.manifest import Manifest
from verillm.observe import observe
from verillm.sdk.findings import Finding
from verillm.sdk.receipt import Receipt
from verillm.types import TOKEN_BOUNDARY


def rerun(
    receipt: Receipt, engine: Engine, manifest: Manifest, depth: int | None = None
) -> tuple[Verdict, list[Finding]]:
    """Judge the receipt's prompt and output as they stand against our own rows; with a ``depth``, against
    those up to that boundary alone, and only until the evidence is decisive.

    The job is taken with the hashes of the tokens that are there, so that a swapped prompt is judged by
    content too. Openings outside the transcript, or that are no rows of the model, are left out:
    ``check_receipt`` reports them.
    """
    broken = _impossible(receipt, manifest)
    if broken is not None:
        return Verdict.REJECT, [broken]
    job = replace(
        receipt.job,
        prompt_hash=token_list_hash(receipt.prompt),
        prompt_tokens=len(receipt.prompt),
        stop_hash=eip712.stop_hash(receipt.stop),
    )
    openings = _usable(receipt, manifest)
    try:
        seen = observe(
            engine,
            job,
            receipt.prompt,
            receipt.output,
            receipt.finish_reason,
            receipt.stop,
            openings,
            depth=depth,
            until=manifest.table if depth is not None else None,
        )
        result = judge(seen, manifest.table)
    except InvalidRequest as error:
        return Verdict.REJECT, [Finding("prefill", False, str(error), TOKEN_BOUNDARY, 0)]
    rejected = result.verdict is Verdict.REJECT
    place = (result.boundary, result.position) if rejected else (None, None)
    compared = f"{len(seen.rows)} rows and {len(seen.margins)} tokens against our own prefill"
    checked = compared if depth is None else f"{compared} to boundary {depth}"
    message = f"{checked}: {result.reason}"
    findings = [Finding("prefill", result.verdict is Verdict.ACCEPT, message, *place)]
    settled = receipt.settlement.record.outcome
    if result.verdict is not Verdict.UNABLE:
        agree = settled is result.verdict
        findings.append(
            Finding("outcome", agree, f"settled as {settled.name}, our verdict is {result.verdict.name}")
        )
    return result.verdict, findings


def _impossible(receipt: Receipt, manifest: Manifest) -> Finding | None:
    """Why the tokens cannot be fed to the model at all, if so."""
    if not receipt.prompt or not receipt.output:
        return Finding("prefill", False, "tokens: prompt and output need at least 1 each", TOKEN_BOUNDARY, 0)
    for position, token in enumerate(receipt.tokens):
        if token >= manifest.vocab_size:
            reason = f"token {token} is outside the model's vocabulary of {manifest.vocab_size}"
            return Finding("prefill", False, reason, TOKEN_BOUNDARY, position)
    limit = manifest.max_positions
    if len(receipt.tokens) - 1 > limit:
        reason = f"{len(receipt.tokens)} tokens exceed the model's {limit} positions"
        return Finding("prefill", False, reason, TOKEN_BOUNDARY, limit)
    return None


def _usable(receipt: Receipt, manifest: Manifest) -> Sequence[RowOpening]:
    rows = len(receipt.tokens) - 1
    usable = []
    for opening in receipt.worker_opening.rows:
        if opening.position >= rows or opening.boundary >= len(manifest.boundaries):
            continue
        try:
            check_row(opening.row, manifest.row_dtype, manifest.hidden_size)
        except RowError:
            continue  # reported by check_receipt with its boundary and position
        usable.append(opening)
    return usable
