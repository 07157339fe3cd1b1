"""What a broken or hostile endpoint answers is a ChainError, whatever it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from eth_abi import encode as abi_encode

from tests.chain.settlement_cases import sample_records, sample_round
from tests.fuzz import chain as fuzz
from verillm.chain import ChainClient
from verillm.chain.audit import Matter
from verillm.chain.calls import answered
from verillm.chain.connection import Event
from verillm.chain.header import encode_header
from verillm.chain.reverts import ERROR_STRING, Reverts
from verillm.chain.roundlog import RoundInfo, _after
from verillm.errors import ChainError, EncodingError
from verillm.settlement import round_hash, round_values

UNEVEN = abi_encode(["address[]", "uint256[]"], [["0x" + "11" * 20] * 2, [1]])


@pytest.fixture
def endpoint() -> tuple[fuzz.HostileProvider, ChainClient]:
    provider = fuzz.HostileProvider()
    return provider, fuzz._client(provider)


def test_an_honest_endpoint_is_believed(endpoint: tuple[fuzz.HostileProvider, ChainClient]) -> None:
    provider, chain = endpoint
    provider.answers = json.loads(fuzz._round_answers())
    assert round_hash(chain.round(fuzz.ROUND_ID)) == round_hash(sample_round(sample_records()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logsBloom", 2**40),  # bytes(2**40) would be a TiB
        ("parentHash", "0xzz"),
        ("mixHash", []),
        ("number", "12"),
        ("gasUsed", True),
        ("timestamp", -1),
        ("difficulty", 2**256),
        ("hash", None),
    ],
)
def test_a_block_with_a_bad_field_is_a_chain_error(name: str, value: Any) -> None:
    block = fuzz._block()
    assert len(encode_header(block)) > 500
    with pytest.raises(ChainError, match=name):
        encode_header({**block, name: value})


@pytest.mark.parametrize(
    ("method", "answer", "ask"),
    [
        ("eth_blockNumber", {}, lambda c: c.block_number()),
        ("eth_blockNumber", None, lambda c: c.block_number()),
        ("eth_getBlockByNumber", 7, lambda c: c.connection.block()),
        ("eth_call", "0x" + "00" * 31 + "09", lambda c: c.job_state(1, 1)),
        ("eth_call", "0x01", lambda c: c.job_state(1, 1)),
        ("eth_call", {}, lambda c: c.stakes(b"\1" * 32, 1)),
        ("eth_call", {"error": {"code": 3, "data": "0x08c379a0ff"}}, lambda c: c.params_version()),
        ("eth_call", {"error": {"code": 3, "message": "x", "data": "0xzz"}}, lambda c: c.params_version()),
        ("eth_foo", {"error": {"code": 3, "data": "0xzz"}}, lambda c: c.connection.request("eth_foo")),
        ("eth_call", "0x" + UNEVEN.hex(), lambda c: c.stakes(b"\1" * 32, 1)),
        ("eth_call", "0x" + "00" * 32, lambda c: c.current_epoch()),
        ("eth_foo", {"error": 7}, lambda c: c.connection.request("eth_foo")),
        ("eth_foo", {"error": None}, lambda c: c.connection.request("eth_foo")),
    ],
)  # fmt: skip
def test_a_malformed_answer_is_a_chain_error(
    endpoint: tuple[fuzz.HostileProvider, ChainClient],
    method: str,
    answer: Any,
    ask: Callable[[ChainClient], Any],
) -> None:
    provider, chain = endpoint
    provider.answers = {method: answer}
    with pytest.raises(ChainError):
        ask(chain)


@pytest.mark.parametrize("field", ["blockNumber", "logIndex", "transactionHash"])
@pytest.mark.parametrize("value", [None, [], "0x", {}])
def test_a_log_without_a_place_is_a_chain_error(
    endpoint: tuple[fuzz.HostileProvider, ChainClient], field: str, value: Any
) -> None:
    provider, chain = endpoint
    provider.answers = json.loads(fuzz._round_answers())
    for log in provider.answers["eth_getLogs"]:
        log[field] = value
    with pytest.raises(ChainError):
        chain.round(fuzz.ROUND_ID)


def test_a_revert_that_does_not_decode_is_shown_as_hex() -> None:
    reverts = Reverts("http://x", "me")
    assert reverts.decode(ERROR_STRING + b"\xff" * 3).startswith("undecodable error 0x08c379a0ffffff")
    assert reverts.decode(ERROR_STRING + abi_encode(["string"], ["no"])) == "no"
    huge = ERROR_STRING + (32).to_bytes(32, "big") + b"\xff" * 32
    assert reverts.decode(huge).startswith("undecodable error")
    assert len(reverts.decode(b"\1" * 10_000)) < 600


def test_an_unknown_enum_is_a_chain_error() -> None:
    assert answered(Matter, 2) is Matter.COMMITTEE
    with pytest.raises(ChainError, match="Matter: the endpoint answered 3"):
        answered(Matter, 3)


def test_lines_that_no_contract_could_have_summed_are_a_typed_error() -> None:
    info = RoundInfo(*round_values(sample_round(sample_records())))  # type: ignore[arg-type]
    line = (info.scheduler, 0, 2**128 - 1)
    args = {
        "root": b"\1" * 32,
        "positionSeed": b"\2" * 32,
        "finalBlock": 9,
        "debits": [line] * 2,
        "credits": [],
    }
    after = _after(info, Event("RoundSettled", args, 1, 0, b"\3" * 32))
    with pytest.raises(EncodingError, match="round"):
        round_hash(after)
