"""Fees, outcomes and leaves of a settlement (``docs/protocol.md`` section 6). All amounts are token wei."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields, replace

from eth_hash.auto import keccak

from verillm.constants import Tag, Verdict
from verillm.eip712 import abi_bytes, address_bytes
from verillm.errors import InvalidRequest
from verillm.params import Params
from verillm.types import NO_JOB, Job, Line, Link, Round, SettlementRecord

BPS = 10_000
RECORD_ABI = (
    "(bytes32,address,address,uint32,uint32,uint8,uint128,uint128,uint128,address[],uint8[],"
    "(uint32,uint128)[])"
)
LINES_ABI = "(address,uint32,uint128)[]"
ROUND_ABI = (
    "(address,bytes32,bytes32,uint32,uint32,uint48,uint64,uint64,uint64,bytes32,bytes32,uint32,uint64,"
    "bytes32,bytes32,bytes32,bytes32,uint128,uint64)"
)


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
    """What follows from a job, its worker's counts and its verdicts (one per verifier), without links.

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


def parties(record: SettlementRecord) -> Iterator[tuple[bool, str, int]]:
    """(pays, account, token wei that it pays or earns) by slot: client, worker, then the verifiers."""
    yield True, record.client, record.client_pays
    yield False, record.worker, record.worker_fee
    for verifier in record.verifiers:
        yield False, verifier, record.verifier_fee


def link_records(records: Sequence[SettlementRecord]) -> list[SettlementRecord]:
    """All records of a round, in leaf order, with their links."""
    last: dict[tuple[bool, bytes], Link] = {}
    linked = []
    for index, record in enumerate(records):
        links = []
        for pays, account, amount in parties(record):
            side = (pays, address_bytes(account))
            former = last.get(side, Link(NO_JOB, 0))
            links.append(Link(former.previous, former.total + amount))
            last[side] = Link(index, former.total + amount)
        linked.append(replace(record, links=tuple(links)))
    return linked


def round_lines(records: Sequence[SettlementRecord]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """(debits of clients, credits of operators) of a round's records in leaf order, each sorted by account.

    Accounts whose sum is 0 have no line, nor has the scheduler: it gets what the credits leave.
    """
    sides: tuple[dict[bytes, Line], dict[bytes, Line]] = ({}, {})
    for index, record in enumerate(records):
        for pays, account, amount in parties(record):
            lines, key = sides[not pays], address_bytes(account)
            former = lines[key].amount if key in lines else 0
            lines[key] = Line(account, index, former + amount)
    debits, credits = (tuple(lines[key] for key in sorted(lines) if lines[key].amount) for lines in sides)
    return debits, credits


def lines_hash(lines: Sequence[Line]) -> bytes:
    """keccak(abi.encode(Line[])), 32 bytes. Raises EncodingError for a field out of range."""
    return keccak(abi_bytes(LINES_ABI, [astuple(line) for line in lines], "lines"))


def round_hash(round: Round) -> bytes:
    """keccak(abi.encode(Round)), 32 bytes: what the chain keeps of a round. Raises EncodingError for a field
    out of range."""
    return keccak(abi_bytes(ROUND_ABI, round_values(round), "round"))


def round_values(round: Round) -> tuple[object, ...]:
    """The struct's fields in order, as the contracts take them."""
    return tuple(getattr(round, f.name) for f in fields(Round))


def record_leaf(record: SettlementRecord) -> bytes:
    """H(0x07 || abi.encode(SettlementRecord)), 32 bytes. Raises EncodingError for a field out of range."""
    return keccak(bytes([Tag.SETTLEMENT_LEAF]) + abi_bytes(RECORD_ABI, astuple(record), "settlement record"))


def round_leaf(commitment_digest: bytes, operator: str) -> bytes:
    """Leaf of a round's commitments: H(0x06 || commitmentDigest || operator(20)), 32 bytes."""
    return keccak(bytes([Tag.ROUND_LEAF]) + commitment_digest + address_bytes(operator, "operator"))
