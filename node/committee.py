"""One job in a round: draw its verifiers, let them recompute, open every party's rows, collect verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from node.assignment import Assigner, Directory, Draw
from node.checks import check_commitment, check_opening
from node.log import NodeLog
from node.remote import WorkerFailed
from node.store import StoredJob
from verillm import eip712
from verillm.chain.proofs import CommitmentProof
from verillm.commitment import JobRootParts
from verillm.commitment.hashing import token_root
from verillm.constants import Role
from verillm.errors import ProofError, VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.types import SignedVerdict

T = TypeVar("T")
R = TypeVar("R")


class RoundJob:
    """A committed job, decoded once: ``tokens`` is prompt and output."""

    def __init__(self, stored: StoredJob) -> None:
        assert stored.transcript is not None
        self.stored = stored
        self.job_id = stored.job_id
        self.submission = codec.submission_from_proto(stored.request)
        self.job = self.submission.job
        self.output = list(stored.transcript.output)
        self.tokens = [*self.submission.prompt, *self.output]
        self.token_root = token_root(self.tokens)
        self.worker = codec.commitment_from_proto(stored.transcript.commitment)

    @property
    def operator(self) -> str:
        return self.worker.commitment.operator

    @property
    def rows(self) -> int:
        return len(self.tokens) - 1


NO_PARTS = JobRootParts(bytes(32), 0, bytes(32))


@dataclass(frozen=True)
class Member:
    """A party that committed, and its place under the round's root of its role."""

    signed: codec.SignedCommitment
    leaf: codec.LeafProof

    @property
    def operator(self) -> str:
        return self.signed.commitment.operator

    @property
    def proof(self) -> CommitmentProof:
        """The signed commitment as contracts take it where the parts of its job root do not matter."""
        s, leaf = self.signed, self.leaf
        return CommitmentProof(s.commitment, s.signature, leaf.index, leaf.proof, NO_PARTS)


@dataclass(frozen=True)
class Judged:
    """A verifier that opened its rows and gave a verdict."""

    member: Member
    opening: codec.Opening
    verdict: SignedVerdict


@dataclass(frozen=True)
class Findings:
    """What came of the openings: the worker's (None: withheld), the verdicts, and who withheld."""

    worker_opening: codec.Opening | None
    judged: tuple[Judged, ...]
    withheld: tuple[str, ...]


class Committee:
    """Runs the verification of single jobs; ``parallel`` bounds how many calls are in flight."""

    def __init__(
        self,
        domain: eip712.Domain,
        assigner: Assigner,
        directory: Directory,
        log: NodeLog,
        parallel: int = 16,
    ) -> None:
        self._domain = domain
        self._assigner = assigner
        self._directory = directory
        self._log = log
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="committee")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R | None]:
        """``function`` of every item at once; None where it raised a typed error, which is logged."""

        def guarded(item: T) -> R | None:
            try:
                return function(item)
            except VeriLLMError as error:
                self._log.warning("party_failed", reason=error)
                return None

        return list(self._pool.map(guarded, items))

    def recompute(
        self, job: RoundJob, epoch: int, seed: bytes, spares: int
    ) -> tuple[Draw, list[codec.SignedCommitment]]:
        """Draw candidates and collect the commitments of the first that deliver, at most ``job.verifiers``.

        One that fails is replaced by the next in draw order; ``spares`` of them can fail.
        """
        wanted = job.job.verifiers
        drawn = self._assigner.verifiers(
            job.job.model_id, job.job_id, epoch, seed, wanted + spares, job.operator
        )
        waiting = list(drawn.operators)
        done: list[codec.SignedCommitment] = []
        while waiting and len(done) < wanted:
            asked = [waiting.pop(0) for _ in range(min(wanted - len(done), len(waiting)))]
            results = self._each(lambda operator: self._verify(job, operator), asked)
            done += [signed for signed in results if signed is not None]
        if len(done) < wanted:
            self._log.warning("few_verifiers", job=job.job_id, asked=wanted, found=len(done))
        return drawn, done

    def _verify(self, job: RoundJob, operator: str) -> codec.SignedCommitment:
        worker = job.worker.commitment
        self._log.info("verifying", job=job.job_id, verifier=operator)
        result = self._directory.worker(operator).verify(
            job.stored.request, job.output, worker.finish_reason, worker.attempt
        )
        signed = codec.commitment_from_proto(result.commitment)
        check_commitment(
            signed,
            self._domain,
            job=job.job,
            job_id=job.job_id,
            role=Role.VERIFIER,
            attempt=worker.attempt,
            output_tokens=len(job.output),
            operator=operator,
            finish_reason=worker.finish_reason,
        )
        self._log.info("verified", job=job.job_id, verifier=operator, seconds=f"{result.seconds:.2f}")
        return signed

    def judge(
        self,
        job: RoundJob,
        manifest: Manifest,
        round_id: int,
        worker_leaf: codec.LeafProof,
        members: Sequence[Member],
        positions: Sequence[int],
    ) -> Findings:
        """Open all parties at ``positions`` and ask each verifier for its verdict; the worker sees the
        verifiers' openings too, so that it can defend itself."""
        parties = [Member(job.worker, worker_leaf), *members]

        def open_rows(party: Member) -> codec.Opening:
            return self._open(job, manifest, round_id, party, positions)

        openings = self._each(open_rows, parties)
        withheld = tuple(p.operator for p, o in zip(parties, openings, strict=True) if o is None)
        worker_opening, opened = openings[0], list(zip(members, openings[1:], strict=True))
        if worker_opening is None:
            return Findings(None, (), withheld)
        able = [(member, opening) for member, opening in opened if opening is not None]
        request = pb.JudgeRequest(
            job_id=job.job_id,
            round_id=round_id.to_bytes(32, "big"),
            worker_commitment=codec.commitment_to_proto(job.worker),
            worker_opening=codec.opening_to_proto(worker_opening),
            verifier_commitments=[codec.commitment_to_proto(member.signed) for member, _ in able],
            verifier_openings=[codec.opening_to_proto(opening) for _, opening in able],
            worker_leaf_index=worker_leaf.index,
            worker_leaf_count=worker_leaf.count,
            worker_leaf_proof=worker_leaf.proof,
            verifier_leaves=[codec.leaf_proof_to_proto(member.leaf) for member, _ in able],
        )
        judges = [member.operator for member, _ in able]
        verdicts = self._each(
            lambda operator: self._ask(job, operator, request), [*judges, job.operator]
        )
        judged = [
            Judged(member, opening, verdict)
            for (member, opening), verdict in zip(able, verdicts[:-1], strict=True)
            if verdict is not None
        ]
        return Findings(worker_opening, tuple(judged), withheld)

    def _open(
        self, job: RoundJob, manifest: Manifest, round_id: int, party: Member, positions: Sequence[int]
    ) -> codec.Opening:
        message = self._directory.worker(party.operator).open(
            pb.OpenRequest(
                job_id=job.job_id,
                positions=positions,
                round_id=round_id.to_bytes(32, "big"),
                leaf=codec.leaf_proof_to_proto(party.leaf),
            )
        )
        opening = codec.opening_from_proto(message, len(manifest.boundaries))
        check_opening(
            opening, party.signed.commitment, manifest.spec, job.job.model_id, job.tokens, job.token_root,
            positions,
        )
        return opening

    def _ask(self, job: RoundJob, operator: str, request: pb.JudgeRequest) -> SignedVerdict:
        verdict = codec.verdict_from_proto(self._directory.worker(operator).judge(request))
        if verdict.job_id != job.job_id or verdict.operator != operator:
            raise WorkerFailed(f"worker {operator}: gave a verdict of another job or operator")
        signer = eip712.recover_verdict(verdict, self._domain)
        if signer != operator:
            raise ProofError(f"verdict.signature: signed by {signer}, not by {operator}")
        self._log.info("verdict", job=job.job_id, verifier=operator, verdict=verdict.verdict.name)
        return verdict
