from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature_ppm", "top_k", "top_p_ppm", "seed")
    TEMPERATURE_PPM_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_PPM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    temperature_ppm: int
    top_k: int
    top_p_ppm: int
    seed: int
    def __init__(self, temperature_ppm: _Optional[int] = ..., top_k: _Optional[int] = ..., top_p_ppm: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("client", "scheduler", "model_id", "prompt_hash", "prompt_tokens", "max_output_tokens", "stop_hash", "sampling", "input_price", "output_price", "verifiers", "deadline", "nonce")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_HASH_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_HASH_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    INPUT_PRICE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PRICE_FIELD_NUMBER: _ClassVar[int]
    VERIFIERS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    client: bytes
    scheduler: bytes
    model_id: bytes
    prompt_hash: bytes
    prompt_tokens: int
    max_output_tokens: int
    stop_hash: bytes
    sampling: Sampling
    input_price: bytes
    output_price: bytes
    verifiers: int
    deadline: int
    nonce: bytes
    def __init__(self, client: _Optional[bytes] = ..., scheduler: _Optional[bytes] = ..., model_id: _Optional[bytes] = ..., prompt_hash: _Optional[bytes] = ..., prompt_tokens: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., stop_hash: _Optional[bytes] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., input_price: _Optional[bytes] = ..., output_price: _Optional[bytes] = ..., verifiers: _Optional[int] = ..., deadline: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("job", "signature", "prompt", "stop")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    job: Job
    signature: bytes
    prompt: _containers.RepeatedScalarFieldContainer[int]
    stop: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., signature: _Optional[bytes] = ..., prompt: _Optional[_Iterable[int]] = ..., stop: _Optional[_Iterable[str]] = ...) -> None: ...

class Commitment(_message.Message):
    __slots__ = ("job_id", "role", "attempt", "job_root", "prompt_tokens", "output_tokens", "finish_reason", "operator", "signature")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    JOB_ROOT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    job_id: bytes
    role: int
    attempt: int
    job_root: bytes
    prompt_tokens: int
    output_tokens: int
    finish_reason: int
    operator: bytes
    signature: bytes
    def __init__(self, job_id: _Optional[bytes] = ..., role: _Optional[int] = ..., attempt: _Optional[int] = ..., job_root: _Optional[bytes] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., finish_reason: _Optional[int] = ..., operator: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("job_id", "verdict", "boundary", "position", "operator", "signature")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    job_id: bytes
    verdict: int
    boundary: int
    position: int
    operator: bytes
    signature: bytes
    def __init__(self, job_id: _Optional[bytes] = ..., verdict: _Optional[int] = ..., boundary: _Optional[int] = ..., position: _Optional[int] = ..., operator: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Assigned(_message.Message):
    __slots__ = ("worker", "attempt")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    worker: bytes
    attempt: int
    def __init__(self, worker: _Optional[bytes] = ..., attempt: _Optional[int] = ...) -> None: ...

class TokenChunk(_message.Message):
    __slots__ = ("first_index", "tokens")
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    first_index: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, first_index: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("assigned", "tokens", "committed", "error")
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    assigned: Assigned
    tokens: TokenChunk
    committed: Commitment
    error: str
    def __init__(self, assigned: _Optional[_Union[Assigned, _Mapping]] = ..., tokens: _Optional[_Union[TokenChunk, _Mapping]] = ..., committed: _Optional[_Union[Commitment, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class JobQuery(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: bytes
    def __init__(self, job_id: _Optional[bytes] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("state", "receipt_json", "error")
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    state: str
    receipt_json: str
    error: str
    def __init__(self, state: _Optional[str] = ..., receipt_json: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class Transcript(_message.Message):
    __slots__ = ("request", "output", "commitment")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    request: SubmitRequest
    output: _containers.RepeatedScalarFieldContainer[int]
    commitment: Commitment
    def __init__(self, request: _Optional[_Union[SubmitRequest, _Mapping]] = ..., output: _Optional[_Iterable[int]] = ..., commitment: _Optional[_Union[Commitment, _Mapping]] = ...) -> None: ...

class SchedulerInfo(_message.Message):
    __slots__ = ("address", "vrf_public_key", "model_ids", "chain_id", "contract", "live_workers")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VRF_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    MODEL_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAIN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    LIVE_WORKERS_FIELD_NUMBER: _ClassVar[int]
    address: bytes
    vrf_public_key: bytes
    model_ids: _containers.RepeatedScalarFieldContainer[bytes]
    chain_id: int
    contract: bytes
    live_workers: int
    def __init__(self, address: _Optional[bytes] = ..., vrf_public_key: _Optional[bytes] = ..., model_ids: _Optional[_Iterable[bytes]] = ..., chain_id: _Optional[int] = ..., contract: _Optional[bytes] = ..., live_workers: _Optional[int] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("task_id", "model_id", "tokens")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    task_id: bytes
    model_id: bytes
    tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, task_id: _Optional[bytes] = ..., model_id: _Optional[bytes] = ..., tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class Decode(_message.Message):
    __slots__ = ("request", "attempt")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    request: SubmitRequest
    attempt: int
    def __init__(self, request: _Optional[_Union[SubmitRequest, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class Verify(_message.Message):
    __slots__ = ("request", "output", "finish_reason", "attempt")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    request: SubmitRequest
    output: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: int
    attempt: int
    def __init__(self, request: _Optional[_Union[SubmitRequest, _Mapping]] = ..., output: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class ToWorker(_message.Message):
    __slots__ = ("begin", "decode", "verify")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    begin: Begin
    decode: Decode
    verify: Verify
    def __init__(self, begin: _Optional[_Union[Begin, _Mapping]] = ..., decode: _Optional[_Union[Decode, _Mapping]] = ..., verify: _Optional[_Union[Verify, _Mapping]] = ...) -> None: ...

class Prefilled(_message.Message):
    __slots__ = ("root", "signature", "seconds")
    ROOT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    root: bytes
    signature: bytes
    seconds: float
    def __init__(self, root: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., seconds: _Optional[float] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("commitment", "seconds")
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    commitment: Commitment
    seconds: float
    def __init__(self, commitment: _Optional[_Union[Commitment, _Mapping]] = ..., seconds: _Optional[float] = ...) -> None: ...

class FromWorker(_message.Message):
    __slots__ = ("prefilled", "tokens", "done", "unable")
    PREFILLED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    UNABLE_FIELD_NUMBER: _ClassVar[int]
    prefilled: Prefilled
    tokens: TokenChunk
    done: Done
    unable: str
    def __init__(self, prefilled: _Optional[_Union[Prefilled, _Mapping]] = ..., tokens: _Optional[_Union[TokenChunk, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., unable: _Optional[str] = ...) -> None: ...

class RowProof(_message.Message):
    __slots__ = ("boundary", "position", "token", "row", "row_proof", "boundary_proof")
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_PROOF_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_PROOF_FIELD_NUMBER: _ClassVar[int]
    boundary: int
    position: int
    token: int
    row: bytes
    row_proof: _containers.RepeatedScalarFieldContainer[bytes]
    boundary_proof: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, boundary: _Optional[int] = ..., position: _Optional[int] = ..., token: _Optional[int] = ..., row: _Optional[bytes] = ..., row_proof: _Optional[_Iterable[bytes]] = ..., boundary_proof: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Opening(_message.Message):
    __slots__ = ("operator", "token_root", "boundaries_root", "rows")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ROOT_FIELD_NUMBER: _ClassVar[int]
    BOUNDARIES_ROOT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    operator: bytes
    token_root: bytes
    boundaries_root: bytes
    rows: _containers.RepeatedCompositeFieldContainer[RowProof]
    def __init__(self, operator: _Optional[bytes] = ..., token_root: _Optional[bytes] = ..., boundaries_root: _Optional[bytes] = ..., rows: _Optional[_Iterable[_Union[RowProof, _Mapping]]] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("job_id", "positions", "round_id", "leaf")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    job_id: bytes
    positions: _containers.RepeatedScalarFieldContainer[int]
    round_id: bytes
    leaf: LeafProof
    def __init__(self, job_id: _Optional[bytes] = ..., positions: _Optional[_Iterable[int]] = ..., round_id: _Optional[bytes] = ..., leaf: _Optional[_Union[LeafProof, _Mapping]] = ...) -> None: ...

class JudgeRequest(_message.Message):
    __slots__ = ("job_id", "round_id", "worker_commitment", "worker_opening", "verifier_commitments", "verifier_openings", "worker_leaf_index", "worker_leaf_count", "worker_leaf_proof", "verifier_leaves")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    WORKER_OPENING_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_COMMITMENTS_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_OPENINGS_FIELD_NUMBER: _ClassVar[int]
    WORKER_LEAF_INDEX_FIELD_NUMBER: _ClassVar[int]
    WORKER_LEAF_COUNT_FIELD_NUMBER: _ClassVar[int]
    WORKER_LEAF_PROOF_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_LEAVES_FIELD_NUMBER: _ClassVar[int]
    job_id: bytes
    round_id: bytes
    worker_commitment: Commitment
    worker_opening: Opening
    verifier_commitments: _containers.RepeatedCompositeFieldContainer[Commitment]
    verifier_openings: _containers.RepeatedCompositeFieldContainer[Opening]
    worker_leaf_index: int
    worker_leaf_count: int
    worker_leaf_proof: _containers.RepeatedScalarFieldContainer[bytes]
    verifier_leaves: _containers.RepeatedCompositeFieldContainer[LeafProof]
    def __init__(self, job_id: _Optional[bytes] = ..., round_id: _Optional[bytes] = ..., worker_commitment: _Optional[_Union[Commitment, _Mapping]] = ..., worker_opening: _Optional[_Union[Opening, _Mapping]] = ..., verifier_commitments: _Optional[_Iterable[_Union[Commitment, _Mapping]]] = ..., verifier_openings: _Optional[_Iterable[_Union[Opening, _Mapping]]] = ..., worker_leaf_index: _Optional[int] = ..., worker_leaf_count: _Optional[int] = ..., worker_leaf_proof: _Optional[_Iterable[bytes]] = ..., verifier_leaves: _Optional[_Iterable[_Union[LeafProof, _Mapping]]] = ...) -> None: ...

class LeafProof(_message.Message):
    __slots__ = ("index", "count", "proof")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    index: int
    count: int
    proof: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, index: _Optional[int] = ..., count: _Optional[int] = ..., proof: _Optional[_Iterable[bytes]] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("address", "model_ids", "running", "queued")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MODEL_IDS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    address: bytes
    model_ids: _containers.RepeatedScalarFieldContainer[bytes]
    running: int
    queued: int
    def __init__(self, address: _Optional[bytes] = ..., model_ids: _Optional[_Iterable[bytes]] = ..., running: _Optional[int] = ..., queued: _Optional[int] = ...) -> None: ...
