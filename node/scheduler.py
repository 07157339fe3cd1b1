"""The Scheduler service: take a job, stream its tokens from a drawn worker, and answer for it afterwards."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
from eth_account.signers.local import LocalAccount

from node.assignment import Assigner, Directory, Draw
from node.checks import check_commitment, check_tokens
from node.intake import Intake
from node.log import NodeLog
from node.remote import TaskResult, WorkerFailed
from node.serving import NotFound, refusals
from node.store import Store, StoredJob
from verillm import eip712, vrf
from verillm.constants import Role
from verillm.errors import InvalidRequest, SchedulerError, VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc


class SchedulerService(rpc.SchedulerServicer):
    """One scheduler. Jobs run to their end even if the client's stream breaks; ``Status`` tells how."""

    def __init__(
        self,
        key: LocalAccount,
        domain: eip712.Domain,
        manifests: Mapping[bytes, Manifest],
        store: Store,
        directory: Directory,
        assigner: Assigner,
        intake: Intake,
        max_attempts: int,
        log: NodeLog,
    ) -> None:
        self._key = key
        self._domain = domain
        self._manifests = manifests
        self._store = store
        self._directory = directory
        self._assigner = assigner
        self._intake = intake
        self._max_attempts = max_attempts
        self._log = log
        self._taking = threading.Lock()

    def Info(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.SchedulerInfo:
        with refusals(context, self._log):
            live: set[str] = set()
            for model_id in self._manifests:
                _, stakes = self._assigner.pool(model_id)
                operators = {operator for operator, stake in stakes if stake}
                live |= operators - self._directory.dead(operators, model_id)
            return pb.SchedulerInfo(
                address=bytes.fromhex(self._key.address[2:]),
                vrf_public_key=vrf.public_key(bytes(self._key.key)),
                model_ids=list(self._manifests),
                chain_id=self._domain.chain_id,
                contract=bytes.fromhex(self._domain.contract[2:]),
                live_workers=len(live),
            )

    def Submit(self, request: pb.SubmitRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        with refusals(context, self._log):
            submission = codec.submission_from_proto(request)
            with self._taking:  # two jobs must not both count on the same escrow
                outstanding = self._store.outstanding(submission.job.client)
                job_id, cost = self._intake.check(submission, outstanding)
                stored = StoredJob(
                    job_id, "running", submission.job.client, submission.job.nonce, cost, request
                )
                if not self._store.insert_job(stored):
                    raise InvalidRequest(f"job.nonce: {submission.job.nonce} is already taken by another job")
        self._log.info("submitted", job=job_id, client=submission.job.client, prompt=len(submission.prompt))
        events: queue.SimpleQueue[pb.JobEvent | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, args=(job_id, request, submission, events), daemon=True).start()
        while (event := events.get()) is not None:
            yield event

    def Status(self, request: pb.JobQuery, context: grpc.ServicerContext) -> pb.JobStatus:
        with refusals(context, self._log):
            job = self._known(request.job_id)
            receipt = job.receipt if job.state in ("settled", "final") else ""
            return pb.JobStatus(state=job.state, receipt_json=receipt, error=job.error)

    def GetTranscript(self, request: pb.JobQuery, context: grpc.ServicerContext) -> pb.Transcript:
        with refusals(context, self._log):
            job = self._known(request.job_id)
            if job.transcript is None:
                raise NotFound(f"job_id: 0x{job.job_id.hex()} is {job.state}; it has no transcript")
            return job.transcript

    def _known(self, job_id: bytes) -> StoredJob:
        job = self._store.job(job_id)
        if job is None:
            raise NotFound(f"job_id: 0x{job_id.hex()} is unknown to this scheduler")
        return job

    def _serve(
        self,
        job_id: bytes,
        request: pb.SubmitRequest,
        submission: codec.Submission,
        events: queue.SimpleQueue[pb.JobEvent | None],
    ) -> None:
        try:
            result, attempt, drawn = self._run(job_id, request, submission, events)
            transcript = pb.Transcript(request=request, output=result.output, commitment=result.commitment)
            self._store.set_committed(
                job_id,
                transcript,
                {
                    "epoch": drawn.epoch,
                    "attempt": attempt,
                    "proof": drawn.proof.hex(),
                    "generation_seconds": result.seconds,
                    "prefill_seconds": result.prefill_seconds,
                },
            )
            self._log.info("committed", job=job_id, worker=drawn.operators[0], tokens=len(result.output))
            events.put(pb.JobEvent(committed=result.commitment))
        except VeriLLMError as error:
            self._fail(job_id, str(error), events)
        except Exception as error:  # the client must hear of it; nothing was charged
            self._log.exception("job_crashed", job=job_id)
            self._fail(job_id, f"internal error in the scheduler: {type(error).__name__}", events)
        finally:
            events.put(None)

    def _fail(self, job_id: bytes, reason: str, events: queue.SimpleQueue[pb.JobEvent | None]) -> None:
        self._log.warning("job_failed", job=job_id, reason=reason)
        self._store.set_state(job_id, "failed", reason)
        events.put(pb.JobEvent(error=reason))

    def _run(
        self,
        job_id: bytes,
        request: pb.SubmitRequest,
        submission: codec.Submission,
        events: queue.SimpleQueue[pb.JobEvent | None],
    ) -> tuple[TaskResult, int, Draw]:
        """Try the worker drawn for each attempt in turn until one commits. Raises SchedulerError or
        NotEnoughOperators."""
        job = submission.job
        failed: set[str] = set()
        reason = ""
        for attempt in range(self._max_attempts):
            if time.time() >= job.deadline:
                raise SchedulerError(f"job.deadline: passed after {attempt} attempts; {reason}")
            drawn = self._assigner.worker(job.model_id, job_id, attempt)
            operator = drawn.operators[0]
            if operator in failed or self._directory.dead([operator], job.model_id):
                reason = reason or f"worker {operator}: does not answer"
                self._log.info("attempt_skipped", job=job_id, worker=operator, attempt=attempt)
                continue
            self._log.info("assigned", job=job_id, worker=operator, attempt=attempt)
            events.put(
                pb.JobEvent(assigned=pb.Assigned(worker=bytes.fromhex(operator[2:]), attempt=attempt))
            )
            try:
                worker = self._directory.worker(operator)
                result = worker.decode(
                    request, attempt, lambda chunk: self._relay(job_id, submission, chunk, events)
                )
                check_commitment(
                    codec.commitment_from_proto(result.commitment),
                    self._domain,
                    job=job,
                    job_id=job_id,
                    role=Role.WORKER,
                    attempt=attempt,
                    output_tokens=len(result.output),
                    operator=operator,
                )
                return result, attempt, drawn
            except VeriLLMError as error:
                reason = str(error)
                self._log.warning("attempt_failed", job=job_id, worker=operator, reason=reason)
                failed.add(operator)
        raise SchedulerError(f"workers: none of {self._max_attempts} drawn did the job; the last: {reason}")

    def _relay(
        self,
        job_id: bytes,
        submission: codec.Submission,
        chunk: pb.TokenChunk,
        events: queue.SimpleQueue[pb.JobEvent | None],
    ) -> None:
        job = submission.job
        check_tokens(chunk.tokens, self._manifests[job.model_id].vocab_size, "output")
        if chunk.first_index + len(chunk.tokens) > job.max_output_tokens:
            raise WorkerFailed(f"output: more than the job's {job.max_output_tokens} tokens")
        events.put(pb.JobEvent(tokens=chunk))
