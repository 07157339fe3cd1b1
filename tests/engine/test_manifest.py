"""Manifests: strict JSON, and ids that change with everything that matters."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from verillm import eip712
from verillm.calibrate import calibrate
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError, EncodingError
from verillm.manifest import Manifest, weights_root
from verillm.model_store import manifest_path, resolve


@pytest.fixture(scope="module")
def manifest(tiny_folder) -> Manifest:
    return calibrate(tiny_folder, Dtype.BF16, jobs=24)


def test_json_round_trip(manifest, tiny_folder, tmp_path):
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert Manifest.load(manifest_path(tiny_folder, Dtype.BF16)) == manifest
    manifest.save(tmp_path / "m.json")
    assert Manifest.load(tmp_path / "m.json").model_id == eip712.model_id(manifest.spec)
    assert manifest.spec.row_tolerance_q40 == manifest.table.row_tolerance_q40


@pytest.mark.parametrize(
    ("field", "value"),
    [("vocab_size", "300"), ("vocab_size", True), ("weights_root", "0x00"), ("boundaries", [3, 1]),
     ("name", 3), ("row_dtype", "int4"), ("sampler_version", 2), ("eos_token_ids", [999]),
     ("max_positions", 129), ("tolerance", {})],
)  # fmt: skip
def test_changed_field_is_refused(manifest, field, value):
    changed = {**json.loads(manifest.to_json()), field: value}
    with pytest.raises(EncodingError, match="manifest"):
        Manifest.from_json(json.dumps(changed))


def test_missing_and_extra_fields_are_refused(manifest):
    value = json.loads(manifest.to_json())
    for text in ("[]", "{", json.dumps({**value, "more": 1}), json.dumps({"spec": value["spec"]})):
        with pytest.raises(EncodingError, match="manifest"):
            Manifest.from_json(text)


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="verillm calibrate"):
        Manifest.load(tmp_path / "none.json")


def test_model_id_depends_on_content(manifest):
    content = {**manifest.tolerance, "jobs": manifest.tolerance["jobs"] + 1}
    with pytest.raises(EncodingError, match="manifest_hash"):
        replace(manifest, tolerance=content)


def test_weights_root_depends_on_values_not_on_shards(tiny_folder, tmp_path):
    tensors = load_file(tiny_folder / "model.safetensors")
    names = sorted(tensors)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    save_file({n: tensors[n] for n in names[:5]}, one / "a.safetensors")
    save_file({n: tensors[n] for n in names[5:]}, one / "b.safetensors")
    assert weights_root(one) == weights_root(tiny_folder)
    tensors[names[0]] = tensors[names[0]] + torch.ones_like(tensors[names[0]]) * 0.5
    save_file(tensors, two / "a.safetensors")
    assert weights_root(two) != weights_root(tiny_folder)
    with pytest.raises(EncodingError, match="no tensors"):
        weights_root(tmp_path)


def test_engine_refuses_a_manifest_of_another_model(tiny_folder, manifest):
    config = json.loads((tiny_folder / "config.json").read_text())
    try:
        (tiny_folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
        with pytest.raises(ConfigError, match="max_positions"):
            Engine.from_manifest(tiny_folder, manifest)
    finally:
        (tiny_folder / "config.json").write_text(json.dumps(config))


def test_resolve_local_names(tiny_folder, tmp_path):
    assert resolve(str(tiny_folder)) == tiny_folder.resolve()
    for name in (str(tmp_path), str(tmp_path / "no.gguf"), "no-such-model"):
        with pytest.raises(ConfigError, match="model"):
            resolve(name, cache_dir=tmp_path / "cache")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="safetensors"):
        resolve(str(tmp_path))
