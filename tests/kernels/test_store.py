"""A device store gives the commitment of a host store. On CPU tensors: no stream, the same code otherwise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.kernels.values import random_rows, row_bytes
from verillm.commitment.fast import row_roots
from verillm.commitment.job import RowStore, build_commitment
from verillm.constants import Dtype, FinishReason
from verillm.errors import RowError
from verillm.kernels.store import DeviceRowStore
from verillm.kernels.stream import BLOCK_WORDS, HostBuffer, RowHasher

D = 34
COMMITMENT: dict[str, Any] = {
    "job_id": bytes(32),
    "operator": "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf",
    "model_id": bytes(32),
    "prompt_tokens": 3,
    "finish_reason": FinishReason.LENGTH,
}
HASHER = RowHasher("cpu")


def test_a_prefill_and_two_steps_of_two_sequences_commit_as_on_the_host():
    """Hidden states as an engine has them: [1, n, d] per boundary, then [sequences, 1, d] per step."""
    devices = [DeviceRowStore(2, D, Dtype.BF16) for _ in range(2)]
    hosts = [RowStore(2, D, Dtype.BF16) for _ in range(2)]
    for i in range(2):
        hidden = [random_rows(3, D, torch.bfloat16, seed=10 * i + b) for b in range(2)]
        for b, hashed in enumerate(HASHER.submit(*hidden)):
            devices[i].append_hashed(b, 0, hashed)
            hosts[i].append_rows(b, 0, row_bytes(hidden[b]))
    for step in range(2):
        hidden = [random_rows(2, D, torch.bfloat16, seed=step + b)[:, None] for b in range(2)]
        for b, hashed in enumerate(HASHER.submit(*(rows[:, 0] for rows in hidden))):
            for i in range(2):
                devices[i].append_hashed(b, 3 + step, hashed[i : i + 1])
                hosts[i].append_rows(b, 3 + step, row_bytes(hidden[b][i]))
    for device, host in zip(devices, hosts, strict=True):
        assert [device.count(b) for b in range(2)] == [5, 5]
        made, expected = (
            build_commitment(store, tokens=[5, 6, 7, 8, 9, 10], **COMMITMENT) for store in (device, host)
        )
        assert made.job_root == expected.job_root
        assert made.open(4) == expected.open(4)


def test_host_rows_and_those_on_their_way_stay_in_order():
    store, rows = DeviceRowStore(1, D, Dtype.FP32), random_rows(4, D, torch.float32)
    store.append_rows(0, 0, row_bytes(rows[:1]))
    store.append_hashed(0, 1, HASHER.submit(rows[1:3])[0])
    store.append_rows(0, 3, row_bytes(rows[3:]))
    assert (store.rows(0) == row_bytes(rows)).all()
    assert (store.chunk_roots(0) == row_roots(row_bytes(rows))).all()


def test_nan_is_refused_when_the_rows_are_read_every_time():
    store, rows = DeviceRowStore(2, D, Dtype.FP16), random_rows(4, D, torch.float16)
    bad = rows.clone()
    bad[1, 7] = float("nan")
    good_rows, bad_rows = HASHER.submit(rows, bad)
    store.append_hashed(0, 0, good_rows)
    store.append_hashed(1, 0, good_rows[:2])
    store.append_hashed(1, 2, bad_rows[:2])
    assert store.chunk_roots(0).shape == (4, 32)
    for read in (store.rows, store.chunk_roots, store.rows):
        with pytest.raises(RowError, match="boundary 1, position 3: the row contains NaN or Inf"):
            read(1)
    with pytest.raises(RowError, match="boundary 1, position 3"):
        build_commitment(store, tokens=[1, 2, 3, 4, 5], **COMMITMENT)


def test_gaps_overwrites_and_other_sizes_are_refused():
    store = DeviceRowStore(1, D, Dtype.BF16)
    (hashed,) = HASHER.submit(random_rows(2, D, torch.bfloat16))
    store.append_hashed(0, 0, hashed)
    with pytest.raises(RowError, match="position 3: a gap; the next position is 2"):
        store.append_hashed(0, 3, hashed)
    with pytest.raises(RowError, match="position 1: an overwrite"):
        store.append_hashed(0, 1, hashed)
    with pytest.raises(RowError, match="boundary 1, position 0: the store has boundaries 0 to 0"):
        store.append_hashed(1, 0, hashed)
    with pytest.raises(RowError, match="rows of 136 bytes, expected 68"):
        store.append_hashed(0, 2, HASHER.submit(random_rows(1, D, torch.float32))[0])


def test_tensors_of_one_launch_must_agree():
    for other in (torch.zeros((1, D + 1)), torch.zeros((1, D), dtype=torch.float16)):
        with pytest.raises(RowError, match="one d and one dtype"):
            HASHER.submit(torch.zeros((1, D)), other)
    with pytest.raises(RowError, match="one d and one dtype"):
        HASHER.submit()


def test_a_host_buffer_hands_out_parts_that_do_not_overlap():
    """Of any size, filled in either mode of torch."""
    buffer, parts = HostBuffer(pinned=False), []
    shapes = [(3, 21), (0, 21), (1, BLOCK_WORDS - 64), (2, 5), (4, BLOCK_WORDS), (1, 1)]
    for i, shape in enumerate(shapes):
        with torch.inference_mode(i % 2 == 0):
            parts.append(buffer.take(*shape))
            parts[-1].fill_(i)
    assert [tuple(part.shape) for part in parts] == shapes
    assert all((part == i).all() for i, part in enumerate(parts))
