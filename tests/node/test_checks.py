from dataclasses import replace

import pytest
from eth_account import Account

from node.checks import check_commitment, check_context, check_submission, check_tokens
from tests.node.conftest import CLIENT, DOMAIN, make_submission
from verillm import eip712
from verillm.constants import FinishReason, Role
from verillm.errors import InvalidRequest, ProofError
from verillm.rpc import codec
from verillm.types import Commitment

MODEL = b"\x22" * 32
WORKER = Account.from_key("0x" + "ab" * 32)


def test_a_signed_job_gets_its_id():
    submission = make_submission(MODEL)
    assert check_submission(submission, DOMAIN) == eip712.job_id(submission.job, DOMAIN)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda s: replace(s, prompt=(1, 2, 3, 5)), "prompt_hash"),
        (lambda s: replace(s, stop=("x",)), "stop_hash"),
        (lambda s: replace(s, prompt=()), "prompt"),
        (lambda s: replace(s, job=replace(s.job, seed=8)), "signature"),
        (lambda s: replace(s, job=replace(s.job, max_output_tokens=0)), "max_output_tokens"),
        (lambda s: replace(s, signature=b"\0" * 64 + b"\x1b"), "signature"),
    ],
)
def test_a_job_that_is_not_the_signed_one_is_refused(change, field):
    with pytest.raises((InvalidRequest, ProofError), match=field):
        check_submission(change(make_submission(MODEL)), DOMAIN)


def test_limits_name_the_field():
    job = make_submission(MODEL, max_output_tokens=60).job
    check_context(job, 64)
    with pytest.raises(InvalidRequest, match=r"max_output_tokens.*63"):
        check_context(job, 63)
    with pytest.raises(InvalidRequest, match=r"prompt\[1\]: token 9"):
        check_tokens([8, 9], 9, "prompt")


def _signed(**changes) -> codec.SignedCommitment:
    commitment = Commitment(b"\1" * 32, Role.WORKER, 0, b"\2" * 32, 4, 8, FinishReason.LENGTH, WORKER.address)
    commitment = replace(commitment, **changes)
    return codec.SignedCommitment(commitment, eip712.sign_commitment(commitment, WORKER, DOMAIN))


def _check(signed: codec.SignedCommitment, output_tokens: int = 8, operator: str = WORKER.address):
    return check_commitment(
        signed,
        DOMAIN,
        job=make_submission(MODEL).job,
        job_id=b"\1" * 32,
        role=Role.WORKER,
        attempt=0,
        output_tokens=output_tokens,
        operator=operator,
    )


def test_the_commitment_of_the_task_passes():
    assert _check(_signed()).operator == WORKER.address


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"job_id": b"\3" * 32}, "job_id"),
        ({"role": Role.VERIFIER}, "role"),
        ({"attempt": 1}, "attempt"),
        ({"prompt_tokens": 5}, "prompt_tokens"),
        ({"output_tokens": 9}, "output_tokens"),
        ({"operator": CLIENT.address}, "operator"),
    ],
)
def test_a_commitment_to_another_task_is_refused(changes, field):
    with pytest.raises(ProofError, match=f"commitment.{field}"):
        _check(_signed(**changes))


def test_an_early_length_finish_and_a_foreign_signature_are_refused():
    with pytest.raises(ProofError, match="finish_reason"):
        _check(_signed(output_tokens=7), output_tokens=7)
    forged = codec.SignedCommitment(
        _signed().commitment, eip712.sign_commitment(_signed().commitment, CLIENT, DOMAIN)
    )
    with pytest.raises(ProofError, match="signature"):
        _check(forged)
