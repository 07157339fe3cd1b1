"""Checks that scheduler, worker and juror make alike on what strangers send them. Offline and exact."""

from __future__ import annotations

from collections.abc import Sequence

from verillm import eip712
from verillm.commitment import token_list_hash, verify_opening
from verillm.commitment.opening import expected_job_root
from verillm.constants import Dtype, FinishReason, Role
from verillm.errors import InvalidRequest, ProofError
from verillm.rpc import codec
from verillm.types import Commitment, Job, ModelSpec


def check_submission(submission: codec.Submission, domain: eip712.Domain) -> bytes:
    """The job id, if prompt and stop strings are the signed ones and the client signed.

    Raises InvalidRequest or ProofError naming the field.
    """
    job = submission.job
    if not submission.prompt:
        raise InvalidRequest("prompt: is empty; send at least 1 token")
    if job.max_output_tokens < 1:
        raise InvalidRequest("job.max_output_tokens: must be at least 1")
    if token_list_hash(submission.prompt) != job.prompt_hash:
        raise InvalidRequest("job.prompt_hash: is not the hash of the prompt that came with the job")
    if eip712.stop_hash(submission.stop) != job.stop_hash:
        raise InvalidRequest("job.stop_hash: is not the hash of the stop strings that came with the job")
    signer = eip712.recover_job(job, submission.signature, domain)
    if signer != job.client:
        raise ProofError(f"signature: the job was signed by {signer}, not by job.client {job.client}")
    return eip712.job_id(job, domain)


def check_context(job: Job, context_length: int) -> None:
    """Raises InvalidRequest if prompt and output cannot fit the model's context (tokens)."""
    total = job.prompt_tokens + job.max_output_tokens
    if total > context_length:
        raise InvalidRequest(
            f"job.max_output_tokens: prompt {job.prompt_tokens} + output {job.max_output_tokens} tokens "
            f"exceed the model's context of {context_length}; shorten the prompt or ask for fewer"
        )


def check_tokens(tokens: Sequence[int], vocab_size: int, field: str) -> None:
    """Raises InvalidRequest naming the first token outside the vocabulary."""
    for i, token in enumerate(tokens):
        if not 0 <= token < vocab_size:
            raise InvalidRequest(f"{field}[{i}]: token {token} is outside the vocabulary of {vocab_size}")


def check_commitment(
    signed: codec.SignedCommitment,
    domain: eip712.Domain,
    *,
    job: Job,
    job_id: bytes,
    role: Role,
    attempt: int,
    output_tokens: int,
    operator: str,
    finish_reason: FinishReason | None = None,
) -> Commitment:
    """The commitment, if ``operator`` signed it and every field is what the task was. Raises ProofError."""
    commitment = signed.commitment
    expected: dict[str, object] = {
        "job_id": job_id,
        "role": role,
        "attempt": attempt,
        "prompt_tokens": job.prompt_tokens,
        "output_tokens": output_tokens,
        "operator": operator,
    }
    if finish_reason is not None:
        expected["finish_reason"] = finish_reason
    for name, value in expected.items():
        if (got := getattr(commitment, name)) != value:
            raise ProofError(f"commitment.{name}: is {got!r}; this task's is {value!r}")
    if not 1 <= output_tokens <= job.max_output_tokens:
        raise ProofError(f"commitment.output_tokens: {output_tokens} is outside 1 to {job.max_output_tokens}")
    if commitment.finish_reason is FinishReason.LENGTH and output_tokens != job.max_output_tokens:
        raise ProofError(
            f"commitment.finish_reason: LENGTH after {output_tokens} of {job.max_output_tokens} output tokens"
        )
    signer = eip712.recover_commitment(commitment, signed.signature, domain)
    if signer != operator:
        raise ProofError(f"commitment.signature: signed by {signer}, not by {operator}")
    return commitment


def check_opening(
    opening: codec.Opening,
    commitment: Commitment,
    spec: ModelSpec,
    model_id: bytes,
    tokens: Sequence[int],
    token_root: bytes,
    positions: Sequence[int],
) -> None:
    """Every boundary is opened at every position, proofs lead to the signed job root, and its tokens are the
    transcript's: ``tokens`` is prompt and output, ``token_root`` their tree's root. Raises ProofError."""
    if opening.operator != commitment.operator:
        raise ProofError(f"opening.operator: {opening.operator} is not the committed {commitment.operator}")
    if opening.parts.token_root != token_root:
        raise ProofError("opening.token_root: is not the root of the transcript's tokens")
    if expected_job_root(commitment, model_id, opening.parts) != commitment.job_root:
        raise ProofError("opening: token_root and boundaries_root do not make the signed job_root")
    wanted = {(b, t) for t in positions for b in range(len(spec.row_tolerance_q40))}
    got = {(row.boundary, row.position) for row in opening.rows}
    if got != wanted or len(opening.rows) != len(wanted):
        raise ProofError(f"opening.rows: {len(opening.rows)} rows do not cover the {len(wanted)} asked for")
    for row in opening.rows:
        if row.token != tokens[row.position]:
            raise ProofError(f"opening.token: {row.token} at position {row.position} is not the transcript's")
        verify_opening(
            row,
            commitment=commitment,
            model_id=model_id,
            parts=opening.parts,
            dtype=Dtype(spec.row_dtype),
            hidden_size=spec.hidden_size,
        )
