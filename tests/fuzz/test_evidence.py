"""What broke or fooled other detectors, against our evidence path: null and two-byte proofs that crash, fewer
proofs than chunks, rows sign-flipped, NaN, replayed, constant or random that pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from node.checks import check_opening
from tests.fuzz.scheduler import DECODERS
from tests.fuzz.toy import HIDDEN, ToyWorld, Work
from verillm.commitment import JobRootParts, MerkleTree, RowOpening, verify_opening
from verillm.commitment import hashing as h
from verillm.commitment.opening import expected_job_root
from verillm.comparator.compare import row_statistics
from verillm.comparator.verdict import JobVerdict
from verillm.constants import Dtype, Verdict
from verillm.errors import EncodingError, ProofError, RowError, VeriLLMError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.sdk.verify import check_receipt
from verillm.types import Commitment
from verillm.verification import verify_job

NAN, INF = np.float32("nan"), np.float32("inf")


def check_proofs(world: ToyWorld, work: Work, opening: codec.Opening | None = None) -> codec.Opening:
    """What worker, verifier and scheduler check of an opening before anybody judges its rows."""
    r = world.receipt
    opening = opening or work.open(world.positions)
    check_opening(
        opening, work.signed.commitment, world.manifest.spec, r.job.model_id, r.tokens,
        r.worker_opening.parts.token_root, world.positions,
    )  # fmt: skip
    return opening


def verdict_on(world: ToyWorld, opening: codec.Opening) -> JobVerdict:
    r = world.receipt
    own = world.engine.prefill(r.tokens[:-1]).store
    return verify_job(
        world.engine, world.manifest.table, r.job, r.prompt, r.output, r.finish_reason, r.stop, opening.rows,
        own, opening.parts.token_root,
    )  # fmt: skip


def test_a_null_proof_is_refused(world: ToyWorld) -> None:
    for kind, decode in DECODERS:
        with pytest.raises(EncodingError):
            decode(parse(kind, b"", kind.__name__))
    for nothing in (None, {}, [], "", b"", 0):
        with pytest.raises(EncodingError):
            RowOpening.from_json(nothing)
    work = world.commit(world.honest_rows)
    empty = replace(work.open(world.positions), rows=())
    with pytest.raises(ProofError, match="0 rows do not cover the 48 asked for"):
        check_proofs(world, work, empty)


@pytest.mark.parametrize("kind", [pb.Opening, pb.RowProof, pb.Commitment, pb.Verdict])
def test_every_two_byte_proof_is_refused(kind: type) -> None:
    decode = dict(DECODERS)[kind]
    for number in range(2**16):
        with pytest.raises(EncodingError):
            decode(parse(kind, number.to_bytes(2, "big"), "evidence"))


@pytest.mark.parametrize("row", [b"", b"\0", b"\0\0"])
def test_a_row_of_two_bytes_or_none_is_refused(world: ToyWorld, row: bytes) -> None:
    honest = world.receipt.worker_opening.rows[0]
    with pytest.raises((ProofError, RowError)):
        open_one(world, replace(honest, row=row))
    with pytest.raises(RowError):
        row_statistics(row, honest.row, Dtype.FP32)


def test_fewer_rows_than_positions_are_refused(world: ToyWorld) -> None:
    work = world.commit(world.honest_rows)
    whole = work.open(world.positions)
    check_proofs(world, work, whole)
    for rows in (whole.rows[:-1], whole.rows[1:], whole.rows[:1], whole.rows[::3], whole.rows[:-1] * 2):
        with pytest.raises(ProofError, match="do not cover the 48 asked for"):
            check_proofs(world, work, replace(whole, rows=rows))
        receipt = replace(world.receipt, worker_opening=replace(world.receipt.worker_opening, rows=rows))
        failed = {f.name for f in check_receipt(receipt, world.manifest.spec) if not f.ok}
        assert "worker-opening" in failed
    twice = (*whole.rows[:-1], whole.rows[0])  # the right number, one of them instead of another
    with pytest.raises(ProofError):
        check_proofs(world, work, replace(whole, rows=twice))


def test_fewer_siblings_than_levels_are_refused(world: ToyWorld) -> None:
    honest = world.receipt.worker_opening.rows[0]
    for name in ("row_proof", "boundary_proof"):
        proof = getattr(honest, name)
        for other in (
            (),
            proof[:-1],
            proof[1:],
            (*proof, proof[0]),
            (b"", *proof[1:]),
            (b"\1\2", *proof[1:]),
        ):
            with pytest.raises(ProofError):
                open_one(world, replace(honest, **{name: other}))


def open_one(world: ToyWorld, opening: RowOpening, commitment: Commitment | None = None) -> None:
    r = world.receipt
    verify_opening(
        opening, commitment=commitment or r.worker.commitment, model_id=r.job.model_id,
        parts=r.worker_opening.parts, dtype=Dtype.FP32, hidden_size=HIDDEN,
    )  # fmt: skip


def test_replayed_openings_are_refused(world: ToyWorld) -> None:
    """Rows that were committed, but elsewhere: at another position, boundary, by another operator or job."""
    work = world.commit(world.honest_rows)
    rows = work.open(world.positions).rows
    for row in rows:
        for place in ({"position": (row.position + 1) % 10}, {"boundary": (row.boundary + 1) % 3}):
            with pytest.raises(ProofError):
                open_one(world, replace(row, **place))
    verifier = world.receipt.verifiers[0]
    with pytest.raises(ProofError, match=r"opening\.operator"):
        check_proofs(world, work, verifier.opening)
    other = world.greedy_receipt
    with pytest.raises(ProofError):
        open_one(world, other.worker_opening.rows[0])
    with pytest.raises(ProofError):
        check_proofs(world, work, replace(other.worker_opening, operator=work.signed.commitment.operator))


def _replayed(world: ToyWorld, rows: np.ndarray) -> np.ndarray:
    """Rows of another job of the same length."""
    tokens = world.receipt.tokens[::-1]
    store = world.engine.prefill(tokens[:-1]).store
    return np.stack([store.rows(b).view("<f4") for b in range(len(rows))])


FORGERIES: dict[str, Callable[[ToyWorld, np.ndarray], np.ndarray]] = {
    "sign flipped": lambda world, rows: -rows,
    "replayed from another job": _replayed,
    "replayed from the position before": lambda world, rows: np.roll(rows, 1, axis=1),
    "replayed from another boundary": lambda world, rows: np.roll(rows, 1, axis=0),
    "the first row everywhere": lambda world, rows: np.repeat(rows[:, :1], rows.shape[1], axis=1),
    "constant": lambda world, rows: np.ones_like(rows),
    "zero": lambda world, rows: np.zeros_like(rows),
    "tiny": lambda world, rows: np.full_like(rows, 1e-45),
    "largest": lambda world, rows: np.full_like(rows, 3.4e38),
    "random": lambda world, rows: np.random.default_rng(5).standard_normal(rows.shape).astype("<f4"),
    "scaled": lambda world, rows: rows * np.float32(1.5),
    "permuted values": lambda world, rows: rows[:, :, ::-1],
}


@pytest.mark.parametrize("name", FORGERIES)
def test_committed_forgeries_are_rejected(world: ToyWorld, name: str) -> None:
    """The cheat commits to its rows, so every proof is good: the values must give it away."""
    work = world.commit(FORGERIES[name](world, world.honest_rows))
    verdict = verdict_on(world, check_proofs(world, work))
    assert verdict.verdict is Verdict.REJECT
    first = min(world.positions)
    # A row at position 0 that is its own replacement is honest.
    assert verdict.position in (first, world.positions[1])


@pytest.mark.parametrize("name", ["sign flipped", "replayed from another job", "constant", "random"])
@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_one_forged_row_among_honest_ones_is_rejected_and_named(
    world: ToyWorld, name: str, boundary: int
) -> None:
    rows, position = world.honest_rows, world.positions[-1]
    rows[boundary, position] = FORGERIES[name](world, world.honest_rows)[boundary, position]
    verdict = verdict_on(world, check_proofs(world, world.commit(rows)))
    assert (verdict.verdict, verdict.boundary, verdict.position) == (Verdict.REJECT, boundary, position)


def test_honest_rows_are_accepted(world: ToyWorld) -> None:
    opening = check_proofs(world, world.commit(world.honest_rows))
    assert verdict_on(world, opening).verdict is Verdict.ACCEPT


@pytest.mark.parametrize("value", [NAN, -NAN, INF, -INF])
def test_rows_of_nan_or_infinity_cannot_be_committed(world: ToyWorld, value: np.float32) -> None:
    for rows in (np.full_like(world.honest_rows, value), world.honest_rows):
        rows[1, 4, 3] = value
        with pytest.raises(RowError, match="NaN or Inf"):
            world.commit(rows)


@pytest.mark.parametrize("value", [NAN, -NAN, INF, -INF])
def test_rows_of_nan_or_infinity_that_were_committed_by_hand_are_refused(
    world: ToyWorld, value: np.float32
) -> None:
    """A cheat with its own tree code: proofs lead to its signed root, and the opening is refused anyway.
    A judge who is handed such rows without that check does not accept them."""
    r = world.receipt
    row = np.full(HIDDEN, value, "<f4").tobytes()
    count = len(r.tokens) - 1
    leaves = [h.row_leaf(t, r.tokens[t], h.row_chunk_root(row)) for t in range(count)]
    tree = MerkleTree(leaves)
    roots = [h.boundary_root(b, Dtype.FP32, HIDDEN, count, tree.root) for b in range(3)]
    top = MerkleTree(roots)
    parts = JobRootParts(r.worker_opening.parts.token_root, 3, top.root)
    commitment = replace(
        r.worker.commitment, job_root=expected_job_root(r.worker.commitment, r.job.model_id, parts)
    )
    rows = tuple(
        RowOpening(b, t, r.tokens[t], row, tree.proof(t), top.proof(b))
        for t in world.positions
        for b in range(3)
    )
    opening = codec.Opening(commitment.operator, parts, rows)
    with pytest.raises(ProofError, match="NaN or Inf"):
        check_opening(
            opening,
            commitment,
            world.manifest.spec,
            r.job.model_id,
            r.tokens,
            parts.token_root,
            world.positions,
        )
    with pytest.raises(RowError):
        row_statistics(row, world.honest_rows[0, 0].tobytes(), Dtype.FP32)
    assert verdict_on(world, opening).verdict is Verdict.UNABLE


def test_evidence_of_all_kinds_raises_only_typed_errors(world: ToyWorld) -> None:
    """Rows of every length around the right one, of every byte."""
    honest = world.receipt.worker_opening.rows[0]
    for length in range(1, 4 * HIDDEN + 3):
        for byte in (0, 0x7F, 0x80, 0xFF):
            with pytest.raises(VeriLLMError):
                open_one(world, replace(honest, row=bytes([byte]) * length))
