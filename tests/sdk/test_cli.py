"""The command line: what it prints, exit codes, and one line for whatever goes wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sdk.fakes import BOOK, WORKER, FakeChain, FakeScheduler, assigned, committed, serving, tokens
from tests.sdk.parties import CLIENT
from verillm.chain.addresses import AddressBook
from verillm.cli.config import Network
from verillm.cli.main import build_parser, main
from verillm.errors import ConfigError
from verillm.manifest import Manifest
from verillm.sdk import client
from verillm.sdk.keys import KEY_VARIABLE
from verillm.sdk.receipt import Receipt

COMMANDS = ("run", "status", "deposit", "verify", "calibrate", "deploy")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, CLIENT.key.hex())
    BOOK.write(tmp_path / "book.json")
    return tmp_path


@pytest.fixture
def model(tiny_folder: Path, sdk_manifest: Manifest, home: Path) -> Path:
    """The tiny model's folder with the manifest under which the honest receipt was made."""
    folder = home / "model"
    folder.mkdir()
    for file in tiny_folder.iterdir():
        if not file.name.startswith("manifest"):
            (folder / file.name).symlink_to(file)
    sdk_manifest.save(folder / "manifest-fp32.json")
    return folder


@pytest.fixture
def receipt_file(honest: Receipt, home: Path) -> Path:
    honest.save(home / "receipt.json")
    return home / "receipt.json"


def failing(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Run a command that must fail with code 2 and one line on stderr; returns the line."""
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("verillm: ")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        build_parser().parse_args([command, "--help"] if command else ["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "usage: verillm" in out
    if not command:
        assert all(name in out for name in COMMANDS)


def test_verify_accepts_an_honest_receipt(capsys, model: Path, receipt_file: Path) -> None:  # type: ignore[no-untyped-def]
    assert main(["verify", str(receipt_file), "--offline", "--model", str(model), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "ACCEPT job 0x" in out
    assert "FAILED" not in out
    assert "prefill" in out


def test_verify_names_the_position_of_a_changed_token(
    capsys, model: Path, honest: Receipt, home: Path
) -> None:  # type: ignore[no-untyped-def]
    output = (honest.output[0], honest.output[1] ^ 1, *honest.output[2:])
    replace(honest, output=output).save(home / "bad.json")
    argv = ["verify", "bad.json", "--offline", "--model", str(model), "--threads", "1"]
    assert main(argv) == 1
    assert f"at position {len(honest.prompt) + 1}" in capsys.readouterr().out
    assert main([*argv, "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["position"] == len(honest.prompt) + 1
    assert (value["ok"], value["verdict"]) == (False, "REJECT")


def test_verify_hashes_only(capsys, model: Path, honest: Receipt, receipt_file: Path) -> None:  # type: ignore[no-untyped-def]
    argv = ["verify", str(receipt_file), "--offline", "--hashes-only"]
    manifest = ["--manifest", str(model / "manifest-fp32.json")]
    assert main([*argv, *manifest]) == 0
    assert "hashes, signatures and proofs only" in capsys.readouterr().out
    assert "cannot read nothing.json" in failing(capsys, "verify", "nothing.json", "--offline")
    assert "--manifest" in failing(capsys, *argv)
    assert main([*argv, *manifest, "--job", "0x" + honest.job_id.hex()]) == 0
    assert main([*argv, *manifest, "--job", "0x" + "11" * 32]) == 1
    assert "position 0" in capsys.readouterr().out


def test_verify_needs_the_right_model(capsys, model: Path, receipt_file: Path, smollm2_free: Path) -> None:  # type: ignore[no-untyped-def]
    offline = ("verify", str(receipt_file), "--offline", "--model")
    assert "no config.json" in failing(capsys, *offline, str(smollm2_free))
    assert "neither a folder" in failing(capsys, *offline, "nothing")
    (model / "manifest-fp32.json").unlink()
    assert "no manifest" in failing(capsys, *offline, str(model))


@pytest.fixture
def smollm2_free(home: Path) -> Path:
    """A folder that is no model."""
    (home / "empty").mkdir()
    return home / "empty"


def test_verify_asks_the_chain(capsys, monkeypatch, model: Path, receipt_file: Path) -> None:  # type: ignore[no-untyped-def]
    argv = ("verify", str(receipt_file), "--hashes-only", "--manifest", str(model / "manifest-fp32.json"))
    assert "--offline" in failing(capsys, *argv)
    line = failing(capsys, *argv, "--rpc", "http://127.0.0.1:1", "--address-book", "book.json")
    assert "does not answer" in line


def test_verify_of_junk(capsys, home: Path) -> None:  # type: ignore[no-untyped-def]
    (home / "junk.json").write_text('{"version": 1}')
    assert "is missing" in failing(capsys, "verify", "junk.json", "--offline")
    (home / "junk.json").write_bytes(b"\xff\xfe")
    assert "UTF-8" in failing(capsys, "verify", "junk.json", "--offline")


def test_network_file_and_errors(capsys, monkeypatch, home: Path) -> None:  # type: ignore[no-untyped-def]
    assert "--scheduler" in failing(capsys, "run", "Hi")
    assert "cannot read" in failing(capsys, "run", "Hi", "--network", "none.json")
    (home / "n.json").write_text('{"rpc": "http://127.0.0.1:1", "scheduler": "127.0.0.1:1", "port": 3}')
    assert "only" in failing(capsys, "run", "Hi", "--network", "n.json")
    (home / "n.toml").write_text(
        'rpc = "http://127.0.0.1:1"\nscheduler = "127.0.0.1:1"\naddress_book = "b.json"'
    )
    assert "address book: cannot read b.json" in failing(capsys, "run", "Hi", "--network", "n.toml")
    (home / "verillm.json").write_text(
        '{"rpc": "http://127.0.0.1:1", "scheduler": "127.0.0.1:1", "address_book": "book.json"}'
    )
    assert "http://127.0.0.1:1 does not answer" in failing(capsys, "status")
    assert "host:port" in failing(capsys, "status", "--scheduler", "nowhere")
    monkeypatch.setenv(KEY_VARIABLE, "zz")
    assert "is not hex" in failing(capsys, "status")
    monkeypatch.setenv(KEY_VARIABLE, "00" * 32)
    assert "group order" in failing(capsys, "status")
    monkeypatch.delenv(KEY_VARIABLE)
    assert "--keyfile" in failing(capsys, "status")
    assert "--password-file" in failing(capsys, "status", "--keyfile", "k.json")


def test_wrong_chain_id(capsys, monkeypatch, home: Path) -> None:  # type: ignore[no-untyped-def]
    def refuse(url: str, book: AddressBook, account: object) -> None:
        from verillm.errors import ChainError

        raise ChainError(f"chain id: {url} serves chain 1, the address book is for {book.chain_id}")

    monkeypatch.setattr(client, "ChainClient", refuse)
    network = ("--rpc", "http://x", "--scheduler", "x:1", "--address-book", "book.json")
    assert "serves chain 1" in failing(capsys, "status", *network)


def test_amounts(capsys, home: Path) -> None:  # type: ignore[no-untyped-def]
    for amount in ("x", "0", "-1", "nan", "inf", "1e-19", "1e99"):
        assert "amount" in failing(capsys, "deposit", "--", amount)
    assert "amount" in failing(capsys, "deposit", "1.5", "--unit", "wei")
    assert "--job" in failing(capsys, "status", "--job", "0x12", *_flags("127.0.0.1:1"))


def _flags(target: str) -> tuple[str, ...]:
    return ("--rpc", "http://127.0.0.1:1", "--scheduler", target, "--address-book", "book.json")


def test_run_deposit_and_status(capsys, monkeypatch, model: Path, sdk_manifest: Manifest) -> None:  # type: ignore[no-untyped-def]
    chain = FakeChain()
    monkeypatch.setattr(client, "ChainClient", lambda *_: chain)
    scheduler = FakeScheduler([sdk_manifest.model_id])

    def script(submission):  # type: ignore[no-untyped-def]
        yield assigned(WORKER, 0)
        yield tokens(0, *submission.prompt[:3])
        yield committed(submission, WORKER, 0, 3)

    scheduler.script = script
    with serving(scheduler) as target:
        network = (*_flags(target), "--models", str(model))
        assert main(["run", "Hi", "--max-tokens", "8", *network]) == 0
        shown = capsys.readouterr()
        assert shown.out == "use\n"
        assert "finish_reason=LENGTH" in shown.err
        assert main(["run", "Hi", "--max-tokens", "8", "--json", *network]) == 0
        assert json.loads(capsys.readouterr().out)["text"] == "use"
        assert "exceed" in failing(capsys, "run", "Hi", "--max-tokens", "128", *network)
        assert "unknown" in failing(capsys, "run", "Hi", "--model", "gpt-9", *network)
        assert main(["deposit", "0.25", "--json", *network]) == 0
        assert json.loads(capsys.readouterr().out) == {"deposited": 25 * 10**16, "escrow": 125 * 10**16}
        assert main(["status", *network]) == 0
        assert "1.25 tokens" in capsys.readouterr().out
        chain.escrows = 0
        assert "deposit at least" in failing(capsys, "run", "Hi", "--max-tokens", "8", *network)


def test_bugs_are_one_line_too(capsys, monkeypatch, home: Path) -> None:  # type: ignore[no-untyped-def]
    def broken(_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("verillm.cli.job_commands.read_network", broken)
    assert main(["status"]) == 70
    err = capsys.readouterr().err
    assert err == "verillm: internal error: RuntimeError: two lines; please report it\n"


def test_development_accounts_only_on_the_development_chain() -> None:
    with pytest.raises(ConfigError, match="only for chain 31337"):
        Network(dev_account=0).account(1)
    assert Network(dev_account=0).account(31337).address == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
