"""What a client decodes: receipts, manifests, job events, tables, address books, weight files."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.fuzz.protomutate import proto_mutator, sequence_mutator
from tests.fuzz.reader import Reader, pack
from tests.fuzz.target import Target
from tests.fuzz.toy import ToyWorld
from tests.sdk import fakes, parties
from verillm import eip712, vrf
from verillm.chain import AddressBook
from verillm.cli.config import _from_file
from verillm.comparator.direction import Direction
from verillm.comparator.observation import JobObservation, RowComparison
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import judge
from verillm.errors import EncodingError
from verillm.manifest import Manifest, config_hash, weights_root
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.rpc.fields import parse
from verillm.sdk.generation import Stream
from verillm.sdk.jsoncodec import parse_json
from verillm.sdk.receipt import Receipt
from verillm.sdk.rerun import rerun
from verillm.sdk.text import _chat_settings, _render
from verillm.sdk.verify import check_receipt


def text_of(data: bytes) -> str:
    """Input bytes as the text that a JSON file or a protobuf string would hold."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(f"text: is not UTF-8: {error}") from error


def targets(world: ToyWorld) -> list[Target]:
    """All targets of this side."""
    receipts = tuple(r.to_json().encode() for r in (world.receipt, world.greedy_receipt))
    manifest = world.manifest.to_json().encode()
    table = json.dumps(world.manifest.tolerance).encode()
    memory = Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(prefix="verillm-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return [
        Target("receipt.from_json", "client", 25, receipts, mutate_json, Receipt.from_json),
        Target("receipt.check_receipt", "client", 8, receipts, mutate_json, _check_receipt(world)),
        Target("jsoncodec.parse_json", "client", 50, (table, b'{"a":[1,"\\u00e9"]}'), mutate_json,
               lambda data: parse_json(text_of(data), "text")),
        Target("manifest.from_json", "client", 40, (manifest,), mutate_json, _manifest),
        Target("tolerance.from_dict", "client", 40, (table,), mutate_json, _table),
        Target("generation.stream", "client", 20, (_events(world),),
               sequence_mutator(proto_mutator(pb.JobEvent)), _stream(world)),
        Target("eip712.recover", "client", 80, _signatures(world), mutate_bytes, _recover),
        Target("vrf.verify", "client", 40, _vrf_seeds(), mutate_bytes, _vrf),
        Target("addresses.read", "client", 10, (json.dumps(asdict(fakes.BOOK)).encode(),), mutate_json,
               _file(scratch / "book.json", AddressBook.read)),
        Target("config.network_file", "client", 10, (b'{"rpc":"http://x","models":["a"],"dev_account":1}',),
               mutate_json, _file(scratch / "network.json", _from_file)),
        Target("config.network_toml", "client", 10, (b'rpc = "http://x"\nmodels = ["a", "b"]\n',),
               mutate_bytes, _file(scratch / "network.toml", _from_file)),
        Target("manifest.load", "client", 15, (manifest,), mutate_bytes,
               _file(scratch / "manifest.json", Manifest.load)),
        Target("manifest.weights_root", "client", 20, (_safetensors(),), mutate_bytes,
               _file(scratch / "weights" / "w.safetensors", lambda path: weights_root(path.parent))),
        Target("manifest.weights_header", "client", 20, (_safetensors()[8:-8],), mutate_json,
               _file(scratch / "header" / "w.safetensors", lambda path: weights_root(path.parent), True)),
        Target("text.chat_settings", "client", 10, (_tokenizer_config(),), mutate_json,
               _file(scratch / "tokenizer" / "tokenizer_config.json", _chat)),
        Target("manifest.config_hash", "client", 10, (b'{"dtype":"x","layers":3}',), mutate_json,
               _file(scratch / "config.json", lambda path: config_hash(path.parent))),
    ]  # fmt: skip


def _file(path: Path, read: Callable[[Path], Any], header: bool = False) -> Callable[[bytes], Any]:
    """Feed ``read`` a file with the input; with ``header`` as a safetensors header before 8 bytes of data."""
    path.parent.mkdir(exist_ok=True)

    def feed(data: bytes) -> Any:
        path.write_bytes(len(data).to_bytes(8, "little") + data + bytes(8) if header else data)
        return read(path)

    return feed


def _check_receipt(world: ToyWorld) -> Callable[[bytes], Any]:
    def feed(data: bytes) -> None:
        receipt = Receipt.from_json(data)
        check_receipt(receipt, world.manifest.spec)
        rerun(receipt, world.engine, world.manifest)

    return feed


def _manifest(data: bytes) -> None:
    manifest = Manifest.from_json(text_of(data))
    _judge(manifest.table)
    assert len(manifest.model_id) == 32
    assert Manifest.from_json(manifest.to_json()) == manifest


def _table(data: bytes) -> None:
    _judge(ToleranceTable.from_dict(parse_json(text_of(data), "table")))


def _judge(table: ToleranceTable) -> None:
    """A verdict by a stranger's table, on jobs that agree and that do not."""
    for d in (0, 1 << 30, 1 << 50):
        rows = tuple(RowComparison(b, p, d, 1 << 50) for b in range(len(table.boundaries)) for p in (0, 4))
        shared = tuple(Direction(b, 2, d / (1 << 50)) for b in range(len(table.boundaries)))
        judge(JobObservation(rows, ((5, 0), (6, d)), shared), table)


def _events(world: ToyWorld) -> bytes:
    r = world.receipt
    worker = r.worker.commitment.operator
    events = [
        fakes.assigned(worker, 0),
        fakes.tokens(0, *r.output[:4]),
        fakes.assigned(worker, 0),
        fakes.tokens(0, *r.output[:2]),
        fakes.tokens(2, *r.output[2:]),
        pb.JobEvent(committed=codec.commitment_to_proto(r.worker)),
    ]
    return pack([event.SerializeToString() for event in events])


def _stream(world: ToyWorld) -> Callable[[bytes], Any]:
    r = world.receipt
    submission = codec.Submission(r.job, r.job_signature, r.prompt, r.stop)

    def events(data: bytes) -> Iterator[pb.JobEvent]:
        for blob in Reader(data).blobs():
            yield parse(pb.JobEvent, blob, "event")

    def feed(data: bytes) -> Any:
        connection: Any = SimpleNamespace(errors=nullcontext)
        call = events(data)
        return Stream(connection, call, submission, parties.DOMAIN, None, lambda a, b: a == b).generation

    return feed


def _signatures(world: ToyWorld) -> tuple[bytes, ...]:
    r = world.receipt
    digest = eip712.commitment_digest(r.worker.commitment, parties.DOMAIN)
    return (pack(r.job_id, r.job_signature), pack(digest, r.worker.signature))


def _recover(data: bytes) -> str:
    reader = Reader(data)
    return eip712.recover_digest(reader.blob().ljust(32, b"\0")[:32], reader.blob())


def _vrf_seeds() -> tuple[bytes, ...]:
    vectors = json.loads((Path(__file__).resolve().parents[1] / "vectors" / "vrf.json").read_text())
    cases = [*vectors["published"], *vectors["own"]]
    return tuple(pack(*(bytes.fromhex(case[name][2:]) for name in ("pk", "alpha", "pi"))) for case in cases)


def _vrf(data: bytes) -> None:
    reader = Reader(data)
    key, alpha, proof = reader.blob(), reader.blob(), reader.blob()
    vrf.verify(key, alpha, proof)
    vrf.hints(key, alpha, proof)


def _tokenizer_config() -> bytes:
    templates = [{"name": "default", "template": "{% for m in messages %}{{ m.content }}{% endfor %}"}]
    return json.dumps(
        {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": templates}
    ).encode()


def _chat(path: Path) -> None:
    special, template = _chat_settings(path.parent)
    if template is not None:
        _render(template, [{"role": "user", "content": "x"}], special)


def _safetensors() -> bytes:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    return len(header).to_bytes(8, "little") + header.encode() + bytes(8)
