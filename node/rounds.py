"""The round loop: commit, draw verifiers, verify, open, judge, settle, claim. One state machine on disk."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from eth_account.signers.local import LocalAccount

from node.assignment import Draw
from node.committee import Committee, Findings, Member, RoundJob
from node.log import NodeLog
from node.receipts import RoundFacts, make_receipt
from node.store import Store
from verillm import draw, eip712, vrf
from verillm.chain import ChainClient
from verillm.chain.court import CommitmentProof
from verillm.commitment import JobRootParts, MerkleTree
from verillm.constants import ROUND_PENDING_LIMIT, Verdict
from verillm.errors import ChainError, VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.settlement import make_record, record_leaf, round_leaf
from verillm.types import SettlementRecord

RETRY_SECONDS = 5.0
"""Pause before a stage that failed (a dead RPC endpoint, say) is tried again."""
HOLD_SECONDS = 2.0
"""Pause between two looks at jobs that a challenge holds."""
VOIDED = "voided: a challenge succeeded, so the client keeps its money"


@dataclass
class RoundState:
    """What is saved after each stage; bytes are hex. By job id: ``draws`` (see ``assignment.Draw``),
    ``verified`` (its verifiers' serialised commitments) and ``verdicts`` ([operator, verdict] each).
    ``demands`` are [demand id, first block after its deadline]."""

    model_id: str
    jobs: list[str]
    stage: str = "commit"
    round_id: int = 0
    draws: dict[str, dict[str, Any]] = field(default_factory=dict)
    verified: dict[str, list[str]] = field(default_factory=dict)
    verdicts: dict[str, list[list[Any]]] = field(default_factory=dict)
    demands: list[list[int]] = field(default_factory=list)


class RoundLoop:
    """Batches committed jobs by model every ``interval`` seconds; each round runs in a thread of its own."""

    def __init__(
        self,
        key: LocalAccount,
        chain: ChainClient,
        manifests: Mapping[bytes, Manifest],
        store: Store,
        committee: Committee,
        interval: float,
        log: NodeLog,
    ) -> None:
        self._key = key
        self._chain = chain
        self._params = chain.params
        self._manifests = manifests
        self._store = store
        self._committee = committee
        self._interval = interval
        self._log = log
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="round-jobs")
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Resume rounds that a restart interrupted, then batch new jobs."""
        for key, saved in self._store.open_rounds():
            self._launch(key, RoundState(**saved))
        self._thread = threading.Thread(target=self._loop, name="rounds", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the calls in flight; state on disk lets a later start go on."""
        self._stop.set()
        self._thread.join(timeout=30)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _loop(self) -> None:
        while not self._stop.wait(self._interval):
            by_model: dict[bytes, list[bytes]] = defaultdict(list)
            for job in self._store.jobs_in("committed"):
                by_model[job.request.job.model_id].append(job.job_id)
            for model_id, jobs in by_model.items():
                batch = jobs[:ROUND_PENDING_LIMIT]
                state = RoundState(model_id.hex(), [job.hex() for job in batch])
                key = self._store.add_round(asdict(state))
                for job_id in batch:
                    self._store.set_state(job_id, "verifying")
                self._launch(key, state)

    def _launch(self, key: int, state: RoundState) -> None:
        threading.Thread(target=self._run, args=(key, state), name=f"round-{key}", daemon=True).start()

    def _run(self, key: int, state: RoundState) -> None:
        stages: dict[str, Callable[[RoundState], str]] = {
            "commit": self._commit,
            "verify": self._verify,
            "settle": self._settle,
            "claim": self._claim,
        }
        while state.stage != "done" and not self._stop.is_set():
            try:
                state.stage = stages[state.stage](state)
                self._store.save_round(key, asdict(state), done=state.stage == "done")
                self._log.info("round", key=key, round=state.round_id, stage=state.stage)
            except VeriLLMError as error:
                self._log.warning("round_retry", key=key, stage=state.stage, reason=error)
                self._stop.wait(RETRY_SECONDS)
            except Exception:
                self._log.exception("round_crashed", key=key, stage=state.stage)
                self._stop.wait(RETRY_SECONDS)

    # Stages: each returns the name of the next.

    def _commit(self, state: RoundState) -> str:
        tree = self._worker_tree(self._jobs(state))
        state.round_id = self._chain.commit_round(bytes.fromhex(state.model_id), tree.root, len(state.jobs))
        self._log.info("round_committed", round=state.round_id, jobs=len(state.jobs), root=tree.root)
        return "verify"

    def _verify(self, state: RoundState) -> str:
        info = self._chain.round(state.round_id)
        randomness = self._chain.wait_randomness(info.verifier_request)
        jobs = self._jobs(state)
        results = list(
            self._pool.map(lambda job: self._committee.recompute(job, info.epoch, randomness), jobs)
        )
        for job, (drawn, signed) in zip(jobs, results, strict=True):
            if drawn is not None:
                state.draws[job.job_id.hex()] = {**asdict(drawn), "proof": drawn.proof.hex()}
            state.verified[job.job_id.hex()] = [
                codec.commitment_to_proto(s).SerializeToString().hex() for s in signed
            ]
        members = self._members(state, jobs)
        tree = self._verifier_tree(state, jobs)
        count = sum(map(len, members.values()))
        self._chain.commit_verifications(state.round_id, tree.root if tree else bytes(32), count)
        return "settle"

    def _settle(self, state: RoundState) -> str:
        info = self._chain.round(state.round_id)
        facts = RoundFacts(
            state.round_id,
            info.root,
            info.verification_root,
            self._chain.wait_randomness(info.verifier_request),
            self._chain.wait_randomness(info.position_request),
        )
        jobs = self._jobs(state)
        workers = self._worker_tree(jobs)
        members = self._members(state, jobs)
        manifest = self._manifests[bytes.fromhex(state.model_id)]

        def judge(item: tuple[int, RoundJob]) -> Findings:
            index, job = item
            positions = draw.opened_positions(
                facts.position_randomness, job.job_id, job.rows, self._params.opened_positions
            )
            leaf = codec.LeafProof(index, len(jobs), workers.proof(index))
            return self._committee.judge(
                job, manifest, state.round_id, leaf, members[job.job_id], positions
            )

        findings = list(self._pool.map(judge, enumerate(jobs)))
        for i, (job, found) in enumerate(zip(jobs, findings, strict=True)):
            leaf = codec.LeafProof(i, len(jobs), workers.proof(i))
            self._demand(state, job, [Member(job.worker, leaf), *members[job.job_id]], found.withheld, facts)
            state.verdicts[job.job_id.hex()] = [
                [j.member.operator, int(j.verdict.verdict)] for j in found.judged
            ]
        records = self._records(state, jobs)
        tree = MerkleTree([record_leaf(record) for record in records])
        total = sum(record.client_pays for record in records)
        self._chain.settle_round(state.round_id, tree.root, total)
        for i, (job, found, record) in enumerate(zip(jobs, findings, records, strict=True)):
            self._save_receipt(state, i, job, found, facts, workers, record, tree)
            self._log.info("settled", job=job.job_id, outcome=record.outcome.name, paid=record.client_pays)
        return "claim"

    def _claim(self, state: RoundState) -> str:
        jobs = self._jobs(state)
        records = self._records(state, jobs)
        tree = MerkleTree([record_leaf(record) for record in records])
        if not self._chain.wait_claimable(state.round_id, self._stop):
            return "claim"
        self._slash_withheld(state)
        done = [self._finish(state, i, job, records[i], tree) for i, job in enumerate(jobs)]
        if all(done) and not state.demands:
            return "done"
        self._stop.wait(HOLD_SECONDS)
        return "claim"

    # Parts

    def _finish(
        self, state: RoundState, index: int, job: RoundJob, record: SettlementRecord, tree: MerkleTree
    ) -> bool:
        """Claim an accepted record unless a challenge voided it. False while a challenge holds the job."""
        stored = self._store.job(job.job_id)
        if stored is not None and stored.state == "final":
            return True
        if self._chain.voided(job.job_id):
            self._log.info("voided", job=job.job_id)
            self._store.set_state(job.job_id, "final", VOIDED)
            return True
        if self._chain.held(job.job_id):
            return False
        if record.outcome is Verdict.ACCEPT and not self._chain.claimed(job.job_id):
            proof = tree.proof(index)
            self._chain.claim(state.round_id, index, record, proof, job.job, job.submission.signature)
            self._log.info("claimed", job=job.job_id, paid=record.client_pays)
        self._store.set_state(job.job_id, "final")
        return True

    def _demand(
        self,
        state: RoundState,
        job: RoundJob,
        parties: list[Member],
        withheld: tuple[str, ...],
        facts: RoundFacts,
    ) -> None:
        """Force parties that did not open to publish one of the rows on chain, or be slashed."""
        position = draw.opened_positions(
            facts.position_randomness, job.job_id, job.rows, self._params.opened_positions
        )[0]
        for party in parties:
            if party.operator not in withheld:
                continue
            signed, leaf = party.signed, party.leaf
            # The court takes a demand without the parts of a root that its owner does not open.
            parts = JobRootParts(bytes(32), 0, bytes(32))
            proof = CommitmentProof(signed.commitment, signed.signature, leaf.index, leaf.proof, parts)
            try:
                demand = self._chain.demand_opening(state.round_id, proof, 0, position)
            except ChainError as error:
                self._log.warning("demand_refused", job=job.job_id, party=party.operator, reason=error)
                continue
            deadline = self._chain.block_number() + self._params.opening_deadline_blocks + 1
            state.demands.append([demand, deadline])
            self._log.info("opening_demanded", job=job.job_id, party=party.operator, demand=demand)

    def _slash_withheld(self, state: RoundState) -> None:
        """Slash where the deadline of a demand passed; a demand that was answered is gone."""
        block = self._chain.block_number()
        for demand, deadline in [d for d in state.demands if d[1] <= block]:
            try:
                self._chain.slash_withheld(demand)
                self._log.info("withheld_slashed", demand=demand)
            except ChainError as error:
                self._log.info("demand_over", demand=demand, reason=error)
            state.demands.remove([demand, deadline])

    def _jobs(self, state: RoundState) -> list[RoundJob]:
        found = [self._store.job(bytes.fromhex(job_id)) for job_id in state.jobs]
        return [RoundJob(job) for job in found if job is not None]

    def _leaf(self, signed: codec.SignedCommitment) -> bytes:
        digest = eip712.commitment_digest(signed.commitment, self._chain.domain)
        return round_leaf(digest, signed.commitment.operator)

    def _worker_tree(self, jobs: list[RoundJob]) -> MerkleTree:
        return MerkleTree([self._leaf(job.worker) for job in jobs])

    def _signed(self, state: RoundState, job: RoundJob) -> list[codec.SignedCommitment]:
        return [
            codec.commitment_from_proto(pb.Commitment.FromString(bytes.fromhex(text)))
            for text in state.verified[job.job_id.hex()]
        ]

    def _verifier_tree(self, state: RoundState, jobs: list[RoundJob]) -> MerkleTree | None:
        leaves = [self._leaf(signed) for job in jobs for signed in self._signed(state, job)]
        return MerkleTree(leaves) if leaves else None

    def _members(self, state: RoundState, jobs: list[RoundJob]) -> dict[bytes, list[Member]]:
        """Each job's verifiers with their places in the verification tree (jobs in order, draws in order)."""
        tree = self._verifier_tree(state, jobs)
        count = sum(len(state.verified[job.job_id.hex()]) for job in jobs)
        members: dict[bytes, list[Member]] = {job.job_id: [] for job in jobs}
        index = 0
        for job in jobs:
            for signed in self._signed(state, job):
                assert tree is not None
                members[job.job_id].append(Member(signed, codec.LeafProof(index, count, tree.proof(index))))
                index += 1
        return members

    def _records(self, state: RoundState, jobs: list[RoundJob]) -> list[SettlementRecord]:
        return [
            make_record(
                job.job,
                job.job_id,
                job.operator,
                job.worker.commitment.prompt_tokens,
                job.worker.commitment.output_tokens,
                [operator for operator, _ in state.verdicts[job.job_id.hex()]],
                [Verdict(value) for _, value in state.verdicts[job.job_id.hex()]],
                self._params,
            )
            for job in jobs
        ]

    def _save_receipt(
        self,
        state: RoundState,
        index: int,
        job: RoundJob,
        found: Findings,
        facts: RoundFacts,
        workers: MerkleTree,
        record: SettlementRecord,
        tree: MerkleTree,
    ) -> None:
        drawn = state.draws.get(job.job_id.hex())
        receipt = None
        if drawn is not None:
            picked = Draw(
                operators=tuple(drawn["operators"]),
                epoch=drawn["epoch"],
                proof=bytes.fromhex(drawn["proof"]),
                excluded=tuple(drawn["excluded"]),
            )
            model_id = job.job.model_id
            receipt = make_receipt(
                self._chain.addresses,
                vrf.public_key(bytes(self._key.key)),
                job,
                codec.LeafProof(index, len(state.jobs), workers.proof(index)),
                self._chain.stakes(model_id, job.stored.draw["epoch"]),
                picked,
                self._chain.stakes(model_id, picked.epoch),
                found,
                facts,
                record,
                tree.root,
                codec.LeafProof(index, len(state.jobs), tree.proof(index)),
            )
        self._store.set_receipt(job.job_id, "settled", receipt.to_json() if receipt else "")
