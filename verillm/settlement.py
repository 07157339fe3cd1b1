"""Fees, outcomes and leaves of a settlement (``docs/protocol.md`` section 6). All amounts are token wei."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from eth_abi import encode as abi_encode
from eth_hash.auto import keccak

from verillm.constants import Tag, Verdict
from verillm.eip712 import address_bytes
from verillm.errors import InvalidRequest
from verillm.params import Params
from verillm.types import Job, SettlementRecord

BPS = 10_000
RECORD_ABI = "(bytes32,address,address,uint32,uint32,uint8,uint128,uint128,uint128,address[],uint8[])"


def fees(job: Job, prompt_tokens: int, output_tokens: int, params: Params) -> tuple[int, int, int]:
    """(worker fee, fee of each verifier, scheduler fee) of an accepted job; divisions round down."""
    worker = prompt_tokens * job.input_price + output_tokens * job.output_price
    return worker, worker * params.verifier_fee_bps // BPS, worker * params.scheduler_fee_bps // BPS


def job_cost(job: Job, prompt_tokens: int, output_tokens: int, params: Params) -> int:
    """What the client pays when the job is accepted with all its verifiers."""
    worker, verifier, scheduler = fees(job, prompt_tokens, output_tokens, params)
    return worker + verifier * job.verifiers + scheduler


def max_job_cost(job: Job, params: Params) -> int:
    """The most that the job can cost: every output token used. The escrow must cover it."""
    return job_cost(job, job.prompt_tokens, job.max_output_tokens, params)


def outcome(verdicts: Sequence[Verdict]) -> Verdict:
    """ACCEPT if more able verifiers accept than reject; UNABLE if none was able; otherwise REJECT."""
    accepts = sum(v is Verdict.ACCEPT for v in verdicts)
    rejects = sum(v is Verdict.REJECT for v in verdicts)
    if accepts + rejects == 0:
        return Verdict.UNABLE
    return Verdict.ACCEPT if accepts > rejects else Verdict.REJECT


def make_record(
    job: Job,
    job_id: bytes,
    worker: str,
    prompt_tokens: int,
    output_tokens: int,
    verifiers: Sequence[str],
    verdicts: Sequence[Verdict],
    params: Params,
) -> SettlementRecord:
    """The settlement line that follows from a job, its worker's counts and its verdicts (one per verifier).

    Raises InvalidRequest if the lists differ in length.
    """
    if len(verifiers) != len(verdicts):
        raise InvalidRequest(f"verdicts: {len(verdicts)} for {len(verifiers)} verifiers; give one for each")
    result = outcome(verdicts)
    amounts = (0, 0, 0)
    if result is Verdict.ACCEPT:
        amounts = fees(job, prompt_tokens, output_tokens, params)
    counts = (prompt_tokens, output_tokens)
    return SettlementRecord(
        job_id, job.client, worker, *counts, result, *amounts, tuple(verifiers), tuple(verdicts)
    )


def record_leaf(record: SettlementRecord) -> bytes:
    """H(0x07 || abi.encode(SettlementRecord)), 32 bytes."""
    return keccak(bytes([Tag.SETTLEMENT_LEAF]) + abi_encode([RECORD_ABI], [astuple(record)]))


def round_leaf(commitment_digest: bytes, operator: str) -> bytes:
    """Leaf of a round's commitments: H(0x06 || commitmentDigest || operator(20)), 32 bytes."""
    return keccak(bytes([Tag.ROUND_LEAF]) + commitment_digest + address_bytes(operator, "operator"))
