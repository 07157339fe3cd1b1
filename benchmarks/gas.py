"""Gas of every step of a round and of the courts, on a local anvil with the contracts as they are deployed.

    python benchmarks/gas.py [--json FILE]

Rounds: one of a single job with one verifier, and one of 1,000 jobs of 50 clients by 50 operators with three
verifiers each; all transactions from the commitment to the payment count. The figures are of accounts that
were paid before (the usual case: a balance that is not zero); "first" is of accounts that never were.
Challenges: a synthetic model with rows of 576 values (SmolLM2-135M) and 4,096 values (a vocabulary of
131,072), in bf16; proofs are those of a round of 1,000 jobs. Draw: 5 of 1,000 stakers. Where a step is taken
more than once, the dearest counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from verillm import eip712, settlement, vrf
from verillm.chain import AddressBook, ChainClient
from verillm.chain.audit import Matter
from verillm.chain.connection import Receipt
from verillm.chain.deploy import deploy
from verillm.chain.devnet import Devnet, account, start_anvil
from verillm.chain.proofs import CommitmentProof, MatrixRow, TokenFraudProof
from verillm.commitment import MerkleTree, RowStore, build_commitment, token_list_hash
from verillm.commitment.hashing import matrix_row_leaf
from verillm.commitment.job import CommittedJob
from verillm.commitment.merkle import node_hash
from verillm.constants import Dtype, FinishReason, Role, Verdict
from verillm.draw import worker_alpha
from verillm.types import Commitment, Job, ModelSpec, SettlementRecord

BOUNDARIES, JOBS, CLIENTS, EARNERS, VERIFIERS, STAKERS = 2, 1000, 50, 50, 3, 1000
PROMPT, OUTPUT = (3, 1, 4), 4
CLAIMED, BETTER = 0, 1
STAKE = 2000 * 10**18
PRICE = 10**15
BANK, CLIENT, SCHEDULER = account(0), account(1), account(2)
OPERATORS = [account(i) for i in range(3, 9)]
FILLER = [bytes([1]) + i.to_bytes(31, "big") for i in range(JOBS - 1)]
ROUND = ("commitRound", "commitVerifications", "settleRound", "payRound")


class Meter(ChainClient):
    """A client that notes the dearest transaction of each function, and their sum."""

    gas: dict[str, int]

    def _send(self, contract: str, name: str, *args: Any) -> Receipt:
        receipt = super()._send(contract, name, *args)
        self.gas[name] = max(self.gas.get(name, 0), receipt["gasUsed"])
        return receipt


class TwoRows:
    """An output matrix of which only the rows of tokens 0 and 1 are known; the rest of its tree is filler."""

    def __init__(self, rows: np.ndarray, vocabulary: int) -> None:
        self._rows = [row.tobytes() for row in rows[:2]]
        leaves = [matrix_row_leaf(token, row) for token, row in enumerate(self._rows)]
        self._filler = [keccak(bytes([level])) for level in range((vocabulary - 1).bit_length() - 1)]
        self._leaves = leaves
        self.root = node_hash(*leaves)
        for sibling in self._filler:
            self.root = node_hash(self.root, sibling)

    def open(self, token: int) -> MatrixRow:
        return MatrixRow(token, self._rows[token], (self._leaves[1 - token], *self._filler))


@dataclass(frozen=True)
class Signed:
    """An operator's commitment with its place in a round of 1000 jobs."""

    committed: CommittedJob
    proof: CommitmentProof
    tree: MerkleTree


def bf16(values: np.ndarray) -> np.ndarray:
    """float32 [n, d] as bf16 storage bytes uint8 [n, 2d]; the low bits are cut off."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    return (bits >> 16).astype("<u2").view(np.uint8).reshape(len(values), -1)


class Bench:
    """One deployment."""

    def __init__(self, devnet: Devnet, book: AddressBook) -> None:
        self.devnet, self.book = devnet, book
        self.gas: dict[str, int] = {}
        self.bank = self.as_account(BANK)
        self.scheduler = self.as_account(SCHEDULER)
        self.client = self.as_account(CLIENT)
        self.params = self.bank.params
        for key in (CLIENT, SCHEDULER):
            self.bank.mint_test_token(key.address, 10 * STAKE)
        self.scheduler.register_scheduler(STAKE, "127.0.0.1:1", vrf.public_key(bytes(SCHEDULER.key)))
        self.client.deposit_escrow(SCHEDULER.address, STAKE)

    def as_account(self, key: LocalAccount) -> Meter:
        meter = Meter(self.devnet.rpc_url, self.book, key)
        meter.gas = self.gas
        return meter

    def send_as(self, sender: str, contract: str, name: str, *args: Any) -> None:
        """A transaction of any account: anvil needs no signature."""
        chain = self.bank
        data = chain.connection.encode(chain._contracts[contract], name, *args)
        call = {"from": sender, "to": getattr(self.book, contract), "data": data, "gas": hex(2_000_000)}
        chain.connection.request("eth_sendTransaction", call)

    def estimate(self, contract: str, name: str, *args: Any) -> int:
        """Gas of a call if it were a transaction of its own."""
        chain = self.bank
        data = chain.connection.encode(chain._contracts[contract], name, *args)
        call = {"from": chain.address, "to": getattr(self.book, contract), "data": data}
        return int(chain.connection.request("eth_estimateGas", call), 16)

    def next_epoch(self) -> None:
        self.devnet.mine(2 * self.params.epoch_blocks)


class Model:
    """A model of rows of ``hidden`` values, its pool of six operators, and jobs that commit to its rows."""

    def __init__(self, bench: Bench, hidden: int, vocabulary: int) -> None:
        self.bench, self.hidden = bench, hidden
        rng = np.random.default_rng(7)
        self.rows = rng.standard_normal((BOUNDARIES, len(PROMPT) + OUTPUT - 1, hidden)).astype("<f4")
        weights = rng.standard_normal((2, hidden)).astype("<f4")
        if weights[BETTER] @ self.rows[-1, len(PROMPT)] < weights[CLAIMED] @ self.rows[-1, len(PROMPT)]:
            weights = weights[::-1]
        self.matrix = TwoRows(bf16(weights), vocabulary)
        self.spec = ModelSpec(
            b"\x4d" * 32,
            self.matrix.root,
            hidden,
            vocabulary,
            Dtype.BF16,
            Dtype.BF16,
            2**14,
            (2**20,) * BOUNDARIES,
        )
        self.model_id = eip712.model_id(self.spec)
        bench.bank.register_model(self.spec)
        for key in OPERATORS:
            bench.bank.mint_test_token(key.address, STAKE)
            bench.as_account(key).register_operator(self.model_id, STAKE, "127.0.0.1:2")
        bench.next_epoch()

    def job(self, nonce: int) -> Job:
        return Job(
            client=CLIENT.address,
            scheduler=SCHEDULER.address,
            model_id=self.model_id,
            prompt_hash=token_list_hash(PROMPT),
            prompt_tokens=len(PROMPT),
            max_output_tokens=OUTPUT,
            stop_hash=eip712.stop_hash(()),
            temperature_ppm=1,  # noise is computed, but never changes which token is best
            top_k=0,
            top_p_ppm=1_000_000,
            seed=99,
            input_price=PRICE,
            output_price=PRICE,
            verifiers=1,
            deadline=2_000_000_000_000,
            nonce=nonce,
        )

    def sign(
        self, key: LocalAccount, job: Job, role: Role, error: float = 0.0, alone: bool = False
    ) -> Signed:
        """Commit the rows, with the relative ``error``, and the lesser token as the second of the output."""
        tokens = [*PROMPT, 5, CLAIMED, 6, 7]
        store = RowStore(BOUNDARIES, self.hidden, Dtype.BF16)
        for boundary in range(BOUNDARIES):
            store.append_rows(boundary, 0, bf16(self.rows[boundary] * np.float32(1 + error)))
        job_id = eip712.job_id(job, self.bench.book.domain)
        committed = build_commitment(
            store,
            job_id=job_id,
            operator=key.address,
            model_id=self.model_id,
            tokens=tokens,
            prompt_tokens=len(PROMPT),
            finish_reason=FinishReason.LENGTH,
        )
        commitment = Commitment(
            job_id, role, 0, committed.job_root, len(PROMPT), OUTPUT, FinishReason.LENGTH, key.address
        )
        digest = eip712.commitment_digest(commitment, self.bench.book.domain)
        tree = MerkleTree([settlement.round_leaf(digest, key.address), *([] if alone else FILLER)])
        signature = eip712.sign_commitment(commitment, key, self.bench.book.domain)
        proof = CommitmentProof(commitment, signature, 0, tuple(tree.proof(0)), committed.parts)
        return Signed(committed, proof, tree)

    # --- rounds ---

    def commit(self, root: bytes, jobs: int) -> int:
        return self.bench.scheduler.commit_round(self.model_id, root, jobs)

    def verify(self, round_id: int, root: bytes, count: int) -> None:
        self.bench.devnet.mine(self.bench.params.randomness_delay_blocks + 1)
        self.bench.scheduler.commit_verifications(round_id, root, count)
        self.bench.devnet.mine(self.bench.params.randomness_delay_blocks + 1)

    def settle_and_pay(self, round_id: int, records: Sequence[SettlementRecord]) -> None:
        tree = MerkleTree([settlement.record_leaf(record) for record in records])
        self.bench.scheduler.settle_round(round_id, tree.root, *settlement.round_lines(records))
        self.bench.devnet.mine(self.bench.params.challenge_window_blocks + 1)
        self.bench.scheduler.pay_round(round_id)

    def round_of_one(self, nonce: int) -> int:
        """Gas of a whole round of one job with one verifier."""
        worker, verifier = OPERATORS[:2]
        job = self.job(nonce)
        signed = self.sign(worker, job, Role.WORKER, alone=True)
        self.bench.gas.clear()
        round_id = self.commit(signed.tree.root, 1)
        self.verify(round_id, self.sign(verifier, job, Role.VERIFIER, alone=True).tree.root, 1)
        record = settlement.make_record(
            job,
            signed.proof.commitment.job_id,
            worker.address,
            len(PROMPT),
            OUTPUT,
            [verifier.address],
            [Verdict.ACCEPT],
            self.bench.params,
        )
        self.settle_and_pay(round_id, settlement.link_records([record]))
        return sum(self.bench.gas[step] for step in ROUND)

    def round_of_many(self, clients: Sequence[str], earners: Sequence[str]) -> int:
        """Gas of a whole round of 1,000 jobs, each by a worker and three verifiers of ``earners``."""
        rng = np.random.default_rng(1)
        self.bench.gas.clear()
        round_id = self.commit(b"\x01" * 32, JOBS)
        self.verify(round_id, b"\x02" * 32, JOBS * VERIFIERS)
        records = []
        for i in range(JOBS):
            worker, *verifiers = (earners[j] for j in rng.choice(len(earners), VERIFIERS + 1, replace=False))
            fee = 100 * PRICE
            head = (i.to_bytes(32, "big"), clients[i % len(clients)], worker, 50, 50, Verdict.ACCEPT)
            fees = (fee, fee // 10, fee // 50)
            verdicts = (Verdict.ACCEPT,) * VERIFIERS
            records.append(SettlementRecord(*head, *fees, tuple(verifiers), verdicts))
        self.settle_and_pay(round_id, settlement.link_records(records))
        return sum(self.bench.gas[step] for step in ROUND)

    # --- challenges ---

    def token_fraud(self, nonce: int) -> int:
        job = self.job(nonce)
        worker = self.sign(OPERATORS[0], job, Role.WORKER)
        round_id = self.commit(worker.tree.root, JOBS)
        position = len(PROMPT)
        receipt = self.bench.client.prove_token_fraud(
            round_id,
            TokenFraudProof(
                worker.proof,
                job,
                worker.committed.open_row(BOUNDARIES - 1, position),
                CLAIMED,
                worker.committed.token_proof(position + 1),
                self.matrix.open(CLAIMED),
                self.matrix.open(BETTER),
            ),
        )
        return receipt["gasUsed"]

    def dispute(self, nonce: int) -> None:
        """A whole dispute without an appeal; its steps' gas lands in ``bench.gas``."""
        bench, job = self.bench, self.job(nonce)
        worker = self.sign(OPERATORS[1], job, Role.WORKER, error=0.5)
        verifier = self.sign(OPERATORS[2], job, Role.VERIFIER)
        round_id = self.commit(worker.tree.root, JOBS)
        self.verify(round_id, verifier.tree.root, JOBS)
        rows = [signed.committed.open_row(0, 1) for signed in (worker, verifier)]
        dispute_id = bench.client.open_dispute(round_id, worker.proof, rows[0], verifier.proof, rows[1])
        bench.devnet.mine(bench.params.randomness_delay_blocks + 1)
        bench.client.draw_jury(dispute_id)
        jurors = bench.client.jurors(dispute_id, 0)
        keys = [bench.as_account(key) for key in OPERATORS if key.address in jurors]
        for step in ("commit_vote", "reveal_vote"):
            for juror in keys:
                getattr(juror, step)(dispute_id, rows[1].row, b"\x07" * 32)
        bench.client.tally(dispute_id)
        bench.devnet.mine(bench.params.appeal_blocks + 1)
        bench.client.resolve(dispute_id)

    def inquiry(self, nonce: int) -> None:
        """A demand for the draw of a worker, and its answer with the VRF proof."""
        bench, job = self.bench, self.job(nonce)
        chain = bench.scheduler
        seed = chain.epoch_seed(chain.current_epoch())
        job_id = eip712.job_id(job, bench.book.domain)
        proof = vrf.prove(bytes(SCHEDULER.key), worker_alpha(seed, job_id, 0))
        epoch = chain.current_epoch()
        drawn = chain.draw(self.model_id, epoch, vrf.beta(proof), 1, [])[0]
        worker = self.sign(next(k for k in OPERATORS if k.address == drawn), job, Role.WORKER)
        round_id = self.commit(worker.tree.root, JOBS)
        self.verify(round_id, bytes(32), 0)
        chain.settle_round(round_id, bytes(32), (), ())
        demand = bench.client.demand_grounds(round_id, Matter.WORKER, 0)
        public = vrf.public_key(bytes(SCHEDULER.key))
        hints = vrf.hints(public, worker_alpha(seed, job_id, 0), proof)
        chain.answer_worker(demand, worker.proof, epoch, hints)


def crowd(bench: Bench, size: int, name: bytes) -> list[LocalAccount]:
    """``size`` fresh accounts with ether."""
    keys = [Account.from_key(keccak(name + i.to_bytes(4, "big"))) for i in range(size)]
    for key in keys:
        bench.bank.connection.request("anvil_setBalance", key.address, hex(10**18))
    return keys


def wait_for(done: Callable[[], bool], seconds: float = 120) -> None:
    """Transactions that are sent without waiting for them are mined soon after."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"anvil: transactions were not mined as expected within {seconds:.0f} s")
        time.sleep(0.5)


def draw_of_many(bench: Bench) -> int:
    """Gas of a draw of 5 from a pool of 1,000 stakers, as a transaction of its own."""
    spec = ModelSpec(b"\x4e" * 32, b"\x01" * 32, 8, 8, Dtype.BF16, Dtype.BF16, 2**14, (2**20,))
    bench.bank.register_model(spec)
    model_id = eip712.model_id(spec)
    bench.bank.connection.request("anvil_autoImpersonateAccount", True)
    stakers = crowd(bench, STAKERS, b"staker")
    for i, staker in enumerate(stakers):
        bench.send_as(BANK.address, "token", "mint", staker.address, STAKE + i)
    wait_for(lambda: bench.bank.token_balance(stakers[-1].address) > 0)
    for i, staker in enumerate(stakers):
        bench.send_as(staker.address, "token", "approve", bench.book.staking, STAKE + i)
        bench.send_as(staker.address, "staking", "registerOperator", model_id, STAKE + i, "127.0.0.1:3")
        if i % 250 == 249:
            print(f"  {i + 1} of {STAKERS} stakers registered", flush=True)
    wait_for(lambda: len(bench.bank.stakes(model_id, bench.bank.current_epoch() + 1)) == STAKERS)
    bench.next_epoch()
    epoch = bench.bank.current_epoch()
    betas = [keccak(bytes([i])) for i in range(10)]
    return max(bench.estimate("staking", "draw", model_id, epoch, beta, 5, []) for beta in betas)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gas per protocol step.")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    args = parser.parse_args()
    with start_anvil() as devnet:
        bench = Bench(devnet, deploy(devnet.rpc_url, BANK, "devnet"))
        small = Model(bench, 576, 49_152)
        figures = {"round_of_one_first": small.round_of_one(1), "round_of_one": small.round_of_one(2)}
        steps = dict(bench.gas)
        clients = crowd(bench, CLIENTS, b"client")
        for key in clients:
            bench.bank.mint_test_token(key.address, STAKE)
            bench.as_account(key).deposit_escrow(SCHEDULER.address, STAKE)
        addresses = [key.address for key in clients]
        earners = [key.address for key in crowd(bench, EARNERS, b"earner")]
        first = small.round_of_many(addresses, earners)
        total = small.round_of_many(addresses, earners)
        figures |= {"per_job_round_1000": total / JOBS, "per_job_round_1000_first": first / JOBS}
        figures["token_fraud_576_max_tx"] = small.token_fraud(3)
        small.dispute(4)
        small.inquiry(5)
        steps = {**bench.gas, **steps}
        large = Model(bench, 4096, 131_072)
        bench.gas.clear()
        figures["token_fraud_4096_total"] = large.token_fraud(6)
        large.dispute(7)
        figures["dispute_4096_max_tx"] = max(bench.gas.values())
        figures["draw_5_of_1000"] = draw_of_many(bench)
    print(f"\n{'one transaction (576 values per row)':40}{'gas':>12}")
    for name, gas in steps.items():
        print(f"{name:40}{gas:12,}")
    print(f"\n{'figure':40}{'gas':>12}")
    for name, value in figures.items():
        print(f"{name:40}{value:12,.0f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(figures | {"steps": steps}, file, indent=2)


if __name__ == "__main__":
    main()
