"""A deployment on anvil with a synthetic model: eight values per row, two boundaries, sixteen tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from eth_account.signers.local import LocalAccount

from tests.chain.make_vectors import sample_job
from verillm import draw, eip712, settlement, vrf
from verillm.chain import AddressBook, ChainClient
from verillm.chain.court import CommitmentProof, MatrixRow, TokenFraudProof
from verillm.chain.devnet import Devnet, account
from verillm.commitment import MerkleTree, OutputMatrix, RowStore, build_commitment, token_list_hash
from verillm.commitment.job import CommittedJob
from verillm.constants import Dtype, FinishReason, Role, Verdict
from verillm.sampling.sampler import sample
from verillm.types import Commitment, Job, ModelSpec, SettlementRecord

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


class World:
    """Clients of one deployment, and the protocol's steps for a round of one job."""

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
        return self._draw(alpha, 1, ())[0]

    def _draw(self, alpha: bytes, count: int, excluded: tuple[str, ...]) -> list[LocalAccount]:
        beta = vrf.verify(vrf.public_key(bytes(SCHEDULER.key)), alpha, vrf.prove(bytes(SCHEDULER.key), alpha))
        stakes = self.client.stakes(MODEL_ID, self.client.current_epoch())
        names = draw.draw_operators(beta, count, stakes, excluded)
        return [key for name in names for key in OPERATORS if key.address == name]

    def random(self, request_id: int) -> bytes:
        """Mine up to the request's block and prove it."""
        self.devnet.mine(self.params.randomness_delay_blocks + 1)
        return self.scheduler.wait_randomness(request_id)

    def post(self, worker: Party) -> tuple[int, MerkleTree]:
        """A round of one job."""
        tree = MerkleTree([worker.leaf])
        return self.scheduler.commit_round(MODEL_ID, tree.root, 1), tree

    def draw_verifiers(self, round_id: int, worker: Party, job: Job) -> list[LocalAccount]:
        randomness = self.random(self.scheduler.round(round_id).verifier_request)
        alpha = draw.verifier_alpha(randomness, worker.commitment.job_id)
        return self._draw(alpha, job.verifiers, (worker.key.address,))

    def post_verifiers(self, round_id: int, verifiers: list[Party]) -> MerkleTree:
        tree = MerkleTree([v.leaf for v in verifiers])
        self.scheduler.commit_verifications(round_id, tree.root, len(verifiers))
        self.random(self.scheduler.round(round_id).position_request)
        return tree

    def settle(
        self,
        round_id: int,
        job: Job,
        worker: Party,
        verifiers: list[Party],
        verdict: Verdict,
        false: Mapping[str, object] = MappingProxyType({}),
    ) -> tuple[SettlementRecord, MerkleTree]:
        """Settle with the same verdict of every verifier; ``false`` are fields to falsify."""
        record = settlement.make_record(
            job,
            worker.commitment.job_id,
            worker.key.address,
            worker.commitment.prompt_tokens,
            worker.commitment.output_tokens,
            [v.key.address for v in verifiers],
            [verdict] * len(verifiers),
            self.params,
        )
        record = replace(record, **false)  # type: ignore[arg-type]
        tree = MerkleTree([settlement.record_leaf(record)])
        self.scheduler.settle_round(round_id, tree.root, record.client_pays)
        return record, tree

    def fraud(
        self, round_id: int, job: Job, worker: Party, tree: MerkleTree, position: int, better: int
    ) -> TokenFraudProof:
        """Accuse the worker's token after ``position``."""
        claimed = worker.committed.tokens[position + 1]
        rows = [MatrixRow(v, MATRIX.row(v), MATRIX.proof(v)) for v in (claimed, better)]
        return TokenFraudProof(
            round_id,
            worker.proof(tree, 0),
            job,
            worker.committed.open_row(BOUNDARIES - 1, position),
            claimed,
            worker.committed.token_proof(position + 1),
            *rows,
        )
