"""Answer what the chain asks of a scheduler: signatures behind a record, VRF proofs behind its draws."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from eth_account.signers.local import LocalAccount

from node.committee import Member, RoundJob
from node.log import NodeLog
from node.roundview import RoundState, RoundView, load_view
from node.store import Store
from verillm import draw, vrf
from verillm.chain import ChainClient
from verillm.chain.audit import Grounds, InquiryInfo, Matter
from verillm.chain.proofs import CommitmentProof, RecordProof
from verillm.errors import ChainError, VeriLLMError


class Respondent:
    """Polls the chain every ``poll`` seconds in a thread of its own. An unanswered demand costs the stake, so
    one that fails is tried again until its deadline."""

    def __init__(
        self, key: LocalAccount, chain: ChainClient, store: Store, poll: float, log: NodeLog
    ) -> None:
        self._public = vrf.public_key(bytes(key.key))
        self._secret = bytes(key.key)
        self._me = key.address
        self._chain = chain
        self._store = store
        self._poll = poll
        self._log = log
        self._next_block = chain.addresses.deploy_block
        self._open: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="respondent", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _loop(self) -> None:
        while not self._stop.wait(self._poll):
            try:
                self._look()
            except VeriLLMError as error:
                self._log.warning("respondent_retry", reason=error)
            except Exception:
                self._log.exception("respondent_crashed")

    def _look(self) -> None:
        latest = self._chain.block_number()
        if latest >= self._next_block:
            for event in self._chain.events("inquiry", "Demanded", self._next_block, latest):
                if self._chain.round(event.args["roundId"]).scheduler == self._me:
                    self._open.add(event.args["demandId"])
            self._next_block = latest + 1
        for demand_id in sorted(self._open):
            demand = self._chain.inquiry(demand_id)
            if demand is None or latest >= demand.deadline:
                self._open.discard(demand_id)
                continue
            self._answer(demand_id, demand)
            self._open.discard(demand_id)
            self._log.info("inquiry_answered", demand=demand_id, matter=demand.matter.name)

    def _answer(self, demand_id: int, demand: InquiryInfo) -> None:
        view = self._view(demand.round_id)
        job = view.jobs[demand.index]
        record = RecordProof(
            demand.index, view.records[demand.index], view.settlement_leaf(demand.index).proof
        )
        worker = Member(job.worker, view.worker_leaf(demand.index)).proof
        match demand.matter:
            case Matter.RECORD:
                signed = {m.operator: m for m in view.members[job.job_id]}
                verdicts = tuple(view.verdicts(job.job_id))
                verifiers = tuple(signed[v.operator].proof for v in verdicts)
                grounds = Grounds(job.job, job.submission.signature, worker, verifiers, verdicts)
                self._chain.answer_record(demand_id, record, grounds)
            case Matter.WORKER:
                self._answer_worker(demand_id, job, worker)
            case Matter.COMMITTEE:
                info = self._chain.round(demand.round_id)
                alpha = draw.verifier_alpha(info.verifier_seed, job.job_id)
                self._chain.answer_committee(demand_id, record, job.job, self._hints(alpha))

    def _answer_worker(self, demand_id: int, job: RoundJob, worker: CommitmentProof) -> None:
        drawn: Mapping[str, Any] = job.stored.draw
        seed = draw.epoch_seed(self._chain.chain_id, self._chain.addresses.staking, drawn["epoch"])
        alpha = draw.worker_alpha(seed, job.job_id, drawn["attempt"])
        self._chain.answer_worker(demand_id, worker, drawn["epoch"], self._hints(alpha))

    def _hints(self, alpha: bytes) -> vrf.VrfHints:
        return vrf.hints(self._public, alpha, vrf.prove(self._secret, alpha))

    def _view(self, round_id: int) -> RoundView:
        """The round as this scheduler saved it. Raises ChainError if it did not."""
        for saved in self._store.rounds():
            if saved["round_id"] == round_id:
                return load_view(self._store, self._chain, RoundState(**saved))
        raise ChainError(f"inquiry: round {round_id} is not in this scheduler's state")
