"""The jobs whose rows a worker holds, to open and judge them. In memory; the oldest leave first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from verillm.commitment import CommittedJob, RowStore
from verillm.constants import Role
from verillm.rpc import codec
from verillm.types import SignedVerdict


@dataclass(frozen=True)
class HeldJob:
    """One committed job of this operator. ``committed.tokens`` is prompt and output."""

    job_id: bytes
    role: Role
    submission: codec.Submission
    committed: CommittedJob
    signed: codec.SignedCommitment
    store: RowStore


class HeldJobs:
    """A bounded map job id -> HeldJob; safe for concurrent use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: OrderedDict[bytes, HeldJob] = OrderedDict()
        self._verdicts: OrderedDict[bytes, SignedVerdict] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, job: HeldJob) -> None:
        with self._lock:
            self._jobs[job.job_id] = job
            self._jobs.move_to_end(job.job_id)
            while len(self._jobs) > self._limit:
                self._jobs.popitem(last=False)

    def first_verdict(self, verdict: SignedVerdict) -> SignedVerdict:
        """The first verdict that was formed on the job, this one if there was none: signing another would be
        slashed as a contradiction. Kept longer than the job's rows."""
        with self._lock:
            first = self._verdicts.setdefault(verdict.job_id, verdict)
            while len(self._verdicts) > 64 * self._limit:
                self._verdicts.popitem(last=False)
            return first

    def get(self, job_id: bytes) -> HeldJob | None:
        with self._lock:
            return self._jobs.get(job_id)
