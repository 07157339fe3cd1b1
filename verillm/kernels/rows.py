"""Chunk roots of hidden rows (section 1 of ``docs/protocol.md``), straight from the engine's tensor."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from verillm.constants import CHUNK_BYTES, Dtype
from verillm.errors import RowError
from verillm.kernels.keccak import (
    HASH_WORDS,
    ROUNDS,
    absorb,
    constants_on,
    hash_pairs,
    load_words,
    permute,
    store_hash,
)
from verillm.kernels.launch import INTERPRETED, OPTIONS, check_rows, hash_bytes, lanes, on_device

WARPS = 1
ROWS_PER_PROGRAM = 4
"""Rows per program: more keep its lanes busy at the top of the trees, fewer spread over more processors.
``benchmarks/gpu.py`` tries others for both."""
FEW_ROWS = 512
"""Up to this many, as in decoding, each has a program of its own."""
TRAILER_WORDS = HASH_WORDS + 1
"""Words that follow a row's own in a record: its chunk root, and 1 if it holds NaN or Inf."""

_EXPONENT = {Dtype.BF16: 0x7F807F807F807F80, Dtype.FP16: 0x7C007C007C007C00, Dtype.FP32: 0x7F8000007F800000}
"""Exponent bits of all values in a u64."""
_LOWEST = {Dtype.BF16: 0x0080008000800080, Dtype.FP16: 0x0400040004000400, Dtype.FP32: 0x0080000000800000}
"""Lowest exponent bit of each. Exponent + lowest overflows into the sign's place only from all ones."""

_RUNTIME = [
    "row_step",
    "unit_step",
    "rows",
    "units",
    "chunks",
    "exponent",
    "lowest",
    "kept",
    "per_program",
    "rounds",
]


@triton.jit
def _load_chunk(at, step, units, UNIT: tl.constexpr):
    """The chunks whose first of ``units`` units of ``UNIT`` bits is at ``at``, ``step`` apart: 16 uint64."""
    words = ()
    for w in tl.static_range(16):
        word = tl.zeros(units.shape, tl.uint64)
        for j in tl.static_range(64 // UNIT):
            index = w * (64 // UNIT) + j
            unit = tl.load(at + index * step, mask=index < units, other=0)
            word |= (unit.to(tl.uint64) & (0xFFFFFFFFFFFFFFFF >> (64 - UNIT))) << (j * UNIT)
        words += (word,)
    return words


@triton.jit(do_not_specialize=_RUNTIME, do_not_specialize_on_alignment=["data"])
def row_roots_kernel(
    data,
    row_step,
    unit_step,
    rows,
    units,
    chunks,
    exponent,
    lowest,
    records,
    kept,
    nodes,
    per_program,
    constants,
    rounds,
    UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``per_program`` of ``rows`` rows, each of ``units`` units of ``UNIT`` bits in ``chunks`` chunks.

    ``records`` int64 [rows, kept + 5] gets each row's words if ``kept`` is their number (none if 0), its root
    and its flag; ``exponent`` and ``lowest`` are of ``_EXPONENT`` and ``_LOWEST``. ``nodes`` int64 [rows, 2,
    chunks, 4] is scratch: tree levels go to and fro between halves.
    """
    first = tl.program_id(0).to(tl.int64) * per_program
    mine = tl.minimum(per_program, rows - first).to(tl.int32)
    lane = tl.arange(0, BLOCK)
    width = kept + 5
    chunk_units: tl.constexpr = 1024 // UNIT
    exponents, lowests = exponent.to(tl.uint64), lowest.to(tl.uint64)
    step = unit_step.to(tl.int64)
    for start in range(0, mine, BLOCK):
        row = start + lane
        tl.store(records + (first + row) * width + kept + 4, tl.zeros([BLOCK], tl.int64), mask=row < mine)
    tl.debug_barrier()
    for start in range(0, mine * chunks, BLOCK):
        message = start + lane
        live = message < mine * chunks
        row, chunk = first + message // chunks, message % chunks
        inside = tl.where(live, tl.minimum(units - chunk * chunk_units, chunk_units), 0)
        at = data + row * row_step + chunk * chunk_units * step
        body = _load_chunk(at, step, inside, UNIT)
        bad = tl.zeros([BLOCK], tl.uint64)
        for w in tl.static_range(16):
            bad |= ((body[w] & exponents) + lowests) & (exponents + lowests)
        record = records + row * width
        tl.store(record + kept + 4, tl.full([BLOCK], 1, tl.int64), mask=live & (bad != 0))
        if kept > 0:
            for w in tl.static_range(16):
                at_word = chunk * 16 + w
                word = body[w].to(tl.int64, bitcast=True)
                tl.store(record + at_word, word, mask=live & (at_word < kept))
        s = permute(absorb(0, body, 16, inside * (UNIT // 8)), constants, rounds)
        store_hash(nodes + (row * 2 * chunks + chunk) * 4, s, live)
    count = chunks + 0
    half = mine * 0
    while count > 1:
        tl.debug_barrier()
        pairs, above = count // 2, (count + 1) // 2
        for start in range(0, mine * pairs, BLOCK):
            message = start + lane
            row, pair = first + message // pairs, message % pairs
            source = nodes + ((row * 2 + half) * chunks + pair * 2) * 4
            target = nodes + ((row * 2 + 1 - half) * chunks + pair) * 4
            hash_pairs(source, target, message < mine * pairs, constants, rounds)
        if count % 2 == 1:
            for start in range(0, mine, BLOCK):
                row = first + start + lane
                odd = load_words(nodes + ((row * 2 + half) * chunks + count - 1) * 4, 4, start + lane < mine)
                store_hash(nodes + ((row * 2 + 1 - half) * chunks + pairs) * 4, odd, start + lane < mine)
        count = above
        half = 1 - half
    tl.debug_barrier()
    for start in range(0, mine, BLOCK):
        row = first + start + lane
        root = load_words(nodes + (row * 2 + half) * chunks * 4, 4, start + lane < mine)
        store_hash(records + row * width + kept, root, start + lane < mine)


def _units(rows: torch.Tensor) -> torch.Tensor:
    """``rows`` as the widest integers that its memory layout allows: [n, units]."""
    for unit in (torch.int64, torch.int32):
        if unit.itemsize <= rows.element_size():
            break
        ratio = unit.itemsize // rows.element_size()
        steps = (rows.shape[1], rows.storage_offset(), rows.stride(0) if rows.shape[0] > 1 else 0)
        if rows.stride(1) == 1 and not any(step % ratio for step in steps):
            return rows.view(unit)
    return rows.view(torch.int32 if rows.element_size() == 4 else torch.int16)


def hash_rows(rows: torch.Tensor, *, keep: bool = False) -> torch.Tensor:
    """Hash rows [n, d] of bfloat16, float16 or float32, any strides, without waiting for the device.

    Returns records, int64 [n, kept + 5]: the row's bytes, zero-padded to ``kept`` words, if ``keep`` (else
    kept is 0); its chunk root in 4 words; 1 if the row holds NaN or Inf, else 0. Who reads a root must read
    the flag: see ``row_roots``. Raises RowError for another shape or dtype, ConfigError for another device.
    """
    dtype = check_rows("rows", rows)
    n, row_bytes = rows.shape[0], rows.shape[1] * rows.element_size()
    kept = (row_bytes + 7) // 8 if keep else 0
    records = torch.empty((n, kept + TRAILER_WORDS), dtype=torch.int64, device=rows.device)
    if n == 0:
        return records
    chunks = (row_bytes + CHUNK_BYTES - 1) // CHUNK_BYTES
    nodes = torch.empty((n, 2, chunks, HASH_WORDS), dtype=torch.int64, device=rows.device)
    units = _units(rows)
    per_program = n if INTERPRETED else ROWS_PER_PROGRAM if n > FEW_ROWS else 1
    with on_device(rows):
        row_roots_kernel[(triton.cdiv(n, per_program),)](
            *(units, *units.stride(), n, units.shape[1], chunks, _EXPONENT[dtype], _LOWEST[dtype]),
            *(records, kept, nodes, per_program, constants_on(rows.device), ROUNDS),
            UNIT=8 * units.element_size(),
            BLOCK=lanes(n * chunks, WARPS),
            num_warps=WARPS,
            **OPTIONS,
        )
    return records


def row_roots(rows: torch.Tensor) -> torch.Tensor:
    """Chunk root of each row of [n, d], any strides: uint8 [n, 32] on the same device. Waits for the device.

    Raises RowError naming the first row with NaN or Inf, or for another shape or dtype.
    """
    records = hash_rows(rows)
    bad = records[:, -1].nonzero()
    if len(bad):
        raise RowError(f"rows[{int(bad[0])}]: the row contains NaN or Inf")
    return hash_bytes(records[:, :HASH_WORDS])
