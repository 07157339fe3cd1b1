"""The committed vectors, the reference and the worker's fast code all agree."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from tests.commitment.conftest import VECTORS, unhex
from verillm.commitment import fast, hashing
from verillm.commitment.keccak import keccak256
from verillm.commitment.matrix import OutputMatrix
from verillm.commitment.merkle import verify_proof
from verillm.commitment.opening import RowOpening

MAKE_VECTORS = Path(__file__).resolve().parents[2] / "scripts" / "make_vectors.py"


def test_the_file_is_what_the_script_writes():
    assert runpy.run_path(str(MAKE_VECTORS))["render"]() == VECTORS.read_text()


def test_keccak_is_the_evms():
    # Published digests of the empty string and of "abc".
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"


def test_fast_code_reproduces_the_rows(vectors):
    rows = vectors["rows"]
    for i, text in enumerate(rows["rows"]):
        row = np.frombuffer(unhex(text), np.uint8)[None]
        root = fast.row_roots(row)[0].tobytes()
        assert root == unhex(rows["chunk_roots"][i])
        leaf = hashing.row_leaf(rows["positions"][i], rows["tokens"][i], root)
        assert leaf == unhex(rows["row_leaves"][i])


def test_merkle_proofs_of_one_to_nine_leaves(vectors):
    tree = vectors["merkle"]
    for i, count in enumerate(tree["counts"]):
        siblings = tree["siblings"][tree["starts"][i] : tree["starts"][i] + tree["lengths"][i]]
        proof = [unhex(h) for h in siblings]
        verify_proof(unhex(tree["leaves"][i]), tree["indices"][i], count, proof, unhex(tree["roots"][i]))


def test_fast_code_reproduces_the_jobs(cases):
    for case in cases:
        vector, job = case.vector, case.job
        assert job.token_root == unhex(vector["token_root"])
        assert job.boundary_roots == tuple(unhex(r) for r in vector["boundary_roots"])
        assert job.boundaries_root == unhex(vector["boundaries_root"])
        assert job.job_root == unhex(vector["job_root"])
        assert job.rows_per_boundary == vector["rows_per_boundary"]
        opening = vector["opening"]
        assert job.open_row(opening["boundary"], opening["position"]) == RowOpening.from_json(opening)
        token = vector["token_opening"]
        assert job.token_proof(token["position"]) == tuple(unhex(h) for h in token["proof"])
        assert hashing.token_leaf(token["position"], token["token"]) == unhex(token["leaf"])


def test_output_matrix(vectors):
    vector = vectors["matrix"]
    rows = np.stack([np.frombuffer(unhex(r), np.uint8) for r in vector["rows"]])
    matrix = OutputMatrix(rows)
    assert matrix.root == unhex(vector["root"]) == fast.matrix_root(rows)
    assert matrix.proof(vector["token"]) == tuple(unhex(h) for h in vector["proof"])
    for v in range(matrix.vocab_size):
        leaf = hashing.matrix_row_leaf(v, matrix.row(v))
        assert leaf == unhex(vector["leaves"][v])
        verify_proof(leaf, v, matrix.vocab_size, matrix.proof(v), matrix.root)
