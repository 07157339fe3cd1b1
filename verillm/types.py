"""The protocol's messages as plain values. Hashing and signing are in ``eip712``, trees in ``commitment``."""

from __future__ import annotations

from dataclasses import dataclass, field

from verillm.constants import PPM, FinishReason, Role, Verdict
from verillm.errors import InvalidRequest

UINT32_MAX = 2**32 - 1
NO_JOB = UINT32_MAX
"""``Link.previous`` of an account's first job in a round."""
MAX_VERIFIERS = 8
MAX_STOP_STRINGS = 4


@dataclass(frozen=True)
class SamplingParams:
    """How each output token is drawn. ``temperature_ppm`` and ``top_p_ppm`` are millionths; ``top_k`` 0 is
    off and ``top_p_ppm`` 1,000,000 is off; temperature 0 is greedy. Raises InvalidRequest."""

    temperature_ppm: int = 0
    top_k: int = 0
    top_p_ppm: int = PPM
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature_ppm <= 10 * PPM:
            raise InvalidRequest(f"temperature: {self.temperature_ppm / PPM} is outside 0 to 10")
        if not 0 <= self.top_k <= UINT32_MAX:
            raise InvalidRequest(f"top_k: {self.top_k} is outside 0 to {UINT32_MAX}")
        if not 1 <= self.top_p_ppm <= PPM:
            raise InvalidRequest(f"top_p: {self.top_p_ppm / PPM} is outside 0.000001 to 1")
        if not 0 <= self.seed < 2**64:
            raise InvalidRequest(f"seed: {self.seed} is outside 0 to 2^64 - 1")

    @property
    def masked(self) -> bool:
        """True if top-k or top-p is on; such tokens cannot be judged by the contract alone."""
        return self.top_k > 0 or self.top_p_ppm < PPM


@dataclass(frozen=True)
class Job:
    """What the client signs (EIP-712 type ``Job``; the digest is the job id). Prices are token wei per token.

    ``prompt_hash`` is ``commitment.token_list_hash`` of the prompt, ``stop_hash`` ``eip712.stop_hash``.
    """

    client: str
    scheduler: str
    model_id: bytes
    prompt_hash: bytes
    prompt_tokens: int
    max_output_tokens: int
    stop_hash: bytes
    temperature_ppm: int
    top_k: int
    top_p_ppm: int
    seed: int
    input_price: int
    output_price: int
    verifiers: int
    deadline: int
    nonce: int

    @property
    def sampling(self) -> SamplingParams:
        return SamplingParams(self.temperature_ppm, self.top_k, self.top_p_ppm, self.seed)


@dataclass(frozen=True)
class Commitment:
    """What an operator signs before anything is opened (EIP-712 type ``Commitment``)."""

    job_id: bytes
    role: Role
    attempt: int
    job_root: bytes
    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    operator: str


@dataclass(frozen=True)
class SignedVerdict:
    """A verifier's signed word (EIP-712 type ``Verdict``). ``boundary`` and ``position`` name the first
    divergence and are 0 unless rejected; boundary 65535: the token at ``position`` was not sampled so."""

    job_id: bytes
    verdict: Verdict
    boundary: int
    position: int
    operator: str
    signature: bytes = b""


TOKEN_BOUNDARY = 0xFFFF
"""``boundary`` of a verdict or finding about a token, not about a hidden row."""


@dataclass(frozen=True)
class Link:
    """An account's chain through a round's records on one side, paying or earning: the index of its former
    record there (or NO_JOB), and its running total in token wei including this record."""

    previous: int
    total: int


@dataclass(frozen=True)
class Line:
    """What a client pays, or an operator earns, over a round, in token wei. ``last_job`` is the index of the
    account's last record on that side."""

    account: str
    last_job: int
    amount: int


@dataclass(frozen=True)
class SettlementRecord:
    """One job's record in a settlement; the leaf is keccak(0x07 || abi.encode(record)). Amounts: token wei.

    ``verdicts[i]`` is that of ``verifiers[i]``; ``outcome``: ACCEPT is paid, REJECT and UNABLE are not.
    ``links`` (``settlement.link_records``) are those of client, worker, then the verifiers.
    """

    job_id: bytes
    client: str
    worker: str
    prompt_tokens: int
    output_tokens: int
    outcome: Verdict
    worker_fee: int
    verifier_fee: int
    scheduler_fee: int
    verifiers: tuple[str, ...] = field(default=())
    verdicts: tuple[Verdict, ...] = field(default=())
    links: tuple[Link, ...] = field(default=())

    @property
    def client_pays(self) -> int:
        return self.worker_fee + self.verifier_fee * len(self.verifiers) + self.scheduler_fee


@dataclass(frozen=True)
class Round:
    """A round as the chain hashes it, in the Solidity struct's field order; fields of phases to come are 0.

    ``verifier_block`` and ``position_block`` are the blocks whose prevrandao draws verifiers and positions,
    ``committed_at`` is unix seconds, ``settle_by`` the last block for settlement, ``final_block`` the last in
    which the settlement can be challenged, ``total`` what the clients pay together in token wei.
    """

    scheduler: str
    model_id: bytes
    root: bytes
    jobs: int
    params_version: int
    epoch: int
    committed_at: int
    settle_by: int
    verifier_block: int
    verifier_seed: bytes = bytes(32)
    verification_root: bytes = bytes(32)
    verifications: int = 0
    position_block: int = 0
    position_seed: bytes = bytes(32)
    settlement_root: bytes = bytes(32)
    debits_hash: bytes = bytes(32)
    credits_hash: bytes = bytes(32)
    total: int = 0
    final_block: int = 0


@dataclass(frozen=True)
class ModelSpec:
    """The part of a manifest that the contracts need; its abi-encoded hash is the model id."""

    manifest_hash: bytes
    output_matrix_root: bytes
    hidden_size: int
    vocab_size: int
    row_dtype: int
    weight_dtype: int
    token_margin_q24: int
    row_tolerance_q40: tuple[int, ...]
    """Per boundary: rows diverge when D * 2^40 > tolerance * N (see ``comparator``)."""
