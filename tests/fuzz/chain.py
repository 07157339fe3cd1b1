"""What everybody decodes of a chain that an endpoint tells of: logs, blocks, results and reverts of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import requests
import rlp
from eth_abi import encode as abi_encode
from eth_hash.auto import keccak
from web3.providers import BaseProvider

from tests.chain.settlement_cases import sample_records, sample_round
from tests.fuzz.client import text_of
from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.fuzz.target import Target
from tests.fuzz.toy import ToyWorld
from tests.sdk.fakes import BOOK
from verillm.chain import ChainClient
from verillm.chain.header import FIELDS, encode_header
from verillm.chain.reverts import ERROR_STRING, PANIC
from verillm.sdk.jsoncodec import parse_json
from verillm.settlement import LINES_ABI, ROUND_ABI, round_hash, round_lines, round_values
from verillm.types import Round

ROUND_ID = 7
ENOUGH = 60
"""Requests after which the endpoint falls silent, whatever block it says is the latest."""


class HostileProvider(BaseProvider):
    """Answers each method with what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: Any = {}
        self.left = ENOUGH

    def make_request(self, method: Any, params: Any) -> Any:
        if method == "eth_chainId":  # web3 asks it before every call
            return {"jsonrpc": "2.0", "id": 1, "result": hex(BOOK.chain_id)}
        self.left -= 1
        if self.left < 0 or not isinstance(self.answers, dict) or method not in self.answers:
            raise requests.ConnectionError("silent")
        answer = self.answers[method]
        if method == "eth_getLogs" and isinstance(answer, list):
            answer = [log for log in answer if _asked_for(log, params[0])]
        if isinstance(answer, dict) and answer.keys() & {"error", "result"}:
            return {"jsonrpc": "2.0", "id": 1, **answer}
        return {"jsonrpc": "2.0", "id": 1, "result": answer}


def _asked_for(log: Any, wanted: Any) -> bool:
    """Is it one of the events that a request names? What is no log at all is told anyway."""
    names = wanted["topics"][0]
    topics = log.get("topics") if isinstance(log, dict) else None
    return not isinstance(topics, list) or not topics or topics[0] in (names, *names)


def targets(world: ToyWorld) -> list[Target]:
    """All targets of this side."""
    return [
        Target("header.encode_header", "chain", 20, (_block_text(),), mutate_json, _header),
        Target("roundlog.round", "chain", 3, (_round_answers(),), mutate_json,
               _endpoint(lambda chain: chain.round(ROUND_ID))),
        Target("randomness.wait_seed", "chain", 8, (_seed_answers(),), mutate_json,
               _endpoint(lambda chain: chain.wait_seed(100, 0.0))),
        Target("court.dispute", "chain", 6, (_call(bytes([0] * 31 + [1]) * 28),), mutate_json,
               _endpoint(lambda chain: chain.dispute(3))),
        Target("staking.stakes", "chain", 6, (_call(_stakes()),), mutate_json,
               _endpoint(lambda chain: chain.stakes(b"\1" * 32, 3))),
        Target("audit.inquiry", "chain", 4, (_inquiry_answers(),), mutate_json,
               _endpoint(lambda chain: chain.inquiry(5))),
        Target("rounds.job_state", "chain", 6, (_call(bytes(31) + b"\1"),), mutate_json,
               _endpoint(lambda chain: chain.job_state(7, 1))),
        Target("reverts.decode", "chain", 40, _reverts(), mutate_bytes,
               _client(HostileProvider()).connection._reverts.decode),
        Target("connection.request", "chain", 10, (b'{"eth_foo":{"result":{"a":1}}}',), mutate_json,
               _endpoint(lambda chain: chain.connection.request("eth_foo"))),
    ]  # fmt: skip


def _client(provider: HostileProvider) -> ChainClient:
    """A client of an endpoint that tells its chain's true id."""
    with mock.patch("verillm.chain.connection.HTTPProvider", return_value=provider):
        return ChainClient("http://hostile", BOOK)


def _endpoint(ask: Callable[[ChainClient], Any]) -> Callable[[bytes], Any]:
    provider = HostileProvider()
    chain = _client(provider)

    def feed(data: bytes) -> Any:
        provider.answers, provider.left = parse_json(text_of(data), "answers"), ENOUGH
        with chain._round_log._lock:  # what an earlier input left must not answer for this one
            chain._round_log._rounds.clear()
            chain._round_log._commits.clear()
        return ask(chain)

    return feed


def _block() -> dict[str, Any]:
    sizes = {"miner": 20, "logsBloom": 256, "nonce": 8, "extraData": 5}
    block: dict[str, Any] = {}
    for i, (name, integer) in enumerate(FIELDS):
        block[name] = 100 + i if integer else bytes([i]) * sizes.get(name, 32)
    block["hash"] = keccak(rlp.encode(list(block.values())))
    return block


def _hexed(value: Any) -> Any:
    return "0x" + value.hex() if isinstance(value, bytes) else value


def _block_text() -> bytes:
    return json.dumps({name: _hexed(value) for name, value in _block().items()}).encode()


def _header(data: bytes) -> bytes:
    block = parse_json(text_of(data), "block")
    return encode_header(block if isinstance(block, dict) else {})


def _answers(**answers: Any) -> bytes:
    return json.dumps(answers).encode()


def _call(result: bytes) -> bytes:
    return _answers(eth_call=_hexed(result), eth_blockNumber="0x64")


def _seed_answers() -> bytes:
    block = {name: hex(v) if isinstance(v, int) else _hexed(v) for name, v in _block().items()}
    extra = {"transactions": [], "uncles": [], "size": "0x100", "totalDifficulty": "0x0", "withdrawals": []}
    return _answers(
        eth_blockNumber="0x70", eth_getBlockByNumber={**block, **extra}, eth_call="0x" + "00" * 31 + "01"
    )


def _log(contract: str, event: str, topics: list[bytes], data: bytes, index: int) -> dict[str, Any]:
    """A log as eth_getLogs gives it."""
    return {
        "address": contract,
        "topics": [_hexed(topic) for topic in (keccak(event.encode()), *topics)],
        "data": _hexed(data),
        "blockNumber": "0x50",
        "logIndex": hex(index),
        "transactionHash": "0x" + "77" * 32,
        "transactionIndex": "0x0",
        "blockHash": "0x" + "66" * 32,
        "removed": False,
    }


def _round_answers() -> bytes:
    """A settled round: its hash, and the events that give it."""
    records = sample_records()
    debits, credits = round_lines(records)
    done = sample_round(records)
    begun = Round(*round_values(done)[:9])  # type: ignore[arg-type]
    topic = ROUND_ID.to_bytes(32, "big")
    scheduler = bytes(12) + bytes.fromhex(done.scheduler[2:])
    lines = [[(line.account, line.last_job, line.amount) for line in side] for side in (debits, credits)]
    logs = [
        _log(BOOK.rounds, f"RoundCommitted(uint256,address,bytes32,{ROUND_ABI})",
             [topic, scheduler, done.model_id], abi_encode([ROUND_ABI], [round_values(begun)]), 0),
        _log(BOOK.rounds, "VerificationsCommitted(uint256,bytes32,uint32,bytes32,uint64)", [topic],
             abi_encode(["bytes32", "uint32", "bytes32", "uint64"], [
                 done.verification_root, done.verifications, done.verifier_seed, done.position_block]), 1),
        _log(BOOK.rounds, f"RoundSettled(uint256,bytes32,bytes32,uint64,{LINES_ABI},{LINES_ABI})", [topic],
             abi_encode(["bytes32", "bytes32", "uint64", LINES_ABI, LINES_ABI], [
                 done.settlement_root, done.position_seed, done.final_block, *lines]), 2),
    ]  # fmt: skip
    return _answers(eth_blockNumber="0x64", eth_call=_hexed(round_hash(done)), eth_getLogs=logs)


def _inquiry_answers() -> bytes:
    demand = (ROUND_ID, 1, 0, 300, BOOK.rounds)
    kind = "(uint256,uint8,uint32,uint64,address)"
    topics = [number.to_bytes(32, "big") for number in (5, ROUND_ID)]
    log = _log(BOOK.inquiry, f"Demanded(uint256,uint256,{kind})", topics, abi_encode([kind], [demand]), 0)
    return _answers(eth_blockNumber="0x64", eth_call="0x" + "11" * 32, eth_getLogs=[log])


def _stakes() -> bytes:
    return abi_encode(["address[]", "uint256[]"], [[BOOK.rounds] * 3, [1, 2, 3]])


def _reverts() -> tuple[bytes, ...]:
    custom = keccak(b"RoundMismatch(uint256)")[:4] + (7).to_bytes(32, "big")
    return (
        ERROR_STRING + abi_encode(["string"], ["ERC20: no"]),
        PANIC + (17).to_bytes(32, "big"),
        custom,
        b"\1\2\3\4" + bytes(32),
    )
