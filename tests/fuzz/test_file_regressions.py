"""Faults that the fuzzer, or reading for it, found in decoders of files that strangers write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.toy import ToyWorld
from tests.sdk.fakes import BOOK
from verillm.chain import AddressBook
from verillm.cli.config import _from_file
from verillm.errors import ConfigError, EncodingError, InvalidRequest
from verillm.manifest import Manifest, config_hash, weights_root
from verillm.sdk.text import _chat_settings, _render

DEEP = "[" * 100_000


def changed(manifest: Manifest, change: Callable[[dict[str, Any]], None]) -> str:
    value = json.loads(manifest.to_json())
    change(value)
    return json.dumps(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(row_dtype=[]), r"manifest\.row_dtype: '\[\]' is not bf16"),
        (lambda m: m["tolerance"].update(jobs=float("nan")), "content"),
        (lambda m: m["spec"].update(row_dtype=7), r"manifest\.spec\.row_dtype"),
        (lambda m: m["spec"].update(hidden_size=2**40), r"manifest\.spec\.hidden_size"),
        (lambda m: m["spec"].update(output_matrix_root="0x" + "ab " * 21 + "a"), r"64 hex digits"),
    ],
)
def test_a_manifest_with_a_bad_field_is_refused(
    world: ToyWorld, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(EncodingError, match=message):
        Manifest.from_json(changed(world.manifest, change))


def test_deep_json_is_refused_wherever_a_stranger_writes_it(tmp_path: Path) -> None:
    """``json`` recurses in C, and a library raised the limit that would stop it: it overflows the stack."""
    with pytest.raises(EncodingError, match="nested deeper"):
        Manifest.from_json(DEEP)
    path = tmp_path / "deep.json"
    path.write_text(DEEP)
    with pytest.raises(ConfigError, match="nested deeper"):
        AddressBook.read(path)
    with pytest.raises(ConfigError, match="nested deeper"):
        _from_file(path)
    (tmp_path / "config.json").write_text(DEEP)
    with pytest.raises(EncodingError, match="nested deeper"):
        config_hash(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(DEEP)
    with pytest.raises(ConfigError, match="nested deeper"):
        _chat_settings(tmp_path)
    (tmp_path / "w.safetensors").write_bytes(len(DEEP).to_bytes(8, "little") + DEEP.encode())
    with pytest.raises(EncodingError, match="nested deeper"):
        weights_root(tmp_path)
    toml = tmp_path / "deep.toml"
    toml.write_text("rpc = " + DEEP)
    with pytest.raises(ConfigError, match="neither JSON nor TOML"):
        _from_file(toml)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ("", None)),
        ({"bos_token": [], "chat_template": 7}, ("", None)),
        ({"bos_token": {"text": "<s>"}, "chat_template": [1, {"name": []}, {}]}, ("", None)),
        ({"bos_token": "<s>", "chat_template": [{"name": "default"}]}, ("<s>", None)),
        ({"bos_token": {"content": "<s>"}, "chat_template": "{{ 1 }}"}, ("<s>", "{{ 1 }}")),
    ],
)
def test_odd_chat_settings_are_none(tmp_path: Path, config: Any, expected: tuple[str, str | None]) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    special, template = _chat_settings(tmp_path)
    assert (special["bos_token"], template) == expected


@pytest.mark.parametrize("template", ["{{ 1 // 0 }}", "{{ 1 + m }}", "{% for m in 1 %}{% endfor %}", "{{"])
def test_a_chat_template_that_fails_is_a_bad_request(template: str) -> None:
    with pytest.raises(InvalidRequest, match="the chat template refused"):
        _render(template, [{"role": "user", "content": "x"}], {})


def test_a_manifest_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b'{"name": "\xff"}')
    with pytest.raises(EncodingError, match="is not UTF-8"):
        Manifest.load(path)


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"w": 1},
        {"w": {"dtype": "F32", "shape": [2]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**60]}},
        {"w": {"dtype": "F32", "shape": [float("nan")], "data_offsets": [0, 8]}},
    ],
)
def test_a_weight_file_with_a_bad_header_is_refused(tmp_path: Path, header: Any) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(EncodingError):
        weights_root(tmp_path)


def test_a_config_that_is_no_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(EncodingError, match="is no object"):
        config_hash(tmp_path)


@pytest.mark.parametrize("field", ["chain_id", "deploy_block", "params_profile"])
@pytest.mark.parametrize("value", [[], True, -1, 2**64, None])
def test_an_address_book_with_a_bad_field_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "book.json"
    BOOK.write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(ConfigError, match=field):
        AddressBook.read(path)
