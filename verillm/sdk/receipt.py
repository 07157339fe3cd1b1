"""A receipt: everything that lets anyone with the model reach a job's verdict without asking the network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from verillm.commitment import JobRootParts, RowOpening
from verillm.constants import MAX_HIDDEN_SIZE, FinishReason, Role, Verdict
from verillm.eip712 import Domain
from verillm.errors import ConfigError, EncodingError
from verillm.rpc.codec import (
    MAX_OPENED_ROWS,
    MAX_STOP_BYTES,
    MAX_TOKENS,
    LeafProof,
    Opening,
    SignedCommitment,
)
from verillm.sdk.jsoncodec import Address, EnumCode, Hex, Items, Pair, Record, Text, Uint, parse_json
from verillm.types import (
    MAX_STOP_STRINGS,
    MAX_VERIFIERS,
    Commitment,
    Job,
    Link,
    SettlementRecord,
    SignedVerdict,
)

RECEIPT_VERSION = 2
MAX_RECEIPT_BYTES = 64 * 2**20
"""Nine openings of 16 rows of 8192 float32 at each of 5 boundaries, and all stakes, take 60 MiB."""
MAX_STAKES = 100_000


@dataclass(frozen=True)
class Terms:
    """The deployment's parameters that the receipt's checks need (names as in ``params.json``)."""

    opened_positions: int
    verifier_fee_bps: int
    scheduler_fee_bps: int
    max_attempts: int
    verifier_spares: int


@dataclass(frozen=True)
class Assignment:
    """How the worker was drawn. ``stakes``: the epoch's (operator, token wei) by operator index.

    ``attempt`` says how many drawn operators failed before. The VRF key (33 bytes) is the
    scheduler's of that epoch.
    """

    epoch: int
    attempt: int
    vrf_public_key: bytes
    proof: bytes
    stakes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class VerifierDraw:
    """How the verifiers were drawn. ``randomness`` (32 bytes) is the round's verifier seed; the VRF key and
    ``stakes`` are those of the round's epoch."""

    randomness: bytes
    vrf_public_key: bytes
    proof: bytes
    stakes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class VerifierEntry:
    """One verifier: its signed commitment, its place in the verification root, opened rows and verdict."""

    signed: SignedCommitment
    leaf: LeafProof
    opening: Opening
    verdict: SignedVerdict


@dataclass(frozen=True)
class RoundPlace:
    """Where the job stands in its round: ``root`` over the workers' commitments, ``verification_root`` over
    the verifiers'. ``round_id`` is the contract's number, ``epoch`` that in which it was committed."""

    round_id: int
    epoch: int
    root: bytes
    leaf: LeafProof
    verification_root: bytes


@dataclass(frozen=True)
class SettlementPlace:
    """The job's settlement record and its place under the settlement root."""

    record: SettlementRecord
    root: bytes
    leaf: LeafProof


@dataclass(frozen=True)
class Receipt:
    """One settled job. ``contract`` is ``Rounds``, ``staking`` the stake contract; ``position_randomness``
    (32 bytes) chose the opened positions; ``worker_opening`` has every boundary's row at each of them."""

    chain_id: int
    contract: str
    staking: str
    terms: Terms
    job: Job
    job_signature: bytes
    job_id: bytes
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    stop: tuple[str, ...]
    finish_reason: FinishReason
    worker: SignedCommitment
    worker_opening: Opening
    assignment: Assignment
    round: RoundPlace
    verifier_draw: VerifierDraw
    verifiers: tuple[VerifierEntry, ...]
    position_randomness: bytes
    settlement: SettlementPlace
    version: int = RECEIPT_VERSION

    @property
    def domain(self) -> Domain:
        """The EIP-712 domain of the receipt's deployment."""
        return Domain(self.chain_id, self.contract)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and output."""
        return self.prompt + self.output

    def to_json(self) -> str:
        """Compact JSON text; the inverse of ``from_json``."""
        return json.dumps(_RECEIPT.encode(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Parse strictly. Raises EncodingError naming the field and its limit. Nothing is verified here."""
        if len(text) > MAX_RECEIPT_BYTES:
            raise EncodingError(f"receipt: has {len(text)} bytes; the limit is {MAX_RECEIPT_BYTES}")
        if isinstance(text, bytes):
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise EncodingError(f"receipt: is not UTF-8: {error}") from error
        receipt: Receipt = _RECEIPT.decode(parse_json(text, "receipt"), "receipt")
        if receipt.version != RECEIPT_VERSION:
            raise EncodingError(
                f"receipt.version: {receipt.version} is not {RECEIPT_VERSION}; use a matching release"
            )
        return receipt

    def save(self, path: str | Path) -> None:
        """Write the JSON file. Raises ConfigError."""
        try:
            Path(path).write_text(self.to_json() + "\n")
        except OSError as error:
            reason = f"receipt: cannot write {path}: {error.strerror}; choose another path"
            raise ConfigError(reason) from error

    @classmethod
    def load(cls, path: str | Path) -> Receipt:
        """Read a file. Raises ConfigError if it cannot be read, EncodingError if it is no receipt."""
        try:
            if (size := Path(path).stat().st_size) > MAX_RECEIPT_BYTES:
                raise EncodingError(f"receipt: {path} has {size} bytes; the limit is {MAX_RECEIPT_BYTES}")
            text = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"receipt: cannot read {path}: {error.strerror}; check the path") from error
        return cls.from_json(text)


_U8, _U16, _U32, _U64, _U128, _U256 = (Uint(bits) for bits in (8, 16, 32, 64, 128, 256))
_HASH, _SIGNATURE, _ADDRESS = Hex(32, 32), Hex(65, 65), Address()
_PROOF = Items(_HASH, 32)
_TOKENS = Items(_U32, MAX_TOKENS)
_STAKES = Items(Pair(_ADDRESS, _U256), MAX_STAKES)

_JOB = Record(
    Job,
    client=_ADDRESS,
    scheduler=_ADDRESS,
    model_id=_HASH,
    prompt_hash=_HASH,
    prompt_tokens=_U32,
    max_output_tokens=_U32,
    stop_hash=_HASH,
    temperature_ppm=_U32,
    top_k=_U32,
    top_p_ppm=_U32,
    seed=_U64,
    input_price=_U128,
    output_price=_U128,
    verifiers=_U8,
    deadline=_U64,
    nonce=_U256,
)
_COMMITMENT = Record(
    Commitment,
    job_id=_HASH,
    role=EnumCode(Role),
    attempt=_U32,
    job_root=_HASH,
    prompt_tokens=_U32,
    output_tokens=_U32,
    finish_reason=EnumCode(FinishReason),
    operator=_ADDRESS,
)
_SIGNED = Record(SignedCommitment, commitment=_COMMITMENT, signature=_SIGNATURE)
_LEAF = Record(LeafProof, index=_U32, count=_U32, proof=_PROOF)
_PARTS = Record(JobRootParts, token_root=_HASH, boundaries_count=_U16, boundaries_root=_HASH)
_ROW = Record(
    RowOpening,
    boundary=_U16,
    position=_U32,
    token=_U32,
    row=Hex(1, MAX_HIDDEN_SIZE * 4),
    row_proof=_PROOF,
    boundary_proof=_PROOF,
)
_OPENING = Record(Opening, operator=_ADDRESS, parts=_PARTS, rows=Items(_ROW, MAX_OPENED_ROWS))
_VERDICT = Record(
    SignedVerdict,
    job_id=_HASH,
    verdict=EnumCode(Verdict),
    boundary=_U16,
    position=_U32,
    operator=_ADDRESS,
    signature=_SIGNATURE,
)
_RECORD = Record(
    SettlementRecord,
    job_id=_HASH,
    client=_ADDRESS,
    worker=_ADDRESS,
    prompt_tokens=_U32,
    output_tokens=_U32,
    outcome=EnumCode(Verdict),
    worker_fee=_U128,
    verifier_fee=_U128,
    scheduler_fee=_U128,
    verifiers=Items(_ADDRESS, MAX_VERIFIERS),
    verdicts=Items(EnumCode(Verdict), MAX_VERIFIERS),
    links=Items(Record(Link, previous=_U32, total=_U128), MAX_VERIFIERS + 2),
)
_RECEIPT = Record(
    Receipt,
    version=_U8,
    chain_id=_U64,
    contract=_ADDRESS,
    staking=_ADDRESS,
    terms=Record(
        Terms,
        opened_positions=_U16,
        verifier_fee_bps=_U16,
        scheduler_fee_bps=_U16,
        max_attempts=_U16,
        verifier_spares=_U16,
    ),
    job=_JOB,
    job_signature=_SIGNATURE,
    job_id=_HASH,
    prompt=_TOKENS,
    output=_TOKENS,
    stop=Items(Text(MAX_STOP_BYTES), MAX_STOP_STRINGS),
    finish_reason=EnumCode(FinishReason),
    worker=_SIGNED,
    worker_opening=_OPENING,
    assignment=Record(
        Assignment,
        epoch=_U64,
        attempt=_U32,
        vrf_public_key=Hex(33, 33),
        proof=Hex(81, 81),
        stakes=_STAKES,
    ),
    round=Record(RoundPlace, round_id=_U256, epoch=_U64, root=_HASH, leaf=_LEAF, verification_root=_HASH),
    verifier_draw=Record(
        VerifierDraw,
        randomness=_HASH,
        vrf_public_key=Hex(33, 33),
        proof=Hex(81, 81),
        stakes=_STAKES,
    ),
    verifiers=Items(
        Record(VerifierEntry, signed=_SIGNED, leaf=_LEAF, opening=_OPENING, verdict=_VERDICT), MAX_VERIFIERS
    ),
    position_randomness=_HASH,
    settlement=Record(SettlementPlace, record=_RECORD, root=_HASH, leaf=_LEAF),
)
