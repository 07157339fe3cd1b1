"""The protocol's messages as plain values. Hashing and signing are in ``eip712``, trees in ``commitment``."""

from __future__ import annotations

from dataclasses import dataclass, field

from verillm.constants import PPM, FinishReason, Role, Verdict
from verillm.errors import InvalidRequest

UINT32_MAX = 2**32 - 1
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
class SettlementRecord:
    """One job's line in a settlement; the leaf is keccak(0x07 || abi.encode(record)). Amounts are token wei.

    ``verdicts[i]`` is that of ``verifiers[i]``; ``outcome``: ACCEPT is paid, REJECT and UNABLE are not.
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

    @property
    def client_pays(self) -> int:
        return self.worker_fee + self.verifier_fee * len(self.verifiers) + self.scheduler_fee


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
