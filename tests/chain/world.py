"""A deployment on anvil with a synthetic model: eight values per row, two boundaries, sixteen tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from eth_account.signers.local import LocalAccount

from tests.chain.settlement_cases import sample_job
from verillm import draw, eip712, settlement, vrf
from verillm.chain import AddressBook, ChainClient
from verillm.chain.devnet import Devnet, account
from verillm.chain.proofs import CommitmentProof, MatrixRow, RecordProof, TokenFraudProof
from verillm.commitment import MerkleTree, OutputMatrix, RowStore, build_commitment, token_list_hash
from verillm.commitment.job import CommittedJob
from verillm.constants import Dtype, FinishReason, Role, Verdict
from verillm.sampling.sampler import sample
from verillm.types import Commitment, Job, Line, ModelSpec, SettlementRecord

HIDDEN, VOCAB, BOUNDARIES = 8, 16, 2
STAKE = 2000 * 10**18
PROMPT = (3, 1, 4)
OUTPUT_TOKENS = 4
DEPLOYER, CLIENT, SCHEDULER = account(0), account(1), account(2)
OPERATORS = [account(i) for i in range(3, 9)]
WEIGHTS = np.random.default_rng(7).standard_normal((VOCAB, HIDDEN)).astype("<f4")
MATRIX = OutputMatrix(WEIGHTS.view(np.uint8).reshape(VOCAB, -1))
SPEC = ModelSpec(
    manifest_hash=b"\x4d" * 32,
    output_matrix_root=MATRIX.root,
    hidden_size=HIDDEN,
    vocab_size=VOCAB,
    row_dtype=Dtype.FP32,
    weight_dtype=Dtype.FP32,
    token_margin_q24=2**14,
    row_tolerance_q40=(2**20, 2**20),
)
MODEL_ID = eip712.model_id(SPEC)


def row(boundary: int, tokens: tuple[int, ...], error: float = 0.0) -> np.ndarray:
    """float32 [HIDDEN]: the "hidden state" of the last of ``tokens``; ``error`` is a relative disturbance."""
    rng = np.random.default_rng([boundary, *tokens])
    return (rng.standard_normal(HIDDEN) * (1 + error)).astype("<f4")


@dataclass(frozen=True)
class Party:
    """An operator's commitment of one job."""

    key: LocalAccount
    commitment: Commitment
    signature: bytes
    committed: CommittedJob
    leaf: bytes

    def proof(self, tree: MerkleTree, index: int) -> CommitmentProof:
        """For the courts, at leaf ``index`` of its round's tree."""
        return CommitmentProof(
            self.commitment, self.signature, index, tree.proof(index), self.committed.parts
        )


@dataclass(frozen=True)
class Settled:
    """A settled round and what its proofs are made of. ``epoch`` is that of the workers' draws."""

    round_id: int
    epoch: int
    jobs: list[Job]
    workers: list[Party]
    committees: list[list[Party]]
    tree: MerkleTree
    verifier_tree: MerkleTree
    proofs: list[RecordProof]

    @property
    def records(self) -> list[SettlementRecord]:
        return [proof.record for proof in self.proofs]


class World:
    """Clients of one deployment, and the protocol's steps for a round."""

    def __init__(self, devnet: Devnet, book: AddressBook) -> None:
        self.devnet = devnet
        self.book = book
        self.params = book.params
        self.domain = book.domain
        self.client = self.as_account(CLIENT)
        self.scheduler = self.as_account(SCHEDULER)

    def as_account(self, key: LocalAccount) -> ChainClient:
        return ChainClient(self.devnet.rpc_url, self.book, key)

    def set_up(self) -> None:
        """Mint, register model and operators, deposit escrow, and go to an epoch in which stake counts."""
        bank = self.as_account(DEPLOYER)
        bank.register_model(SPEC)
        for key in (CLIENT, SCHEDULER, *OPERATORS):
            bank.mint_test_token(key.address, 2 * STAKE)
        self.scheduler.register_scheduler(STAKE, "127.0.0.1:1", vrf.public_key(bytes(SCHEDULER.key)))
        for i, key in enumerate(OPERATORS):
            self.as_account(key).register_operator(MODEL_ID, STAKE, f"127.0.0.1:{i + 2}")
        self.client.deposit_escrow(SCHEDULER.address, STAKE)
        self.devnet.mine(2 * self.params.epoch_blocks)

    def begin_epoch(self) -> None:
        """Mine to the first block of the next epoch."""
        self.devnet.mine(self.params.epoch_blocks - self.client.block_number() % self.params.epoch_blocks)

    def job(self, nonce: int = 1, temperature_ppm: int = 700_000) -> Job:
        return sample_job(
            client=CLIENT.address,
            scheduler=SCHEDULER.address,
            model_id=MODEL_ID,
            prompt_hash=token_list_hash(PROMPT),
            prompt_tokens=len(PROMPT),
            max_output_tokens=OUTPUT_TOKENS,
            temperature_ppm=temperature_ppm,
            top_k=0,
            top_p_ppm=1_000_000,
            seed=99,
            input_price=10**15,
            output_price=3 * 10**15 + 1,
            verifiers=2,
            nonce=nonce,
        )

    def generate(self, job: Job) -> tuple[int, ...]:
        """Prompt and output, sampled from the synthetic model."""
        tokens = PROMPT
        while len(tokens) < len(PROMPT) + OUTPUT_TOKENS:
            logits = WEIGHTS @ row(BOUNDARIES - 1, tokens)
            tokens += (int(sample(logits, job.sampling, len(tokens) - 1)),)
        return tokens

    def commit(
        self, key: LocalAccount, job: Job, tokens: tuple[int, ...], role: Role, error: float = 0.0
    ) -> Party:
        """An operator's commitment; ``error`` disturbs all its rows."""
        store = RowStore(BOUNDARIES, HIDDEN, Dtype.FP32)
        for boundary in range(BOUNDARIES):
            rows = np.stack([row(boundary, tokens[: t + 1], error) for t in range(len(tokens) - 1)])
            store.append_rows(boundary, 0, rows.view(np.uint8).reshape(len(rows), -1))
        job_id = eip712.job_id(job, self.domain)
        committed = build_commitment(
            store,
            job_id=job_id,
            operator=key.address,
            model_id=MODEL_ID,
            tokens=tokens,
            prompt_tokens=len(PROMPT),
            finish_reason=FinishReason.LENGTH,
        )
        commitment = Commitment(
            job_id, role, 0, committed.job_root, len(PROMPT), OUTPUT_TOKENS, FinishReason.LENGTH, key.address
        )
        leaf = settlement.round_leaf(eip712.commitment_digest(commitment, self.domain), key.address)
        return Party(key, commitment, eip712.sign_commitment(commitment, key, self.domain), committed, leaf)

    def worker_key(self, job: Job) -> LocalAccount:
        """Whom the scheduler's VRF draws for the job's first attempt."""
        epoch = self.client.current_epoch()
        seed = draw.epoch_seed(self.client.chain_id, self.book.staking, epoch)
        alpha = draw.worker_alpha(seed, eip712.job_id(job, self.domain), 0)
        name = draw.draw_worker(self._beta(alpha), self.client.stakes(MODEL_ID, epoch))
        return next(key for key in OPERATORS if key.address == name)

    def _beta(self, alpha: bytes) -> bytes:
        secret = bytes(SCHEDULER.key)
        return vrf.verify(vrf.public_key(secret), alpha, vrf.prove(secret, alpha))

    def pass_seed(self) -> None:
        """Mine until the block that was fixed last is past."""
        self.devnet.mine(self.params.randomness_delay_blocks + 1)

    def post(self, *workers: Party) -> tuple[int, MerkleTree]:
        """A round of these jobs."""
        tree = MerkleTree([worker.leaf for worker in workers])
        return self.scheduler.commit_round(MODEL_ID, tree.root, len(workers)), tree

    def draw_verifiers(self, round_id: int, worker: Party, job: Job) -> list[LocalAccount]:
        """The first ``job.verifiers`` that the round's seed draws."""
        self.pass_seed()
        info = self.scheduler.round(round_id)
        alpha = draw.verifier_alpha(self.scheduler.verifier_seed(round_id), worker.commitment.job_id)
        stakes = self.client.stakes(MODEL_ID, info.epoch)
        drawn = draw.draw_verifiers(self._beta(alpha), job.verifiers, stakes, worker.key.address)
        return [key for name in drawn for key in OPERATORS if key.address == name]

    def post_verifiers(self, round_id: int, verifiers: list[Party]) -> MerkleTree:
        tree = MerkleTree([v.leaf for v in verifiers])
        self.scheduler.commit_verifications(round_id, tree.root, len(verifiers))
        self.pass_seed()
        return tree

    def record(
        self, job: Job, worker: Party, verifiers: Sequence[Party], verdict: Verdict
    ) -> SettlementRecord:
        """What follows if every verifier says the same."""
        return settlement.make_record(
            job,
            worker.commitment.job_id,
            worker.key.address,
            worker.commitment.prompt_tokens,
            worker.commitment.output_tokens,
            [v.key.address for v in verifiers],
            [verdict] * len(verifiers),
            self.params,
        )

    def settle(
        self,
        round_id: int,
        records: Sequence[SettlementRecord],
        lines: tuple[Sequence[Line], Sequence[Line]] | None = None,
    ) -> list[RecordProof]:
        """Settle with these records, linked unless they are, and with the lines that follow or others."""
        linked = list(records) if records[0].links else settlement.link_records(records)
        tree = MerkleTree([settlement.record_leaf(record) for record in linked])
        self.scheduler.settle_round(round_id, tree.root, *(lines or settlement.round_lines(linked)))
        return [RecordProof(i, record, tree.proof(i)) for i, record in enumerate(linked)]

    def verified(self, *jobs: Job, errors: tuple[float, float] = (0.0, 0.0)) -> Settled:
        """A round of these jobs, worked and verified, without a settlement yet; ``errors`` disturb the rows
        of the workers, and of each job's first verifier."""
        epoch = self.client.current_epoch()
        workers = [
            self.commit(self.worker_key(job), job, self.generate(job), Role.WORKER, errors[0]) for job in jobs
        ]
        round_id, tree = self.post(*workers)
        committees = []
        for job, worker in zip(jobs, workers, strict=True):
            keys = self.draw_verifiers(round_id, worker, job)
            tokens = worker.committed.tokens
            committee = [self.commit(key, job, tokens, Role.VERIFIER) for key in keys[1:]]
            committees.append([self.commit(keys[0], job, tokens, Role.VERIFIER, errors[1]), *committee])
        verifier_tree = self.post_verifiers(round_id, [v for committee in committees for v in committee])
        return Settled(round_id, epoch, list(jobs), workers, committees, tree, verifier_tree, [])

    def settled(
        self, *jobs: Job, verdict: Verdict = Verdict.ACCEPT, errors: tuple[float, float] = (0.0, 0.0)
    ) -> Settled:
        """The same, settled, with the same verdict of all verifiers."""
        done = self.verified(*jobs, errors=errors)
        parties = zip(jobs, done.workers, done.committees, strict=True)
        done.proofs[:] = self.settle(done.round_id, [self.record(*party, verdict) for party in parties])
        return done

    def as_court(self, name: str, *args: object) -> None:
        """Call ``Rounds`` as one of its courts."""
        court, contract = self.book.tribunal, self.client._contracts["rounds"]
        self.devnet.rpc("anvil_setBalance", court, hex(10**18))
        self.devnet.rpc("anvil_impersonateAccount", court)
        data = self.client.connection.encode(contract, name, *args)
        call = {"from": court, "to": contract.address, "data": data}
        receipt = self.client.wait_receipt(bytes.fromhex(self.devnet.rpc("eth_sendTransaction", call)[2:]))
        assert receipt["status"] == 1

    def finish(self) -> None:
        """Let the challenge window of a round that was just settled pass."""
        self.devnet.mine(self.params.challenge_window_blocks + 1)

    def fraud(self, job: Job, worker: Party, tree: MerkleTree, position: int, better: int) -> TokenFraudProof:
        """Accuse the worker's token after ``position``."""
        claimed = worker.committed.tokens[position + 1]
        rows = [MatrixRow(v, MATRIX.row(v), MATRIX.proof(v)) for v in (claimed, better)]
        return TokenFraudProof(
            worker.proof(tree, 0),
            job,
            worker.committed.open_row(BOUNDARIES - 1, position),
            claimed,
            worker.committed.token_proof(position + 1),
            *rows,
        )
