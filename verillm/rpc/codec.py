"""Protobuf messages to and from the protocol's dataclasses, strictly.

Decoding raises EncodingError that names the field and its limit for wrong lengths, numbers out of range and
unknown enum values. It checks shape only: signatures, hashes and proofs are the caller's to check.
Addresses are 20 bytes on the wire and checksummed hex here; amounts are big-endian without leading zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.constants import MAX_HIDDEN_SIZE, FinishReason, Role, Verdict
from verillm.eip712 import address_bytes
from verillm.errors import EncodingError, InvalidRequest
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import (
    HASH_BYTES,
    address_hex,
    amount,
    amount_bytes,
    at_most,
    enum_value,
    hash_tuple,
    sized,
)
from verillm.rpc.fields import message as encode
from verillm.types import MAX_STOP_STRINGS, MAX_VERIFIERS, Commitment, Job, SamplingParams, SignedVerdict

SIGNATURE_BYTES = 65
MAX_ROW_BYTES = MAX_HIDDEN_SIZE * 4
UINT16_MAX = 2**16 - 1
MAX_TOKENS = 2**20
MAX_OPENED_ROWS = 2**16
MAX_STOP_BYTES = 1024
"""Of one stop string's UTF-8."""


@dataclass(frozen=True)
class Submission:
    """A signed job with what its hashes stand for: prompt token ids and stop strings."""

    job: Job
    signature: bytes
    prompt: tuple[int, ...]
    stop: tuple[str, ...]


@dataclass(frozen=True)
class SignedCommitment:
    """A commitment and its operator's signature (65 bytes)."""

    commitment: Commitment
    signature: bytes


@dataclass(frozen=True)
class Opening:
    """Opened rows of one operator's commitment and the rest of the job root's preimage."""

    operator: str
    parts: JobRootParts
    rows: tuple[RowOpening, ...]


@dataclass(frozen=True)
class LeafProof:
    """Where a leaf stands in a round's tree: index, number of leaves, siblings bottom-up."""

    index: int
    count: int
    proof: tuple[bytes, ...]


def job_to_proto(job: Job) -> pb.Job:
    """Encode a job. Raises EncodingError for a malformed address or a negative amount."""
    return encode(
        pb.Job,
        "job",
        client=address_bytes(job.client, "job.client"),
        scheduler=address_bytes(job.scheduler, "job.scheduler"),
        model_id=job.model_id,
        prompt_hash=job.prompt_hash,
        prompt_tokens=job.prompt_tokens,
        max_output_tokens=job.max_output_tokens,
        stop_hash=job.stop_hash,
        sampling=encode(
            pb.Sampling,
            "job.sampling",
            temperature_ppm=job.temperature_ppm,
            top_k=job.top_k,
            top_p_ppm=job.top_p_ppm,
            seed=job.seed,
        ),
        input_price=amount_bytes(job.input_price, 128, "job.input_price"),
        output_price=amount_bytes(job.output_price, 128, "job.output_price"),
        verifiers=job.verifiers,
        deadline=job.deadline,
        nonce=amount_bytes(job.nonce, 256, "job.nonce"),
    )


def job_from_proto(message: pb.Job) -> Job:
    """Decode a job; sampling limits are those of ``SamplingParams``, verifiers at most MAX_VERIFIERS."""
    s = message.sampling
    try:
        SamplingParams(s.temperature_ppm, s.top_k, s.top_p_ppm, s.seed)
    except InvalidRequest as error:
        raise EncodingError(f"job.sampling.{error}") from error
    return Job(
        client=address_hex(message.client, "job.client"),
        scheduler=address_hex(message.scheduler, "job.scheduler"),
        model_id=sized(message.model_id, HASH_BYTES, "job.model_id"),
        prompt_hash=sized(message.prompt_hash, HASH_BYTES, "job.prompt_hash"),
        prompt_tokens=message.prompt_tokens,
        max_output_tokens=message.max_output_tokens,
        stop_hash=sized(message.stop_hash, HASH_BYTES, "job.stop_hash"),
        temperature_ppm=s.temperature_ppm,
        top_k=s.top_k,
        top_p_ppm=s.top_p_ppm,
        seed=s.seed,
        input_price=amount(message.input_price, 128, "job.input_price"),
        output_price=amount(message.output_price, 128, "job.output_price"),
        verifiers=at_most(message.verifiers, MAX_VERIFIERS, "job.verifiers"),
        deadline=message.deadline,
        nonce=amount(message.nonce, 256, "job.nonce"),
    )


def submission_to_proto(value: Submission) -> pb.SubmitRequest:
    """Encode a submission."""
    return encode(
        pb.SubmitRequest,
        "submission",
        job=job_to_proto(value.job),
        signature=value.signature,
        prompt=value.prompt,
        stop=value.stop,
    )


def submission_from_proto(message: pb.SubmitRequest) -> Submission:
    """Decode a submission; the prompt has as many tokens as the job says, at most MAX_TOKENS; there are at
    most MAX_STOP_STRINGS stops of MAX_STOP_BYTES."""
    job = job_from_proto(message.job)
    if len(message.prompt) != job.prompt_tokens:
        raise EncodingError(f"prompt: has {len(message.prompt)} tokens, the job says {job.prompt_tokens}")
    at_most(len(message.prompt), MAX_TOKENS, "prompt: number of tokens")
    at_most(len(message.stop), MAX_STOP_STRINGS, "stop: number of strings")
    for text in message.stop:
        at_most(len(text.encode()), MAX_STOP_BYTES, "stop: bytes of a string")
    signature = sized(message.signature, SIGNATURE_BYTES, "signature")
    return Submission(job, signature, tuple(message.prompt), tuple(message.stop))


def commitment_to_proto(value: SignedCommitment) -> pb.Commitment:
    """Encode a signed commitment."""
    c = value.commitment
    return encode(
        pb.Commitment,
        "commitment",
        job_id=c.job_id,
        role=c.role,
        attempt=c.attempt,
        job_root=c.job_root,
        prompt_tokens=c.prompt_tokens,
        output_tokens=c.output_tokens,
        finish_reason=c.finish_reason,
        operator=address_bytes(c.operator, "commitment.operator"),
        signature=value.signature,
    )


def commitment_from_proto(message: pb.Commitment) -> SignedCommitment:
    """Decode a signed commitment."""
    commitment = Commitment(
        job_id=sized(message.job_id, HASH_BYTES, "commitment.job_id"),
        role=enum_value(Role, message.role, "commitment.role"),
        attempt=message.attempt,
        job_root=sized(message.job_root, HASH_BYTES, "commitment.job_root"),
        prompt_tokens=message.prompt_tokens,
        output_tokens=message.output_tokens,
        finish_reason=enum_value(FinishReason, message.finish_reason, "commitment.finish_reason"),
        operator=address_hex(message.operator, "commitment.operator"),
    )
    return SignedCommitment(commitment, sized(message.signature, SIGNATURE_BYTES, "commitment.signature"))


def verdict_to_proto(value: SignedVerdict) -> pb.Verdict:
    """Encode a signed verdict."""
    return encode(
        pb.Verdict,
        "verdict",
        job_id=value.job_id,
        verdict=value.verdict,
        boundary=value.boundary,
        position=value.position,
        operator=address_bytes(value.operator, "verdict.operator"),
        signature=value.signature,
    )


def verdict_from_proto(message: pb.Verdict) -> SignedVerdict:
    """Decode a signed verdict."""
    return SignedVerdict(
        job_id=sized(message.job_id, HASH_BYTES, "verdict.job_id"),
        verdict=enum_value(Verdict, message.verdict, "verdict.verdict"),
        boundary=at_most(message.boundary, UINT16_MAX, "verdict.boundary"),
        position=message.position,
        operator=address_hex(message.operator, "verdict.operator"),
        signature=sized(message.signature, SIGNATURE_BYTES, "verdict.signature"),
    )


def row_to_proto(value: RowOpening) -> pb.RowProof:
    """Encode one opened row."""
    return encode(
        pb.RowProof,
        "row",
        boundary=value.boundary,
        position=value.position,
        token=value.token,
        row=value.row,
        row_proof=value.row_proof,
        boundary_proof=value.boundary_proof,
    )


def row_from_proto(message: pb.RowProof) -> RowOpening:
    """Decode one opened row of 1 to MAX_ROW_BYTES bytes."""
    if not 1 <= len(message.row) <= MAX_ROW_BYTES:
        raise EncodingError(f"row.row: has {len(message.row)} bytes; the limit is 1 to {MAX_ROW_BYTES}")
    return RowOpening(
        boundary=at_most(message.boundary, UINT16_MAX, "row.boundary"),
        position=message.position,
        token=message.token,
        row=message.row,
        row_proof=hash_tuple(message.row_proof, "row.row_proof"),
        boundary_proof=hash_tuple(message.boundary_proof, "row.boundary_proof"),
    )


def opening_to_proto(value: Opening) -> pb.Opening:
    """Encode an opening; the number of boundaries is not sent, the model fixes it."""
    return encode(
        pb.Opening,
        "opening",
        operator=address_bytes(value.operator, "opening.operator"),
        token_root=value.parts.token_root,
        boundaries_root=value.parts.boundaries_root,
        rows=[row_to_proto(row) for row in value.rows],
    )


def opening_from_proto(message: pb.Opening, boundaries_count: int) -> Opening:
    """Decode an opening of at most MAX_OPENED_ROWS rows, of a model with ``boundaries_count`` boundaries."""
    at_most(len(message.rows), MAX_OPENED_ROWS, "opening.rows: number of rows")
    parts = JobRootParts(
        token_root=sized(message.token_root, HASH_BYTES, "opening.token_root"),
        boundaries_count=boundaries_count,
        boundaries_root=sized(message.boundaries_root, HASH_BYTES, "opening.boundaries_root"),
    )
    rows = tuple(row_from_proto(row) for row in message.rows)
    return Opening(address_hex(message.operator, "opening.operator"), parts, rows)


def leaf_proof_to_proto(value: LeafProof) -> pb.LeafProof:
    """Encode a leaf's place and proof."""
    return encode(pb.LeafProof, "leaf", index=value.index, count=value.count, proof=value.proof)


def leaf_proof_from_proto(message: pb.LeafProof) -> LeafProof:
    """Decode a leaf's place and proof; the index is below the count."""
    if message.index >= message.count:
        raise EncodingError(f"leaf.index: {message.index} is not below leaf.count {message.count}")
    return LeafProof(message.index, message.count, hash_tuple(message.proof, "leaf.proof"))
