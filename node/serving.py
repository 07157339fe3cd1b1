"""gRPC plumbing that both services share: typed refusals and a threaded server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from node.log import NodeLog
from node.remote import CHANNEL_OPTIONS
from verillm import errors

HANDLER_THREADS = 64
"""gRPC handler threads: each running task or open stream holds one."""


class NotFound(errors.VeriLLMError):
    """A model or job that this node does not have."""


STATUS: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (errors.InvalidRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.EncodingError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.ProofError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.InsufficientEscrow, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.NotEnoughOperators, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.ChainError, grpc.StatusCode.UNAVAILABLE),
    (errors.EngineError, grpc.StatusCode.UNAVAILABLE),
    (NotFound, grpc.StatusCode.NOT_FOUND),
)
"""Which status a caller sees for an error raised while its request is checked; the message goes with it."""


@contextmanager
def refusals(context: grpc.ServicerContext, log: NodeLog) -> Iterator[None]:
    """Turn typed errors into gRPC statuses; anything else is logged and becomes INTERNAL."""
    try:
        yield
    except Exception as error:
        for kind, status in STATUS:
            if isinstance(error, kind):
                log.warning("refused", status=status.name, reason=error)
                context.abort(status, str(error.args[0] if error.args else error))
        if context.code() is None:  # not an abort further down
            log.exception("internal")
            context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        raise


def start_server(port: int, threads: int) -> tuple[grpc.Server, int]:
    """A server bound to ``port`` (0: any free one) on all interfaces, not yet started, and its port."""
    server = grpc.server(ThreadPoolExecutor(threads, thread_name_prefix="grpc"), options=CHANNEL_OPTIONS)
    try:
        bound = server.add_insecure_port(f"0.0.0.0:{port}")
    except RuntimeError as error:
        raise errors.ConfigError(f"--port: cannot listen on {port}: {error}") from error
    return server, bound
