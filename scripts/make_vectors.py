"""Write tests/vectors/commitment.json from the reference functions; Python and Solidity tests read it.

Arrays are flat and parallel (element i of each belongs together), as forge's JSON cheatcodes read them;
proofs of several leaves share one array: entry i's proof is ``siblings[starts[i] : starts[i] + lengths[i]]``.
Usage: python scripts/make_vectors.py [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from verillm.commitment import hashing
from verillm.commitment.keccak import keccak256
from verillm.commitment.merkle import MerkleTree, tree_root
from verillm.constants import Dtype, FinishReason

FILE = Path(__file__).resolve().parent.parent / "tests" / "vectors" / "commitment.json"
OPERATOR = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
"""The address of private key 1."""
SPECIAL = {
    Dtype.FP32: (0x80000000, 0x00000001, 0x807FFFFF, 0x00000000, 0x7F7FFFFF, 0x3F800000),
    Dtype.BF16: (0x8000, 0x0001, 0x807F, 0x0000, 0x7F7F, 0x3F80),
    Dtype.FP16: (0x8000, 0x0001, 0x83FF, 0x0000, 0x7BFF, 0x3C00),
}
"""-0.0, the smallest subnormal, the largest negative subnormal, 0.0, the largest finite value, 1.0."""


def hexed(value: bytes) -> str:
    return "0x" + value.hex()


def make_row(label: str, dtype: Dtype, hidden_size: int) -> bytes:
    """``hidden_size`` finite values: the special ones, then pseudo-random bits from keccak of the label."""
    exponent = {Dtype.FP32: 0x7F800000, Dtype.BF16: 0x7F80, Dtype.FP16: 0x7C00}[dtype]
    low_exponent_bit = exponent & -exponent
    values = list(SPECIAL[dtype][:hidden_size])
    while len(values) < hidden_size:
        bits = int.from_bytes(keccak256(f"{label}/{len(values)}".encode())[: dtype.itemsize], "big")
        values.append(bits & ~low_exponent_bit)  # the exponent is never all ones, so the value is finite
    return b"".join(v.to_bytes(dtype.itemsize, "little") for v in values)


def keccak_vectors() -> dict[str, Any]:
    """Lengths around the 136-byte block and the 129-byte chunk preimage."""
    lengths = (0, 1, 32, 64, 65, 128, 129, 135, 136, 137, 271, 272, 273)
    inputs = [bytes(i % 251 for i in range(n)) for n in lengths]
    inputs.append(b"abc")
    return {"inputs": [hexed(x) for x in inputs], "hashes": [hexed(keccak256(x)) for x in inputs]}


def row_vectors() -> dict[str, Any]:
    """Rows of one value to several chunks, whole and partial last chunks, every dtype."""
    shapes = [
        (Dtype.BF16, 1), (Dtype.BF16, 64), (Dtype.BF16, 65), (Dtype.BF16, 576), (Dtype.FP16, 3),
        (Dtype.FP16, 193), (Dtype.FP32, 1), (Dtype.FP32, 6), (Dtype.FP32, 32), (Dtype.FP32, 37),
        (Dtype.FP32, 96), (Dtype.FP32, 161),
    ]  # fmt: skip
    rows = [make_row(f"row{i}", dtype, d) for i, (dtype, d) in enumerate(shapes)]
    positions = [(i * 77) % 1000 for i in range(len(rows))]
    positions[-1] = 2**32 - 1
    tokens = [49151 - i * 3 for i in range(len(rows))]
    roots = [hashing.row_chunk_root(row) for row in rows]
    cases = list(zip(positions, tokens, roots, strict=True))
    return {
        "dtypes": [int(dtype) for dtype, _ in shapes],
        "hidden_sizes": [d for _, d in shapes],
        "rows": [hexed(row) for row in rows],
        "positions": positions,
        "tokens": tokens,
        "first_chunk_leaves": [hexed(hashing.chunk_leaves(row)[0]) for row in rows],
        "chunk_roots": [hexed(root) for root in roots],
        "row_leaves": [hexed(hashing.row_leaf(p, t, root)) for p, t, root in cases],
        "matrix_row_leaves": [
            hexed(hashing.matrix_row_leaf(t, row)) for t, row in zip(tokens, rows, strict=True)
        ],
    }


def merkle_vectors() -> dict[str, Any]:
    """Every leaf of every tree of 1 to 9 leaves; leaf i is keccak256(u32 i)."""
    keys = ("counts", "indices", "leaves", "roots", "starts", "lengths", "siblings")
    out: dict[str, Any] = {k: [] for k in keys}
    for count in range(1, 10):
        leaves = [keccak256(i.to_bytes(4, "big")) for i in range(count)]
        tree = MerkleTree(leaves)
        for index, leaf in enumerate(leaves):
            proof = tree.proof(index)
            out["counts"].append(count)
            out["indices"].append(index)
            out["leaves"].append(hexed(leaf))
            out["roots"].append(hexed(tree.root))
            out["starts"].append(len(out["siblings"]))
            out["lengths"].append(len(proof))
            out["siblings"].extend(hexed(h) for h in proof)
    return out


def job_vector(
    name: str, dtype: Dtype, hidden_size: int, boundaries: int, prompt: int, output: int, finish: FinishReason
) -> dict[str, Any]:
    """A whole job, with a row opening (last boundary, middle position) and a token opening (last one)."""
    tokens = [int.from_bytes(keccak256(f"{name}/{t}".encode())[:2], "big") for t in range(prompt + output)]
    n = len(tokens) - 1
    job_id, model_id = keccak256(f"{name}/job".encode()), keccak256(f"{name}/model".encode())
    rows = [[make_row(f"{name}/{b}/{t}", dtype, hidden_size) for t in range(n)] for b in range(boundaries)]
    leaves = [[hashing.row_leaf(t, tokens[t], hashing.row_chunk_root(rows[b][t])) for t in range(n)]
              for b in range(boundaries)]  # fmt: skip
    roots = [hashing.boundary_root(b, dtype, hidden_size, n, tree_root(leaves[b])) for b in range(boundaries)]
    boundaries_root, token_root = tree_root(roots), hashing.token_root(tokens)
    job_root = hashing.job_root(
        job_id=job_id, operator=OPERATOR, model_id=model_id, prompt_tokens=prompt, output_tokens=output,
        finish_reason=finish, token_root=token_root, boundaries_count=boundaries,
        boundaries_root=boundaries_root,
    )  # fmt: skip
    b, t = boundaries - 1, n // 2
    token_leaves = [hashing.token_leaf(i, token) for i, token in enumerate(tokens)]
    return {
        "job_id": hexed(job_id),
        "operator": OPERATOR,
        "model_id": hexed(model_id),
        "dtype": int(dtype),
        "hidden_size": hidden_size,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "finish_reason": int(finish),
        "rows_per_boundary": n,
        "tokens": tokens,
        "token_list_hash": hexed(hashing.token_list_hash(tokens)),
        "rows": [hexed(row) for boundary in rows for row in boundary],
        "token_root": hexed(token_root),
        "boundaries_count": boundaries,
        "boundary_roots": [hexed(root) for root in roots],
        "boundaries_root": hexed(boundaries_root),
        "job_root": hexed(job_root),
        "opening": {
            "boundary": b,
            "position": t,
            "token": tokens[t],
            "row": hexed(rows[b][t]),
            "row_proof": [hexed(h) for h in MerkleTree(leaves[b]).proof(t)],
            "boundary_proof": [hexed(h) for h in MerkleTree(roots).proof(b)],
        },
        "token_opening": {
            "position": n,
            "token": tokens[n],
            "leaf": hexed(token_leaves[n]),
            "proof": [hexed(h) for h in MerkleTree(token_leaves).proof(n)],
        },
    }


def matrix_vector() -> dict[str, Any]:
    """An output matrix of 7 tokens, 70 fp32 weights each, and the proof of token 6 (promoted once)."""
    rows = [make_row(f"matrix/{v}", Dtype.FP32, 70) for v in range(7)]
    leaves = [hashing.matrix_row_leaf(v, row) for v, row in enumerate(rows)]
    tree = MerkleTree(leaves)
    return {
        "weight_dtype": int(Dtype.FP32),
        "vocab_size": len(rows),
        "rows": [hexed(row) for row in rows],
        "leaves": [hexed(leaf) for leaf in leaves],
        "root": hexed(tree.root),
        "token": 6,
        "proof": [hexed(h) for h in tree.proof(6)],
    }


def make_vectors() -> dict[str, Any]:
    """The whole file. ``rows`` of a job are boundary-major: boundary 0 positions 0.., boundary 1 ..."""
    return {
        "keccak": keccak_vectors(),
        "rows": row_vectors(),
        "merkle": merkle_vectors(),
        "jobs": [
            job_vector("odd", Dtype.FP32, 37, 3, 3, 4, FinishReason.EOS),
            job_vector("one row", Dtype.BF16, 3, 1, 1, 1, FinishReason.LENGTH),
            job_vector("half", Dtype.FP16, 64, 2, 5, 2, FinishReason.STOP),
            job_vector("brain", Dtype.BF16, 96, 5, 4, 6, FinishReason.LENGTH),
        ],
        "matrix": matrix_vector(),
    }


def render() -> str:
    return json.dumps(make_vectors(), indent=1) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_text(render())
