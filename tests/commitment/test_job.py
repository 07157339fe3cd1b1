"""Row store and commitments: what is refused, and what every opening is bound to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from verillm.commitment import hashing
from verillm.commitment.fast import row_roots
from verillm.commitment.job import HASH_BLOCK, RowStore, build_commitment, prefill_root
from verillm.commitment.merkle import verify_proof
from verillm.constants import Dtype, FinishReason
from verillm.errors import EncodingError, InvalidRequest, ProofError, RowError


def fp32(values: list[list[float]]) -> np.ndarray:
    return np.array(values, "<f4").view(np.uint8)


def test_store_refuses_gaps_overwrites_and_unknown_boundaries():
    store = RowStore(2, 3, Dtype.FP32)
    store.append_rows(1, 0, fp32([[1, 2, 3], [4, 5, 6]]))
    with pytest.raises(RowError, match="boundary 1, position 3: a gap; the next position is 2"):
        store.append_rows(1, 3, fp32([[1, 2, 3]]))
    with pytest.raises(RowError, match="boundary 1, position 1: an overwrite"):
        store.append_rows(1, 1, fp32([[1, 2, 3]]))
    for boundary in (-1, 2):
        with pytest.raises(RowError, match=f"boundary {boundary}"):
            store.append_rows(boundary, 0, fp32([[1, 2, 3]]))
    assert (store.count(0), store.count(1)) == (0, 2)


@pytest.mark.parametrize(
    "rows", [np.zeros((1, 8), np.uint8), np.zeros(12, np.uint8), np.zeros((1, 3), np.float32)]
)
def test_store_refuses_other_shapes_and_dtypes(rows):
    with pytest.raises(RowError, match=r"boundary 0, position 0: .* expected uint8 \[k, 12\]"):
        RowStore(1, 3, Dtype.FP32).append_rows(0, 0, rows)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (Dtype.BF16, [0x7F80, 0xFF80, 0x7F81, 0xFFFF]),
        (Dtype.FP16, [0x7C00, 0xFC00, 0x7C01, 0xFFFF]),
        (Dtype.FP32, [0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF]),
    ],
)
def test_store_refuses_nan_and_inf_and_names_the_row(dtype, bits):
    for bad in bits:
        store = RowStore(1, 2, dtype)
        rows = np.zeros((3, 2), f"<u{dtype.itemsize}")
        rows[1, 1] = bad
        with pytest.raises(RowError, match="boundary 0, position 1: the row contains NaN or Inf"):
            store.append_rows(0, 0, rows.view(np.uint8))
        assert store.count(0) == 0
        rows[1, 1] = bits[0] - 1  # the largest finite value
        store.append_rows(0, 0, rows.view(np.uint8))
        assert store.count(0) == 3


@pytest.mark.parametrize(("boundaries", "hidden_size"), [(0, 1), (2**16, 1), (1, 0), (1, 8193)])
def test_store_refuses_impossible_sizes(boundaries, hidden_size):
    with pytest.raises(RowError, match="is outside 1 to"):
        RowStore(boundaries, hidden_size, Dtype.BF16)


def test_store_copies_grows_and_shows_read_only_views():
    store, source = RowStore(1, 1, Dtype.FP32), np.arange(300, dtype="<f4").reshape(300, 1).view(np.uint8)
    for t in range(0, 300, 3):
        store.append_rows(0, t, source[t : t + 3])
    before = source.copy()
    source[:] = 0
    assert np.array_equal(store.rows(0), before)
    assert store.chunk_roots(0)[299].tobytes() == hashing.row_chunk_root(before[299].tobytes())
    with pytest.raises(ValueError, match="read-only"):
        store.rows(0)[0] = 0


@pytest.mark.parametrize("count", [1, HASH_BLOCK - 1, HASH_BLOCK, HASH_BLOCK + 1, 3 * HASH_BLOCK + 5])
@pytest.mark.parametrize("step", [1, 7, 200])
def test_roots_do_not_depend_on_when_rows_are_hashed(count, step):
    """One row at a time, in pieces, or all at once; looking at the roots in between changes nothing."""
    rows = np.random.default_rng(count).integers(0, 100, (count, 140), dtype=np.uint8)
    store = RowStore(1, 70, Dtype.BF16)
    for first in range(0, count, step):
        store.append_rows(0, first, rows[first : first + step])
        if first % 3 == 0:
            assert len(store.chunk_roots(0)) == store.count(0)
    assert np.array_equal(store.chunk_roots(0), row_roots(rows))


def test_a_refused_row_leaves_no_trace():
    """The rows after it take its place, in the roots too."""
    clean, store = RowStore(1, 1, Dtype.FP32), RowStore(1, 1, Dtype.FP32)
    for t in range(HASH_BLOCK + 3):
        with pytest.raises(RowError, match=f"position {t}: the row contains NaN"):
            store.append_rows(0, t, fp32([[np.nan]]))
        for each in (clean, store):
            each.append_rows(0, t, fp32([[t]]))
    assert np.array_equal(store.rows(0), clean.rows(0))
    assert prefill_root(store, range(store.count(0))) == prefill_root(clean, range(clean.count(0)))


def test_signed_zero_is_another_row():
    plus, minus = RowStore(1, 1, Dtype.FP32), RowStore(1, 1, Dtype.FP32)
    plus.append_rows(0, 0, fp32([[0.0]]))
    minus.append_rows(0, 0, fp32([[-0.0]]))
    assert prefill_root(plus, [1]) != prefill_root(minus, [1])


def test_prefill_root_is_the_boundaries_root(cases):
    for case in cases:
        fed = case.vector["tokens"][:-1]
        assert prefill_root(case.store, fed) == case.job.boundaries_root
        with pytest.raises(RowError, match="tokens were fed"):
            prefill_root(case.store, [*fed, 1])


def arguments_of(case) -> dict:
    return {
        "job_id": case.commitment.job_id,
        "operator": case.commitment.operator,
        "model_id": case.model_id,
        "tokens": case.vector["tokens"],
        "prompt_tokens": case.commitment.prompt_tokens,
        "finish_reason": case.commitment.finish_reason,
    }


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"prompt_tokens": 0}, InvalidRequest, "prompt_tokens"),
        ({"prompt_tokens": 7}, InvalidRequest, "prompt_tokens"),
        ({"tokens": [1] * 6}, RowError, "boundary 0: 6 rows, 5 tokens"),
        ({"tokens": []}, RowError, "tokens"),
        ({"tokens": [1, 2, 3, -1, 5, 6, 7]}, EncodingError, r"tokens\[3\]"),
        ({"tokens": [1, 2, 3, 4, 5, 6, 2**32]}, EncodingError, r"tokens\[6\]"),
        ({"job_id": b"1"}, EncodingError, "job_id"),
        ({"model_id": bytes(33)}, EncodingError, "model_id"),
        ({"operator": "0x00"}, EncodingError, "operator"),
    ],
)
def test_build_refuses(case, change, error, field):
    with pytest.raises(error, match=field):
        build_commitment(case.store, **(arguments_of(case) | change))


def test_every_field_changes_the_job_root(case):
    tokens = list(case.vector["tokens"])
    changes = [
        {"job_id": bytes(32)},
        {"model_id": bytes(32)},
        {"operator": "0x" + "11" * 20},
        {"prompt_tokens": 2},
        {"finish_reason": FinishReason.LENGTH},
        {"tokens": [*tokens[:-1], tokens[-1] ^ 1]},
        {"tokens": [tokens[1], tokens[0], *tokens[2:]]},
    ]
    roots = {build_commitment(case.store, **(arguments_of(case) | c)).job_root for c in [{}, *changes]}
    assert len(roots) == len(changes) + 1


def test_all_openings_and_token_proofs_verify(cases):
    for case in cases:
        for position in range(case.job.rows_per_boundary):
            openings = case.job.open(position)
            assert [o.boundary for o in openings] == list(range(case.store.boundaries))
            for opening in openings:
                case.verify(opening)
        count = len(case.job.tokens)
        for position, token in enumerate(case.job.tokens):
            leaf = hashing.token_leaf(position, token)
            verify_proof(leaf, position, count, case.job.token_proof(position), case.job.token_root)


def test_there_is_nothing_to_open_elsewhere(case):
    n = case.job.rows_per_boundary
    for boundary, position in [(0, n), (0, -1), (3, 0), (-1, 0)]:
        with pytest.raises(ProofError, match="index"):
            case.job.open_row(boundary, position)
    with pytest.raises(ProofError, match="index"):
        case.job.token_proof(n + 1)


def test_a_job_of_another_operator_has_other_openings(case):
    stolen = replace(case.commitment, operator="0x" + "22" * 20)
    with pytest.raises(ProofError, match=r"boundary 1, position 2: .*job_root"):
        case.verify(case.job.open_row(1, 2), commitment=stolen)
