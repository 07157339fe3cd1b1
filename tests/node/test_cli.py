import json

import pytest

from node.cli import main

BOOK = ["--rpc", "http://127.0.0.1:1", "--address-book", "missing.json"]


@pytest.mark.parametrize("command", [[], ["worker"], ["scheduler"], ["register"]])
def test_help_needs_nothing_else(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    assert "VERILLM_PRIVATE_KEY" in capsys.readouterr().out


def _one_line(argv, capsys) -> str:
    assert main(argv) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("verillm-node: ")
    return line


REGISTER = ["register", *BOOK, "--endpoint", "h:1", "--stake", "5"]


def test_a_missing_or_bad_key_is_one_line(capsys, monkeypatch):
    monkeypatch.delenv("VERILLM_PRIVATE_KEY", raising=False)
    assert "VERILLM_PRIVATE_KEY" in _one_line(REGISTER, capsys)
    monkeypatch.setenv("VERILLM_PRIVATE_KEY", "0x1234")
    line = _one_line(REGISTER, capsys)
    assert "VERILLM_PRIVATE_KEY" in line
    assert "1234" not in line


def test_a_keyfile_opens_with_its_password(capsys, tmp_path):
    from eth_account import Account

    keyfile, password = tmp_path / "key.json", tmp_path / "password"
    keyfile.write_text(json.dumps(Account.encrypt("0x" + "ab" * 32, "secret", iterations=1)))
    password.write_text("secret\n")
    keys = ["--keyfile", str(keyfile), "--password-file", str(password)]
    assert "address book" in _one_line([*REGISTER, *keys], capsys)  # the key was fine
    password.write_text("other")
    assert "keyfile" in _one_line([*REGISTER, *keys], capsys)


@pytest.mark.parametrize("stake", ["0", "-1", "x", "1e-19"])
def test_a_stake_is_a_positive_number_of_tokens(stake, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["register", *BOOK, "--endpoint", "h:1", "--stake", stake])
    assert stopped.value.code == 2


