"""The whole path on a local chain and real gRPC, with a tiny model: one scheduler, five workers, one client.

An honest job is paid while a lazy verifier of it is slashed; forged text costs its writer the stake; a worker
that dies in the middle is replaced; one that does not open what it committed to is slashed.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

import grpc
import pytest

from node.app import WorkerNode, WorkerOptions
from node.behaviour import Behaviour
from node.cheats import Forge, Lazy
from node.remote import Deadlines
from node.scheduler_app import SchedulerNode, SchedulerOptions
from verillm import draw, eip712, vrf
from verillm.chain import ChainClient
from verillm.chain.audit import Matter
from verillm.chain.deploy import deploy
from verillm.chain.devnet import account, start_anvil
from verillm.chain.rounds import JobState
from verillm.commitment import token_list_hash
from verillm.constants import Verdict
from verillm.engine.transformers_engine import Engine
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc
from verillm.sdk.receipt import Receipt
from verillm.sdk.verify import check_receipt
from verillm.settlement import job_cost
from verillm.types import Job

TOKEN = 10**18
STAKE = 5_000 * TOKEN
ESCROW = 1_000 * TOKEN
BLOCK_SECONDS = 0.25
WAIT_SECONDS = 60
ANN, BOB, CAT, LAZY, FORGE = range(5)


class Dying(Behaviour):
    """Stops its own server in the middle of the first stream once it is armed."""

    armed = threading.Event()
    node: WorkerNode | None = None

    def streamed(self, tokens: int) -> None:
        if self.armed.is_set() and self.node is not None:
            node, self.node = self.node, None
            threading.Thread(target=node.stop, args=(None,)).start()
            time.sleep(0.5)


@dataclass
class Network:
    chain: ChainClient
    """The client's."""
    manifest: object
    stub: rpc.SchedulerStub
    keys: list = field(default_factory=list)
    workers: list = field(default_factory=list)
    nonce: int = 0

    @property
    def model_id(self) -> bytes:
        return self.manifest.model_id

    def job(self, worker: int, verifiers: int) -> codec.Submission:
        """A signed job whose first draw falls on ``worker``: its nonce is chosen with the scheduler's key."""
        prompt = (3, 1, 4, 1, 5)
        client, scheduler = account(2), account(1)
        job = Job(
            client=client.address,
            scheduler=scheduler.address,
            model_id=self.model_id,
            prompt_hash=token_list_hash(prompt),
            prompt_tokens=len(prompt),
            max_output_tokens=24,
            stop_hash=eip712.stop_hash(()),
            temperature_ppm=0,
            top_k=0,
            top_p_ppm=1_000_000,
            seed=11,
            input_price=TOKEN // 100,
            output_price=TOKEN // 50,
            verifiers=verifiers,
            deadline=int(time.time()) + 600,
            nonce=0,
        )
        epoch = self.chain.current_epoch()
        stakes = self.chain.stakes(self.model_id, epoch)
        seed = draw.epoch_seed(self.chain.chain_id, self.chain.addresses.staking, epoch)
        while True:
            self.nonce += 1
            job = replace(job, nonce=self.nonce)
            job_id = eip712.job_id(job, self.chain.domain)
            proof = vrf.prove(bytes(scheduler.key), draw.worker_alpha(seed, job_id, 0))
            if draw.draw_operators(vrf.beta(proof), 1, stakes) == [self.keys[worker].address]:
                signature = eip712.sign_job(job, client, self.chain.domain)
                return codec.Submission(job, signature, prompt, ())

    def submit(self, worker: int, verifiers: int) -> tuple[bytes, codec.Submission, list[pb.JobEvent]]:
        """Run a job that ``worker`` gets first; again if the epoch turned between draw and submission."""
        for _ in range(5):
            submission = self.job(worker, verifiers)
            events = list(self.stub.Submit(codec.submission_to_proto(submission), timeout=WAIT_SECONDS))
            assert [e.error for e in events if e.WhichOneof("event") == "error"] == []
            first = next(e.assigned for e in events if e.WhichOneof("event") == "assigned")
            if first.worker.hex() == self.keys[worker].address[2:].lower():
                return eip712.job_id(submission.job, self.chain.domain), submission, events
        raise AssertionError("the epoch turned five times in a row")

    def status(self, job_id: bytes) -> pb.JobStatus:
        return self.stub.Status(pb.JobQuery(job_id=job_id), timeout=10)

    def final(self, job_id: bytes) -> pb.JobStatus:
        return self.until(lambda: (s := self.status(job_id)).state == "final" and s, "a final job")

    def until(self, poll, what: str):
        deadline = time.monotonic() + WAIT_SECONDS
        while not (value := poll()):
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.2)
        return value

    def stake(self, worker: int) -> int:
        return self.chain.stake_of(self.model_id, self.keys[worker].address)

    def escrow(self) -> int:
        return self.chain.escrow(account(2).address, account(1).address)


@pytest.fixture(scope="module")
def network(tiny_folder, tiny_manifest, tmp_path_factory):
    state = tmp_path_factory.mktemp("network")
    manifest, model_id = tiny_manifest, tiny_manifest.model_id
    nodes: list = []
    with start_anvil(block_time=BLOCK_SECONDS) as devnet:
        book = deploy(devnet.rpc_url, account(0), "devnet")
        deployer, scheduler, client = (ChainClient(devnet.rpc_url, book, account(i)) for i in range(3))
        keys = [account(3 + i) for i in range(5)]
        deployer.register_model(manifest.spec)
        for i in range(1, 8):
            deployer.mint_test_token(account(i).address, 10_000 * TOKEN)
        scheduler.register_scheduler(STAKE, "127.0.0.1:1", vrf.public_key(bytes(account(1).key)))
        client.deposit_escrow(account(1).address, ESCROW)
        try:
            node = SchedulerNode(
                account(1),
                scheduler,
                {model_id: manifest},
                SchedulerOptions(0, state, 0.5, Deadlines(60, 30, 30, 60, 5)),
            )
            nodes.append(node)

            def load():
                return Engine.from_manifest(tiny_folder, manifest)

            honest = [Behaviour(load()), Dying(load()), Behaviour(load())]
            behaviours = [*honest, Lazy(load()), Forge(load(), load())]
            for key, behaviour in zip(keys, behaviours, strict=True):
                chain = ChainClient(devnet.rpc_url, book, key)
                options = WorkerOptions(0, state, f"127.0.0.1:{node.port}", poll=0.3)
                worker = WorkerNode(key, chain, [(manifest, behaviour)], options)
                nodes.append(worker)
                chain.register_operator(model_id, STAKE, f"127.0.0.1:{worker.port}")
                if isinstance(behaviour, Dying):
                    behaviour.node = worker
            client.wait_epoch(client.current_epoch() + 1)
            with grpc.insecure_channel(f"127.0.0.1:{node.port}") as channel:
                yield Network(client, manifest, rpc.SchedulerStub(channel), keys, nodes[1:])
        finally:
            for running in reversed(nodes):
                running.stop(None)


def _committed(events: list[pb.JobEvent]) -> codec.SignedCommitment:
    assert events[-1].WhichOneof("event") == "committed"
    return codec.commitment_from_proto(events[-1].committed)


def test_an_honest_job_is_paid_and_its_lazy_verifier_slashed(network):
    before = network.escrow()
    job_id, submission, events = network.submit(ANN, verifiers=4)
    worker = _committed(events).commitment
    tokens = [t for e in events if e.WhichOneof("event") == "tokens" for t in e.tokens.tokens]
    assert len(tokens) == worker.output_tokens
    status = network.final(job_id)
    assert status.error == ""

    receipt = Receipt.from_json(status.receipt_json)
    assert receipt.output == tuple(tokens)
    assert [f for f in check_receipt(receipt, network.manifest.spec) if not f.ok] == []
    assert {v.verdict.verdict for v in receipt.verifiers} == {Verdict.ACCEPT}
    assert len(receipt.verifiers) == 4

    cost = job_cost(submission.job, 5, len(tokens), network.chain.params)
    assert before - network.escrow() == cost
    ann = network.keys[ANN].address
    credited = sum(e.args["amount"] for e in network.chain.events("rounds", "Credited", account=ann))
    assert network.chain.balance(ann) - credited == receipt.settlement.record.worker_fee

    network.until(lambda: network.stake(LAZY) < STAKE, "the lazy verifier's slash")
    assert network.stake(ANN) == network.stake(BOB) == network.stake(CAT) == network.stake(FORGE) == STAKE


def test_forged_text_is_proven_and_costs_the_whole_stake(network):
    before = network.escrow()
    job_id, _, _ = network.submit(FORGE, verifiers=2)
    status = network.final(job_id)
    assert "voided" in status.error
    assert network.stake(FORGE) == 0
    assert network.escrow() == before
    voided = [e.args for e in network.chain.events("rounds", "JobVoided")]
    assert [network.chain.job_state(v["roundId"], v["index"]) for v in voided] == [JobState.DEDUCTED]


def test_a_worker_that_dies_is_replaced(network):
    Dying.armed.set()
    job_id, _, events = network.submit(BOB, verifiers=1)
    assigned = [e.assigned for e in events if e.WhichOneof("event") == "assigned"]
    first, second = (a.attempt for a in assigned)  # an attempt that draws a dead worker is passed over
    assert first == 0 < second
    commitment = _committed(events).commitment
    assert commitment.operator != network.keys[BOB].address
    last = [e.tokens for e in events[events.index(next(e for e in events if e.assigned.attempt == second)) :]
            if e.WhichOneof("event") == "tokens"]  # fmt: skip
    assert sum(len(chunk.tokens) for chunk in last) == commitment.output_tokens
    assert network.final(job_id).state == "final"


def test_a_worker_that_does_not_open_is_slashed(network):
    before = network.escrow()
    job_id, _, events = network.submit(CAT, verifiers=1)
    network.workers[CAT].stop(None)
    assert _committed(events).commitment.operator == network.keys[CAT].address
    assert "voided" in network.final(job_id).error
    bps = network.chain.params.slash_bps_withheld
    assert network.stake(CAT) == STAKE - STAKE * bps // 10_000
    assert network.escrow() == before


def test_a_scheduler_answers_what_the_chain_asks_of_it(network):
    job_id, _, _ = network.submit(ANN, verifiers=1)
    network.until(lambda: network.status(job_id).state == "settled", "a settled job")
    place = Receipt.from_json(network.status(job_id).receipt_json).round
    demands = [network.chain.demand_grounds(place.round_id, matter, place.leaf.index) for matter in Matter]
    network.until(lambda: not any(map(network.chain.inquiry, demands)), "answers")
    answered = {e.args["demandId"] for e in network.chain.events("inquiry", "DemandAnswered")}
    assert answered == set(demands)
    assert network.final(job_id).error == ""
