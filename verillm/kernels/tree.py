"""The tree above chunk roots: row leaves and levels (section 1 of ``docs/protocol.md``) on the device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from verillm.errors import EncodingError
from verillm.kernels.keccak import ROUNDS, absorb, constants_on, hash_pairs, load_words, permute, store_hash
from verillm.kernels.launch import OPTIONS, check_device, lanes, on_device


@triton.jit
def _big_endian(x):
    """The low 32 bits of an int64 with their bytes reversed, as uint64."""
    x = x.to(tl.uint64, bitcast=True)
    x = ((x & 0x00FF00FF) << 8) | ((x >> 8) & 0x00FF00FF)
    return ((x & 0xFFFF) << 16) | (x >> 16)


@triton.jit(do_not_specialize=["count", "rounds"])
def row_leaves_kernel(roots, root_step, tokens, leaves, count, constants, rounds, BLOCK: tl.constexpr):
    """leaf i = H(0x02 || u32 i || u32 tokens[i] || roots[i]); roots and leaves are int64 [count, 4]."""
    position = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = position < count
    token = tl.load(tokens + position, mask=live, other=0)
    head = _big_endian(position) | (_big_endian(token) << 32)
    body = (head,)
    body += load_words(roots + position * root_step, 4, live)
    s = absorb(2, body, 5, tl.full([BLOCK], 40, tl.int32))
    store_hash(leaves + position * 4, permute(s, constants, rounds), live)


@triton.jit(do_not_specialize=["count", "rounds"])
def tree_level_kernel(nodes, above, count, constants, rounds, BLOCK: tl.constexpr):
    """``above`` int64 [ceil(count / 2), 4] over ``nodes`` int64 [count, 4]; an odd last node moves up."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    hash_pairs(nodes + i * 8, above + i * 4, 2 * i + 1 < count, constants, rounds)
    odd = 2 * i + 1 == count
    store_hash(above + i * 4, load_words(nodes + i * 8, 4, odd), odd)


def tree_levels(leaves: torch.Tensor) -> list[torch.Tensor]:
    """All levels of the tree over hashes int64 [n >= 1, 4], leaves first, the root as [1, 4] last.

    Raises EncodingError for another shape, ConfigError for another device. Does not wait for the device.
    """
    if leaves.dtype != torch.int64 or leaves.ndim != 2 or leaves.shape[0] == 0 or leaves.shape[1] != 4:
        raise EncodingError(f"leaves: {leaves.dtype} {list(leaves.shape)}, expected int64 [n >= 1, 4]")
    check_device("leaves", leaves)
    levels = [leaves.contiguous()]
    while (count := levels[-1].shape[0]) > 1:
        above = torch.empty(((count + 1) // 2, 4), dtype=torch.int64, device=leaves.device)
        block = lanes(len(above))
        grid = (triton.cdiv(len(above), block),)
        constants = constants_on(leaves.device)
        with on_device(leaves):
            tree_level_kernel[grid](
                levels[-1], above, count, constants, ROUNDS, BLOCK=block, num_warps=1, **OPTIONS
            )
        levels.append(above)
    return levels


def boundary_levels(chunk_roots: torch.Tensor, tokens: torch.Tensor) -> list[torch.Tensor]:
    """Levels of a boundary's tree, as ``tree_levels``: row t has chunk root ``chunk_roots[t]``, int64 [n, 4]
    with any row stride, and token ``tokens[t]``, int64 [n] in 0 .. 2^32 - 1.

    Raises EncodingError for another shape, ConfigError for another device. Does not wait for the device.
    """
    n = len(chunk_roots)
    if n == 0 or chunk_roots.dtype != torch.int64 or chunk_roots.shape != (n, 4) or tokens.shape != (n,):
        shapes = f"{chunk_roots.dtype} {list(chunk_roots.shape)} and {list(tokens.shape)}"
        raise EncodingError(f"chunk_roots, tokens: {shapes}, expected int64 [n >= 1, 4] and [n]")
    check_device("chunk_roots", chunk_roots)
    roots = chunk_roots if chunk_roots.stride(1) == 1 else chunk_roots.contiguous()
    leaves = torch.empty((n, 4), dtype=torch.int64, device=roots.device)
    block = lanes(n)
    with on_device(roots):
        row_leaves_kernel[(triton.cdiv(n, block),)](
            *(roots, roots.stride(0), tokens.to(torch.int64).contiguous(), leaves, n),
            *(constants_on(roots.device), ROUNDS),
            BLOCK=block,
            num_warps=1,
            **OPTIONS,
        )
    return tree_levels(leaves)
