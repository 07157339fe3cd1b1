"""The wire codec: round trips, and refusals that name the field and its limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.chain.settlement_cases import sample_job
from tests.chain.test_identities import commitments, verdicts, words
from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.constants import FinishReason, Role
from verillm.errors import EncodingError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.types import Commitment, SignedVerdict

SIGNATURE = b"\7" * 65
JOB = sample_job(prompt_tokens=3)
SUBMISSION = codec.Submission(JOB, SIGNATURE, (1, 2, 2**32 - 1), ("a", "é"))
ROW = RowOpening(2, 7, 11, b"\1" * 130, (b"\2" * 32, b"\3" * 32), (b"\4" * 32,))
OPENING = codec.Opening(JOB.client, JobRootParts(b"\5" * 32, 3, b"\6" * 32), (ROW,))
COMMITMENT = codec.SignedCommitment(
    Commitment(b"\1" * 32, Role.VERIFIER, 0, b"\2" * 32, 3, 4, FinishReason.STOP, JOB.client), SIGNATURE
)


def test_job_and_submission_round_trip() -> None:
    decoded = codec.submission_from_proto(
        pb.SubmitRequest.FromString(codec.submission_to_proto(SUBMISSION).SerializeToString())
    )
    assert decoded == SUBMISSION


@given(commitments, verdicts, words)
@settings(max_examples=30, deadline=None)
def test_commitments_and_verdicts_round_trip(
    commitment: Commitment, verdict: SignedVerdict, word: bytes
) -> None:
    signed = codec.SignedCommitment(commitment, word + word + b"\x1b")
    decoded = codec.commitment_from_proto(codec.commitment_to_proto(signed))
    assert decoded.commitment.operator.lower() == commitment.operator
    assert codec.commitment_to_proto(decoded) == codec.commitment_to_proto(signed)
    message = codec.verdict_to_proto(verdict)
    message.signature = signed.signature
    assert codec.verdict_to_proto(codec.verdict_from_proto(message)) == message


def test_openings_and_leaf_proofs_round_trip() -> None:
    assert codec.opening_from_proto(codec.opening_to_proto(OPENING), 3) == OPENING
    leaf = codec.LeafProof(4, 5, (b"\1" * 32,))
    assert codec.leaf_proof_from_proto(codec.leaf_proof_to_proto(leaf)) == leaf


def _set(field: str, value: object) -> Callable[[pb.SubmitRequest], None]:
    def change(message: pb.SubmitRequest) -> None:
        target: object = message
        *path, last = field.split(".")
        for part in path:
            target = getattr(target, part)
        if isinstance(value, list):
            del getattr(target, last)[:]
            getattr(target, last).extend(value)
        else:
            setattr(target, last, value)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("job.client", b"\1" * 19), "job.client: has 19 bytes; it must have 20"),
        (_set("job.model_id", b""), "job.model_id: has 0 bytes; it must have 32"),
        (_set("job.verifiers", 9), "job.verifiers: 9 is above the limit 8"),
        (_set("job.input_price", b"\0\1"), "job.input_price: starts with a zero byte"),
        (_set("job.nonce", b"\1" * 33), "job.nonce: has 33 bytes; the limit is 32"),
        (_set("job.sampling.top_p_ppm", 0), "job.sampling.top_p: 0.0 is outside"),
        (_set("job.sampling.temperature_ppm", 10_000_001), "job.sampling.temperature"),
        (_set("signature", b"\1" * 64), "signature: has 64 bytes; it must have 65"),
        (_set("prompt", [1, 2]), "prompt: has 2 tokens, the job says 3"),
        (_set("stop", ["a"] * 5), "number of strings: 5 is above the limit 4"),
    ],
)
def test_malformed_submissions_are_refused(change: Callable[[pb.SubmitRequest], None], message: str) -> None:
    request = codec.submission_to_proto(SUBMISSION)
    change(request)
    with pytest.raises(EncodingError, match=message):
        codec.submission_from_proto(request)


def test_unknown_enums_and_bad_rows_are_refused() -> None:
    commitment = codec.commitment_to_proto(COMMITMENT)
    commitment.role = 2
    with pytest.raises(EncodingError, match="role: 2 is unknown; known: 0 WORKER, 1 VERIFIER"):
        codec.commitment_from_proto(commitment)
    with pytest.raises(EncodingError, match=r"verdict.verdict: 0 is unknown"):
        codec.verdict_from_proto(pb.Verdict(job_id=b"\1" * 32))
    row = codec.row_to_proto(ROW)
    row.boundary = 65536
    with pytest.raises(EncodingError, match=r"row.boundary: 65536 is above the limit 65535"):
        codec.row_from_proto(row)
    row = codec.row_to_proto(ROW)
    row.row_proof[1] = b"\1"
    with pytest.raises(EncodingError, match=r"row.row_proof\[1\]: has 1 bytes"):
        codec.row_from_proto(row)
    row.row = bytes(codec.MAX_ROW_BYTES + 1)
    with pytest.raises(EncodingError, match=r"row.row: has 32769 bytes"):
        codec.row_from_proto(row)
    with pytest.raises(EncodingError, match=r"leaf.index: 3 is not below"):
        codec.leaf_proof_from_proto(pb.LeafProof(index=3, count=3))


def test_encoding_names_the_field_that_does_not_fit() -> None:
    with pytest.raises(EncodingError, match=r"job\.prompt_tokens"):
        codec.job_to_proto(sample_job(prompt_tokens=2**32))
    with pytest.raises(EncodingError, match=r"job\.input_price: .* 2\^128"):
        codec.job_to_proto(sample_job(input_price=2**128))
    with pytest.raises(EncodingError, match=r"job\.client"):
        codec.job_to_proto(sample_job(client="0x1234"))
