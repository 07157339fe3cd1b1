"""What a scheduler decodes: submissions, and what workers answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from node.checks import check_commitment, check_opening
from node.intake import Intake
from node.remote import Deadlines, RemoteWorker
from tests.fuzz.mutate import mutate_bytes
from tests.fuzz.protomutate import proto_mutator, sequence_mutator
from tests.fuzz.reader import Reader, pack
from tests.fuzz.target import Target
from tests.fuzz.toy import ToyWorld
from tests.fuzz.worker import TASK, Chain, toy_submission
from tests.sdk import parties
from verillm import eip712
from verillm.commitment import verify_proof
from verillm.constants import Role
from verillm.errors import VeriLLMError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.settlement import round_leaf


def targets(world: ToyWorld) -> list[Target]:
    """All targets of this side."""
    r = world.receipt
    submit = toy_submission(world).SerializeToString()
    commitment = codec.commitment_to_proto(r.worker).SerializeToString()
    verdicts = tuple(codec.verdict_to_proto(e.verdict).SerializeToString() for e in r.verifiers)
    leaf = codec.leaf_proof_to_proto(r.round.leaf).SerializeToString()
    opening = codec.opening_to_proto(r.worker_opening).SerializeToString()
    answers = sequence_mutator(proto_mutator(pb.FromWorker))
    task = _remote(r.worker.commitment.operator)
    every = (submit, commitment, *verdicts, leaf)
    return [
        Target("intake.submit", "scheduler", 40, (submit,), proto_mutator(pb.SubmitRequest), _submit(world)),
        Target(
            "codec.commitment", "scheduler", 150, (commitment,), proto_mutator(pb.Commitment),
            _commitment(world),
        ),
        Target("codec.verdict", "scheduler", 150, verdicts, proto_mutator(pb.Verdict), _verdict),
        Target("codec.leaf_proof", "scheduler", 120, (leaf,), proto_mutator(pb.LeafProof), _leaf(world)),
        Target("codec.opening", "scheduler", 50, (opening,), proto_mutator(pb.Opening), _opening(world)),
        Target("remote.task", "scheduler", 10, (_answers(world),), answers, task),
        Target("protobuf.any", "scheduler", 250, every, mutate_bytes, _any),
    ]  # fmt: skip


def _submit(world: ToyWorld) -> Callable[[bytes], Any]:
    chain: Any = Chain(world)
    manifests = {world.manifest.model_id: world.manifest}
    scheduler = parties.SCHEDULER.address
    intake = Intake(scheduler, chain, parties.DOMAIN, parties.PARAMS, manifests)
    return lambda data: intake.check(
        codec.submission_from_proto(parse(pb.SubmitRequest, data, "submission")), 0
    )


def _commitment(world: ToyWorld) -> Callable[[bytes], Any]:
    r = world.receipt

    def feed(data: bytes) -> None:
        signed = codec.commitment_from_proto(parse(pb.Commitment, data, "commitment"))
        eip712.recover_commitment(signed.commitment, signed.signature, parties.DOMAIN)
        check_commitment(
            signed, parties.DOMAIN, job=r.job, job_id=r.job_id, role=Role.WORKER, attempt=0,
            output_tokens=len(r.output), operator=r.worker.commitment.operator,
        )  # fmt: skip

    return feed


def _verdict(data: bytes) -> str:
    return eip712.recover_verdict(
        codec.verdict_from_proto(parse(pb.Verdict, data, "verdict")), parties.DOMAIN
    )


def _leaf(world: ToyWorld) -> Callable[[bytes], Any]:
    r = world.receipt
    digest = eip712.commitment_digest(r.worker.commitment, parties.DOMAIN)
    value = round_leaf(digest, r.worker.commitment.operator)

    def feed(data: bytes) -> None:
        leaf = codec.leaf_proof_from_proto(parse(pb.LeafProof, data, "leaf"))
        verify_proof(value, leaf.index, leaf.count, leaf.proof, r.round.root)

    return feed


def _opening(world: ToyWorld) -> Callable[[bytes], Any]:
    r, positions = world.receipt, world.positions
    root = r.worker_opening.parts.token_root

    def feed(data: bytes) -> None:
        opening = codec.opening_from_proto(parse(pb.Opening, data, "opening"), len(world.engine.boundaries))
        check_opening(
            opening, r.worker.commitment, world.manifest.spec, r.job.model_id, r.tokens, root, positions
        )

    return feed


def _answers(world: ToyWorld) -> bytes:
    r = world.receipt
    key = parties.OPERATORS[r.worker.commitment.operator]
    digest = eip712.prefill_digest(TASK, b"\1" * 32)
    prefilled = pb.Prefilled(root=b"\1" * 32, signature=eip712.sign_digest(digest, key), seconds=0.5)
    done = pb.Done(commitment=codec.commitment_to_proto(r.worker), seconds=1.5)
    messages = [
        pb.FromWorker(prefilled=prefilled),
        pb.FromWorker(tokens=pb.TokenChunk(first_index=0, tokens=r.output[:3])),
        pb.FromWorker(tokens=pb.TokenChunk(first_index=3, tokens=r.output[3:])),
        pb.FromWorker(done=done),
    ]
    return pack([message.SerializeToString() for message in messages])


class _Answers:
    """A worker's stream that is already there."""

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[pb.FromWorker]:
        return (pb.FromWorker.FromString(message) for message in self._messages)

    def cancel(self) -> None:
        """Nothing runs."""


def _remote(operator: str) -> Callable[[bytes], Any]:
    def feed(data: bytes) -> None:
        blobs = Reader(data).blobs()
        for blob in blobs:
            parse(pb.FromWorker, blob, "answer")  # gRPC ends a stream at what it cannot parse
        worker = RemoteWorker(operator, "127.0.0.1:1", Deadlines())
        stub: Any = SimpleNamespace(Run=lambda requests: _Answers(blobs))
        worker._stub = stub
        try:
            with mock.patch("node.remote.secrets.token_bytes", return_value=TASK):
                result = worker.decode(pb.SubmitRequest(prompt=[1]), 0, lambda chunk: None)
        finally:
            worker.close()
        codec.commitment_from_proto(result.commitment)

    return feed


def _any(data: bytes) -> None:
    """One input as every message, through every decoder of the codec; refused if all refuse it."""
    refusals = []
    for kind, decode in DECODERS:
        try:
            decode(parse(kind, data, kind.__name__))
        except VeriLLMError as error:
            refusals.append(error)
    if len(refusals) == len(DECODERS):
        raise refusals[0]


DECODERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (pb.SubmitRequest, codec.submission_from_proto),
    (pb.Job, codec.job_from_proto),
    (pb.Commitment, codec.commitment_from_proto),
    (pb.Verdict, codec.verdict_from_proto),
    (pb.RowProof, codec.row_from_proto),
    (pb.Opening, lambda message: codec.opening_from_proto(message, 3)),
    (pb.LeafProof, codec.leaf_proof_from_proto),
)
"""Every message that the codec decodes."""
