"""What a verifier decodes and judges: openings, rows, proofs, outputs, settlement values."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.client import text_of
from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.fuzz.protomutate import proto_mutator
from tests.fuzz.reader import Reader, pack
from tests.fuzz.target import Target
from tests.fuzz.toy import VOCAB, ToyWorld
from verillm import draw, settlement
from verillm.commitment import RowOpening, verify_opening, verify_proof
from verillm.commitment.hashing import token_list_hash, token_root
from verillm.commitment.opening import check_row
from verillm.comparator.compare import paper_statistics, row_statistics
from verillm.comparator.observation import JobObservation, RowComparison
from verillm.comparator.verdict import judge
from verillm.constants import PPM, Dtype, FinishReason, Verdict
from verillm.engine.finish import check_stop, first_violation
from verillm.params import load_params
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.sampling.sampler import margins
from verillm.sdk.jsoncodec import parse_json
from verillm.types import Line, Link, SamplingParams
from verillm.verification import find_token_fraud, verify_job

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
DTYPES = tuple(Dtype)


def targets(world: ToyWorld) -> list[Target]:
    """All targets of this side."""
    opening = codec.opening_to_proto(world.receipt.worker_opening).SerializeToString()
    rows = world.receipt.worker_opening.rows
    return [
        Target("opening.from_json", "verifier", 40,
               tuple(json.dumps(row.to_json()).encode() for row in rows[:4]), mutate_json,
               _opened(world, lambda data: RowOpening.from_json(parse_json(text_of(data), "row")))),
        Target("codec.row_from_proto", "verifier", 150,
               tuple(codec.row_to_proto(row).SerializeToString() for row in rows[:6]),
               proto_mutator(pb.RowProof),
               _opened(world, lambda data: codec.row_from_proto(parse(pb.RowProof, data, "row")))),
        Target("verification.verify_job", "verifier", 40, (pack(opening, *_transcript(world)),),
               _evidence_mutator(), _verify_job(world)),
        Target("merkle.verify_proof", "verifier", 150, _proofs(), mutate_bytes, _proof),
        Target("compare.row_statistics", "verifier", 100, _row_pairs(), mutate_bytes, _compare),
        Target("opening.check_row", "verifier", 120, _row_pairs(), mutate_bytes, _check_row),
        Target("verdict.judge", "verifier", 60, (_observation(),), mutate_bytes, _judge(world)),
        Target("hashing.tokens", "verifier", 30, (struct.pack(">6I", *range(6)),), mutate_bytes,
               _tokens),
        Target("sampler.margins", "verifier", 40, _logits(), mutate_bytes, _margins),
        Target("finish.first_violation", "verifier", 60, (pack((0, 1), (6, 4), b"\1\2\3\4\5\6", [b"gh"]),),
               mutate_bytes, _finish),
        Target("draw", "verifier", 8, (pack(b"\1" * 32, (4, 4), (2, 4), [b"\1" * 21, b"\2" * 21]),),
               mutate_bytes, _draw),
        Target("settlement.leaves", "verifier", 15,
               (pack((3, 4), (4, 4), (9, 16), (9, 16), b"\1\2", b"\1\1"),),
               mutate_bytes, _settle(world)),
    ]  # fmt: skip


def _opened(world: ToyWorld, decode: Callable[[bytes], RowOpening]) -> Callable[[bytes], None]:
    """Decode one opening, check its proofs and compare its row with my own."""
    receipt, spec = world.receipt, world.manifest.spec
    own = world.honest_rows

    def feed(data: bytes) -> None:
        opening = decode(data)
        verify_opening(
            opening, commitment=receipt.worker.commitment, model_id=receipt.job.model_id,
            parts=receipt.worker_opening.parts, dtype=Dtype(spec.row_dtype), hidden_size=spec.hidden_size,
        )  # fmt: skip
        row_statistics(opening.row, own[opening.boundary, opening.position].tobytes(), Dtype.FP32)

    return feed


def _transcript(world: ToyWorld) -> tuple[bytes | tuple[int, int], ...]:
    r = world.receipt
    return (r.finish_reason, 1), struct.pack(f">{len(r.output)}I", *r.output)


def _evidence_mutator() -> Callable[..., bytes]:
    """Spoil the opening as a message, or the whole."""
    message = proto_mutator(pb.Opening)

    def mutate(rng: Any, data: bytes, other: bytes) -> bytes:
        if rng.random() < 0.4:
            return mutate_bytes(rng, data, other)
        reader = Reader(data)
        opening = reader.blob()
        return pack(message(rng, opening, opening)) + reader.rest

    return mutate


def _words(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 4}I", data[: len(data) // 4 * 4])


def _verify_job(world: ToyWorld) -> Callable[[bytes], Any]:
    """The judge itself, without the proofs that come before it."""
    r, engine, table = world.receipt, world.engine, world.manifest.table
    own = engine.prefill(r.tokens[:-1]).store

    def feed(data: bytes) -> None:
        reader = Reader(data)
        opening = codec.opening_from_proto(
            parse(pb.Opening, reader.blob(), "opening"), len(engine.boundaries)
        )
        finish = FinishReason(reader.number(1) % 3)
        output = _words(reader.blob())
        job = replace(r.job, max_output_tokens=max(1, len(output) - finish))
        root = opening.parts.token_root if finish else None
        verify_job(engine, table, job, r.prompt, output, finish, r.stop, opening.rows, own, root)
        find_token_fraud(engine, opening.rows, job, [*r.prompt, *output])

    return feed


def _proofs() -> tuple[bytes, ...]:
    v = json.loads((VECTORS / "commitment.json").read_text())["merkle"]
    siblings = [bytes.fromhex(s[2:]) for s in v["siblings"]]
    cases = []
    for index, count, leaf, root, start, length in zip(
        v["indices"], v["counts"], v["leaves"], v["roots"], v["starts"], v["lengths"], strict=True
    ):
        proof = siblings[start : start + length]
        cases.append(pack(bytes.fromhex(leaf[2:]), (index, 5), (count, 5), bytes.fromhex(root[2:]), proof))
    return tuple(cases)


def _proof(data: bytes) -> None:
    reader = Reader(data)
    leaf, index, count, root = reader.blob(), reader.number(5), reader.number(5), reader.blob()
    verify_proof(leaf, index, count, reader.blobs(), root)


def _row_pairs() -> tuple[bytes, ...]:
    v = json.loads((VECTORS / "comparator.json").read_text())
    rows = zip(v["dtype"], v["a"], v["b"], strict=True)
    return tuple(pack((d - 1, 1), bytes.fromhex(a[2:]), bytes.fromhex(b[2:])) for d, a, b in rows)


def _pair(data: bytes) -> tuple[Dtype, bytes, bytes]:
    reader = Reader(data)
    return DTYPES[reader.number(1) % 3], reader.blob(), reader.blob()


def _compare(data: bytes) -> None:
    dtype, a, b = _pair(data)
    row_statistics(a, b, dtype)
    paper_statistics(a, b, dtype)


def _check_row(data: bytes) -> None:
    dtype, a, b = _pair(data)
    check_row(a, dtype, len(b) // dtype.itemsize)


def _observation() -> bytes:
    row = struct.pack(">HIQQ", 1, 2, 1 << 20, 1 << 50)
    return pack((1, 1), (7, 4), [row, row], [struct.pack(">Iq", 6, 0), struct.pack(">Iq", 7, 99)])


def _judge(world: ToyWorld) -> Callable[[bytes], Any]:
    def feed(data: bytes) -> None:
        reader = Reader(data)
        ok, position = reader.number(1) % 2 == 1, reader.number(4)
        rows = tuple(
            RowComparison(*struct.unpack(">HIQQ", blob[:22].ljust(22, b"\0"))) for blob in reader.blobs()
        )
        lost = tuple(struct.unpack(">Iq", blob[:12].ljust(12, b"\0")) for blob in reader.blobs())
        judge(JobObservation(rows, lost, (), ok, position), world.manifest.table)  # type: ignore[arg-type]

    return feed


def _tokens(data: bytes) -> None:
    tokens = _words(data)
    token_list_hash(tokens)
    token_root(tokens)


def _logits() -> tuple[bytes, ...]:
    logits = np.random.default_rng(3).standard_normal(2 * VOCAB).astype("<f4").tobytes()
    settings = ((0, 0, PPM), (700_000, 0, PPM), (PPM, 5, 900_000), (1, 0, 1))
    return tuple(pack((t, 4), (k, 4), (p, 4), (9, 8), (3, 4), b"\1\2", logits) for t, k, p in settings)


def _margins(data: bytes) -> None:
    reader = Reader(data)
    params = SamplingParams(reader.number(4), reader.number(4), reader.number(4), reader.number(8))
    position, claimed, block = reader.number(4), reader.blob(), reader.blob()
    logits = np.frombuffer(block[: len(block) // 8 * 8], "<f4").reshape(2, -1)
    with np.errstate(all="ignore"):
        margins(logits, params, position, np.frombuffer(claimed, np.uint8))


def _finish(data: bytes) -> None:
    reader = Reader(data)
    finish, limit, output = FinishReason(reader.number(1) % 3), reader.number(4), reader.blob()
    stop = [blob.decode(errors="replace") for blob in reader.blobs()]
    check_stop(stop)
    first_violation(
        output, finish, {31}, stop, limit, lambda tokens: bytes(97 + t % 26 for t in tokens).decode()
    )


def _draw(data: bytes) -> None:
    reader = Reader(data)
    beta, rows, count = reader.blob(), reader.number(4), reader.number(4) % 4096
    stakes = [("0x" + b[:20].ljust(20, b"\0").hex(), int.from_bytes(b[20:], "big")) for b in reader.blobs()]
    draw.draw_operators(beta, count, stakes, [stakes[0][0]] if stakes else [])
    draw.opened_positions(beta, bytes(32), rows, min(count, 64))


def _settle(world: ToyWorld) -> Callable[[bytes], Any]:
    """Records of amounts and verdicts from a receipt's JSON, whose integers have their types' sizes."""
    r = world.receipt
    params = load_params("devnet")

    def feed(data: bytes) -> None:
        reader = Reader(data)
        counts = reader.number(4), reader.number(4)
        job = replace(r.job, input_price=reader.number(16), output_price=reader.number(16))
        names: Sequence[str] = ["0x" + bytes([b] * 20).hex() for b in reader.blob()[:8]]
        verdicts = [Verdict(1 + b % 3) for b in reader.blob()[:8]]
        record = settlement.make_record(job, r.job_id, names[0] if names else job.client, *counts, names,
                                        verdicts, params)  # fmt: skip
        (linked,) = settlement.link_records([record])
        settlement.record_leaf(replace(linked, links=(*linked.links, Link(counts[0], job.output_price))))
        for side in settlement.round_lines([record]):
            settlement.lines_hash([*side, Line(job.client, counts[1], job.input_price)])

    return feed
