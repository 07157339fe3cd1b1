"""A round's saved state, and the trees and records that follow from it and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from node.assignment import Draw
from node.committee import Member, RoundJob
from node.store import Store
from verillm import eip712
from verillm.chain import ChainClient
from verillm.commitment import MerkleTree
from verillm.params import Params
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.settlement import link_records, make_record, record_leaf, round_leaf
from verillm.types import SettlementRecord, SignedVerdict


@dataclass
class RoundState:
    """What is saved before and after each transaction; bytes are hex. By job id: ``draws`` (see ``Draw``),
    ``verified`` (its verifiers' serialised commitments) and ``verdicts`` (serialised too).
    ``from_block`` is that of the first try to post the round. ``demands`` are [demand id, first block after
    its deadline]."""

    model_id: str
    jobs: list[str]
    stage: str = "commit"
    round_id: int = 0
    from_block: int = 0
    draws: dict[str, dict[str, Any]] = field(default_factory=dict)
    verified: dict[str, list[str]] = field(default_factory=dict)
    verdicts: dict[str, list[str]] = field(default_factory=dict)
    demands: list[list[int]] = field(default_factory=list)

    def keep_draw(self, job_id: bytes, drawn: Draw, signed: Sequence[codec.SignedCommitment]) -> None:
        """Remember a job's verifiers: how they were drawn and what they committed to."""
        key = job_id.hex()
        self.draws[key] = {
            "operators": list(drawn.operators),
            "epoch": drawn.epoch,
            "proof": drawn.proof.hex(),
        }
        self.verified[key] = [codec.commitment_to_proto(s).SerializeToString().hex() for s in signed]

    def keep_verdicts(self, job_id: bytes, verdicts: Sequence[SignedVerdict]) -> None:
        """Remember what a job's verifiers signed."""
        self.verdicts[job_id.hex()] = [codec.verdict_to_proto(v).SerializeToString().hex() for v in verdicts]

    def draw_of(self, job_id: bytes) -> Draw:
        """How a job's verifiers were drawn."""
        saved = self.draws[job_id.hex()]
        return Draw(tuple(saved["operators"]), saved["epoch"], bytes.fromhex(saved["proof"]))


class RoundView:
    """Trees and records of a round; ``members`` need ``state.verified``, ``records`` ``state.verdicts``."""

    def __init__(
        self, state: RoundState, jobs: Sequence[RoundJob], domain: eip712.Domain, params: Params
    ) -> None:
        self._state = state
        self._domain = domain
        self._params = params
        self.jobs = list(jobs)

    def _leaf(self, signed: codec.SignedCommitment) -> bytes:
        digest = eip712.commitment_digest(signed.commitment, self._domain)
        return round_leaf(digest, signed.commitment.operator)

    @cached_property
    def worker_tree(self) -> MerkleTree:
        """Over the workers' commitments, in the order of the jobs."""
        return MerkleTree([self._leaf(job.worker) for job in self.jobs])

    def worker_leaf(self, index: int) -> codec.LeafProof:
        return codec.LeafProof(index, len(self.jobs), self.worker_tree.proof(index))

    def _signed(self, job: RoundJob) -> list[codec.SignedCommitment]:
        return [
            codec.commitment_from_proto(parse(pb.Commitment, bytes.fromhex(text), "state: verified"))
            for text in self._state.verified[job.job_id.hex()]
        ]

    @cached_property
    def verifier_tree(self) -> MerkleTree | None:
        """Over the verifiers' commitments: jobs in order, draws in order. None if nobody verified."""
        leaves = [self._leaf(signed) for job in self.jobs for signed in self._signed(job)]
        return MerkleTree(leaves) if leaves else None

    @cached_property
    def members(self) -> dict[bytes, list[Member]]:
        """Each job's verifiers with their places in the verification tree, by job id."""
        signed = [(job.job_id, s) for job in self.jobs for s in self._signed(job)]
        members: dict[bytes, list[Member]] = {job.job_id: [] for job in self.jobs}
        for index, (job_id, commitment) in enumerate(signed):
            assert self.verifier_tree is not None
            leaf = codec.LeafProof(index, len(signed), self.verifier_tree.proof(index))
            members[job_id].append(Member(commitment, leaf))
        return members

    def verdicts(self, job_id: bytes) -> list[SignedVerdict]:
        """What a job's verifiers signed, in draw order."""
        saved = self._state.verdicts[job_id.hex()]
        return [
            codec.verdict_from_proto(parse(pb.Verdict, bytes.fromhex(text), "state: verdicts"))
            for text in saved
        ]

    @cached_property
    def records(self) -> list[SettlementRecord]:
        """One record per job, in order, with its links."""
        records = [
            make_record(
                job.job,
                job.job_id,
                job.operator,
                job.worker.commitment.prompt_tokens,
                job.worker.commitment.output_tokens,
                [verdict.operator for verdict in self.verdicts(job.job_id)],
                [verdict.verdict for verdict in self.verdicts(job.job_id)],
                self._params,
            )
            for job in self.jobs
        ]
        return link_records(records)

    @cached_property
    def settlement_tree(self) -> MerkleTree:
        return MerkleTree([record_leaf(record) for record in self.records])

    def settlement_leaf(self, index: int) -> codec.LeafProof:
        return codec.LeafProof(index, len(self.jobs), self.settlement_tree.proof(index))


def load_view(store: Store, chain: ChainClient, state: RoundState) -> RoundView:
    """The view of a saved round, by the parameters under which it began."""
    found = [store.job(bytes.fromhex(job_id)) for job_id in state.jobs]
    jobs = [RoundJob(job) for job in found if job is not None]
    params = chain.params_at(chain.round(state.round_id).params_version) if state.round_id else chain.params
    return RoundView(state, jobs, chain.domain, params)
