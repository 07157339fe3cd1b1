"""EIP-712 identities: job id, commitment and verdict digests, their signatures, model id and stop hash.

Struct hashes are built word by word (EIP-712: keccak(typeHash || encodeData)), which is what
``eth_account.messages.encode_typed_data`` computes, without its type walk. No torch here: clients use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache

import coincurve
from eth_abi import encode as abi_encode
from eth_abi.exceptions import EncodingError as AbiEncodingError
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_utils import is_hex_address, to_checksum_address

from verillm.constants import Tag
from verillm.errors import EncodingError, ProofError
from verillm.types import UINT32_MAX, Commitment, Job, ModelSpec, SignedVerdict

DOMAIN_TYPE = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
JOB_TYPE = (
    "Job(address client,address scheduler,bytes32 modelId,bytes32 promptHash,uint32 promptTokens,"
    "uint32 maxOutputTokens,bytes32 stopHash,uint32 temperaturePpm,uint32 topK,uint32 topPPpm,uint64 seed,"
    "uint128 inputPrice,uint128 outputPrice,uint8 verifiers,uint64 deadline,uint256 nonce)"
)
COMMITMENT_TYPE = (
    "Commitment(bytes32 jobId,uint8 role,uint32 attempt,bytes32 jobRoot,uint32 promptTokens,"
    "uint32 outputTokens,uint8 finishReason,address operator)"
)
VERDICT_TYPE = "Verdict(bytes32 jobId,uint8 verdict,uint16 boundary,uint32 position,address operator)"
MODEL_SPEC_ABI = "(bytes32,bytes32,uint32,uint32,uint8,uint8,uint64,uint64[])"
HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
"""secp256k1 n // 2; the contracts refuse signatures with a larger s."""


def _fields(encoded_type: str) -> tuple[tuple[str, str], ...]:
    inner = encoded_type[encoded_type.index("(") + 1 : -1]
    return tuple((part.split(" ")[0], part.split(" ")[1]) for part in inner.split(","))


_LAYOUT = {t: (keccak(t.encode()), _fields(t)) for t in (JOB_TYPE, COMMITMENT_TYPE, VERDICT_TYPE)}


@lru_cache(maxsize=4096)
def address_bytes(address: str, field: str = "address") -> bytes:
    """The 20 bytes of a hex address. Raises EncodingError naming ``field``."""
    if not is_hex_address(address):
        raise EncodingError(f"{field}: {address!r} is not an address; give 0x and 40 hex digits")
    return bytes.fromhex(address[-40:])


def _word(kind: str, name: str, value: object) -> bytes:
    if kind == "address":
        return b"\0" * 12 + address_bytes(str(value), name)
    if kind == "bytes32":
        if not isinstance(value, bytes) or len(value) != 32:
            raise EncodingError(f"{name}: must be 32 bytes")
        return value
    bits = int(kind.removeprefix("uint"))
    if not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise EncodingError(f"{name}: {value} is outside 0 to 2^{bits} - 1")
    return value.to_bytes(32, "big")


def _struct_hash(encoded_type: str, values: Sequence[object]) -> bytes:
    type_hash, layout = _LAYOUT[encoded_type]
    words = [_word(kind, name, value) for (kind, name), value in zip(layout, values, strict=True)]
    return keccak(type_hash + b"".join(words))


@dataclass(frozen=True)
class Domain:
    """The EIP-712 domain of one deployment: name "VeriLLM", version "1"."""

    chain_id: int
    contract: str
    """Address of the contract ``Rounds``."""

    @cached_property
    def separator(self) -> bytes:
        """32-byte domain separator."""
        return keccak(
            keccak(DOMAIN_TYPE.encode())
            + keccak(b"VeriLLM")
            + keccak(b"1")
            + _word("uint256", "chainId", self.chain_id)
            + _word("address", "verifyingContract", self.contract)
        )

    def digest(self, struct_hash: bytes) -> bytes:
        """keccak(0x1901 || separator || struct hash)."""
        return keccak(b"\x19\x01" + self.separator + struct_hash)


def domain(chain_id: int, contract: str) -> Domain:
    """The domain for a chain id and the address of ``Rounds``. Raises EncodingError for a bad address."""
    return Domain(chain_id, to_checksum_address(address_bytes(contract, "contract")))


def job_id(job: Job, domain: Domain) -> bytes:
    """The job's EIP-712 digest, which is its id (32 bytes). Raises EncodingError for a field out of range."""
    return domain.digest(_struct_hash(JOB_TYPE, astuple(job)))


def commitment_digest(commitment: Commitment, domain: Domain) -> bytes:
    """What an operator signs for a commitment (32 bytes)."""
    return domain.digest(_struct_hash(COMMITMENT_TYPE, astuple(commitment)))


def verdict_digest(verdict: SignedVerdict, domain: Domain) -> bytes:
    """What a verifier signs (32 bytes); the ``signature`` field is not part of it."""
    return domain.digest(_struct_hash(VERDICT_TYPE, astuple(verdict)[:-1]))


def sign_digest(digest: bytes, key: LocalAccount) -> bytes:
    """65 bytes r || s || v with v 27 or 28 and s in the lower half."""
    signature = coincurve.PrivateKey(bytes(key.key)).sign_recoverable(digest, hasher=None)
    return signature[:64] + bytes([signature[64] + 27])


def recover_digest(digest: bytes, signature: bytes) -> str:
    """The checksummed address that signed ``digest``. Raises ProofError for a malformed signature."""
    if len(signature) != 65:
        raise ProofError(f"signature: has {len(signature)} bytes; it must have 65")
    if signature[64] not in (27, 28):
        raise ProofError(f"signature: v is {signature[64]}; it must be 27 or 28")
    if int.from_bytes(signature[32:64], "big") > HALF_ORDER:
        raise ProofError("signature: s is above half of the group order")
    try:
        compact = signature[:64] + bytes([signature[64] - 27])
        public = coincurve.PublicKey.from_signature_and_message(compact, digest, hasher=None)
    except Exception as error:  # coincurve raises bare Exception for a signature without a public key
        raise ProofError("signature: belongs to no public key") from error
    return to_checksum_address(keccak(public.format(compressed=False)[1:])[12:])


def sign_job(job: Job, key: LocalAccount, domain: Domain) -> bytes:
    """The client's signature of a job (65 bytes)."""
    return sign_digest(job_id(job, domain), key)


def sign_commitment(commitment: Commitment, key: LocalAccount, domain: Domain) -> bytes:
    """The operator's signature of a commitment (65 bytes)."""
    return sign_digest(commitment_digest(commitment, domain), key)


def sign_verdict(verdict: SignedVerdict, key: LocalAccount, domain: Domain) -> bytes:
    """The verifier's signature of a verdict (65 bytes)."""
    return sign_digest(verdict_digest(verdict, domain), key)


def recover_job(job: Job, signature: bytes, domain: Domain) -> str:
    """Who signed a job. Raises ProofError for a malformed signature; compare with ``job.client``."""
    return recover_digest(job_id(job, domain), signature)


def recover_commitment(commitment: Commitment, signature: bytes, domain: Domain) -> str:
    """Who signed a commitment; compare with ``commitment.operator``."""
    return recover_digest(commitment_digest(commitment, domain), signature)


def recover_verdict(verdict: SignedVerdict, domain: Domain) -> str:
    """Who signed a verdict; compare with ``verdict.operator``."""
    return recover_digest(verdict_digest(verdict, domain), verdict.signature)


def prefill_digest(task_id: bytes, root: bytes) -> bytes:
    """EIP-191 digest of task_id || root, which a worker signs before it learns the task's kind."""
    message = task_id + root
    return keccak(b"\x19Ethereum Signed Message:\n" + str(len(message)).encode() + message)


def stop_hash(stop: Sequence[str]) -> bytes:
    """H(0x09 || for each string: u32 byteLength || utf8)."""
    parts = [bytes([Tag.TOKEN_LIST])]
    for text in stop:
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise EncodingError("stop: a string holds a lone surrogate") from None
        if len(encoded) > UINT32_MAX:
            raise EncodingError(f"stop: a string has {len(encoded)} bytes; the limit is {UINT32_MAX}")
        parts += [len(encoded).to_bytes(4, "big"), encoded]
    return keccak(b"".join(parts))


def model_id(spec: ModelSpec) -> bytes:
    """keccak(abi.encode(ModelSpec)), 32 bytes. Raises EncodingError for a field out of range."""
    return keccak(abi_bytes(MODEL_SPEC_ABI, astuple(spec), "model spec"))


def abi_bytes(kind: str, value: object, name: str) -> bytes:
    """abi.encode of one value. Raises EncodingError if the type cannot hold it."""
    try:
        return abi_encode([kind], [value])
    except AbiEncodingError as error:
        raise EncodingError(f"{name}: {error}") from error
