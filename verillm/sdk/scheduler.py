"""The client's connection to a scheduler: gRPC calls with typed one-line errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from verillm.errors import (
    ChainError,
    ConfigError,
    InsufficientEscrow,
    InvalidRequest,
    NotEnoughOperators,
    SchedulerError,
)
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc

INFO_SECONDS = 15.0
MAX_MESSAGE_BYTES = 256 * 2**20
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]
_UNREACHABLE = ("failed to connect", "dns resolution", "name resolution")


class SchedulerConnection:
    """One scheduler at ``host:port``. Methods raise InvalidRequest, InsufficientEscrow, ChainError,
    NotEnoughOperators or SchedulerError, each with the scheduler's own reason."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in target:
            raise ConfigError(f"scheduler: {target!r} is not host:port; give for example 127.0.0.1:7000")
        self.target = target
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._stub = rpc.SchedulerStub(self._channel)

    def close(self) -> None:
        """Close the channel; running calls end."""
        self._channel.close()

    def info(self) -> pb.SchedulerInfo:
        """Address, models, chain and live workers."""
        with self.errors():
            return self._stub.Info(pb.Empty(), timeout=INFO_SECONDS)

    def submit(self, request: pb.SubmitRequest, timeout: float) -> Any:
        """The stream of job events: iterable, with ``cancel()``. Iterate it inside ``errors()``."""
        return self._stub.Submit(request, timeout=timeout)

    def job_status(self, job_id: bytes) -> pb.JobStatus:
        """State, receipt and error of one job."""
        with self.errors():
            return self._stub.Status(pb.JobQuery(job_id=job_id), timeout=INFO_SECONDS)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn gRPC errors into the project's."""
        try:
            yield
        except grpc.RpcError as error:
            raise self._typed(error) from error

    def _typed(self, error: Any) -> Exception:
        code = error.code()
        details = " ".join(str(error.details() or code.name).split())
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return SchedulerError(f"scheduler: {self.target} did not answer in time; check that it runs")
        if code is grpc.StatusCode.UNAVAILABLE and any(x in details.lower() for x in _UNREACHABLE):
            return SchedulerError(
                f"scheduler: {self.target} does not answer; check the address and that it runs"
            )
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidRequest(details)
        if code is grpc.StatusCode.FAILED_PRECONDITION and details.startswith("escrow"):
            return InsufficientEscrow(details)
        if code is grpc.StatusCode.FAILED_PRECONDITION and details.startswith("operators"):
            return NotEnoughOperators(details)
        if code is grpc.StatusCode.UNAVAILABLE and details.startswith("rpc"):
            return ChainError(f"scheduler's {details}")
        return SchedulerError(f"scheduler: {details}")
