"""What a worker decodes: the requests of its gRPC service, below the socket."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import grpc

from node.held import HeldJob, HeldJobs
from node.judging import Judge, ServedModel
from node.log import NodeLog
from node.worker import WorkerService
from tests.fuzz.protomutate import proto_mutator, sequence_mutator
from tests.fuzz.reader import Reader, pack
from tests.fuzz.target import Refused, Target
from tests.fuzz.toy import ToyWorld
from tests.sdk import parties
from verillm.constants import Role
from verillm.errors import EngineError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse

BLOCK = 100
TASK = b"\5" * 32


class Context:
    """A gRPC context whose refusals are typed; INTERNAL means that a service did not expect the input."""

    def abort(self, status: grpc.StatusCode, details: str) -> None:
        if status is grpc.StatusCode.INTERNAL:
            raise RuntimeError(details)
        raise Refused(f"{status.name}: {details}")

    def code(self) -> None:
        return None


class InlineRunner:
    """``ModelRunner`` without its thread, and without its net: errors come out as they are."""

    running = queued = 0

    def __init__(self, engine: Any) -> None:
        self.behaviour = SimpleNamespace(
            engine=engine, accuses=True, prefill=engine.prefill, streamed=lambda tokens: None
        )

    def call(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function())
        return future

    def prefill(self, tokens: Any) -> Future[Any]:
        return self.call(lambda: self.behaviour.engine.prefill(tokens))

    def decode(self, state: Any, spec: Any, on_token: Callable[[int], None]) -> Future[Any]:
        for _, token in self.behaviour.engine.decode_batch([state], [spec]):
            on_token(token)
        return self.call(lambda: state)


@dataclass(frozen=True)
class Chain:
    """The round that the toy receipt was settled in."""

    world: ToyWorld

    def round(self, number: int) -> Any:
        place = self.world.receipt.round
        return SimpleNamespace(
            position_block=BLOCK - 1, root=place.root, verification_root=place.verification_root
        )

    def block_number(self) -> int:
        return BLOCK

    def position_seed(self, number: int) -> bytes:
        return self.world.receipt.position_randomness

    def escrow(self, client: str, scheduler: str) -> int:
        return 10**30


def targets(world: ToyWorld) -> list[Target]:
    """All targets of this side."""
    service = toy_service(world)
    context: Any = Context()

    def open_rows(data: bytes) -> Any:
        return service.Open(parse(pb.OpenRequest, data, "request"), context)

    def judge(data: bytes) -> Any:
        return service.Judge(parse(pb.JudgeRequest, data, "request"), context)

    run = sequence_mutator(proto_mutator(pb.ToWorker))
    return [
        Target("worker.run", "worker", 15, _tasks(world), run, _run(service)),
        Target(
            "worker.open", "worker", 25, (_open_request(world),), proto_mutator(pb.OpenRequest), open_rows
        ),
        Target("worker.judge", "worker", 12, (judge_request(world),), proto_mutator(pb.JudgeRequest), judge),
    ]


def toy_submission(world: ToyWorld) -> pb.SubmitRequest:
    """The toy job as its client submits it."""
    r = world.receipt
    return codec.submission_to_proto(codec.Submission(r.job, r.job_signature, r.prompt, r.stop))


def toy_service(world: ToyWorld) -> WorkerService:
    """An operator that verified the toy job and holds it."""
    r = world.receipt
    entry = r.verifiers[0]
    operator = entry.signed.commitment.operator
    key = parties.OPERATORS[operator]
    work = world.commit(world.honest_rows, Role.VERIFIER, operator)
    held = HeldJobs(4)
    submission = codec.Submission(r.job, r.job_signature, r.prompt, r.stop)
    held.put(HeldJob(r.job_id, Role.VERIFIER, submission, work.committed, entry.signed, work.store))
    runner: Any = InlineRunner(world.engine)
    models = {world.manifest.model_id: ServedModel(world.manifest, runner)}
    chain: Any = Chain(world)
    accuser: Any = SimpleNamespace(consider=lambda evidence: None)
    log = NodeLog("fuzz")
    judge = Judge(key, parties.DOMAIN, chain, parties.PARAMS, models, held, accuser, log)
    # What Run commits to goes elsewhere: it must not replace what Open and Judge are asked about.
    return WorkerService(key, parties.DOMAIN, models, HeldJobs(4), judge, log)


def _tasks(world: ToyWorld) -> tuple[bytes, ...]:
    r = world.receipt
    request = toy_submission(world)
    begin = {"task_id": TASK, "model_id": world.manifest.model_id}
    decode = [
        pb.ToWorker(begin=pb.Begin(tokens=r.prompt, **begin)),
        pb.ToWorker(decode=pb.Decode(request=request, attempt=0)),
    ]
    verify = [
        pb.ToWorker(begin=pb.Begin(tokens=r.tokens[:-1], **begin)),
        pb.ToWorker(verify=pb.Verify(request=request, output=r.output, finish_reason=r.finish_reason)),
    ]
    return tuple(pack([message.SerializeToString() for message in task]) for task in (decode, verify))


def _run(service: WorkerService) -> Callable[[bytes], Any]:
    def feed(data: bytes) -> None:
        messages = [parse(pb.ToWorker, blob, "message") for blob in Reader(data).blobs()]
        context: Any = Context()
        answers = list(service.Run(iter(messages), context))
        if answers and answers[-1].WhichOneof("message") == "unable":
            raise EngineError(answers[-1].unable)

    return feed


def _open_request(world: ToyWorld) -> bytes:
    entry = world.receipt.verifiers[0]
    request = pb.OpenRequest(
        job_id=world.receipt.job_id, positions=world.positions, round_id=bytes(31) + b"\7",
        leaf=codec.leaf_proof_to_proto(entry.leaf),
    )  # fmt: skip
    return request.SerializeToString()


def judge_request(world: ToyWorld) -> bytes:
    """What the toy job's first verifier is asked to judge."""
    r = world.receipt
    request = pb.JudgeRequest(
        job_id=r.job_id,
        round_id=bytes(31) + b"\7",
        worker_commitment=codec.commitment_to_proto(r.worker),
        worker_opening=codec.opening_to_proto(r.worker_opening),
        verifier_commitments=[codec.commitment_to_proto(e.signed) for e in r.verifiers],
        verifier_openings=[codec.opening_to_proto(e.opening) for e in r.verifiers],
        worker_leaf_index=r.round.leaf.index,
        worker_leaf_count=r.round.leaf.count,
        worker_leaf_proof=r.round.leaf.proof,
        verifier_leaves=[codec.leaf_proof_to_proto(e.leaf) for e in r.verifiers],
    )
    return request.SerializeToString()
