"""What a client gets for a job: text as it comes, the finished generation, and later its receipt."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from eth_utils import to_checksum_address

from verillm import eip712
from verillm.constants import FinishReason, Role
from verillm.errors import ProofError, SchedulerError
from verillm.rpc import codec
from verillm.sdk.receipt import Receipt
from verillm.sdk.scheduler import SchedulerConnection
from verillm.sdk.text import TextCodec, TextStream
from verillm.types import Commitment

POLL_SECONDS = 0.5
WITH_RECEIPT = ("settled", "final")


@dataclass(frozen=True)
class TextDelta:
    """New output. ``text`` is empty without a tokenizer, or while a character is unfinished; ``tokens`` are
    the new ids, ``first_index`` the index of the first of them in the output."""

    text: str
    tokens: tuple[int, ...]
    first_index: int


@dataclass(frozen=True)
class Reset:
    """The job moved to another worker, whose output differs: forget all text and tokens so far."""

    worker: str
    attempt: int


@dataclass
class Generation:
    """A finished output. ``commitment`` is the worker's signed word for it; ``job_id`` 32 bytes."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    job_id: bytes
    prompt_tokens: tuple[int, ...]
    worker: str
    commitment: Commitment
    _scheduler: SchedulerConnection = field(repr=False)

    def state(self) -> str:
        """running, committed, verifying, settled, final or failed. Raises SchedulerError."""
        return self._scheduler.job_status(self.job_id).state

    def receipt(self, wait: bool = True, timeout: float = 600.0) -> Receipt:
        """The job's receipt, once it is settled; at most ``timeout`` seconds are waited.

        Raises SchedulerError if the job failed or is not settled, EncodingError or ProofError if the
        scheduler hands out another job's receipt.
        """
        text = wait_receipt(self._scheduler, self.job_id, timeout if wait else 0.0)
        receipt = Receipt.from_json(text)
        if receipt.job_id != self.job_id or receipt.output != self.tokens:
            raise ProofError(
                "receipt: is not of this job and output; keep the commitment and ask another party"
            )
        return receipt


def wait_receipt(scheduler: SchedulerConnection, job_id: bytes, timeout: float) -> str:
    """The receipt's JSON text; asks again until it is there or ``timeout`` seconds passed."""
    deadline = time.monotonic() + timeout
    while True:
        status = scheduler.job_status(job_id)
        if status.state in WITH_RECEIPT:
            if status.receipt_json:
                return status.receipt_json
            raise SchedulerError(
                f"job 0x{job_id.hex()}: has no receipt, the worker withheld its rows; nothing is charged"
            )
        if status.state == "failed":
            raise SchedulerError(f"job 0x{job_id.hex()}: failed: {status.error}; nothing is charged")
        if time.monotonic() >= deadline:
            raise SchedulerError(
                f"job 0x{job_id.hex()}: is {status.state}, there is no receipt yet; ask again later"
            )
        time.sleep(POLL_SECONDS)


class Stream:
    """Iterate for TextDelta and Reset; afterwards ``generation`` has the whole. ``close`` abandons it.

    Raises SchedulerError if no worker could finish, ProofError if the worker's signature is not good.
    """

    def __init__(
        self,
        scheduler: SchedulerConnection,
        call: Any,
        submission: codec.Submission,
        domain: eip712.Domain,
        text: TextCodec | None,
        signers: Callable[[str, str], bool],
    ) -> None:
        self._signers = signers
        self._scheduler, self._call, self._submission, self._domain = scheduler, call, submission, domain
        self._codec, self._text = text, TextStream(text)
        self.job_id = eip712.job_id(submission.job, domain)
        self._shown: list[int] = []
        self._tokens: list[int] = []
        self._worker, self._attempt = "", 0
        self._generation: Generation | None = None
        self._events = self._run()

    def __iter__(self) -> Iterator[TextDelta | Reset]:
        return self._events

    @property
    def generation(self) -> Generation:
        """The finished output; iterates to the end if need be."""
        for _ in self._events:
            pass
        if self._generation is None:
            raise SchedulerError("job: the stream was closed before its end; nothing is charged for it")
        return self._generation

    def close(self) -> None:
        """Stop listening; the scheduler may still finish the job."""
        self._call.cancel()
        with suppress(ValueError):  # a generator that runs in another thread ends with the call
            self._events.close()

    def _run(self) -> Generator[TextDelta | Reset]:
        handlers: dict[str, Callable[[Any], Iterator[TextDelta | Reset]]] = {
            "assigned": self._on_assigned,
            "tokens": self._on_tokens,
            "committed": self._on_committed,
            "error": self._on_error,
        }
        events = iter(self._call)
        while True:
            with self._scheduler.errors():
                event = next(events, None)
            if event is None:
                break
            kind = event.WhichOneof("event")
            if kind in handlers:
                yield from handlers[kind](getattr(event, kind))
        if self._generation is None:
            raise SchedulerError("scheduler: ended the stream without a commitment; submit the job again")

    def _on_assigned(self, event: Any) -> Iterator[TextDelta | Reset]:
        self._worker = to_checksum_address(bytes(event.worker).rjust(20, b"\0")[:20])
        self._attempt, self._tokens = event.attempt, []
        yield from ()

    def _on_tokens(self, event: Any) -> Iterator[TextDelta | Reset]:
        if event.first_index != len(self._tokens):
            raise SchedulerError(
                f"tokens.first_index: is {event.first_index}, {len(self._tokens)} was due; submit again"
            )
        limit = self._submission.job.max_output_tokens
        if len(self._tokens) + len(event.tokens) > limit:
            raise SchedulerError(f"tokens: more than the job's {limit} came; do not trust this output")
        self._tokens.extend(event.tokens)
        both = min(len(self._tokens), len(self._shown))
        if self._tokens[:both] != self._shown[:both]:
            yield self._reset()
        if len(self._tokens) > len(self._shown):
            yield self._show(last=False)

    def _on_committed(self, event: Any) -> Iterator[TextDelta | Reset]:
        signed = codec.commitment_from_proto(event)
        self._check(signed)
        if self._shown != self._tokens:  # a later worker ended earlier, within the same prefix
            yield self._reset()
        yield self._show(last=True)
        text = self._codec.decode(self._tokens) if self._codec else ""
        commitment = signed.commitment
        self._generation = Generation(
            text=text,
            tokens=tuple(self._tokens),
            finish_reason=commitment.finish_reason,
            job_id=self.job_id,
            prompt_tokens=self._submission.prompt,
            worker=commitment.operator,
            commitment=commitment,
            _scheduler=self._scheduler,
        )

    def _on_error(self, event: str) -> Iterator[TextDelta | Reset]:
        raise SchedulerError(f"job: {event}; nothing is charged for it")
        yield

    def _reset(self) -> Reset:
        self._shown, self._text = [], TextStream(self._codec)
        return Reset(self._worker, self._attempt)

    def _show(self, last: bool) -> TextDelta:
        first = len(self._shown)
        self._shown = list(self._tokens)
        return TextDelta(self._text.advance(self._shown, last), tuple(self._shown[first:]), first)

    def _check(self, signed: codec.SignedCommitment) -> None:
        commitment = signed.commitment
        expected = {
            "job_id": self.job_id,
            "role": Role.WORKER,
            "attempt": self._attempt,
            "prompt_tokens": len(self._submission.prompt),
            "output_tokens": len(self._tokens),
            "operator": self._worker,
        }
        for name, value in expected.items():
            if getattr(commitment, name) != value:
                raise ProofError(f"commitment.{name}: is not what was streamed; do not trust this output")
        signer = eip712.recover_commitment(commitment, signed.signature, self._domain)
        if not self._signers(self._worker, signer):
            raise ProofError(f"commitment: signed by {signer}, not by the worker {self._worker}")
