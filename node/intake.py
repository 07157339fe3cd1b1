"""What a job must satisfy before a scheduler takes it; every refusal is a typed, one-line message."""

from __future__ import annotations

import time
from collections.abc import Mapping

from node.checks import check_context, check_submission, check_tokens
from verillm import eip712
from verillm.chain import ChainClient
from verillm.errors import InsufficientEscrow, InvalidRequest
from verillm.manifest import Manifest
from verillm.params import Params
from verillm.rpc import codec
from verillm.settlement import max_job_cost

MIN_SECONDS = 30
"""A job whose deadline is nearer than this is refused."""


class Intake:
    """Checks one submission against the models served, the chain and the client's outstanding jobs."""

    def __init__(
        self,
        address: str,
        chain: ChainClient,
        domain: eip712.Domain,
        params: Params,
        manifests: Mapping[bytes, Manifest],
    ) -> None:
        self._address = address
        self._chain = chain
        self._domain = domain
        self._params = params
        self._manifests = manifests

    def check(self, submission: codec.Submission, outstanding: int) -> tuple[bytes, int]:
        """(job id, maximal cost in token wei). ``outstanding`` is what the client's open jobs may still cost.

        Raises InvalidRequest, ProofError or InsufficientEscrow.
        """
        job = submission.job
        if job.scheduler != self._address:
            raise InvalidRequest(f"job.scheduler: {job.scheduler} is not this scheduler, {self._address}")
        manifest = self._manifests.get(job.model_id)
        if manifest is None:
            known = ", ".join(f"{m.name} 0x{i.hex()}" for i, m in self._manifests.items())
            raise InvalidRequest(f"job.model_id: 0x{job.model_id.hex()} is not served here; served: {known}")
        check_context(job, manifest.max_positions)
        check_tokens(submission.prompt, manifest.vocab_size, "prompt")
        if job.verifiers < 1:
            raise InvalidRequest("job.verifiers: must be at least 1")
        if job.deadline < time.time() + MIN_SECONDS:
            raise InvalidRequest(
                f"job.deadline: {job.deadline} is less than {MIN_SECONDS} s away; sign a later deadline"
            )
        job_id = check_submission(submission, self._domain)
        cost = max_job_cost(job, self._params)
        escrow = self._chain.escrow(job.client, self._address)
        if escrow < outstanding + cost:
            raise InsufficientEscrow(
                f"escrow: {escrow} token wei with this scheduler do not cover this job's {cost} and the "
                f"{outstanding} of open jobs; deposit {outstanding + cost - escrow} more"
            )
        return job_id, cost
