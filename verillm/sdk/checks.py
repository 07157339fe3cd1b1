"""The single checks of a receipt: each returns what it found in order, or raises a typed error.

None needs torch or the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from verillm import draw, eip712, vrf
from verillm.commitment import token_list_hash, verify_opening, verify_proof
from verillm.commitment.hashing import token_root
from verillm.commitment.opening import expected_job_root
from verillm.constants import Dtype, FinishReason, Role
from verillm.errors import ProofError
from verillm.params import Params, load_params
from verillm.rpc.codec import LeafProof, Opening, SignedCommitment
from verillm.sdk.findings import PlacedError
from verillm.sdk.keychain import OWN_KEYS, Keys, address_of, hint
from verillm.sdk.receipt import Receipt, VerifierEntry
from verillm.settlement import make_record, record_leaf, round_leaf
from verillm.types import TOKEN_BOUNDARY, ModelSpec


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProofError(message)


def check_job(receipt: Receipt) -> str:
    job_id = eip712.job_id(receipt.job, receipt.domain)
    _require(job_id == receipt.job_id, "job_id: is not the EIP-712 digest of the job")
    signer = eip712.recover_job(receipt.job, receipt.job_signature, receipt.domain)
    _require(signer == receipt.job.client, f"job_signature: signed by {signer}, not by {receipt.job.client}")
    _require(eip712.stop_hash(receipt.stop) == receipt.job.stop_hash, "stop: does not hash to job.stop_hash")
    return f"0x{job_id.hex()} signed by {signer}"


def check_prompt(receipt: Receipt) -> str:
    job = receipt.job
    count = len(receipt.prompt)
    _require(
        count == job.prompt_tokens, f"prompt: has {count} tokens, the job was signed for {job.prompt_tokens}"
    )
    if token_list_hash(receipt.prompt) != job.prompt_hash:
        reason = f"prompt: positions 0 to {count - 1} do not hash to the signed prompt_hash"
        raise PlacedError(reason, TOKEN_BOUNDARY, 0)
    return f"{count} tokens, as signed"


def check_commitment(receipt: Receipt, signed: SignedCommitment, role: Role, keys: Keys = OWN_KEYS) -> str:
    c = signed.commitment
    if c.job_id != receipt.job_id:
        reason = f"commitment.job_id: is of another job, 0x{c.job_id.hex()}; no position belongs to this one"
        raise PlacedError(reason, TOKEN_BOUNDARY, 0)
    expected = {
        "role": role,
        "attempt": receipt.assignment.attempt,
        "prompt_tokens": len(receipt.prompt),
        "output_tokens": len(receipt.output),
        "finish_reason": receipt.finish_reason,
    }
    for name, value in expected.items():
        got = getattr(c, name)
        _require(got == value, f"commitment.{name}: is {_shown(got)}, the receipt says {_shown(value)}")
    signer = eip712.recover_commitment(c, signed.signature, receipt.domain)
    _require(
        keys.is_signer(c.operator, signer, receipt.round.epoch),
        f"commitment.signature: signed by {signer}, not by {c.operator}{hint(keys)}",
    )
    return f"signed by {c.operator}" + (f" with its key {signer}" if signer != c.operator else "")


def check_output(receipt: Receipt) -> str:
    count, limit = len(receipt.output), receipt.job.max_output_tokens
    _require(1 <= count <= limit, f"output: has {count} tokens, the job allows 1 to {limit}")
    if receipt.finish_reason is FinishReason.LENGTH and count != limit:
        position = len(receipt.tokens) - 1
        raise PlacedError(
            f"output: ends after {count} of {limit} tokens as if by length", TOKEN_BOUNDARY, position
        )
    parts = receipt.worker_opening.parts
    _require(
        token_root(receipt.tokens) == parts.token_root,
        "tokens: prompt and output are not those that the worker committed to",
    )
    root = expected_job_root(receipt.worker.commitment, receipt.job.model_id, parts)
    _require(root == receipt.worker.commitment.job_root, "job_root: does not follow from the committed parts")
    return f"{count} tokens, as committed"


def check_leaf(receipt: Receipt, signed: SignedCommitment, leaf: LeafProof, root: bytes) -> str:
    digest = eip712.commitment_digest(signed.commitment, receipt.domain)
    value = round_leaf(digest, signed.commitment.operator)
    verify_proof(value, leaf.index, leaf.count, leaf.proof, root)
    return f"leaf {leaf.index} of {leaf.count} under 0x{root.hex()[:16]}…"


def _vrf(receipt: Receipt, keys: Keys, key: bytes, epoch: int, alpha: bytes, proof: bytes) -> bytes:
    """beta, if the scheduler's key of the epoch made the proof."""
    beta = vrf.verify(key, alpha, proof)
    scheduler = receipt.job.scheduler
    _require(
        keys.is_vrf_key(scheduler, key, epoch),
        f"vrf_public_key: belongs to {address_of(key)}, not to the scheduler {scheduler}{hint(keys)}",
    )
    return beta


def check_worker_draw(receipt: Receipt, keys: Keys = OWN_KEYS) -> str:
    a = receipt.assignment
    allowed = (receipt.round.epoch - 1, receipt.round.epoch)
    _require(a.epoch in allowed, f"assignment.epoch: is {a.epoch}, the round's is {receipt.round.epoch}")
    limit = receipt.terms.max_attempts
    _require(a.attempt < limit, f"assignment.attempt: is {a.attempt}; the limit is {limit - 1}")
    seed = draw.epoch_seed(receipt.chain_id, receipt.staking, a.epoch)
    alpha = draw.worker_alpha(seed, receipt.job_id, a.attempt)
    beta = _vrf(receipt, keys, a.vrf_public_key, a.epoch, alpha, a.proof)
    drawn = draw.draw_worker(beta, a.stakes)
    operator = receipt.worker.commitment.operator
    _require(drawn == operator, f"worker: the draw gives {drawn}, the job was done by {operator}")
    return f"epoch {a.epoch}, attempt {a.attempt}: {drawn}"


def check_verifier_draw(receipt: Receipt, keys: Keys = OWN_KEYS) -> str:
    d = receipt.verifier_draw
    worker = receipt.worker.commitment.operator
    alpha = draw.verifier_alpha(d.randomness, receipt.job_id)
    beta = _vrf(receipt, keys, d.vrf_public_key, receipt.round.epoch, alpha, d.proof)
    count = receipt.job.verifiers + receipt.terms.verifier_spares
    drawn = draw.draw_verifiers(beta, count, d.stakes, worker)
    got = [entry.signed.commitment.operator for entry in receipt.verifiers]
    _require(bool(got), "verifiers: none; a job has at least 1")
    _require(
        len(got) <= receipt.job.verifiers,
        f"verifiers: are {len(got)}, the job was signed for {receipt.job.verifiers}",
    )
    strangers = [operator for operator in got if operator not in drawn]
    _require(not strangers, f"verifiers: {', '.join(strangers)} not among the drawn {', '.join(drawn)}")
    _require(len(set(got)) == len(got), "verifiers: one of them appears twice")
    counts = {entry.leaf.count for entry in receipt.verifiers}
    _require(len(counts) == 1, f"verifiers: their leaves are of trees of {_listed(sorted(counts))} leaves")
    return f"{len(got)} of {receipt.job.verifiers} verifiers took part, {len(drawn)} were drawn"


def _positions(receipt: Receipt) -> list[int]:
    rows = len(receipt.tokens) - 1
    if rows < 1:
        raise ProofError("tokens: a job has at least 1 row")
    count = receipt.terms.opened_positions
    return draw.opened_positions(receipt.position_randomness, receipt.job_id, rows, count)


def check_opening(
    receipt: Receipt, signed: SignedCommitment, opening: Opening, spec: ModelSpec | None
) -> str:
    c = signed.commitment
    _require(opening.operator == c.operator, f"opening.operator: {opening.operator} is not {c.operator}")
    boundaries = opening.parts.boundaries_count
    if spec is not None:
        known = len(spec.row_tolerance_q40)
        _require(boundaries == known, f"boundaries_count: is {boundaries}, the model has {known}")
    _require(receipt.terms.opened_positions > 0, "terms.opened_positions: must be at least 1")
    # Before they are drawn: drawing all of very many takes long.
    count = min(receipt.terms.opened_positions, len(receipt.tokens) - 1)
    _require(
        boundaries * count == len(opening.rows),
        f"opening.rows: has {len(opening.rows)}, due are {boundaries} at each of {count} positions",
    )
    positions = _positions(receipt)
    wanted = {(b, t) for t in positions for b in range(boundaries)}
    missing = wanted - {(row.boundary, row.position) for row in opening.rows}
    _require(not missing, f"opening.rows: (boundary, position) {min(missing, default=None)} is not opened")
    tokens = receipt.tokens
    for row in sorted(opening.rows, key=lambda r: (r.position, r.boundary)):
        if row.token != tokens[row.position]:
            message = f"opening: token {row.token} at position {row.position} is not the transcript's"
            raise PlacedError(message, row.boundary, row.position)
        dtype, size = _row_shape(spec)
        try:
            verify_opening(
                row,
                commitment=c,
                model_id=receipt.job.model_id,
                parts=opening.parts,
                dtype=dtype,
                hidden_size=size,
            )
        except ProofError as error:
            raise PlacedError(str(error), row.boundary, row.position) from error
    return f"{len(opening.rows)} rows at positions {_listed(positions)}"


def _row_shape(spec: ModelSpec | None) -> tuple[Dtype, int]:
    if spec is None:
        raise ProofError("rows: need the model's manifest to be checked; give --manifest")
    return Dtype(spec.row_dtype), spec.hidden_size


def check_verifier(
    receipt: Receipt, entry: VerifierEntry, spec: ModelSpec | None, keys: Keys = OWN_KEYS
) -> str:
    v, operator = entry.verdict, entry.signed.commitment.operator
    _require(v.operator == operator, f"verdict.operator: {v.operator} is not the verifier {operator}")
    _require(v.job_id == receipt.job_id, "verdict.job_id: is of another job")
    signer = eip712.recover_verdict(v, receipt.domain)
    _require(
        keys.is_signer(operator, signer, receipt.round.epoch),
        f"verdict.signature: signed by {signer}, not by {operator}{hint(keys)}",
    )
    check_commitment(receipt, entry.signed, Role.VERIFIER, keys)
    check_leaf(receipt, entry.signed, entry.leaf, receipt.round.verification_root)
    root = entry.opening.parts.token_root
    _require(
        root == receipt.worker_opening.parts.token_root,
        "opening.token_root: the verifier committed to other tokens than the worker",
    )
    check_opening(receipt, entry.signed, entry.opening, spec)
    return f"{operator}: {v.verdict.name}"


def check_settlement(receipt: Receipt) -> str:
    place = receipt.settlement
    jobs = receipt.round.leaf
    _require(
        (place.leaf.index, place.leaf.count) == (jobs.index, jobs.count),
        f"settlement.leaf: is {place.leaf.index} of {place.leaf.count}, not {jobs.index} of {jobs.count}",
    )
    verify_proof(record_leaf(place.record), place.leaf.index, place.leaf.count, place.leaf.proof, place.root)
    expected = make_record(
        receipt.job,
        receipt.job_id,
        receipt.worker.commitment.operator,
        len(receipt.prompt),
        len(receipt.output),
        [entry.signed.commitment.operator for entry in receipt.verifiers],
        [entry.verdict.verdict for entry in receipt.verifiers],
        _fee_params(receipt),
    )
    links = len(place.record.links)
    due = len(expected.verifiers) + 2
    _require(links == due, f"settlement.record.links: are {links}, due are {due}")
    for name in ("job_id", "client", "worker", "prompt_tokens", "output_tokens", "outcome", "worker_fee",
                 "verifier_fee", "scheduler_fee", "verifiers", "verdicts"):  # fmt: skip
        got, want = getattr(place.record, name), getattr(expected, name)
        _require(got == want, f"settlement.record.{name}: is {_shown(got)}, {_shown(want)} follows")
    return f"{place.record.outcome.name}, client pays {place.record.client_pays} token wei"


def _fee_params(receipt: Receipt) -> Params:
    """Parameters with the receipt's fee rates; a settlement record depends on no other."""
    terms = receipt.terms
    return replace(
        load_params("mainnet"),
        verifier_fee_bps=terms.verifier_fee_bps,
        scheduler_fee_bps=terms.scheduler_fee_bps,
    )


def check_model(receipt: Receipt, spec: ModelSpec) -> str:
    known = eip712.model_id(spec)
    _require(
        receipt.job.model_id == known,
        f"model: the job is for model 0x{receipt.job.model_id.hex()}, the manifest is of 0x{known.hex()}",
    )
    return f"0x{known.hex()}"


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return getattr(value, "name", None) or str(value)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
