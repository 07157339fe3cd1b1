"""All parties of one job in one process: they sign, commit, draw and settle as the network would."""

from __future__ import annotations

from dataclasses import fields, replace

from eth_account import Account

from verillm import draw, eip712, vrf
from verillm.commitment import CommittedJob, MerkleTree, build_commitment, token_list_hash
from verillm.constants import FinishReason, Role, Verdict
from verillm.engine.transformers_engine import Engine, GenerationSpec
from verillm.manifest import Manifest
from verillm.params import load_params
from verillm.rpc.codec import LeafProof, Opening, SignedCommitment
from verillm.sdk.receipt import (
    Assignment,
    Receipt,
    RoundPlace,
    SettlementPlace,
    Terms,
    VerifierDraw,
    VerifierEntry,
)
from verillm.settlement import link_records, make_record, record_leaf, round_leaf
from verillm.types import Commitment, Job, SignedVerdict

PARAMS = load_params("devnet")
DOMAIN = eip712.domain(31337, "0x" + "5a" * 20)
STAKING = eip712.domain(31337, "0x" + "5b" * 20).contract
CLIENT, SCHEDULER = (Account.from_key(bytes([i]) * 32) for i in (1, 2))
OPERATORS = {a.address: a for a in (Account.from_key(bytes([i]) * 32) for i in range(10, 15))}
STAKES = tuple((address, 10**21 * (i + 1)) for i, address in enumerate(OPERATORS))
PROMPT = (5, 6, 7, 8, 9)
RANDOMNESS = (b"\x31" * 32, b"\x32" * 32)
PADDING = b"\x77" * 32


def sign_job(manifest: Manifest, prompt: tuple[int, ...] = PROMPT, **changes: object) -> Job:
    job = Job(
        client=CLIENT.address,
        scheduler=SCHEDULER.address,
        model_id=manifest.model_id,
        prompt_hash=token_list_hash(prompt),
        prompt_tokens=len(prompt),
        max_output_tokens=24,
        stop_hash=eip712.stop_hash(()),
        temperature_ppm=700_000,
        top_k=0,
        top_p_ppm=1_000_000,
        seed=11,
        input_price=10**14,
        output_price=10**15,
        verifiers=2,
        deadline=2**40,
        nonce=2**90 + 1,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def run_job(
    engine: Engine, manifest: Manifest, job: Job | None = None, prompt: tuple[int, ...] = PROMPT
) -> Receipt:
    """One honest job from signature to settlement."""
    job = job or sign_job(manifest, prompt)
    job_id = eip712.job_id(job, DOMAIN)
    state = engine.prefill(prompt)
    for _ in engine.decode_batch([state], [GenerationSpec(job.sampling, job.max_output_tokens)]):
        pass
    output, finish = tuple(state.output), state.finish_reason
    assert finish is not None
    secret = bytes(SCHEDULER.key)
    public = vrf.public_key(secret)
    epoch = 3
    seed = draw.epoch_seed(DOMAIN.chain_id, STAKING, epoch)
    proof = vrf.prove(secret, draw.worker_alpha(seed, job_id, 0))
    worker = draw.draw_worker(vrf.beta(proof), STAKES)
    signed, committed = _commit(state.store, manifest, job_id, Role.WORKER, worker, prompt, output, finish)
    verifier_proof = vrf.prove(secret, draw.verifier_alpha(RANDOMNESS[0], job_id))
    chosen = draw.draw_verifiers(vrf.beta(verifier_proof), job.verifiers, STAKES, worker)
    own = engine.prefill([*prompt, *output[:-1]]).store
    checks = [_commit(own, manifest, job_id, Role.VERIFIER, v, prompt, output, finish) for v in chosen]
    root, places = _round([signed])
    verification_root, verifier_places = _round([s for s, _ in checks])
    positions = draw.opened_positions(
        RANDOMNESS[1], job_id, len(prompt) + len(output) - 1, PARAMS.opened_positions
    )
    entries = tuple(
        VerifierEntry(s, place, _open(s, c, positions), _verdict(job_id, s.commitment.operator))
        for (s, c), place in zip(checks, verifier_places, strict=True)
    )
    verdicts = [entry.verdict.verdict for entry in entries]
    record = make_record(job, job_id, worker, len(prompt), len(output), chosen, verdicts, PARAMS)
    (record,) = link_records([record])
    tree = MerkleTree([record_leaf(record), PADDING])
    return Receipt(
        chain_id=DOMAIN.chain_id,
        contract=DOMAIN.contract,
        staking=STAKING,
        terms=Terms(**{field.name: getattr(PARAMS, field.name) for field in fields(Terms)}),
        job=job,
        job_signature=eip712.sign_job(job, CLIENT, DOMAIN),
        job_id=job_id,
        prompt=prompt,
        output=output,
        stop=(),
        finish_reason=finish,
        worker=signed,
        worker_opening=_open(signed, committed, positions),
        assignment=Assignment(epoch, 0, public, proof, STAKES),
        round=RoundPlace(7, epoch, root, places[0], verification_root),
        verifier_draw=VerifierDraw(RANDOMNESS[0], public, verifier_proof, STAKES),
        verifiers=entries,
        position_randomness=RANDOMNESS[1],
        settlement=SettlementPlace(record, tree.root, LeafProof(0, 2, tree.proof(0))),
    )


def _commit(
    store, manifest: Manifest, job_id: bytes, role: Role, operator: str, prompt, output, finish: FinishReason
) -> tuple[SignedCommitment, CommittedJob]:  # type: ignore[no-untyped-def]
    committed = build_commitment(
        store,
        job_id=job_id,
        operator=operator,
        model_id=manifest.model_id,
        tokens=[*prompt, *output],
        prompt_tokens=len(prompt),
        finish_reason=finish,
    )
    commitment = Commitment(job_id, role, 0, committed.job_root, len(prompt), len(output), finish, operator)
    signature = eip712.sign_commitment(commitment, OPERATORS[operator], DOMAIN)
    return SignedCommitment(commitment, signature), committed


def _round(members: list[SignedCommitment]) -> tuple[bytes, list[LeafProof]]:
    """Root and places of the members in a round that has one more leaf."""
    digests = [(eip712.commitment_digest(m.commitment, DOMAIN), m.commitment.operator) for m in members]
    leaves = [round_leaf(digest, operator) for digest, operator in digests]
    tree = MerkleTree([*leaves, PADDING])
    return tree.root, [LeafProof(i, len(leaves) + 1, tree.proof(i)) for i in range(len(leaves))]


def _open(signed: SignedCommitment, committed: CommittedJob, positions: list[int]) -> Opening:
    rows = tuple(row for position in positions for row in committed.open(position))
    return Opening(signed.commitment.operator, committed.parts, rows)


def _verdict(job_id: bytes, operator: str) -> SignedVerdict:
    verdict = SignedVerdict(job_id, Verdict.ACCEPT, 0, 0, operator)
    return replace(verdict, signature=eip712.sign_verdict(verdict, OPERATORS[operator], DOMAIN))
