"""The Worker service: prefill first, learn the kind of the task, decode or verify, then open and judge."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import grpc
from eth_account.signers.local import LocalAccount

from node.checks import check_context, check_submission, check_tokens
from node.held import HeldJob, HeldJobs
from node.judging import Judge, ServedModel
from node.log import NodeLog, short
from node.serving import NotFound, refusals
from verillm import eip712
from verillm.commitment import build_commitment, prefill_root
from verillm.constants import FinishReason, Role
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import SequenceState
from verillm.errors import EngineError, InvalidRequest, RowError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc
from verillm.types import Commitment


class WorkerService(rpc.WorkerServicer):
    """One operator. Bad requests get INVALID_ARGUMENT, unknown models and jobs NOT_FOUND, and whatever goes
    wrong inside the engine is answered ``unable``."""

    def __init__(
        self,
        key: LocalAccount,
        domain: eip712.Domain,
        models: dict[bytes, ServedModel],
        held: HeldJobs,
        judge: Judge,
        log: NodeLog,
    ) -> None:
        self._key = key
        self._domain = domain
        self._models = models
        self._held = held
        self._judge = judge
        self._log = log

    def Info(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.WorkerInfo:
        runners = [model.runner for model in self._models.values()]
        return pb.WorkerInfo(
            address=bytes.fromhex(self._key.address[2:]),
            model_ids=list(self._models),
            running=sum(r.running for r in runners),
            queued=sum(r.queued for r in runners),
        )

    def Run(self, request_iterator: Iterator[pb.ToWorker], context: grpc.ServicerContext) -> Iterator[Any]:
        with refusals(context, self._log):
            started = time.monotonic()
            begin = _next(request_iterator, "begin").begin
            model = self._model(begin.model_id)
            tokens = list(begin.tokens)
            if len(begin.task_id) != 32:
                raise InvalidRequest(f"begin.task_id: has {len(begin.task_id)} bytes; it must have 32")
            if not 1 <= len(tokens) <= model.manifest.max_positions:
                limit = model.manifest.max_positions
                raise InvalidRequest(f"begin.tokens: {len(tokens)} tokens are outside 1 to {limit}")
            check_tokens(tokens, model.manifest.vocab_size, "begin.tokens")
            try:
                state = model.runner.prefill(tokens).result()
                root = prefill_root(state.store, tokens)
            except (EngineError, RowError) as error:
                self._log.warning("unable", task=short(begin.task_id), reason=error)
                yield pb.FromWorker(unable=str(error))
                return
            digest = eip712.prefill_digest(begin.task_id, root)
            yield pb.FromWorker(
                prefilled=pb.Prefilled(
                    root=root,
                    signature=eip712.sign_digest(digest, self._key),
                    seconds=time.monotonic() - started,
                )
            )
            reveal = _next(request_iterator, "decode", "verify")
            try:
                if reveal.WhichOneof("message") == "decode":
                    yield from self._decode(reveal.decode, model, state, started)
                else:
                    yield self._verify(reveal.verify, model, state, started)
            except (EngineError, RowError) as error:
                self._log.warning("unable", task=short(begin.task_id), reason=error)
                yield pb.FromWorker(unable=str(error))

    def Open(self, request: pb.OpenRequest, context: grpc.ServicerContext) -> pb.Opening:
        with refusals(context, self._log):
            return self._judge.open(request)

    def Judge(self, request: pb.JudgeRequest, context: grpc.ServicerContext) -> pb.Verdict:
        with refusals(context, self._log):
            return self._judge.judge(request)

    def _model(self, model_id: bytes) -> ServedModel:
        model = self._models.get(model_id)
        if model is None:
            raise NotFound(f"model_id: 0x{model_id.hex()} is not served here; see Info for those that are")
        return model

    def _submission(
        self, request: pb.SubmitRequest, model: ServedModel, fed: list[int], output: list[int]
    ) -> tuple[codec.Submission, bytes]:
        """The signed job behind a task, checked against the tokens that were prefilled."""
        submission = codec.submission_from_proto(request)
        job_id = check_submission(submission, self._domain)
        job = submission.job
        if job.model_id != model.manifest.model_id:
            raise InvalidRequest("job.model_id: is not the model of the prefill")
        if job.deadline <= time.time():
            raise InvalidRequest(f"job.deadline: {job.deadline} has passed")
        check_context(job, model.manifest.max_positions)
        if fed != [*submission.prompt, *output[:-1]]:
            raise InvalidRequest("begin.tokens: are not the tokens of the job that was revealed")
        return submission, job_id

    def _decode(
        self, task: pb.Decode, model: ServedModel, state: SequenceState, started: float
    ) -> Iterator[pb.FromWorker]:
        submission, job_id = self._submission(task.request, model, state.fed, [])
        self._log.info("decode", job=job_id, attempt=task.attempt, prompt=len(state.fed))
        job = submission.job
        events: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        spec = GenerationSpec(job.sampling, job.max_output_tokens, submission.stop)
        future = model.runner.decode(state, spec, events.put)
        future.add_done_callback(lambda _: events.put(None))
        sent = 0
        while (chunk := _drain(events)) is not None:
            yield pb.FromWorker(tokens=pb.TokenChunk(first_index=sent, tokens=chunk))
            sent += len(chunk)
            model.runner.behaviour.streamed(len(chunk))
        future.result()
        if state.finish_reason is None:
            raise EngineError("engine: the batch ended before this sequence did")
        yield self._commit(submission, job_id, Role.WORKER, task.attempt, state, started)

    def _verify(
        self, task: pb.Verify, model: ServedModel, state: SequenceState, started: float
    ) -> pb.FromWorker:
        output = list(task.output)
        if not output:
            raise InvalidRequest("verify.output: is empty; a job has at least 1 output token")
        check_tokens(output, model.manifest.vocab_size, "verify.output")
        submission, job_id = self._submission(task.request, model, state.fed, output)
        state.output, state.finish_reason, state.layers = output, _finish(task.finish_reason), []
        self._log.info("verify", job=job_id, tokens=len(state.fed))
        return self._commit(submission, job_id, Role.VERIFIER, task.attempt, state, started)

    def _commit(
        self,
        submission: codec.Submission,
        job_id: bytes,
        role: Role,
        attempt: int,
        state: SequenceState,
        started: float,
    ) -> pb.FromWorker:
        """Commit to a finished sequence, hold it for openings, and sign."""
        assert state.finish_reason is not None
        prompt_tokens = len(submission.prompt)
        committed = build_commitment(
            state.store,
            job_id=job_id,
            operator=self._key.address,
            model_id=submission.job.model_id,
            tokens=[*submission.prompt, *state.output],
            prompt_tokens=prompt_tokens,
            finish_reason=state.finish_reason,
        )
        commitment = Commitment(
            job_id=job_id,
            role=role,
            attempt=attempt,
            job_root=committed.job_root,
            prompt_tokens=prompt_tokens,
            output_tokens=len(state.output),
            finish_reason=state.finish_reason,
            operator=self._key.address,
        )
        signature = eip712.sign_commitment(commitment, self._key, self._domain)
        signed = codec.SignedCommitment(commitment, signature)
        self._held.put(HeldJob(job_id, role, submission, committed, signed, state.store))
        seconds = time.monotonic() - started
        self._log.info("committed", job=job_id, role=role.name, seconds=f"{seconds:.2f}")
        return pb.FromWorker(done=pb.Done(commitment=codec.commitment_to_proto(signed), seconds=seconds))


def _next(messages: Iterator[pb.ToWorker], *kinds: str) -> pb.ToWorker:
    message = next(messages, None)
    kind = message.WhichOneof("message") if message is not None else None
    if message is None or kind not in kinds:
        raise InvalidRequest(f"message: got {kind}; this step of the task takes {' or '.join(kinds)}")
    return message


def _finish(value: int) -> FinishReason:
    try:
        return FinishReason(value)
    except ValueError:
        raise InvalidRequest(f"verify.finish_reason: {value} is unknown; known: 0, 1, 2") from None


def _drain(events: queue.SimpleQueue[int | None]) -> list[int] | None:
    """The next tokens, at least one; None once the sequence is over."""
    first = events.get()
    if first is None:
        return None
    chunk = [first]
    while not events.empty():
        token = events.get()
        if token is None:
            events.put(None)
            break
        chunk.append(token)
    return chunk
