"""A packaged model's GGUF file is put together from its pieces, and only if it is the one named here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from verillm import model_store
from verillm.errors import EngineError
from verillm.model_store import Packaged, resolve

PIECES = (b"GGUF one, ", b"two, ", b"three")


@pytest.fixture
def converted(tmp_path, monkeypatch) -> list[bytes]:
    """Model "cut" in three packages, the second of them not installed; what was handed to the conversion."""
    requirements = tuple(f"cut-part{i}==1.0" for i in range(3))
    package = Packaged(requirements, hashlib.sha256(b"".join(PIECES)).hexdigest(), "test")
    paths = {}
    for requirement, data in zip(requirements, PIECES, strict=True):
        paths[requirement] = tmp_path / f"{requirement}.gguf.part"
        paths[requirement].write_bytes(data)
    seen: list[bytes] = []

    def convert(gguf: Path, folder: Path, progress: model_store.Progress) -> Path:
        seen.append(gguf.read_bytes())
        return folder

    monkeypatch.setitem(model_store.PACKAGED, "cut", package)
    monkeypatch.setattr(model_store, "_convert", convert)
    monkeypatch.setattr(
        model_store, "_installed_piece", lambda name: None if name == requirements[1] else paths[name]
    )
    monkeypatch.setattr(model_store, "_downloaded_piece", lambda model, name, target: paths[name])
    return seen


def test_pieces_are_joined_in_order(converted, tmp_path):
    lines: list[str] = []
    assert resolve("cut", tmp_path / "cache", lines.append) == tmp_path / "cache" / "cut"
    assert converted == [b"".join(PIECES)]
    assert ["cut-part1==1.0" in line for line in lines] == [True]


def test_another_file_is_not_converted(converted, tmp_path):
    (tmp_path / "cut-part2==1.0.gguf.part").write_bytes(b"forged")
    with pytest.raises(EngineError, match="SHA-256"):
        resolve("cut", tmp_path / "cache", lambda line: None)
    assert converted == []


def test_missing_package_is_an_engine_error(tmp_path):
    with pytest.raises(EngineError, match="pip could not fetch"):
        model_store._downloaded_piece("cut", "verillm==0.0.0.dev0", tmp_path)
