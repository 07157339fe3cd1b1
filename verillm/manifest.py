"""A model's manifest: everything that fixes what a worker must compute. The model id is the hash of its spec.

No torch and no numba here: clients load manifests too.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from eth_hash.auto import keccak

from verillm import eip712
from verillm.commitment import MerkleTree
from verillm.comparator.tolerance import ToleranceTable
from verillm.constants import CHUNK_BYTES, MAX_HIDDEN_SIZE, Dtype
from verillm.errors import ConfigError, EncodingError
from verillm.sdk.jsoncodec import parse_json
from verillm.types import ModelSpec

MANIFEST_VERSION = 2
SAMPLER_VERSION = 1
"""Version of section 2 of ``docs/protocol.md``."""
TOKEN_MARGIN_Q24 = 1 << 18
"""2^-6: the contract's allowance for a token against the worker's own committed row. Only fp32 accumulation
order separates the two, about 1e-5 for logits near 30; honest variation of rows does not enter."""
CONFIG_IGNORED = frozenset({"_name_or_path", "_model_name_or_path", "transformers_version", "dtype"})
_HASHES = ("config_hash", "weights_root", "tokenizer_hash", "chat_template_hash")
_SPEC_COPIES = ("hidden_size", "vocab_size", "row_dtype", "weight_dtype")
"""What the spec repeats of the content."""


@dataclass(frozen=True)
class Manifest:
    """``boundaries[i]`` is the number of layers run before boundary i; the last is all layers and the row
    there is taken after the final norm. ``row_dtype`` is the dtype of compute and rows, ``weight_dtype`` that
    of the weights before compute. ``tolerance`` is ``ToleranceTable.to_dict()``. Hashes are 32 bytes."""

    name: str
    config_hash: bytes
    weights_root: bytes
    tokenizer_hash: bytes
    chat_template_hash: bytes
    row_dtype: Dtype
    weight_dtype: Dtype
    boundaries: tuple[int, ...]
    chunk_bytes: int
    eos_token_ids: tuple[int, ...]
    vocab_size: int
    hidden_size: int
    max_positions: int
    sampler_version: int
    tolerance: dict[str, Any]
    spec: ModelSpec
    version: int = MANIFEST_VERSION

    def __post_init__(self) -> None:
        """Raises EncodingError naming the field."""
        for name in _HASHES:
            if len(getattr(self, name)) != 32:
                raise EncodingError(f"manifest.{name}: must be 32 bytes")
        known = {"version": MANIFEST_VERSION, "sampler_version": SAMPLER_VERSION, "chunk_bytes": CHUNK_BYTES}
        for name, value in known.items():
            if getattr(self, name) != value:
                raise EncodingError(f"manifest.{name}: {getattr(self, name)}, only {value} is supported")
        if not self.boundaries or list(self.boundaries) != sorted({b for b in self.boundaries if b > 0}):
            raise EncodingError(f"manifest.boundaries: {self.boundaries} must be positive and increasing")
        if not 1 <= self.hidden_size <= MAX_HIDDEN_SIZE:
            raise EncodingError(f"manifest.hidden_size: {self.hidden_size} is outside 1 to {MAX_HIDDEN_SIZE}")
        if not all(0 <= token < self.vocab_size for token in self.eos_token_ids):
            raise EncodingError(f"manifest.eos_token_ids: outside the vocabulary of {self.vocab_size}")
        if len(self.spec.row_tolerance_q40) != len(self.boundaries):
            raise EncodingError("manifest.spec: row_tolerance_q40 needs one value per boundary")
        for name in _SPEC_COPIES:
            if getattr(self.spec, name) != getattr(self, name):
                raise EncodingError(f"manifest.spec.{name}: is not the manifest's {getattr(self, name)}")
        if self.spec.manifest_hash != self.content_hash():
            raise EncodingError("manifest.spec: manifest_hash is not the hash of this manifest's content")

    @property
    def model_id(self) -> bytes:
        """keccak(abi.encode(spec)), 32 bytes (docs/protocol.md, section 4)."""
        return eip712.model_id(self.spec)

    @property
    def table(self) -> ToleranceTable:
        """The tolerance table. Raises EncodingError if ``tolerance`` is not one."""
        return ToleranceTable.from_dict(self.tolerance)

    @property
    def row_bytes(self) -> int:
        return self.hidden_size * self.row_dtype.itemsize

    def content_hash(self) -> bytes:
        """keccak of the canonical JSON without ``spec``."""
        content = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "spec"}
        return content_hash(content)

    def to_json(self) -> str:
        value = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        value["spec"] = {f.name: _plain(getattr(self.spec, f.name)) for f in fields(ModelSpec)}
        return json.dumps(value, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Inverse of ``to_json``. Raises EncodingError for unknown, missing or malformed fields, and when the
        spec does not belong to the content."""
        value = parse_json(text, "manifest")
        _check_fields(value, cls, "manifest")
        spec = value["spec"]
        _check_fields(spec, ModelSpec, "manifest.spec")
        made = ModelSpec(
            manifest_hash=_hash(spec["manifest_hash"], "spec.manifest_hash"),
            output_matrix_root=_hash(spec["output_matrix_root"], "spec.output_matrix_root"),
            row_tolerance_q40=_uints(spec["row_tolerance_q40"], "spec.row_tolerance_q40"),
            **{
                name: _uint(spec[name], f"spec.{name}")
                for name in ("hidden_size", "vocab_size", "row_dtype", "weight_dtype", "token_margin_q24")
            },
        )
        if not isinstance(value["name"], str) or not isinstance(value["tolerance"], dict):
            raise EncodingError("manifest: name must be a string and tolerance an object")
        integers = ("chunk_bytes", "vocab_size", "hidden_size", "max_positions", "sampler_version", "version")
        numbers: dict[str, Any] = {name: _uint(value[name], name) for name in integers}
        hashes: dict[str, Any] = {name: _hash(value[name], name) for name in _HASHES}
        return cls(
            name=value["name"],
            row_dtype=_dtype(value["row_dtype"], "row_dtype"),
            weight_dtype=_dtype(value["weight_dtype"], "weight_dtype"),
            boundaries=_uints(value["boundaries"], "boundaries"),
            eos_token_ids=_uints(value["eos_token_ids"], "eos_token_ids"),
            tolerance=value["tolerance"],
            spec=made,
            **hashes,
            **numbers,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest; the file appears whole or not at all."""
        target = Path(path)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        scratch.write_text(self.to_json())
        scratch.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Manifest:
        """Raises ConfigError if the file cannot be read, EncodingError if it is no manifest."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"manifest: {error}; make one with `verillm calibrate`") from error
        return cls.from_json(_utf8(text, f"manifest: {path}"))


def make_manifest(content: dict[str, Any], output_matrix_root: bytes, table: ToleranceTable) -> Manifest:
    """The manifest of ``content`` (every field but ``version``, ``tolerance`` and ``spec``) and a table."""
    content = {"version": MANIFEST_VERSION, **content, "tolerance": table.to_dict()}
    spec = ModelSpec(
        manifest_hash=content_hash({name: _plain(value) for name, value in content.items()}),
        output_matrix_root=output_matrix_root,
        hidden_size=content["hidden_size"],
        vocab_size=content["vocab_size"],
        row_dtype=int(content["row_dtype"]),
        weight_dtype=int(content["weight_dtype"]),
        token_margin_q24=TOKEN_MARGIN_Q24,
        row_tolerance_q40=table.row_tolerance_q40,
    )
    return Manifest(**content, spec=spec)


def content_hash(content: dict[str, Any]) -> bytes:
    """keccak of canonical JSON: sorted keys, no spaces, ASCII. Raises EncodingError for NaN and Inf."""
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise EncodingError(f"content: {error}") from error
    return keccak(text.encode())


def weights_root(folder: str | os.PathLike[str]) -> bytes:
    """Merkle root over the folder's tensors by name: leaf keccak(canonical JSON of name, dtype, shape and the
    data's sha256), so that sharding does not matter. Raises EncodingError for a malformed file."""
    leaves: dict[str, bytes] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with path.open("rb") as file:
            size, length = int.from_bytes(file.read(8), "little"), path.stat().st_size
            if size > length:
                raise EncodingError(f"{path}: the header's length {size} is larger than the file")
            header = parse_json(_utf8(file.read(size), f"{path}: the header"), f"{path}: the header")
            if not isinstance(header, dict):
                raise EncodingError(f"{path}: the header is no object")
            header.pop("__metadata__", None)
            for name, info in header.items():
                start, end = _data_offsets(info, length - 8 - size, f"{path}: tensor {name[:80]!r}")
                file.seek(8 + size + start)
                digest = hashlib.sha256(file.read(end - start)).hexdigest()
                leaf = {"name": name, "dtype": info["dtype"], "shape": info["shape"], "sha256": digest}
                leaves[name] = content_hash(leaf)
    if not leaves:
        raise EncodingError(f"{folder}: no tensors in .safetensors files")
    return MerkleTree([leaves[name] for name in sorted(leaves)]).root


def config_hash(folder: str | os.PathLike[str]) -> bytes:
    """keccak of config.json's canonical JSON without names and versions. Raises EncodingError."""
    path = Path(folder) / "config.json"
    config = parse_json(_utf8(path.read_bytes(), str(path)), str(path))
    if not isinstance(config, dict):
        raise EncodingError(f"{path}: is no object")
    return content_hash({name: value for name, value in config.items() if name not in CONFIG_IGNORED})


def _utf8(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(f"{name}: is not UTF-8: {error}") from error


def _data_offsets(info: Any, size: int, name: str) -> tuple[int, int]:
    """Where a tensor's bytes begin and end among the ``size`` bytes of data."""
    if not isinstance(info, dict) or not {"dtype", "shape", "data_offsets"} <= info.keys():
        raise EncodingError(f"{name}: needs dtype, shape and data_offsets")
    offsets = info["data_offsets"]
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(o) is int for o in offsets):
        raise EncodingError(f"{name}: data_offsets must be two integers")
    if not 0 <= offsets[0] <= offsets[1] <= size:
        raise EncodingError(f"{name}: data_offsets {offsets} are not in order within {size} bytes of data")
    return offsets[0], offsets[1]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Dtype):
        return value.name.lower()
    return list(value) if isinstance(value, tuple) else value


def _check_fields(value: Any, kind: Any, where: str) -> None:
    names = {f.name for f in fields(kind)}
    if not isinstance(value, dict) or set(value) != names:
        raise EncodingError(f"{where}: expected an object with exactly the fields {', '.join(sorted(names))}")


def _hash(value: Any, name: str) -> bytes:
    if not isinstance(value, str) or len(value) != 66 or not value.startswith("0x"):
        raise EncodingError(f"manifest.{name}: must be 0x and 64 hex digits")
    try:
        data = bytes.fromhex(value[2:])
    except ValueError as error:
        raise EncodingError(f"manifest.{name}: must be 0x and 64 hex digits") from error
    if len(data) != 32:  # fromhex skips white space
        raise EncodingError(f"manifest.{name}: must be 0x and 64 hex digits")
    return data


def _uint(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 2**64:
        raise EncodingError(f"manifest.{name}: must be an integer from 0 to 2^64 - 1")
    return value


def _uints(value: Any, name: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise EncodingError(f"manifest.{name}: must be a list of integers")
    return tuple(_uint(item, name) for item in value)


def _dtype(value: Any, name: str) -> Dtype:
    if not isinstance(value, str) or value not in {d.name.lower() for d in Dtype}:
        raise EncodingError(f"manifest.{name}: {str(value)[:40]!r} is not bf16, fp16 or fp32")
    return Dtype[value.upper()]
