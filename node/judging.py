"""Open this operator's rows when the chain asks for them, judge the others' and sign a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from eth_account.signers.local import LocalAccount

from node.challenges import Evidence, Party
from node.checks import check_commitment, check_opening
from node.held import HeldJob, HeldJobs
from node.log import NodeLog
from node.runner import ModelRunner
from node.serving import NotFound
from verillm import eip712
from verillm.chain import ChainClient
from verillm.commitment import OutputMatrix, verify_proof
from verillm.comparator.verdict import JobVerdict
from verillm.constants import Role, Verdict
from verillm.draw import opened_positions
from verillm.errors import EngineError, InvalidRequest
from verillm.manifest import Manifest
from verillm.params import Params
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.settlement import round_leaf
from verillm.types import SignedVerdict
from verillm.verification import TokenFraud, find_token_fraud, verify_job


@dataclass(frozen=True)
class ServedModel:
    """A model that this worker runs: its manifest and the thread that owns the engine."""

    manifest: Manifest
    runner: ModelRunner

    @cached_property
    def output_matrix(self) -> OutputMatrix:
        """Tree over the output matrix, built on first use (seconds). Raises EngineError if it is wrong."""
        matrix = OutputMatrix(self.runner.behaviour.engine.output_matrix_bytes())
        if matrix.root != self.manifest.spec.output_matrix_root:
            raise EngineError("output matrix: its root is not the manifest's; the folder has other weights")
        return matrix


class Accuser(Protocol):
    """Takes what a verdict rests on and challenges on chain where that holds."""

    def consider(self, evidence: Evidence) -> None: ...


@dataclass(frozen=True)
class _Round:
    """What the chain says about a round: its number, roots, and the positions to open for one job."""

    round_id: int
    root: bytes
    verification_root: bytes
    positions: list[int]


class Judge:
    """Answers Open and Judge for the jobs that this operator holds. Raises typed errors for bad requests."""

    def __init__(
        self,
        key: LocalAccount,
        domain: eip712.Domain,
        chain: ChainClient,
        params: Params,
        models: Mapping[bytes, ServedModel],
        held: HeldJobs,
        accuser: Accuser,
        log: NodeLog,
    ) -> None:
        self._key = key
        self._domain = domain
        self._chain = chain
        self._params = params
        self._models = models
        self._held = held
        self._accuser = accuser
        self._log = log

    def open(self, request: pb.OpenRequest) -> pb.Opening:
        """The rows at the positions that the round's randomness picked, at every boundary; never others."""
        job = self._job(request.job_id)
        place = self._round(job, request.round_id)
        root = place.root if job.role is Role.WORKER else place.verification_root
        self._check_leaf(job.signed, codec.leaf_proof_from_proto(request.leaf), root)
        if list(request.positions) != place.positions:
            raise InvalidRequest(f"positions: the round's randomness asks for {place.positions}")
        rows = tuple(row for t in place.positions for row in job.committed.open(t))
        self._log.info("opened", job=job.job_id, positions=place.positions)
        return codec.opening_to_proto(codec.Opening(self._key.address, job.committed.parts, rows))

    def judge(self, request: pb.JudgeRequest) -> pb.Verdict:
        """A signed verdict on the worker's rows and tokens; challenges follow in the background.

        A worker asked about its own job answers UNABLE, and may challenge verifiers whose rows differ.
        """
        job = self._job(request.job_id)
        model = self._models[job.submission.job.model_id]
        place = self._round(job, request.round_id)
        worker, verifiers = self._parties(request, job, model, place)
        mine = next((p for p in (worker, *verifiers) if p.operator == self._key.address), None)
        if mine is None:
            raise InvalidRequest("verifier_commitments: this operator's own is not among them")
        result, fraud = self._verdict(job, model, worker)
        verdict = self._held.first_verdict(
            SignedVerdict(job.job_id, result.verdict, result.boundary, result.position, self._key.address)
        )
        signed = replace(verdict, signature=eip712.sign_verdict(verdict, self._key, self._domain))
        self._log.info("verdict", job=job.job_id, verdict=result.verdict.name, reason=result.reason)
        if model.runner.behaviour.accuses:
            others = tuple(p for p in (worker, *verifiers) if p is not mine)
            self._accuser.consider(
                Evidence(job, place.round_id, mine, worker, others, model.manifest, fraud)
            )
        return codec.verdict_to_proto(signed)

    def _verdict(
        self, job: HeldJob, model: ServedModel, worker: Party
    ) -> tuple[JobVerdict, TokenFraud | None]:
        """What my own rows say, and a token that contradicts the worker's; UNABLE if the engine fails."""
        behaviour = model.runner.behaviour
        if job.role is Role.WORKER:
            return JobVerdict(Verdict.UNABLE, 0, 0, "own job"), None
        if not behaviour.accuses:
            return JobVerdict(Verdict.ACCEPT, 0, 0, "accepts everything"), None
        request = job.submission
        tokens = job.committed.tokens
        engine, rows = behaviour.engine, worker.opening.rows

        def compute() -> tuple[JobVerdict, TokenFraud | None]:
            verdict = verify_job(
                engine,
                model.manifest.table,
                request.job,
                request.prompt,
                tokens[len(request.prompt) :],
                job.signed.commitment.finish_reason,
                request.stop,
                rows,
                own=job.store,
                token_root=worker.opening.parts.token_root,
            )
            margin = model.manifest.spec.token_margin_q24
            return verdict, find_token_fraud(engine, rows, request.job, tokens, margin)

        try:
            return model.runner.call(compute).result()
        except EngineError as error:
            return JobVerdict(Verdict.UNABLE, 0, 0, str(error)), None

    def _job(self, job_id: bytes) -> HeldJob:
        job = self._held.get(job_id)
        if job is None:
            raise NotFound(f"job_id: 0x{job_id.hex()} is not held here")
        return job

    def _round(self, job: HeldJob, round_id: bytes) -> _Round:
        """Ask the chain, not the caller, what the round is and which positions it opens."""
        if len(round_id) != 32:
            raise InvalidRequest(f"round_id: has {len(round_id)} bytes; it must have 32")
        number = int.from_bytes(round_id, "big")
        info = self._chain.round(number)
        if not info.position_block or self._chain.block_number() <= info.position_block:
            raise InvalidRequest(f"round_id: round {number} has no seed for positions yet")
        seed = self._chain.position_seed(number)
        rows = job.committed.rows_per_boundary
        positions = opened_positions(seed, job.job_id, rows, self._params.opened_positions)
        return _Round(number, info.root, info.verification_root, positions)

    def _check_leaf(self, signed: codec.SignedCommitment, leaf: codec.LeafProof, root: bytes) -> None:
        digest = eip712.commitment_digest(signed.commitment, self._domain)
        verify_proof(round_leaf(digest, signed.commitment.operator), leaf.index, leaf.count, leaf.proof, root)

    def _parties(
        self, request: pb.JudgeRequest, job: HeldJob, model: ServedModel, place: _Round
    ) -> tuple[Party, list[Party]]:
        leaf = codec.LeafProof(
            request.worker_leaf_index, request.worker_leaf_count, tuple(request.worker_leaf_proof)
        )
        worker = self._party(
            request.worker_commitment, request.worker_opening, leaf, Role.WORKER, job, model, place
        )
        lists = request.verifier_commitments, request.verifier_openings, request.verifier_leaves
        if len({len(items) for items in lists}) != 1:
            raise InvalidRequest("verifier_commitments, verifier_openings, verifier_leaves: differ in length")
        verifiers = [
            self._party(c, opening, codec.leaf_proof_from_proto(proof), Role.VERIFIER, job, model, place)
            for c, opening, proof in zip(*lists, strict=True)
        ]
        return worker, verifiers

    def _party(
        self,
        commitment: pb.Commitment,
        opening: pb.Opening,
        leaf: codec.LeafProof,
        role: Role,
        job: HeldJob,
        model: ServedModel,
        place: _Round,
    ) -> Party:
        """One party's commitment and opening, checked against the round's root and my transcript."""
        signed = codec.commitment_from_proto(commitment)
        mine = job.signed.commitment
        check_commitment(
            signed,
            self._domain,
            job=job.submission.job,
            job_id=job.job_id,
            role=role,
            attempt=mine.attempt,
            output_tokens=mine.output_tokens,
            operator=signed.commitment.operator,
            finish_reason=mine.finish_reason,
        )
        self._check_leaf(signed, leaf, place.root if role is Role.WORKER else place.verification_root)
        spec = model.manifest.spec
        opened = codec.opening_from_proto(opening, len(spec.row_tolerance_q40))
        check_opening(
            opened,
            signed.commitment,
            spec,
            job.submission.job.model_id,
            job.committed.tokens,
            job.committed.token_root,
            place.positions,
        )
        return Party(signed, leaf, opened)
