"""The Worker service over real gRPC, against a chain that is two values in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from eth_account import Account

from node.behaviour import Behaviour
from node.challenges import Evidence, find_divergence
from node.cheats import Forge, Int4, Lazy
from node.committee import RoundJob
from node.held import HeldJobs
from node.judging import Judge, ServedModel
from node.log import NodeLog
from node.remote import Deadlines, RemoteWorker, WorkerFailed
from node.runner import ModelRunner
from node.serving import start_server
from node.store import StoredJob
from node.worker import WorkerService
from tests.node.conftest import DOMAIN, make_submission
from verillm import eip712
from verillm.commitment import MerkleTree
from verillm.constants import FinishReason, Verdict
from verillm.draw import opened_positions
from verillm.engine.transformers_engine import Engine
from verillm.errors import EngineError
from verillm.params import load_params
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc
from verillm.settlement import round_leaf
from verillm.types import TOKEN_BOUNDARY

PARAMS = load_params("devnet")
DEADLINES = Deadlines(prefill=30, token=30, open=30, judge=30, info=5)
LOG = NodeLog("test")


@dataclass
class FakeChain:
    """Round 1, whose seed for positions comes with block 2 once ``value`` is set."""

    root: bytes = bytes(32)
    verification_root: bytes = bytes(32)
    value: bytes | None = None

    def round(self, round_id: int) -> SimpleNamespace:
        assert round_id == 1
        return SimpleNamespace(root=self.root, verification_root=self.verification_root, position_block=2)

    def block_number(self) -> int:
        return 2 if self.value is None else 3

    def position_seed(self, round_id: int) -> bytes | None:
        assert round_id == 1
        return self.value


@dataclass
class Accusations:
    seen: list[Evidence] = field(default_factory=list)

    def consider(self, evidence: Evidence) -> None:
        self.seen.append(evidence)


@dataclass
class Node:
    remote: RemoteWorker
    accusations: Accusations
    runner: ModelRunner


@pytest.fixture
def chain():
    return FakeChain()


@pytest.fixture
def start(chain, tiny_folder, tiny_manifest):
    """start(n, behaviour class): a served worker with the n-th key."""
    running = []

    def make(n: int, behaviour=Behaviour, engines: int = 1) -> Node:
        key = Account.from_key(bytes([n]) * 32)
        loaded = [Engine.from_manifest(tiny_folder, tiny_manifest) for _ in range(engines)]
        runner = ModelRunner(behaviour(*loaded), 4, LOG)
        models = {tiny_manifest.model_id: ServedModel(tiny_manifest, runner)}
        held, accusations = HeldJobs(8), Accusations()
        judge = Judge(key, DOMAIN, chain, PARAMS, models, held, accusations, LOG)
        server, port = start_server(0, 16)
        rpc.add_WorkerServicer_to_server(WorkerService(key, DOMAIN, models, held, judge, LOG), server)
        server.start()
        remote = RemoteWorker(key.address, f"127.0.0.1:{port}", DEADLINES)
        running.append((server, remote, runner))
        return Node(remote, accusations, runner)

    yield make
    for server, remote, runner in running:
        remote.close()
        server.stop(None).wait()
        runner.close()


def _decode(node: Node, submission: codec.Submission):
    chunks: list[pb.TokenChunk] = []
    result = node.remote.decode(codec.submission_to_proto(submission), 0, chunks.append)
    assert [t for c in chunks for t in c.tokens] == result.output
    return result


class Settled:
    """One job brought to the point where everybody opens: worker, verifiers, roots and randomness."""

    def __init__(self, chain: FakeChain, submission: codec.Submission, worker: Node, verifiers: list[Node]):
        request = codec.submission_to_proto(submission)
        self.result = _decode(worker, submission)
        self.job_id = eip712.job_id(submission.job, DOMAIN)
        transcript = pb.Transcript(
            request=request, output=self.result.output, commitment=self.result.commitment
        )
        self.job = RoundJob(StoredJob(self.job_id, "committed", "", 0, 0, request, transcript))
        finish = self.job.worker.commitment.finish_reason
        done = [v.remote.verify(request, self.result.output, finish, 0).commitment for v in verifiers]
        self.parties = [self.job.worker, *map(codec.commitment_from_proto, done)]
        self.nodes = [worker, *verifiers]
        leaves = [
            round_leaf(eip712.commitment_digest(s.commitment, DOMAIN), s.commitment.operator)
            for s in self.parties
        ]
        tree = MerkleTree(leaves[1:])
        self.leaves = [codec.LeafProof(0, 1, ())] + [
            codec.LeafProof(i, len(done), tree.proof(i)) for i in range(len(done))
        ]
        chain.root, chain.verification_root, chain.value = leaves[0], tree.root, b"\x77" * 32
        self.positions = opened_positions(chain.value, self.job_id, self.job.rows, PARAMS.opened_positions)

    def open(self, i: int, positions: list[int] | None = None) -> pb.Opening:
        return self.nodes[i].remote.open(
            pb.OpenRequest(
                job_id=self.job_id,
                positions=self.positions if positions is None else positions,
                round_id=(1).to_bytes(32, "big"),
                leaf=codec.leaf_proof_to_proto(self.leaves[i]),
            )
        )

    def judge(self, i: int) -> codec.SignedVerdict:
        request = pb.JudgeRequest(
            job_id=self.job_id,
            round_id=(1).to_bytes(32, "big"),
            worker_commitment=codec.commitment_to_proto(self.parties[0]),
            worker_opening=self.open(0),
            verifier_commitments=[codec.commitment_to_proto(p) for p in self.parties[1:]],
            verifier_openings=[self.open(j) for j in range(1, len(self.parties))],
            worker_leaf_index=0,
            worker_leaf_count=1,
            verifier_leaves=[codec.leaf_proof_to_proto(leaf) for leaf in self.leaves[1:]],
        )
        verdict = codec.verdict_from_proto(self.nodes[i].remote.judge(request))
        assert eip712.recover_verdict(verdict, DOMAIN) == verdict.operator == self.nodes[i].remote.operator
        return verdict


def test_an_honest_job_is_accepted_by_value(chain, start, tiny_manifest):
    submission = make_submission(tiny_manifest.model_id, temperature_ppm=800_000, max_output_tokens=12)
    job = Settled(chain, submission, start(1), [start(2), start(3)])
    assert 1 <= len(job.result.output) <= 12
    assert [job.judge(i).verdict for i in (1, 2)] == [Verdict.ACCEPT, Verdict.ACCEPT]
    assert job.judge(0).verdict is Verdict.UNABLE  # a worker has no vote on its own job
    for node in job.nodes:
        for evidence in node.accusations.seen:
            assert evidence.fraud is None
            assert all(find_divergence(evidence.mine, o, tiny_manifest) is None for o in evidence.others)


def test_rows_are_opened_only_where_the_randomness_says(chain, start, tiny_manifest):
    job = Settled(chain, make_submission(tiny_manifest.model_id), start(1), [start(2)])
    other = [t for t in range(job.job.rows) if t not in job.positions][:1] or [0]
    with pytest.raises(WorkerFailed, match=r"INVALID_ARGUMENT.*positions"):
        job.open(0, other)
    job.leaves[0] = codec.LeafProof(0, 1, (bytes(32),))
    with pytest.raises(WorkerFailed, match=r"INVALID_ARGUMENT.*proof"):
        job.open(0)
    chain.value = None
    job.leaves[0] = codec.LeafProof(0, 1, ())
    with pytest.raises(WorkerFailed, match="no seed"):
        job.open(0)


def test_a_verifier_never_signs_two_verdicts_on_one_job(chain, start, tiny_manifest):
    job = Settled(chain, make_submission(tiny_manifest.model_id), start(1), [start(2)])
    first = job.judge(1)
    job.nodes[1].runner.behaviour.accuses = False  # from now on it would accept anything
    assert job.judge(1) == first


def test_forged_text_is_rejected_with_a_token_that_proves_it(chain, start, tiny_manifest):
    submission = make_submission(tiny_manifest.model_id, max_output_tokens=24)
    job = Settled(chain, submission, start(1, Forge, engines=2), [start(2)])
    verdict = job.judge(1)
    assert (verdict.verdict, verdict.boundary) == (Verdict.REJECT, TOKEN_BOUNDARY)
    (evidence,) = job.nodes[1].accusations.seen
    assert evidence.fraud is not None
    assert evidence.fraud.claimed == job.job.tokens[evidence.fraud.position + 1]
    assert find_divergence(evidence.mine, evidence.worker, tiny_manifest) is None


def test_int4_rows_diverge(chain, start, tiny_manifest):
    job = Settled(chain, make_submission(tiny_manifest.model_id), start(1, Int4), [start(2)])
    assert job.judge(1).verdict is Verdict.REJECT
    (evidence,) = job.nodes[1].accusations.seen
    rows = find_divergence(evidence.mine, evidence.worker, tiny_manifest)
    assert rows is not None
    assert rows[1].position == job.positions[0]


def test_a_lazy_verifier_accepts_and_is_found_by_the_others(chain, start, tiny_manifest):
    job = Settled(chain, make_submission(tiny_manifest.model_id), start(1), [start(2, Lazy), start(3)])
    assert job.judge(1).verdict is Verdict.ACCEPT
    assert job.nodes[1].accusations.seen == []
    assert job.judge(2).verdict is Verdict.ACCEPT
    job.judge(0)
    for i in (0, 2):  # the other verifier and the worker both see it
        (evidence,) = job.nodes[i].accusations.seen
        found = {o.operator: find_divergence(evidence.mine, o, tiny_manifest) for o in evidence.others}
        lazy = found.pop(job.nodes[1].remote.operator)
        assert lazy is not None
        assert list(found.values()) == [None]


def test_bad_requests_get_typed_refusals(start, tiny_manifest):
    node = start(1)
    good = make_submission(tiny_manifest.model_id)
    cases = [
        (make_submission(b"\x09" * 32), "NOT_FOUND.*model_id"),
        (make_submission(tiny_manifest.model_id, prompt=(1, 300)), "INVALID_ARGUMENT.*vocabulary"),
        (make_submission(tiny_manifest.model_id, deadline=1), "INVALID_ARGUMENT.*deadline"),
        (codec.Submission(good.job, b"\1" * 64 + b"\x1b", good.prompt, good.stop), "INVALID_ARGUMENT.*sign"),
        (make_submission(tiny_manifest.model_id, max_output_tokens=500), "INVALID_ARGUMENT.*context"),
    ]
    for submission, message in cases:
        with pytest.raises(WorkerFailed, match=message):
            _decode(node, submission)
    with pytest.raises(WorkerFailed, match=r"NOT_FOUND.*not held"):
        node.remote.open(pb.OpenRequest(job_id=b"\1" * 32))


def test_an_engine_failure_is_unable(start, tiny_manifest):
    class Broken(Behaviour):
        def decode(self, states, specs, on_token):
            raise EngineError("out of memory")

    with pytest.raises(WorkerFailed, match="unable: out of memory"):
        _decode(start(1, Broken), make_submission(tiny_manifest.model_id))


def test_waiting_sequences_decode_as_one_batch(start, tiny_manifest, tiny_engine):
    from verillm.engine.finish import GenerationSpec

    sizes: list[int] = []

    class Counting(Behaviour):
        def decode(self, states, specs, on_token):
            sizes.append(len(states))
            super().decode(states, specs, on_token)

    runner = ModelRunner(Counting(tiny_engine), 3, LOG)
    submission = make_submission(tiny_manifest.model_id)
    states = [runner.prefill([1, 2, n + 3]).result() for n in range(4)]
    gate = threading.Event()
    blocked = runner.call(gate.wait)
    spec = GenerationSpec(submission.job.sampling, 5)
    futures = [runner.decode(state, spec, lambda token: None) for state in states]
    gate.set()
    assert blocked.result()
    assert [future.result().finish_reason for future in futures] == [s.finish_reason for s in states]
    assert all(isinstance(s.finish_reason, FinishReason) for s in states)
    assert sizes == [3, 1]
    runner.close()
