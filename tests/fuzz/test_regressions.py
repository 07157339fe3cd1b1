"""Faults that the fuzzer, or reading for it, found in decoders of messages and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fuzz.target import Refused
from tests.fuzz.toy import ToyWorld
from tests.fuzz.worker import Context, judge_request, toy_service
from tests.sdk import parties
from verillm import draw, eip712, settlement
from verillm.commitment.hashing import address_bytes
from verillm.comparator.direction import Direction
from verillm.comparator.observation import JobObservation, RowComparison
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import judge
from verillm.constants import FinishReason, Verdict
from verillm.engine.finish import first_violation
from verillm.errors import EncodingError, SchedulerError
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.sdk import jsoncodec
from verillm.sdk.checks import check_opening
from verillm.sdk.findings import run_check
from verillm.sdk.generation import Stream
from verillm.sdk.jsoncodec import EnumCode, parse_json
from verillm.types import Line


def test_a_table_of_impossible_spreads_is_refused_and_no_limit_overflows(world: ToyWorld) -> None:
    table = world.manifest.tolerance
    first = table["boundaries"][0]
    for kind in ("size", "direction"):
        for name in ("center_q16", "single_q16", "job_q16"):
            spoilt = {**table, "boundaries": [{**first, kind: {**first[kind], name: 1 << 23}}]}
            with pytest.raises(EncodingError, match=f"{kind}.{name}"):
                ToleranceTable.from_dict(spoilt)
    for spread, jobs in ((1, 1 << 20), (1 << 22, 2)):
        widest = {"center_q16": 0, "single_q16": spread, "job_q16": spread}
        extreme = {**first, "size": widest, "direction": widest}
        change = {"boundaries": [extreme], "jobs": jobs, "mean_size": widest, "mean_direction": widest}
        loose = ToleranceTable.from_dict({**table, **change, "false_positive_rate_ppt": 1})
        seen = JobObservation((RowComparison(0, 0, 0, 1),), ((1, 0),), (Direction(0, 2, 0.0),))
        assert all(map(math.isfinite, judge(seen, loose).statistics.values()))


def test_json_of_very_many_values_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsoncodec, "MAX_VALUES", 100)
    assert parse_json("[" + "0," * 97 + "0]", "text") == [0] * 98
    for text in ("[" + "0," * 99 + "0]", "[" + "[]," * 50 + "0]", '["' + '","' * 60 + '"]'):
        with pytest.raises(EncodingError, match="more than 100 strings, brackets and commas"):
            parse_json(text, "text")


def test_a_message_about_a_huge_value_stays_short() -> None:
    with pytest.raises(EncodingError) as raised:
        EnumCode(Verdict).decode(["x" * 100_000] * 100, "receipt.verdict")
    assert len(str(raised.value)) < 300


def test_submissions_and_openings_have_limits_of_size(
    monkeypatch: pytest.MonkeyPatch, world: ToyWorld
) -> None:
    r = world.receipt
    request = codec.submission_to_proto(codec.Submission(r.job, r.job_signature, r.prompt, ()))
    request.stop.append("é" * 513)
    with pytest.raises(EncodingError, match="stop: bytes of a string: 1026 is above the limit 1024"):
        codec.submission_from_proto(request)
    del request.stop[:]
    monkeypatch.setattr(codec, "MAX_TOKENS", 4)
    with pytest.raises(EncodingError, match="prompt: number of tokens: 5 is above the limit 4"):
        codec.submission_from_proto(request)
    opening = codec.opening_to_proto(r.worker_opening)
    monkeypatch.setattr(codec, "MAX_OPENED_ROWS", 47)
    with pytest.raises(EncodingError, match=r"opening\.rows: number of rows: 48 is above the limit 47"):
        codec.opening_from_proto(opening, 3)


def test_addresses_have_no_white_space() -> None:
    with pytest.raises(EncodingError, match="operator"):
        address_bytes("0x" + "ab " * 20, "operator")


def test_values_that_a_contract_cannot_hold_are_typed_errors(world: ToyWorld) -> None:
    r = world.receipt
    with pytest.raises(EncodingError, match="lines"):
        settlement.lines_hash([Line(r.job.client, 0, 2**128)])
    with pytest.raises(EncodingError, match="settlement record"):
        settlement.record_leaf(replace(r.settlement.record, worker_fee=2**128))
    with pytest.raises(EncodingError, match="model spec"):
        eip712.model_id(replace(world.manifest.spec, hidden_size=2**32))
    with pytest.raises(EncodingError, match="lone surrogate"):
        eip712.stop_hash(["\ud800"])


def test_a_judge_request_of_uneven_lists_is_a_bad_request(world: ToyWorld) -> None:
    service = toy_service(world)
    context: Any = Context()
    request = pb.JudgeRequest.FromString(judge_request(world))
    assert service.Judge(request, context).verdict == Verdict.ACCEPT
    del request.verifier_leaves[-1]
    with pytest.raises(Refused, match=r"INVALID_ARGUMENT: verifier_commitments, .* differ in length"):
        service.Judge(request, context)


def test_the_first_token_beyond_a_stop_is_found_without_decoding_every_prefix() -> None:
    calls: list[int] = []

    def decode(tokens: Sequence[int]) -> str:
        calls.append(len(tokens))
        return "".join(chr(97 + token) for token in tokens)

    for at in (1, 2, 999, 4095):
        output = [0] * 4098
        output[at - 1 : at + 1] = [1, 2]
        calls.clear()
        assert first_violation(output, FinishReason.LENGTH, (), ["zz", "bc"], 5000, decode) == at
        assert len(calls) <= 14


def test_a_scheduler_cannot_stream_more_tokens_than_the_job_allows(world: ToyWorld) -> None:
    r = world.receipt
    submission = codec.Submission(r.job, r.job_signature, r.prompt, r.stop)
    events = [pb.JobEvent(tokens=pb.TokenChunk(first_index=0, tokens=range(21)))]

    connection: Any = SimpleNamespace(errors=nullcontext)
    stream = Stream(connection, events, submission, parties.DOMAIN, None, lambda a, b: True)
    with pytest.raises(SchedulerError, match="more than the job's 20 came"):
        list(stream)


def test_positions_are_not_drawn_for_an_opening_of_another_size(
    world: ToyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing all of 65,535 positions takes 12 hashes for each: a receipt must first bring that many rows."""
    monkeypatch.setattr(draw, "opened_positions", lambda *_: pytest.fail("drawn"))
    r = replace(world.receipt, terms=replace(world.receipt.terms, opened_positions=65_535))
    found = run_check("x", lambda: check_opening(r, r.worker, r.worker_opening, world.manifest.spec))
    assert "due are 3 at each of 23 positions" in found.message
