"""Fill a receipt from what a scheduler holds once a job's round is settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node.assignment import Draw
from node.committee import Judged, RoundJob
from verillm.chain.addresses import AddressBook
from verillm.params import Params
from verillm.rpc import codec
from verillm.sdk.receipt import (
    Assignment,
    Receipt,
    RoundPlace,
    SettlementPlace,
    Terms,
    VerifierDraw,
    VerifierEntry,
)
from verillm.types import SettlementRecord

Stakes = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class RoundFacts:
    """What all jobs of one round share: its number, epoch, parameters' version, roots and the two random
    values (32 bytes each)."""

    round_id: int
    epoch: int
    params_version: int
    root: bytes
    verification_root: bytes
    verifier_randomness: bytes
    position_randomness: bytes


def make_receipt(
    book: AddressBook,
    params: Params,
    vrf_public_key: bytes,
    job: RoundJob,
    worker_opening: codec.Opening,
    worker_leaf: codec.LeafProof,
    worker_stakes: Stakes,
    drawn: Draw,
    verifier_stakes: Stakes,
    judged: Sequence[Judged],
    facts: RoundFacts,
    record: SettlementRecord,
    settlement_root: bytes,
    settlement_leaf: codec.LeafProof,
) -> Receipt:
    """The receipt of a settled job; ``judged`` are the verifiers that gave a verdict, in draw order."""
    draw = job.stored.draw
    return Receipt(
        chain_id=book.chain_id,
        contract=book.rounds,
        staking=book.staking,
        terms=Terms(
            params.opened_positions,
            params.verifier_fee_bps,
            params.scheduler_fee_bps,
            params.max_attempts,
            params.verifier_spares,
        ),
        job=job.job,
        job_signature=job.submission.signature,
        job_id=job.job_id,
        prompt=job.submission.prompt,
        output=tuple(job.output),
        stop=job.submission.stop,
        finish_reason=job.worker.commitment.finish_reason,
        worker=job.worker,
        worker_opening=worker_opening,
        assignment=Assignment(
            epoch=draw["epoch"],
            attempt=draw["attempt"],
            vrf_public_key=vrf_public_key,
            proof=bytes.fromhex(draw["proof"]),
            stakes=tuple(worker_stakes),
        ),
        round=RoundPlace(facts.round_id, facts.epoch, facts.root, worker_leaf, facts.verification_root),
        verifier_draw=VerifierDraw(
            randomness=facts.verifier_randomness,
            vrf_public_key=vrf_public_key,
            proof=drawn.proof,
            stakes=tuple(verifier_stakes),
        ),
        verifiers=tuple(
            VerifierEntry(j.member.signed, j.member.leaf, j.opening, j.verdict) for j in judged
        ),
        position_randomness=facts.position_randomness,
        settlement=SettlementPlace(record, settlement_root, settlement_leaf),
    )
