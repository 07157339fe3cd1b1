"""The client over real gRPC: streams, moves between workers, and every bad input as a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.sdk.fakes import (
    BOOK,
    SECOND,
    WORKER,
    FakeChain,
    FakeScheduler,
    assigned,
    committed,
    serving,
    tokens,
)
from tests.sdk.parties import CLIENT, SCHEDULER
from verillm import eip712
from verillm.constants import FinishReason
from verillm.errors import (
    ChainError,
    ConfigError,
    InsufficientEscrow,
    InvalidRequest,
    NotEnoughOperators,
    ProofError,
    SchedulerError,
)
from verillm.manifest import Manifest
from verillm.rpc import verillm_pb2 as pb
from verillm.sdk import aio, client
from verillm.sdk.client import Client
from verillm.sdk.generation import Reset, TextDelta

HELLO = tuple(b"Hello")


@pytest.fixture
def scheduler(sdk_manifest: Manifest) -> FakeScheduler:
    return FakeScheduler([sdk_manifest.model_id])


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> FakeChain:
    fake = FakeChain()
    monkeypatch.setattr(client, "ChainClient", lambda *_: fake)
    return fake


@pytest.fixture(scope="session")
def model_folder(tiny_folder: Path, sdk_manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk-model")
    for file in tiny_folder.glob("*"):
        if file.name.startswith(("tokenizer", "chat_template")):
            (folder / file.name).write_bytes(file.read_bytes())
    sdk_manifest.save(folder / "manifest-fp32.json")
    return folder


@pytest.fixture
def connected(scheduler: FakeScheduler, chain: FakeChain, model_folder: Path) -> Iterator[Client]:
    with serving(scheduler) as target, Client(target, "http://none", CLIENT, BOOK, model_folder) as made:
        yield made


def ids(text: str, made: Client) -> list[int]:
    codec = made.models[0].text
    assert codec is not None
    return codec.encode(text)


def test_generate(scheduler: FakeScheduler, connected: Client) -> None:
    words = ids("Grüße!", connected)
    seen = []

    def script(submission):  # type: ignore[no-untyped-def]
        seen.append(submission)
        yield assigned(WORKER, 0)
        for i, token in enumerate(words):
            yield tokens(i, token)
        yield committed(submission, WORKER, 0, len(words))

    scheduler.script = script
    result = connected.generate(
        "Hi", max_tokens=20, temperature=0.7, top_p=0.9, seed=4, stop=["x"], verifiers=3
    )
    job = seen[0].job
    assert result.text == "Grüße!"
    assert list(result.tokens) == words
    assert (result.finish_reason, result.worker) == (FinishReason.LENGTH, WORKER)
    assert list(seen[0].prompt) == ids("user: Hi\nassistant: ", connected)
    assert (job.temperature_ppm, job.top_p_ppm, job.seed, job.verifiers) == (700_000, 900_000, 4, 3)
    assert eip712.recover_job(job, seen[0].signature, BOOK.domain) == CLIENT.address
    assert result.job_id == eip712.job_id(job, BOOK.domain)


def test_stream_holds_back_half_a_character(scheduler: FakeScheduler, connected: Client) -> None:
    words = ids("aé€", connected)

    def script(submission):  # type: ignore[no-untyped-def]
        yield assigned(WORKER, 0)
        for i, token in enumerate(words):
            yield tokens(i, token)
        yield committed(submission, WORKER, 0, len(words))

    scheduler.script = script
    events = list(connected.generate([1, 2], stream=True, max_tokens=8))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "aé€"
    assert not any("\ufffd" in text for text in texts)


def play(connected: Client, scheduler: FakeScheduler, second: list[int]) -> tuple[list[object], list[int]]:
    """A worker dies after 3 tokens, another one starts again with ``second``; events and tokens shown."""

    def script(submission):  # type: ignore[no-untyped-def]
        yield assigned(WORKER, 0)
        yield tokens(0, 10, 11, 12)
        yield assigned(SECOND, 1)
        for i, token in enumerate(second):
            yield tokens(i, token)
        yield committed(submission, SECOND, 1, len(second))

    scheduler.script = script
    stream = connected.generate([1, 2], stream=True, max_tokens=8)
    shown: list[int] = []
    events = []
    for event in stream:
        events.append(event)
        if isinstance(event, Reset):
            shown = []
        else:
            assert event.first_index == len(shown)
            shown.extend(event.tokens)
    assert stream.generation.worker == SECOND
    assert list(stream.generation.tokens) == second
    return events, shown


def test_same_prefix_after_a_move_just_continues(scheduler: FakeScheduler, connected: Client) -> None:
    events, shown = play(connected, scheduler, [10, 11, 12, 13])
    assert not any(isinstance(event, Reset) for event in events)
    assert shown == [10, 11, 12, 13]


@pytest.mark.parametrize("second", [[10, 99, 12, 13], [10, 11], [50]])
def test_other_output_after_a_move_resets(
    scheduler: FakeScheduler, connected: Client, second: list[int]
) -> None:
    events, shown = play(connected, scheduler, second)
    assert [event for event in events if isinstance(event, Reset)] == [Reset(SECOND, 1)]
    assert shown == second


def test_commitments_that_do_not_fit_are_refused(
    scheduler: FakeScheduler, connected: Client, chain: FakeChain
) -> None:
    def script(count, signer):  # type: ignore[no-untyped-def]
        def run(submission):  # type: ignore[no-untyped-def]
            yield assigned(WORKER, 0)
            yield tokens(0, *HELLO)
            yield committed(submission, WORKER, 0, count, signer)

        return run

    scheduler.script = script(4, WORKER)
    with pytest.raises(ProofError, match="output_tokens"):
        connected.generate([1], max_tokens=8)
    scheduler.script = script(5, SECOND)
    with pytest.raises(ProofError, match="signed by"):
        connected.generate([1], max_tokens=8)
    chain.keys.add((WORKER, SECOND))  # the chain knows it as the worker's hot key
    assert connected.generate([1], max_tokens=8).worker == WORKER


def test_streams_that_fail(scheduler: FakeScheduler, connected: Client) -> None:
    scheduler.script = lambda _: iter([assigned(WORKER, 0), pb.JobEvent(error="no worker left")])
    with pytest.raises(SchedulerError, match="no worker left; nothing is charged"):
        connected.generate([1], max_tokens=8)
    scheduler.script = lambda _: iter([assigned(WORKER, 0)])
    with pytest.raises(SchedulerError, match="without a commitment"):
        connected.generate([1], max_tokens=8)
    scheduler.script = lambda _: iter([assigned(WORKER, 0), tokens(3, 1)])
    with pytest.raises(SchedulerError, match="first_index"):
        connected.generate([1], max_tokens=8)


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "job.nonce: used", InvalidRequest),
        (grpc.StatusCode.FAILED_PRECONDITION, "escrow: too little", InsufficientEscrow),
        (grpc.StatusCode.FAILED_PRECONDITION, "operators: too few", NotEnoughOperators),
        (grpc.StatusCode.UNAVAILABLE, "rpc: http://x does not answer", ChainError),
        (grpc.StatusCode.INTERNAL, "oops", SchedulerError),
    ],
)
def test_refusals_are_typed(scheduler: FakeScheduler, connected: Client, code, details, kind) -> None:  # type: ignore[no-untyped-def]
    scheduler.refusal = (code, details)
    with pytest.raises(kind, match=details):
        connected.generate([1], max_tokens=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": ""}, "prompt: is empty"),
        ({"prompt": [1] * 120, "max_tokens": 20}, "exceed the model's 128 positions"),
        ({"prompt": [1, 300]}, r"prompt\[1\]: token 300"),
        ({"model": "gpt-9"}, "'gpt-9' is unknown"),
        ({"max_tokens": 0}, "max_tokens: 0"),
        ({"temperature": 11}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": list("abcde")}, "stop"),
        ({"verifiers": 0}, "verifiers"),
        ({"verifiers": 9}, "verifiers"),
        ({"prompt": [{"role": "user"}]}, r"messages\[0\]"),
    ],
)
def test_bad_requests_never_reach_the_scheduler(connected: Client, options, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidRequest, match=message):
        connected.generate(**{"prompt": [1, 2], "max_tokens": 8, **options})


def test_no_escrow_names_the_missing_amount(connected: Client, chain: FakeChain) -> None:
    chain.escrows = 5
    with pytest.raises(InsufficientEscrow, match="deposit at least"):
        connected.generate([1, 2], max_tokens=8)


def test_deposit_and_status(connected: Client, chain: FakeChain) -> None:
    assert connected.deposit_escrow(10**17) == 11 * 10**17
    assert chain.deposits == [(SCHEDULER.address, 10**17)]
    status = connected.status()
    assert (status.escrow, status.balance, status.live_workers) == (11 * 10**17, 9 * 10**17, 5)
    assert status.models[0].startswith("tiny-llama")
    with pytest.raises(InsufficientEscrow, match="balance"):
        connected.deposit_escrow(10**19)
    with pytest.raises(InvalidRequest, match="amount"):
        connected.deposit_escrow(0)


def test_another_chain_or_contract(scheduler: FakeScheduler, connected: Client) -> None:
    scheduler.info.chain_id = 5
    with pytest.raises(ConfigError, match="chain id: the scheduler works on chain 5"):
        connected.status()
    scheduler.info.chain_id = BOOK.chain_id
    scheduler.info.contract = b"\x01" * 20
    with pytest.raises(ConfigError, match="contract"):
        connected.status()


def test_unreachable_scheduler(chain: FakeChain, model_folder: Path) -> None:
    with (
        Client("127.0.0.1:1", "http://none", CLIENT, BOOK, model_folder) as made,
        pytest.raises(SchedulerError, match=r"127\.0\.0\.1:1 does not answer"),
    ):
        made.generate([1], max_tokens=8)


def test_bad_settings(chain: FakeChain, model_folder: Path, tmp_path: Path) -> None:
    for target in ("", "localhost", "http://x:1", "x:0", "x:y"):
        with pytest.raises(ConfigError, match="host:port"):
            Client(target, "http://none", CLIENT, BOOK)
    with pytest.raises(ConfigError, match="key: is not") as caught:
        Client("x:1", "http://none", "0xdeadbeef", BOOK)
    assert "deadbeef" not in str(caught.value)
    with pytest.raises(ConfigError, match="address book"):
        Client("x:1", "http://none", CLIENT, {"chain_id": 1})
    with pytest.raises(ConfigError, match="manifest"):
        Client("x:1", "http://none", CLIENT, BOOK, tmp_path)
    with pytest.raises(ConfigError, match="manifest"):
        Client("x:1", "http://none", CLIENT, BOOK, [tmp_path / "none.json"])


def test_unreachable_rpc() -> None:
    with pytest.raises(ChainError, match="does not answer"):
        Client("x:1", "http://127.0.0.1:1", CLIENT, BOOK)


def test_text_needs_a_tokenizer(
    scheduler: FakeScheduler, chain: FakeChain, sdk_manifest: Manifest, tmp_path: Path
) -> None:
    sdk_manifest.save(tmp_path / "m.json")
    with (
        serving(scheduler) as target,
        Client(target, "http://none", CLIENT, BOOK, tmp_path / "m.json") as made,
        pytest.raises(ConfigError, match=r"no tokenizer\.json"),
    ):
        made.generate("Hi")
    with (
        serving(scheduler) as target,
        Client(target, "http://none", CLIENT, BOOK) as made,
        pytest.raises(ConfigError, match="manifest file or a model folder"),
    ):
        made.generate([1], max_tokens=8)


def test_receipts(scheduler: FakeScheduler, connected: Client, honest, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("verillm.sdk.generation.POLL_SECONDS", 0.0)

    def script(submission):  # type: ignore[no-untyped-def]
        yield assigned(WORKER, 0)
        yield tokens(0, *HELLO)
        yield committed(submission, WORKER, 0, len(HELLO))

    scheduler.script = script
    result = connected.generate([1], max_tokens=8)
    scheduler.states = [pb.JobStatus(state="verifying")]
    with pytest.raises(SchedulerError, match="is verifying, there is no receipt yet"):
        result.receipt(wait=False)
    scheduler.states = [
        pb.JobStatus(state="verifying"),
        pb.JobStatus(state="settled", receipt_json=honest.to_json()),
    ]
    assert connected.receipt(honest.job_id) == honest
    with pytest.raises(ProofError, match="not of this job"):
        result.receipt()
    scheduler.states = [pb.JobStatus(state="failed", error="boom")]
    with pytest.raises(SchedulerError, match="failed: boom"):
        result.receipt()
    scheduler.states = [pb.JobStatus(state="settled")]
    with pytest.raises(SchedulerError, match="withheld"):
        result.receipt()


def test_async_client(scheduler: FakeScheduler, chain: FakeChain, model_folder: Path) -> None:
    def script(submission):  # type: ignore[no-untyped-def]
        yield assigned(WORKER, 0)
        yield tokens(0, *HELLO)
        yield committed(submission, WORKER, 0, len(HELLO))

    scheduler.script = script

    async def run(target: str) -> tuple[tuple[int, ...], list[object], int]:
        async with aio.AsyncClient(target, "http://none", CLIENT, BOOK, model_folder) as made:
            result = await made.generate([1], max_tokens=8)
            events = [event async for event in made.stream([1], max_tokens=8)]
            return result.tokens, events, (await made.status()).live_workers

    with serving(scheduler) as target:
        found, events, live = asyncio.run(run(target))
    assert found == HELLO
    assert live == 5
    assert [t for e in events if isinstance(e, TextDelta) for t in e.tokens] == list(HELLO)
