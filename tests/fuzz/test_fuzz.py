"""Every decoder under mutated inputs: the long run is ``benchmarks/fuzz.py``, this is its short form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutate import varint
from tests.fuzz.planted import FAULTS
from tests.fuzz.reader import Reader, pack
from tests.fuzz.targets import all_targets

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 20_000
TOTAL = {"draw", "reverts.decode"}
"""Defined on every input of the right types: they refuse nothing."""


def test_valid_inputs_are_accepted() -> None:
    """Or a fuzzer would only ever see the first check of a decoder."""
    for target in all_targets():
        for seed in target.seeds:
            target.feed(seed)


def test_twenty_thousand_hostile_inputs_crash_nothing(tmp_path: Path) -> None:
    out = tmp_path / "fuzz.json"
    command = [sys.executable, str(ROOT / "benchmarks/fuzz.py"), "--inputs", str(INPUTS), "--seed", "7"]
    done = subprocess.run(
        [*command, "--json", str(out)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    assert result["inputs"] >= INPUTS
    assert result["crashes"] == 0
    for name, tally in result["targets"].items():
        assert tally["inputs"] == tally["accepted"] + tally["typed"], name
        assert tally["accepted"] > 0, name
        assert tally["typed"] > 0 or name in TOTAL, name


def test_crashes_of_every_kind_are_seen_and_attributed() -> None:
    """Exceptions, signals, hangs and memory: the run goes on behind each, and its input is kept."""
    command = [sys.executable, "-m", "tests.fuzz.planted"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    tally = json.loads(done.stdout)
    found = {crash["index"]: crash["kind"] for crash in tally["kept"]}
    assert found == {**FAULTS, 50: "took too long", 55: "took too long"}
    assert [bytes.fromhex(crash["input"]) for crash in tally["kept"]] == [
        str(crash["index"]).encode() for crash in tally["kept"]
    ]
    assert tally["inputs"] == 101
    assert tally["accepted"] + tally["typed"] + tally["crashes"] == 101


@pytest.mark.parametrize("index", [0, 1, 500, 99_999])
def test_an_input_is_made_again_from_its_index(index: int) -> None:
    for target in all_targets()[::7]:
        assert target.input(3, index) == target.input(3, index)
        assert (
            index < len(target.seeds)
            or target.input(3, index) != target.input(4, index)
            or len(target.input(3, index)) < 3
        )


def test_flat_arguments_round_trip() -> None:
    rng = Random(1)
    items = [rng.randbytes(n) for n in (0, 1, 300)]
    reader = Reader(pack(b"abc", (7, 4), items, b""))
    assert (reader.blob(), reader.number(4), reader.blobs(), reader.blob()) == (b"abc", 7, items, b"")
    assert (reader.number(8), reader.blob(), reader.blobs()) == (0, b"", [])
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\1", b"\xac\2"]
