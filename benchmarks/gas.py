"""Gas of every step of a round and of both courts, on a local anvil.

    python benchmarks/gas.py [--json FILE]

A synthetic model with 576 values per row (SmolLM2-135M's width), 16 tokens and two boundaries, for rows and
weights in bf16 and in fp32. Rounds have 1000 jobs, so each proof in a round has 10 hashes. Where a step is
taken more than once, the dearest counts.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from eth_account.signers.local import LocalAccount

from verillm import eip712, settlement, vrf
from verillm.chain import AddressBook, ChainClient
from verillm.chain.connection import Receipt
from verillm.chain.court import CommitmentProof, MatrixRow, TokenFraudProof
from verillm.chain.deploy import deploy
from verillm.chain.devnet import Devnet, account, start_anvil
from verillm.commitment import MerkleTree, OutputMatrix, RowStore, build_commitment, token_list_hash
from verillm.commitment.job import CommittedJob
from verillm.constants import Dtype, FinishReason, Role, Verdict
from verillm.types import Commitment, Job, ModelSpec

HIDDEN, VOCAB, BOUNDARIES, JOBS = 576, 16, 2, 1000
PROMPT, OUTPUT = (3, 1, 4), 4
STAKE = 2000 * 10**18
BANK, CLIENT, SCHEDULER = account(0), account(1), account(2)
OPERATORS = [account(i) for i in range(3, 9)]
FILLER = [bytes([1]) + i.to_bytes(31, "big") for i in range(JOBS - 1)]
STEPS = (
    "registerModel", "registerScheduler", "registerOperator", "depositEscrow", "commitRound", "poke",
    "commitVerifications", "settleRound", "claim", "withdraw", "proveTokenFraud", "openDispute", "drawJury",
    "commitVote", "revealVote", "resolve",
)  # fmt: skip


class Meter(ChainClient):
    """A client that notes the dearest transaction of each function."""

    gas: dict[str, int]

    def _send(self, contract: str, name: str, *args: Any) -> Receipt:
        receipt = super()._send(contract, name, *args)
        self.gas[name] = max(self.gas.get(name, 0), receipt["gasUsed"])
        return receipt


@dataclass(frozen=True)
class Signed:
    """An operator's commitment with its place in a round of 1000 jobs."""

    committed: CommittedJob
    proof: CommitmentProof
    tree: MerkleTree


def storage(values: np.ndarray, dtype: Dtype) -> np.ndarray:
    """float32 [n, d] as storage bytes uint8 [n, d * itemsize]; bf16 cuts the low bits off."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    if dtype is Dtype.BF16:
        return (bits >> 16).astype("<u2").view(np.uint8).reshape(len(values), -1)
    return bits.view(np.uint8).reshape(len(values), -1)


class Benchmark:
    """One deployment, one dtype."""

    def __init__(self, devnet: Devnet, book: AddressBook, dtype: Dtype) -> None:
        self.devnet, self.book, self.dtype = devnet, book, dtype
        self.gas: dict[str, int] = {}
        rng = np.random.default_rng(7)
        self.rows = rng.standard_normal((BOUNDARIES, len(PROMPT) + OUTPUT - 1, HIDDEN)).astype("<f4")
        weights = rng.standard_normal((VOCAB, HIDDEN)).astype("<f4")
        self.logits = weights @ self.rows[-1, len(PROMPT)]
        self.matrix = OutputMatrix(storage(weights, dtype))
        self.spec = ModelSpec(
            b"\x4d" * 32, self.matrix.root, HIDDEN, VOCAB, dtype, dtype, 2**14, (2**20,) * BOUNDARIES
        )
        self.model_id = eip712.model_id(self.spec)
        self.scheduler = self.as_account(SCHEDULER)
        self.client = self.as_account(CLIENT)

    def as_account(self, key: LocalAccount) -> Meter:
        meter = Meter(self.devnet.rpc_url, self.book, key)
        meter.gas = self.gas
        return meter

    def run(self) -> dict[str, int]:
        """Every step; gas by function name."""
        self.set_up()
        self.honest_round()
        self.token_fraud()
        self.dispute()
        return {step: self.gas[step] for step in STEPS}

    def set_up(self) -> None:
        bank = self.as_account(BANK)
        bank.register_model(self.spec)
        for key in (CLIENT, SCHEDULER, *OPERATORS):
            bank.mint_test_token(key.address, 2 * STAKE)
        self.scheduler.register_scheduler(STAKE, "127.0.0.1:1", vrf.public_key(bytes(SCHEDULER.key)))
        for key in OPERATORS:
            self.as_account(key).register_operator(self.model_id, STAKE, "127.0.0.1:2")
        self.client.deposit_escrow(SCHEDULER.address, STAKE)
        self.devnet.mine(2 * self.book.params.epoch_blocks)

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
            input_price=10**15,
            output_price=10**15,
            verifiers=1,
            deadline=2_000_000_000,
            nonce=nonce,
        )

    def sign(self, key: LocalAccount, job: Job, role: Role, claimed: int = 0, error: float = 0.0) -> Signed:
        """Commit the rows, with the relative ``error``, and ``claimed`` as the second output token."""
        tokens = [*PROMPT, 5, claimed, 6, 7]
        store = RowStore(BOUNDARIES, HIDDEN, self.dtype)
        for boundary in range(BOUNDARIES):
            store.append_rows(boundary, 0, storage(self.rows[boundary] * np.float32(1 + error), self.dtype))
        job_id = eip712.job_id(job, self.book.domain)
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
        digest = eip712.commitment_digest(commitment, self.book.domain)
        tree = MerkleTree([settlement.round_leaf(digest, key.address), *FILLER])
        signature = eip712.sign_commitment(commitment, key, self.book.domain)
        proof = CommitmentProof(commitment, signature, 0, tuple(tree.proof(0)), committed.parts)
        return Signed(committed, proof, tree)

    def random(self, request: int) -> None:
        self.devnet.mine(self.book.params.randomness_delay_blocks + 1)
        self.scheduler.wait_randomness(request)

    def post(self, worker: Signed, verifier: Signed) -> int:
        round_id = self.scheduler.commit_round(self.model_id, worker.tree.root, JOBS)
        self.random(self.scheduler.round(round_id).verifier_request)
        self.scheduler.commit_verifications(round_id, verifier.tree.root, JOBS)
        self.random(self.scheduler.round(round_id).position_request)
        return round_id

    def honest_round(self) -> None:
        job = self.job(1)
        worker, verifier = OPERATORS[:2]
        signed = self.sign(worker, job, Role.WORKER)
        round_id = self.post(signed, self.sign(verifier, job, Role.VERIFIER))
        record = settlement.make_record(
            job,
            signed.proof.commitment.job_id,
            worker.address,
            len(PROMPT),
            OUTPUT,
            [verifier.address],
            [Verdict.ACCEPT],
            self.book.params,
        )
        tree = MerkleTree([settlement.record_leaf(record), *FILLER])
        self.scheduler.settle_round(round_id, tree.root, record.client_pays)
        self.devnet.mine(self.book.params.challenge_window_blocks + 1)
        signature = eip712.sign_job(job, CLIENT, self.book.domain)
        self.scheduler.claim(round_id, 0, record, tree.proof(0), job, signature)
        self.as_account(worker).withdraw()

    def token_fraud(self) -> None:
        job = self.job(2)
        claimed, better = int(self.logits.argmin()), int(self.logits.argmax())
        worker = self.sign(OPERATORS[0], job, Role.WORKER, claimed)
        round_id = self.scheduler.commit_round(self.model_id, worker.tree.root, JOBS)
        position = len(PROMPT)
        self.client.prove_token_fraud(
            TokenFraudProof(
                round_id,
                worker.proof,
                job,
                worker.committed.open_row(BOUNDARIES - 1, position),
                claimed,
                worker.committed.token_proof(position + 1),
                *(MatrixRow(v, self.matrix.row(v), self.matrix.proof(v)) for v in (claimed, better)),
            )
        )

    def dispute(self) -> None:
        job = self.job(3)
        worker = self.sign(OPERATORS[1], job, Role.WORKER, error=0.5)
        verifier = self.sign(OPERATORS[2], job, Role.VERIFIER)
        round_id = self.post(worker, verifier)
        rows = [signed.committed.open_row(0, 1) for signed in (worker, verifier)]
        dispute_id = self.client.open_dispute(round_id, worker.proof, rows[0], verifier.proof, rows[1])
        self.random(self.client.dispute(dispute_id).randomness_request)
        self.client.draw_jury(dispute_id)
        jurors = self.client.dispute(dispute_id).jurors
        keys = [self.as_account(key) for key in OPERATORS if key.address in jurors]
        salt = b"\x07" * 32
        for juror in keys:
            juror.commit_vote(dispute_id, rows[1].row, salt)
        for juror in keys:
            juror.reveal_vote(dispute_id, rows[1].row, salt)
        self.client.resolve(dispute_id)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gas per protocol step.")
    parser.add_argument("--json", metavar="FILE", help="write the gas by step and dtype as JSON")
    args = parser.parse_args()
    columns: dict[str, dict[str, int]] = {}
    for dtype in (Dtype.BF16, Dtype.FP32):
        with start_anvil() as devnet:
            book = deploy(devnet.rpc_url, BANK, "devnet")
            columns[dtype.name.lower()] = Benchmark(devnet, book, dtype).run()
    print(f"{'step':20}" + "".join(f"{name:>12}" for name in columns))
    for step in STEPS:
        print(f"{step:20}" + "".join(f"{column[step]:12,}" for column in columns.values()))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(columns, file, indent=2)


if __name__ == "__main__":
    main()
