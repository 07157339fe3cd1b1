"""What goes wrong between nodes is no verdict, and one node's trouble stays its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import grpc
import pytest
from eth_account import Account
from eth_utils import to_checksum_address

from node.assignment import Assigner, Directory
from node.behaviour import Behaviour
from node.committee import Committee, Member
from node.held import HeldJobs
from node.intake import Intake
from node.judging import Judge
from node.remote import Deadlines, WorkerFailed
from node.scheduler import SchedulerService
from node.serving import start_server
from node.store import Store
from node.worker import WorkerService
from tests.node.conftest import DOMAIN, SCHEDULER, make_submission
from tests.node.test_worker import LOG, PARAMS, Node, Settled
from tests.sdk.fakes import BOOK
from verillm import eip712, vrf
from verillm.chain import ChainClient
from verillm.constants import Verdict
from verillm.draw import draw_worker, epoch_seed, worker_alpha
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc
from verillm.settlement import outcome

STAKING = "0x" + "5b" * 20


@dataclass
class Stakes:
    """What a scheduler asks the chain: who has stake, at which endpoint, and a client's escrow."""

    endpoints: dict[str, str]
    chain_id: int = DOMAIN.chain_id
    addresses: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(staking=STAKING))

    def current_epoch(self) -> int:
        return 3

    def stakes(self, model_id: bytes, epoch: int) -> list[tuple[str, int]]:
        return [(operator, 1000) for operator in self.endpoints]

    def operator(self, operator: str) -> SimpleNamespace:
        return SimpleNamespace(endpoint=self.endpoints[operator])

    def escrow(self, client: str, scheduler: str) -> int:
        return 10**30


@dataclass
class Network:
    """A served scheduler and its workers."""

    stub: rpc.SchedulerStub
    stakes: Stakes
    model_id: bytes
    nonce: int = 0

    def submit(self, first: str) -> list[str]:
        """Run a job whose first draw falls on operator ``first``. All operators that were assigned it, in
        order; the last of them committed."""
        seed = epoch_seed(DOMAIN.chain_id, STAKING, 3)
        while True:
            self.nonce += 1
            submission = make_submission(self.model_id, nonce=self.nonce, temperature_ppm=1_000_000)
            alpha = worker_alpha(seed, eip712.job_id(submission.job, DOMAIN), 0)
            beta = vrf.beta(vrf.prove(bytes(SCHEDULER.key), alpha))
            if draw_worker(beta, self.stakes.stakes(self.model_id, 3)) == first:
                break
        events = list(self.stub.Submit(codec.submission_to_proto(submission), timeout=60))
        assigned = [e.assigned.worker for e in events if e.WhichOneof("event") == "assigned"]
        operators = [to_checksum_address(worker) for worker in assigned]
        assert events[-1].WhichOneof("event") == "committed", events[-1]
        done = codec.commitment_from_proto(events[-1].committed)
        assert done.commitment.operator == operators[-1]
        return operators


@contextmanager
def scheduling(nodes: dict[str, str], manifest, folder, deadlines: Deadlines) -> Iterator[Network]:
    """A scheduler over operators at ``nodes`` (operator: endpoint)."""
    stakes, models = Stakes(nodes), {manifest.model_id: manifest}
    directory = Directory(stakes, deadlines, LOG)
    intake = Intake(SCHEDULER.address, stakes, DOMAIN, PARAMS, models)
    service = SchedulerService(
        SCHEDULER, DOMAIN, models, Store(folder / "jobs.sqlite"), directory, Assigner(stakes, SCHEDULER),
        intake, 64, LOG,
    )  # fmt: skip
    server, port = start_server(0, 8)
    rpc.add_SchedulerServicer_to_server(service, server)
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Network(rpc.SchedulerStub(channel), stakes, manifest.model_id)
    finally:
        server.stop(None).wait()
        directory.close()


def endpoint(node: Node) -> tuple[str, str]:
    return node.remote.operator, node.remote.endpoint


class Stalling(Behaviour):
    """Stops after its first token until ``go`` is set."""

    go = threading.Event()

    def decode(self, states, specs, on_token):
        def slow(index, token):
            on_token(index, token)
            self.go.wait()

        super().decode(states, specs, slow)


def test_a_slow_token_costs_one_attempt_and_not_the_scheduler(start, tiny_manifest, tmp_path):
    """GradientHQ/parallax#266: a worker whose token took more than 5 s left the scheduler stuck and dead.
    Right: a deadline per step of a task; the job moves on, others are served meanwhile, and the slow worker
    gets work again once it answers."""
    (slow, first), (quick, second) = endpoint(start(1, Stalling)), endpoint(start(2))
    deadlines = Deadlines(prefill=30, token=2, open=30, judge=30, info=5)
    with scheduling({slow: first, quick: second}, tiny_manifest, tmp_path, deadlines) as network:
        try:
            assert network.submit(slow) == [slow, quick]
            assert network.submit(quick) == [quick]
            assert network.stub.Info(pb.Empty(), timeout=10).live_workers == 2
        finally:
            Stalling.go.set()
        assert network.submit(slow) == [slow]


def test_one_id_names_a_job_everywhere(chain, start, tiny_manifest):
    """GradientHQ/parallax#113: request ids differed between the parts of the system.
    Right: the digest that the client signs is the id in every commitment, opening and verdict."""
    submission = make_submission(tiny_manifest.model_id, temperature_ppm=1_000_000)
    job_id = eip712.job_id(submission.job, DOMAIN)
    job = Settled(chain, submission, start(1), [start(2)])
    assert {party.commitment.job_id for party in job.parties} == {job_id}
    assert job.judge(1).job_id == job_id
    for changed in (b"\0" * 32, job_id[::-1]):
        with pytest.raises(WorkerFailed, match=r"NOT_FOUND.*not held"):
            job.nodes[0].remote.open(pb.OpenRequest(job_id=changed, round_id=(1).to_bytes(32, "big")))


@pytest.fixture
def empty() -> Iterator[tuple[str, str]]:
    """(operator, endpoint) of a worker that could not load its model."""
    key = Account.from_key(b"\x33" * 32)
    server, port = start_server(0, 4)
    held = HeldJobs(1)
    judge = Judge(key, DOMAIN, None, PARAMS, {}, held, None, LOG)
    rpc.add_WorkerServicer_to_server(WorkerService(key, DOMAIN, {}, held, judge, LOG), server)
    server.start()
    yield key.address, f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_dead_nodes_are_not_counted_and_not_assigned(start, empty, tiny_manifest, tmp_path):
    """GradientHQ/parallax#166, #245: nodes that had left, or never got the model, were still counted and
    given work. Right: who does not answer as itself with the model is not live, and is passed over."""
    operator, address = endpoint(start(1))
    gone, impostor = ("0x" + digits * 20 for digits in ("66", "77"))
    dead = {gone: "127.0.0.1:1", impostor: address, empty[0]: empty[1]}
    deadlines = Deadlines(prefill=30, token=30, open=30, judge=30, info=5)
    with scheduling({operator: address, **dead}, tiny_manifest, tmp_path, deadlines) as network:
        assert network.stub.Info(pb.Empty(), timeout=10).live_workers == 1
        for first in dead:
            assert network.submit(first) == [operator]


class Gate(BaseHTTPRequestHandler):
    """An RPC endpoint that answers one eth_chainId and then wants a login."""

    open = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"jsonrpc":"2.0","id":0,"result":"0x7a69"}' if Gate.open else b"Unauthorized"
        self.send_response(200 if Gate.open else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gate() -> Iterator[ChainClient]:
    server = HTTPServer(("127.0.0.1", 0), Gate)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Gate.open = True
    try:
        client = ChainClient(f"http://127.0.0.1:{server.server_port}", BOOK)
        Gate.open = False
        yield client
    finally:
        server.shutdown()
        server.server_close()


def test_an_unauthorized_request_is_no_verdict(chain, start, tiny_manifest, gate, monkeypatch):
    """chutesai/chutes-miner#135: "failed verification" was a 401 of the validator's own credentials.
    Right: infrastructure that refuses is an error of its own kind. Nobody signs, the committee counts no
    vote, nobody is charged or accused, and the same job is judged once the endpoint answers."""
    job = Settled(chain, make_submission(tiny_manifest.model_id), start(1), [start(2)])
    for opening, node in zip([job.open(0), job.open(1)], job.nodes, strict=True):
        monkeypatch.setattr(node.remote, "open", lambda request, opening=opening: opening)
    remotes = {node.remote.operator: node.remote for node in job.nodes}
    committee = Committee(DOMAIN, None, SimpleNamespace(worker=remotes.__getitem__), LOG)
    place = (job.job, tiny_manifest, 1, job.leaves[0], [Member(job.parties[1], job.leaves[1])], job.positions)
    with monkeypatch.context() as patch:
        patch.setattr(chain, "block_number", gate.block_number)
        with pytest.raises(WorkerFailed, match=r"UNAVAILABLE: rpc: .* HTTP 401"):
            job.judge(1)
        findings = committee.judge(*place)
    assert (findings.judged, findings.withheld) == ((), ())
    assert outcome([judged.verdict.verdict for judged in findings.judged]) is Verdict.UNABLE
    assert [node.accusations.seen for node in job.nodes] == [[], []]
    assert [judged.verdict.verdict for judged in committee.judge(*place).judged] == [Verdict.ACCEPT]
    committee.close()
