"""The round loop: commit, draw verifiers, verify, open, judge, settle, pay. One state machine on disk."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from eth_account.signers.local import LocalAccount

from node.committee import Committee, Findings, Member, RoundJob
from node.log import NodeLog
from node.receipts import RoundFacts, make_receipt
from node.roundview import RoundState, RoundView, load_view
from node.store import Store
from node.withheld import demand_openings, slash_withheld
from verillm import draw, vrf
from verillm.chain import ChainClient
from verillm.chain.rounds import JobState
from verillm.constants import ROUND_PENDING_LIMIT
from verillm.errors import VeriLLMError
from verillm.manifest import Manifest
from verillm.settlement import round_lines

RETRY_SECONDS = 5.0
"""Pause before a stage that failed (a dead RPC endpoint, say) is tried again."""
HOLD_SECONDS = 2.0
"""Pause between two looks at jobs that a challenge holds."""
VOIDED = "voided: a challenge succeeded, so the client keeps its money"
REFUTED = "refuted: the round's settlement was proven wrong, so every client keeps its money"


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
        self._address = key.address
        self._vrf_key = vrf.public_key(bytes(key.key))
        self._chain = chain
        self._manifests = manifests
        self._store = store
        self._committee = committee
        self._interval = interval
        self._log = log
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="round-jobs")
        self._threads: list[threading.Thread] = []
        self._stages: dict[str, Callable[[int, RoundState], str]] = {
            "commit": self._commit,
            "verify": self._verify,
            "settle": self._settle,
            "pay": self._pay,
        }

    def start(self) -> None:
        """Resume rounds that a restart interrupted, then batch new jobs."""
        for key, saved in self._store.open_rounds():
            self._launch(key, RoundState(**saved))
        loop = threading.Thread(target=self._loop, name="rounds", daemon=True)
        self._threads.append(loop)
        loop.start()

    def stop(self) -> None:
        """Stop after the calls in flight; state on disk lets a later start go on."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _loop(self) -> None:
        while not self._stop.wait(self._interval):
            self._threads = [thread for thread in self._threads if thread.is_alive()]
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
        thread = threading.Thread(target=self._run, args=(key, state), name=f"round-{key}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, key: int, state: RoundState) -> None:
        while state.stage != "done" and not self._stop.is_set():
            before = state.stage
            try:
                state.stage = self._stages[state.stage](key, state)
                self._save(key, state)
                if state.stage != before:
                    self._log.info("round", key=key, round=state.round_id, stage=state.stage)
            except VeriLLMError as error:
                self._log.warning("round_retry", key=key, stage=state.stage, reason=error)
                self._stop.wait(RETRY_SECONDS)
            except Exception:
                self._log.exception("round_crashed", key=key, stage=state.stage)
                self._stop.wait(RETRY_SECONDS)

    def _save(self, key: int, state: RoundState) -> None:
        self._store.save_round(key, asdict(state), done=state.stage == "done")

    def _view(self, state: RoundState) -> RoundView:
        return load_view(self._store, self._chain, state)

    # Stages: each returns the name of the next. What a transaction rests on is saved before it is sent, and a
    # stage whose transaction already went through moves on.

    def _commit(self, key: int, state: RoundState) -> str:
        root = self._view(state).worker_tree.root
        if state.from_block:  # an earlier try may have got through before the process died
            state.round_id = posted_round(self._chain, self._address, state.from_block, root)
        if not state.round_id:
            state.from_block = self._chain.block_number()
            self._save(key, state)
            state.round_id = self._chain.commit_round(bytes.fromhex(state.model_id), root, len(state.jobs))
        self._log.info("round_committed", round=state.round_id, jobs=len(state.jobs), root=root)
        return "verify"

    def _verify(self, key: int, state: RoundState) -> str:
        info = self._chain.round(state.round_id)
        if info.position_block:
            return "settle"
        seed = self._chain.verifier_seed(state.round_id)
        spares = self._chain.params_at(info.params_version).verifier_spares
        jobs = self._view(state).jobs
        results = self._pool.map(
            lambda job: self._committee.recompute(job, info.epoch, seed, spares), jobs
        )
        for job, (drawn, signed) in zip(jobs, results, strict=True):
            state.keep_draw(job.job_id, drawn, signed)
        self._save(key, state)
        view = self._view(state)
        root = view.verifier_tree.root if view.verifier_tree else bytes(32)
        self._chain.commit_verifications(state.round_id, root, sum(map(len, view.members.values())))
        return "settle"

    def _settle(self, key: int, state: RoundState) -> str:
        info = self._chain.round(state.round_id)
        if info.final_block:
            return "pay"
        facts = RoundFacts(
            state.round_id,
            info.epoch,
            info.params_version,
            info.root,
            info.verification_root,
            info.verifier_seed,
            self._chain.position_seed(state.round_id),
        )
        view = self._view(state)
        indices = range(len(view.jobs))
        findings = list(self._pool.map(lambda i: self._judge(state, view, i, facts), indices))
        for job, found in zip(view.jobs, findings, strict=True):
            state.keep_verdicts(job.job_id, [j.verdict for j in found.judged])
        self._save(key, state)
        for i, found in enumerate(findings):
            self._keep_receipt(state, view, i, found, facts)
        debits, credits = round_lines(view.records)
        self._chain.settle_round(state.round_id, view.settlement_tree.root, debits, credits)
        for i, found in enumerate(findings):
            job, record = view.jobs[i], view.records[i]
            self._store.set_state(job.job_id, "settled")
            self._log.info("settled", job=job.job_id, outcome=record.outcome.name, paid=record.client_pays)
            parties = [Member(job.worker, view.worker_leaf(i)), *view.members[job.job_id]]
            silent = [party for party in parties if party.operator in found.withheld]
            demand_openings(self._chain, state, job.job, silent, self._positions(job, facts)[0], self._log)
        return "pay"

    def _pay(self, key: int, state: RoundState) -> str:
        """Once the window has passed and no challenge holds the round: deduct void jobs, and pay the rest."""
        if not self._chain.wait_final(state.round_id, self._stop):
            return "pay"
        slash_withheld(self._chain, state, self._log)
        info = self._chain.round(state.round_id)
        if self._chain.held(state.round_id) and not info.closed:
            self._stop.wait(HOLD_SECONDS)
            return "pay"
        view = self._view(state)
        if self._chain.pending(state.round_id).refuted:
            return self._refund(state, view)
        for i in range(len(view.jobs)):
            if self._chain.job_state(state.round_id, i) is JobState.VOIDED:
                proof = view.settlement_leaf(i).proof
                self._chain.deduct_job(state.round_id, i, view.records[i], proof)
                self._log.info("deducted", job=view.jobs[i].job_id)
        if not info.closed:
            self._chain.pay_round(state.round_id)
        for i, job in enumerate(view.jobs):
            void = self._chain.voided(state.round_id, i)
            self._store.set_state(job.job_id, "final", VOIDED if void else "")
            self._log.info("void" if void else "paid", job=job.job_id, paid=view.records[i].client_pays)
        return "done"

    def _refund(self, state: RoundState, view: RoundView) -> str:
        if not self._chain.round(state.round_id).closed:
            self._chain.refund_round(state.round_id)
        for job in view.jobs:
            self._log.warning("refuted", job=job.job_id, round=state.round_id)
            self._store.set_state(job.job_id, "final", REFUTED)
        return "done"

    # Parts

    def _positions(self, job: RoundJob, facts: RoundFacts) -> list[int]:
        count = self._chain.params_at(facts.params_version).opened_positions
        return draw.opened_positions(facts.position_randomness, job.job_id, job.rows, count)

    def _judge(self, state: RoundState, view: RoundView, index: int, facts: RoundFacts) -> Findings:
        job = view.jobs[index]
        manifest = self._manifests[job.job.model_id]
        members = view.members[job.job_id]
        positions = self._positions(job, facts)
        return self._committee.judge(
            job, manifest, state.round_id, view.worker_leaf(index), members, positions
        )

    def _keep_receipt(
        self, state: RoundState, view: RoundView, index: int, found: Findings, facts: RoundFacts
    ) -> None:
        """Save the job's receipt, unless nobody verified or the worker withheld its rows."""
        job = view.jobs[index]
        if not found.judged or found.worker_opening is None:
            return
        drawn = state.draw_of(job.job_id)
        receipt = make_receipt(
            self._chain.addresses,
            self._chain.params_at(facts.params_version),
            self._vrf_key,
            job,
            found.worker_opening,
            view.worker_leaf(index),
            self._chain.stakes(job.job.model_id, job.stored.draw["epoch"]),
            drawn,
            self._chain.stakes(job.job.model_id, drawn.epoch),
            found.judged,
            facts,
            view.records[index],
            view.settlement_tree.root,
            view.settlement_leaf(index),
        )
        self._store.set_receipt(job.job_id, receipt.to_json())


def posted_round(chain: ChainClient, scheduler: str, from_block: int, root: bytes) -> int:
    """Id of the scheduler's round with these commitments, 0 if there is none since ``from_block``.

    A job that stands in two rounds costs the scheduler its stake, so nothing is posted twice.
    """
    for event in chain.events("rounds", "RoundCommitted", from_block, scheduler=scheduler):
        if event.args["round"]["commitRoot"] == root:
            return int(event.args["roundId"])
    return 0
