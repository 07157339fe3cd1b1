"""A scheduler that plays a script over real gRPC, and a chain that only knows amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

import grpc

from tests.sdk.parties import DOMAIN, OPERATORS, SCHEDULER
from verillm import eip712
from verillm.chain import AddressBook
from verillm.constants import FinishReason, Role
from verillm.params import load_params
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc import verillm_pb2_grpc as rpc
from verillm.types import Commitment

WORKER, SECOND = list(OPERATORS)[:2]
_CONTRACTS = [f.name for f in fields(AddressBook) if f.type == "str" and f.name != "params_profile"]
BOOK = AddressBook(
    chain_id=DOMAIN.chain_id, params_profile="devnet", **dict.fromkeys(_CONTRACTS, DOMAIN.contract)
)


def assigned(worker: str, attempt: int) -> pb.JobEvent:
    return pb.JobEvent(assigned=pb.Assigned(worker=bytes.fromhex(worker[2:]), attempt=attempt))


def tokens(first: int, *values: int) -> pb.JobEvent:
    return pb.JobEvent(tokens=pb.TokenChunk(first_index=first, tokens=values))


def committed(
    submission: codec.Submission, worker: str, attempt: int, count: int, signer: str | None = None
) -> pb.JobEvent:
    commitment = Commitment(
        eip712.job_id(submission.job, DOMAIN),
        Role.WORKER,
        attempt,
        b"\x07" * 32,
        len(submission.prompt),
        count,
        FinishReason.LENGTH,
        worker,
    )
    signature = eip712.sign_commitment(commitment, OPERATORS[signer or worker], DOMAIN)
    signed = codec.SignedCommitment(commitment, signature)
    return pb.JobEvent(committed=codec.commitment_to_proto(signed))


Script = Callable[[codec.Submission], Iterator[pb.JobEvent]]


class FakeScheduler(rpc.SchedulerServicer):
    """Answers Submit with ``script``; ``refusal`` (code, details) makes it abort instead."""

    def __init__(self, model_ids: list[bytes]) -> None:
        self.info = pb.SchedulerInfo(
            address=bytes.fromhex(SCHEDULER.address[2:]),
            model_ids=model_ids,
            chain_id=DOMAIN.chain_id,
            contract=bytes.fromhex(DOMAIN.contract[2:]),
            live_workers=5,
        )
        self.script: Script = lambda submission: iter(())
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.states: list[pb.JobStatus] = []

    def Info(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.SchedulerInfo:
        return self.info

    def Submit(self, request: pb.SubmitRequest, context: grpc.ServicerContext) -> Iterator[pb.JobEvent]:
        if self.refusal:
            context.abort(*self.refusal)
        yield from self.script(codec.submission_from_proto(request))

    def Status(self, request: pb.JobQuery, context: grpc.ServicerContext) -> pb.JobStatus:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@contextmanager
def serving(scheduler: FakeScheduler) -> Iterator[str]:
    """Run it on a free port of the loopback interface; yields host:port."""
    server = grpc.server(ThreadPoolExecutor(4))
    rpc.add_SchedulerServicer_to_server(scheduler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@dataclass
class FakeChain:
    """What the client asks of ``ChainClient``."""

    chain_id: int = DOMAIN.chain_id
    balances: int = 10**18
    escrows: int = 10**18
    deposits: list[tuple[str, int]] = field(default_factory=list)
    keys: set[tuple[str, str]] = field(default_factory=set)
    """(operator, signer) that ``Staking`` knows."""
    params = load_params("devnet")

    def current_epoch(self) -> int:
        return 3

    def is_signer(self, operator: str, signer: str, epoch: int) -> bool:
        return (operator, signer) in self.keys

    def escrow(self, client: str, scheduler: str) -> int:
        return self.escrows

    def token_balance(self, owner: str) -> int:
        return self.balances

    def deposit_escrow(self, scheduler: str, amount: int) -> None:
        self.deposits.append((scheduler, amount))
        self.balances -= amount
        self.escrows += amount
