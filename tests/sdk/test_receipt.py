"""Receipts: strict JSON both ways, and no leaf of the document that can change unnoticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sdk.parties import OPERATORS
from verillm import eip712
from verillm.errors import ConfigError, EncodingError
from verillm.manifest import Manifest
from verillm.sdk.findings import Report
from verillm.sdk.keychain import OWN_KEYS, Keys
from verillm.sdk.receipt import Receipt
from verillm.sdk.verify import check_receipt
from verillm.types import ModelSpec

Path = tuple[Any, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all scalars in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same JSON type and shape."""
    if isinstance(value, int):
        return value + 1
    if value.startswith("0x"):
        last = value[-1]
        return value[:-1] + ("0" if last != "0" else "1")
    return str(int(value) + 1)


def mutate(document: Any, path: Path) -> Any:
    document = copy.deepcopy(document)
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = changed(parent[path[-1]])
    return document


def shape(path: Path) -> Path:
    """The path with list indices left out: one field of the format."""
    return tuple(step for step in path if isinstance(step, str))


UNBOUND = {
    ("round", "round_id"),  # only the chain knows a round's number
    ("round", "epoch"),  # the worker's may be the one before; the chain knows
    ("terms", "max_attempts"),  # limits that bind only whom they refuse; the chain knows them
    ("terms", "verifier_spares"),
}


def test_honest_receipt_passes_and_round_trips(honest: Receipt, sdk_manifest) -> None:  # type: ignore[no-untyped-def]
    assert Receipt.from_json(honest.to_json()) == honest
    findings = check_receipt(honest, sdk_manifest.spec)
    assert [f for f in findings if not f.ok] == []
    assert Report(tuple(findings)).ok


def test_every_field_is_bound(honest: Receipt, sdk_manifest) -> None:  # type: ignore[no-untyped-def]
    """One change in each field of the format, of a list in one entry or another: refused, or found."""
    document = json.loads(honest.to_json())
    paths: dict[Path, list[Path]] = {}
    for path in leaves(document):
        paths.setdefault(shape(path), []).append(path)
    assert len(paths) > 80

    def noticed(path: Path) -> bool:
        try:
            receipt = Receipt.from_json(json.dumps(mutate(document, path)))
        except EncodingError:
            return True
        return not Report(tuple(check_receipt(receipt, sdk_manifest.spec))).ok

    assert {field for field, entries in paths.items() if not any(map(noticed, entries))} == UNBOUND


def failed(receipt: Receipt, spec: ModelSpec, keys: Keys = OWN_KEYS) -> set[str]:
    return {finding.name for finding in check_receipt(receipt, spec, keys) if not finding.ok}


def test_attempts_epochs_and_committees_have_limits(honest: Receipt, sdk_manifest: Manifest) -> None:
    """Nobody is passed over for being offline; these limits are what bounds a scheduler's choice."""
    r = honest
    a, place, spec = r.assignment, r.round, sdk_manifest.spec
    assert failed(replace(r, round=replace(place, epoch=a.epoch + 1)), spec) == set()
    for receipt, name in (
        (replace(r, round=replace(place, epoch=a.epoch + 2)), "worker-draw"),
        (replace(r, round=replace(place, epoch=a.epoch - 1)), "worker-draw"),
        (replace(r, terms=replace(r.terms, max_attempts=a.attempt)), "worker-draw"),
        (replace(r, verifiers=r.verifiers * 2), "verifier-draw"),
        (replace(r, verifiers=()), "verifier-draw"),
        (replace(r, verifiers=(replace(r.verifiers[0], signed=r.worker),)), "verifier-draw"),
    ):
        assert name in failed(receipt, spec)


def test_an_operator_that_was_not_drawn_is_found(honest: Receipt, sdk_manifest: Manifest) -> None:
    """Without spares only the first of the draw may verify a job that was signed for one."""
    few = replace(honest, terms=replace(honest.terms, verifier_spares=0))
    assert failed(few, sdk_manifest.spec) == set()
    job = replace(honest.job, verifiers=1)
    assert "verifier-draw" in failed(replace(few, job=job), sdk_manifest.spec)


class ChainKeys:
    """The chain's word on keys that differ from the accounts' own."""

    def __init__(self, signer: tuple[str, str], vrf_key: bytes) -> None:
        self.signer, self.vrf_key = signer, vrf_key

    def is_signer(self, operator: str, signer: str, epoch: int) -> bool:
        return operator == signer or (epoch == 3 and (operator, signer) == self.signer)

    def is_vrf_key(self, scheduler: str, key: bytes, epoch: int) -> bool:
        return epoch == 3 and key == self.vrf_key


def test_hot_keys_count_only_with_the_chains_word(honest: Receipt, sdk_manifest: Manifest) -> None:
    commitment, spec = honest.worker.commitment, sdk_manifest.spec
    hot = next(key for name, key in OPERATORS.items() if name != commitment.operator)
    signature = eip712.sign_commitment(commitment, hot, honest.domain)
    receipt = replace(honest, worker=replace(honest.worker, signature=signature))
    found = {f.name: f.message for f in check_receipt(receipt, spec) if not f.ok}
    assert set(found) == {"worker-commitment"}
    assert "only the chain knows of other keys" in found["worker-commitment"]
    own = honest.assignment.vrf_public_key
    assert failed(receipt, spec, ChainKeys((commitment.operator, hot.address), own)) == set()
    assert failed(receipt, spec, ChainKeys((hot.address, hot.address), own)) == {"worker-commitment"}
    other = ChainKeys((commitment.operator, hot.address), b"\2" * 33)
    assert failed(receipt, spec, other) == {"worker-draw", "verifier-draw"}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_leaf_is_bound(honest: Receipt, sdk_manifest, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    document = json.loads(honest.to_json())
    path = data.draw(st.sampled_from([p for p in leaves(document) if shape(p) not in UNBOUND]))
    try:
        receipt = Receipt.from_json(json.dumps(mutate(document, path)))
    except EncodingError:
        return
    assert not Report(tuple(check_receipt(receipt, sdk_manifest.spec))).ok, path


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(), junk=st.one_of(st.none(), st.booleans(), st.just(-1), st.just([]), st.just({}), st.text())
)
def test_junk_in_a_field_is_a_typed_error(honest: Receipt, data: st.DataObject, junk: Any) -> None:
    document = json.loads(honest.to_json())
    path = data.draw(st.sampled_from(list(leaves(document))))
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = junk
    with pytest.raises(EncodingError, match="receipt"):
        Receipt.from_json(json.dumps(document))


def test_missing_extra_and_repeated_fields(honest: Receipt) -> None:
    document = json.loads(honest.to_json())
    with pytest.raises(EncodingError, match="unknown field 'more'"):
        Receipt.from_json(json.dumps({**document, "more": 1}))
    del document["job"]["nonce"]
    with pytest.raises(EncodingError, match=r"receipt\.job\.nonce: is missing"):
        Receipt.from_json(json.dumps(document))
    with pytest.raises(EncodingError, match="twice"):
        Receipt.from_json('{"version":1,"version":1}')
    for text in ("", "[]", "{", "[" * 100_000, '{"a":' * 100_000, '"' + '\\"' * 100_000, b"\xff"):
        with pytest.raises(EncodingError, match="receipt"):
            Receipt.from_json(text)


def test_limits_are_named(honest: Receipt) -> None:
    document = json.loads(honest.to_json())
    document["verifiers"] = document["verifiers"] * 5
    with pytest.raises(EncodingError, match=r"receipt\.verifiers: has 10 items; the limit is 8"):
        Receipt.from_json(json.dumps(document))
    document = json.loads(honest.to_json())
    document["stop"] = ["x" * 2000]
    with pytest.raises(EncodingError, match=r"receipt\.stop\[0\]: has 2000 bytes; the limit is 1024"):
        Receipt.from_json(json.dumps(document))


def test_files(honest: Receipt, tmp_path) -> None:  # type: ignore[no-untyped-def]
    honest.save(tmp_path / "receipt.json")
    assert Receipt.load(tmp_path / "receipt.json") == honest
    with pytest.raises(ConfigError, match="cannot read"):
        Receipt.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot write"):
        honest.save(tmp_path / "no" / "folder.json")
