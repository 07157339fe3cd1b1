"""A changed opening, commitment or shape never verifies; JSON is strict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verillm.commitment.opening import RowOpening
from verillm.constants import Dtype, FinishReason
from verillm.errors import EncodingError, ProofError

FIXTURE_OK = [HealthCheck.function_scoped_fixture]


def flip(value: bytes, bit: int) -> bytes:
    at = bit % (8 * len(value))
    return (int.from_bytes(value, "big") ^ (1 << at)).to_bytes(len(value), "big")


@settings(max_examples=50, deadline=None, suppress_health_check=FIXTURE_OK)
@given(
    boundary=st.integers(0, 2), position=st.integers(0, 5), bit=st.integers(0, 2**16), at=st.integers(0, 9)
)
def test_one_flipped_bit_anywhere_is_found(case, boundary, position, bit, at):
    opening = case.job.open_row(boundary, position)
    mutants = [
        replace(opening, row=flip(opening.row, bit)),
        replace(opening, token=opening.token ^ (1 << bit % 32)),
    ]
    for field in ("row_proof", "boundary_proof"):
        proof = list(getattr(opening, field))
        if proof:
            proof[at % len(proof)] = flip(proof[at % len(proof)], bit)
            mutants.append(replace(opening, **{field: tuple(proof)}))
    for mutant in mutants:
        with pytest.raises(ProofError, match=f"boundary {boundary}, position {position}"):
            case.verify(mutant)


def test_another_place_is_found(case):
    opening = case.job.open_row(1, 2)
    for boundary in range(-1, 4):
        for position in range(-1, 7):
            if (boundary, position) != (1, 2):
                with pytest.raises(ProofError, match=f"boundary {boundary}, position {position}"):
                    case.verify(replace(opening, boundary=boundary, position=position))


@pytest.mark.parametrize(
    "change",
    [
        {"row": b""},
        {"row": bytes(37 * 4 - 1)},
        {"row": b"\xff" * (37 * 4)},
        {"token": -1},
        {"token": 2**32},
        {"row_proof": ()},
        {"row_proof": (b"",) * 3},
        {"boundary_proof": (bytes(32),) * 40},
    ],
)
def test_hostile_sizes_and_values_are_refused(case, change):
    with pytest.raises(ProofError, match="boundary 0, position 0"):
        case.verify(replace(case.job.open_row(0, 0), **change))


def test_everything_signed_is_bound(case):
    opening, commitment, parts = case.job.open_row(2, 3), case.commitment, case.job.parts
    changes = [
        {"commitment": replace(commitment, job_id=bytes(32))},
        {"commitment": replace(commitment, job_root=bytes(32))},
        {"commitment": replace(commitment, prompt_tokens=commitment.prompt_tokens + 1)},
        {"commitment": replace(commitment, output_tokens=commitment.output_tokens + 1)},
        {"commitment": replace(commitment, prompt_tokens=2, output_tokens=5)},
        {"commitment": replace(commitment, prompt_tokens=2**40)},
        {"commitment": replace(commitment, finish_reason=FinishReason.STOP)},
        {"commitment": replace(commitment, operator="0x" + "33" * 20)},
        {"commitment": replace(commitment, operator="nobody")},
        {"model_id": bytes(32)},
        {"model_id": b""},
        {"parts": replace(parts, token_root=bytes(32))},
        {"parts": replace(parts, boundaries_root=bytes(32))},
        {"parts": replace(parts, boundaries_count=4)},
        {"parts": replace(parts, boundaries_count=2**17)},
        {"dtype": Dtype.BF16, "hidden_size": 74},
        {"hidden_size": 36},
    ]
    for change in changes:
        with pytest.raises(ProofError, match="boundary 2, position 3"):
            case.verify(opening, **change)
    case.verify(opening)


def test_json_round_trip(cases):
    for case in cases:
        for opening in case.job.open(0):
            assert RowOpening.from_json(json.loads(json.dumps(opening.to_json()))) == opening


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"boundary": 65536}, "boundary"),
        ({"boundary": True}, "boundary"),
        ({"position": -1}, "position"),
        ({"position": 1.0}, "position"),
        ({"token": "7"}, "token"),
        ({"row": "00"}, "row"),
        ({"row": "0x0"}, "row"),
        ({"row": "0x00 11"}, "row"),
        ({"row": "0x"}, "row"),
        ({"row": "0x" + "00" * 32769}, "row"),
        ({"row_proof": "0x"}, "row_proof"),
        ({"row_proof": ["0x00"]}, r"row_proof\[0\]"),
        ({"boundary_proof": ["0x" + "00" * 32] * 33}, "boundary_proof"),
        ({"boundary_proof": [None]}, r"boundary_proof\[0\]"),
        ({"extra": 1}, "exactly the fields"),
    ],
)
def test_json_is_strict(case, change, field):
    with pytest.raises(EncodingError, match=field):
        RowOpening.from_json(case.job.open_row(0, 0).to_json() | change)


@pytest.mark.parametrize("value", [None, [], "x", {}, {"boundary": 0}])
def test_json_of_something_else_is_refused(value):
    with pytest.raises(EncodingError, match="opening"):
        RowOpening.from_json(value)
