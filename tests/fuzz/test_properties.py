"""Properties of the decoders for any input at all, and for hostile sizes."""

from __future__ import annotations

import json
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutate import varint
from tests.fuzz.protomutate import proto_mutator
from tests.fuzz.scheduler import DECODERS
from tests.fuzz.toy import ToyWorld
from verillm import eip712, vrf
from verillm.commitment import RowOpening
from verillm.comparator.compare import row_statistics
from verillm.comparator.tolerance import ToleranceTable
from verillm.constants import Dtype
from verillm.errors import EncodingError, ProofError, RowError, VeriLLMError
from verillm.manifest import Manifest
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.sdk import jsoncodec
from verillm.sdk.receipt import MAX_RECEIPT_BYTES, Receipt

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
MEBIBYTE = 2**20


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for kind, decode in DECODERS:
        try:
            decode(parse(kind, data, kind.__name__))
        except EncodingError:
            continue
    with pytest.raises(EncodingError):
        Receipt.from_json(data)


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_any_json_is_refused_where_a_record_is_due(value: Any) -> None:
    text = json.dumps(value)
    for decode in (Receipt.from_json, Manifest.from_json):
        with pytest.raises(EncodingError):
            decode(text)
    for from_value in (ToleranceTable.from_dict, RowOpening.from_json):
        with pytest.raises(EncodingError):
            from_value(value)


@given(st.binary(max_size=100), st.binary(max_size=40), st.binary(max_size=100))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_no_proof_and_no_signature(proof: bytes, key: bytes, alpha: bytes) -> None:
    with pytest.raises(ProofError):
        vrf.verify(key, alpha, proof)
    try:
        eip712.recover_digest(alpha.ljust(32, b"\0")[:32], proof.ljust(65, b"\x1b")[:65])
    except ProofError:
        return


@given(st.sampled_from(Dtype), st.binary(max_size=64), st.binary(max_size=64))
@settings(max_examples=200, deadline=None)
def test_any_two_rows_compare_or_are_refused(dtype: Dtype, a: bytes, b: bytes) -> None:
    try:
        d, n = row_statistics(a, b, dtype)
    except RowError:
        return
    assert 0 <= d <= 2 * n < 2**65
    assert row_statistics(b, a, dtype) == (d, n)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_what_is_accepted_means_the_same_when_it_is_sent_on(world: ToyWorld, seed: int) -> None:
    rng, r = Random(seed), world.receipt
    cases: tuple[tuple[Any, Any, Any, Any], ...] = (
        (pb.Job, codec.job_to_proto(r.job), codec.job_from_proto, codec.job_to_proto),
        (pb.Commitment, codec.commitment_to_proto(r.worker), codec.commitment_from_proto,
         codec.commitment_to_proto),
        (pb.Verdict, codec.verdict_to_proto(r.verifiers[0].verdict), codec.verdict_from_proto,
         codec.verdict_to_proto),
        (pb.RowProof, codec.row_to_proto(r.worker_opening.rows[0]), codec.row_from_proto, codec.row_to_proto),
        (pb.LeafProof, codec.leaf_proof_to_proto(r.round.leaf), codec.leaf_proof_from_proto,
         codec.leaf_proof_to_proto),
    )  # fmt: skip
    kind, message, decode, encode = rng.choice(cases)
    data = message.SerializeToString()
    spoilt = proto_mutator(kind)(rng, data, data)
    try:
        value = decode(parse(kind, spoilt, kind.__name__))
    except VeriLLMError:
        return
    assert decode(parse(kind, encode(value).SerializeToString(), kind.__name__)) == value


@pytest.mark.parametrize(
    "text",
    [
        "[" + "[]," * 500_000 + "0]",
        "[" + "{}," * 500_000 + "0]",
        '{"prompt":[' + "0," * 800_000 + "0]}",
        '["' + '","' * 400_000 + '"]',
        "[" * 1_000_000,
        '{"a":' * 200_000,
    ],
    ids=["lists", "objects", "numbers", "strings", "deep lists", "deep objects"],
)
def test_a_receipt_of_very_many_values_takes_no_memory(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built, they would take tens of MiB, and at the limits of a receipt gigabytes."""
    monkeypatch.setattr(jsoncodec, "MAX_VALUES", jsoncodec.MAX_VALUES // 20)
    tracemalloc.start()
    try:
        with pytest.raises(EncodingError):
            Receipt.from_json(text)
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
    finally:
        tracemalloc.stop()


def test_a_receipt_beyond_its_size_is_refused_unread() -> None:
    with pytest.raises(EncodingError, match=f"the limit is {MAX_RECEIPT_BYTES}"):
        Receipt.from_json(bytes(MAX_RECEIPT_BYTES + 1))


def test_messages_of_hostile_counts_are_refused_before_they_are_built(world: ToyWorld) -> None:
    r = world.receipt
    opening = codec.opening_to_proto(r.worker_opening)
    opening.rows.extend([opening.rows[0]] * codec.MAX_OPENED_ROWS)
    request = codec.submission_to_proto(codec.Submission(r.job, r.job_signature, r.prompt, ()))
    count = codec.MAX_TOKENS + 1
    del request.prompt[:]
    request.prompt.extend([7] * count)
    request.job.prompt_tokens = count
    row = codec.row_to_proto(r.worker_opening.rows[0])
    row.row_proof.extend([b"\1" * 32] * 100_000)
    cases: tuple[tuple[Any, Any], ...] = (
        (lambda: codec.opening_from_proto(opening, 3), "number of rows"),
        (lambda: codec.submission_from_proto(request), "number of tokens"),
        (lambda: codec.row_from_proto(row), "number of hashes"),
    )
    for decode, message in cases:
        tracemalloc.start()
        try:
            with pytest.raises(EncodingError, match=message):
                decode()
            assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32, 2**63, 2**64 - 1])
def test_lengths_and_counts_that_no_bytes_stand_behind_are_refused(length: int) -> None:
    """Field 3 of a SubmitRequest is its packed prompt, field 4 of an Opening a row."""
    for kind, field in ((pb.SubmitRequest, 3), (pb.SubmitRequest, 1), (pb.Opening, 4), (pb.RowProof, 4)):
        with pytest.raises(EncodingError, match="no serialised"):
            parse(kind, varint(field << 3 | 2) + varint(length) + b"\1" * 40, "message")


@pytest.mark.parametrize("levels", [101, 100_000])
def test_deep_protobuf_is_refused(levels: int) -> None:
    """Groups nest in fields that no message knows."""
    group = varint(100 << 3 | 3)
    with pytest.raises(EncodingError, match="no serialised"):
        parse(pb.Opening, group * levels, "opening")
