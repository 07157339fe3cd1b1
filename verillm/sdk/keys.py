"""A client's or node's private key: an eth keyfile with a password file, or the environment variable."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eth_account import Account

from verillm.errors import ConfigError

KEY_VARIABLE = "VERILLM_PRIVATE_KEY"


def load_private_key(keyfile: str | Path | None, password_file: str | Path | None) -> bytes:
    """The 32-byte secp256k1 secret. ``keyfile`` (eth keyfile JSON, version 3) wins over VERILLM_PRIVATE_KEY.

    Raises ConfigError naming what is missing or wrong; the secret itself is in no message.
    """
    if keyfile is not None:
        if password_file is None:
            raise ConfigError("--password-file: required with --keyfile; name a file that holds the password")
        try:
            encrypted = json.loads(Path(keyfile).read_text())
            password = Path(password_file).read_text().rstrip("\n")
        except (OSError, ValueError) as error:
            raise ConfigError(f"--keyfile: cannot read {keyfile} or {password_file}: {error}") from error
        try:
            return bytes(Account.decrypt(encrypted, password))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"--keyfile: {keyfile} does not open with this password") from error
    text = os.environ.get(KEY_VARIABLE, "").removeprefix("0x")
    if not text:
        raise ConfigError(f"key: give --keyfile and --password-file, or set {KEY_VARIABLE} to 64 hex digits")
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        raise ConfigError(f"{KEY_VARIABLE}: is not hex; it must be 64 hex digits") from None
    if len(secret) != 32:
        raise ConfigError(f"{KEY_VARIABLE}: has {len(secret)} bytes; it must have 32")
    return secret
