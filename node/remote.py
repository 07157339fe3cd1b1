"""The scheduler's side of one worker: run a task with deadlines per message, open rows, ask for a verdict."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from verillm import eip712
from verillm.errors import ProofError, SchedulerError
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc

MAX_MESSAGE_BYTES = 256 * 2**20
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),  # a worker that (re)starts is seen within a second
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class WorkerFailed(SchedulerError):
    """The worker died, was too slow, declined, or broke the wire protocol; another one must take the task."""


@dataclass(frozen=True)
class Deadlines:
    """Seconds that one step of a worker may take."""

    prefill: float = 180.0
    token: float = 60.0
    open: float = 60.0
    judge: float = 240.0
    info: float = 5.0


@dataclass
class TaskResult:
    """A finished task. ``seconds`` are the worker's own figures for the prefill and for the whole task."""

    commitment: pb.Commitment
    prefill_root: bytes
    prefill_signature: bytes
    prefill_seconds: float
    seconds: float
    output: list[int] = field(default_factory=list)


class RemoteWorker:
    """One operator's Worker service at ``endpoint`` (host:port). Methods raise WorkerFailed."""

    def __init__(self, operator: str, endpoint: str, deadlines: Deadlines) -> None:
        self.operator = operator
        self.endpoint = endpoint
        self._deadlines = deadlines
        self._channel = grpc.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
        self._stub = rpc.WorkerStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise WorkerFailed(f"worker {self.operator} at {self.endpoint}: {_reason(error)}") from error

    def info(self) -> pb.WorkerInfo:
        return self._call(self._stub.Info, pb.Empty(), self._deadlines.info)

    def open(self, request: pb.OpenRequest) -> pb.Opening:
        return self._call(self._stub.Open, request, self._deadlines.open)

    def judge(self, request: pb.JudgeRequest) -> pb.Verdict:
        return self._call(self._stub.Judge, request, self._deadlines.judge)

    def decode(
        self, request: pb.SubmitRequest, attempt: int, on_tokens: Callable[[pb.TokenChunk], None]
    ) -> TaskResult:
        """Prefill the prompt, reveal that the task is inference, relay each chunk to ``on_tokens``."""
        reveal = pb.ToWorker(decode=pb.Decode(request=request, attempt=attempt))
        return self._task(request.job.model_id, list(request.prompt), reveal, on_tokens)

    def verify(
        self, request: pb.SubmitRequest, output: list[int], finish_reason: int, attempt: int
    ) -> TaskResult:
        """Prefill the P+O-1 tokens that have rows, reveal that the task is verification."""
        reveal = pb.ToWorker(
            verify=pb.Verify(request=request, output=output, finish_reason=finish_reason, attempt=attempt)
        )
        return self._task(request.job.model_id, [*request.prompt, *output[:-1]], reveal, None)

    def _task(
        self,
        model_id: bytes,
        tokens: list[int],
        reveal: pb.ToWorker,
        on_tokens: Callable[[pb.TokenChunk], None] | None,
    ) -> TaskResult:
        task_id = secrets.token_bytes(32)
        with _Stream(self._stub, self) as stream:
            stream.send(pb.ToWorker(begin=pb.Begin(task_id=task_id, model_id=model_id, tokens=tokens)))
            message = stream.receive(self._deadlines.prefill, "prefill")
            if message.WhichOneof("message") != "prefilled":
                raise WorkerFailed(f"worker {self.operator}: answered Begin without a prefill root")
            prefilled = message.prefilled
            check_prefill_signature(task_id, prefilled, self.operator)
            stream.send(reveal)
            output: list[int] = []
            while True:
                # A verification, and the first token of a queued decode, may wait for a running batch.
                slow = self._deadlines.prefill if not output else self._deadlines.token
                message = stream.receive(slow, "token" if on_tokens else "commitment")
                kind = message.WhichOneof("message")
                if kind == "done":
                    done = message.done
                    return TaskResult(
                        done.commitment, prefilled.root, prefilled.signature, prefilled.seconds, done.seconds,
                        output,
                    )
                if kind != "tokens" or on_tokens is None:
                    raise WorkerFailed(f"worker {self.operator}: unexpected message {kind}")
                first = message.tokens.first_index
                if first != len(output):
                    raise WorkerFailed(f"worker {self.operator}: chunk starts at {first}, not {len(output)}")
                output.extend(message.tokens.tokens)
                on_tokens(message.tokens)


def check_prefill_signature(task_id: bytes, prefilled: pb.Prefilled, operator: str) -> None:
    """Raises WorkerFailed unless ``operator`` signed the prefill root (EIP-191 over task_id || root)."""
    try:
        signer = eip712.recover_digest(eip712.prefill_digest(task_id, prefilled.root), prefilled.signature)
    except ProofError as error:
        raise WorkerFailed(f"worker {operator}: prefill {error}") from error
    if signer != operator:
        raise WorkerFailed(f"worker {operator}: prefill root signed by {signer}")


def _reason(error: grpc.RpcError) -> str:
    code = error.code().name if hasattr(error, "code") and error.code() else "failed"
    return f"{code}: {error.details() if hasattr(error, 'details') else error}"


class _Stream:
    """One Run call: timed receives over a blocking gRPC stream; leaving the block cancels what still runs."""

    def __init__(self, stub: rpc.WorkerStub, worker: RemoteWorker) -> None:
        self._outgoing: queue.SimpleQueue[pb.ToWorker | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[pb.FromWorker | Exception | None] = queue.SimpleQueue()
        self._stub = stub
        self._name = f"worker {worker.operator} at {worker.endpoint}"

    def __enter__(self) -> _Stream:
        self._call = self._stub.Run(self._requests())
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._call.cancel()

    def _requests(self) -> Iterator[pb.ToWorker]:
        while (message := self._outgoing.get()) is not None:
            yield message

    def _read(self) -> None:
        try:
            for message in self._call:
                self._incoming.put(message)
            self._incoming.put(None)
        except grpc.RpcError as error:
            self._incoming.put(error)

    def send(self, message: pb.ToWorker) -> None:
        self._outgoing.put(message)

    def receive(self, timeout: float, step: str) -> pb.FromWorker:
        try:
            message = self._incoming.get(timeout=timeout)
        except queue.Empty:
            raise WorkerFailed(f"{self._name}: no {step} within {timeout:g} s") from None
        if isinstance(message, grpc.RpcError):
            raise WorkerFailed(f"{self._name}: {_reason(message)}") from message
        if message is None:
            raise WorkerFailed(f"{self._name}: ended the task early")
        assert isinstance(message, pb.FromWorker)
        if message.WhichOneof("message") == "unable":
            raise WorkerFailed(f"{self._name}: unable: {message.unable}")
        return message
