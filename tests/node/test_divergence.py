"""No dispute rests on one honest outlier row: all opened rows of a party must fail together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from node.challenges import find_divergence
from verillm.commitment import RowOpening

POSITIONS = (2, 5, 6, 9, 11, 14, 15, 20)
ROWS = np.random.default_rng(3).standard_normal((2, len(POSITIONS), 64)).astype("<f4")


def party(rows):
    """A party as far as ``find_divergence`` looks at it, with ``rows`` [boundary, position, d] opened."""
    opened = tuple(
        RowOpening(b, t, 1, row.tobytes(), (), ())
        for b, block in enumerate(rows)
        for t, row in zip(POSITIONS, block, strict=True)
    )
    return SimpleNamespace(opening=SimpleNamespace(rows=opened))


@pytest.fixture
def tolerant(tiny_manifest):
    """The manifest with rows beyond relative L2 of about 1e-3 out of tolerance, and beyond 0.1 rejected."""
    bounds = [
        {**b, "row_tolerance_q40": 1 << 19, "row_reject_q40": 1 << 33}
        for b in tiny_manifest.tolerance["boundaries"]
    ]
    manifest = SimpleNamespace(
        spec=replace(tiny_manifest.spec, row_tolerance_q40=(1 << 19,) * 2), boundaries=(1, 2)
    )
    manifest.table = type(tiny_manifest.table).from_dict({**tiny_manifest.tolerance, "boundaries": bounds})
    return manifest


def off(error, *places):
    """ROWS with the rows at ``places`` (boundary, index) scaled by 1 + ``error``: about their relative L2."""
    rows = ROWS.copy()
    for place in places:
        rows[place] *= 1 + error
    return rows


def test_one_honest_outlier_opens_no_dispute(tolerant):
    assert find_divergence(party(ROWS), party(off(3e-3, (0, 4))), tolerant) is None


def test_one_row_beyond_the_reject_limit_does(tolerant):
    found = find_divergence(party(ROWS), party(off(0.5, (1, 3))), tolerant)
    assert found is not None
    assert [(row.boundary, row.position) for row in found] == [(1, POSITIONS[3])] * 2


def test_many_rows_beyond_tolerance_do_at_the_first(tolerant):
    places = [(1, i) for i in range(2, len(POSITIONS))]
    found = find_divergence(party(ROWS), party(off(3e-3, *places)), tolerant)
    assert found is not None
    mine, theirs = found
    assert (theirs.boundary, theirs.position) == (1, POSITIONS[2])
    assert mine.row == ROWS[1, 2].tobytes()
