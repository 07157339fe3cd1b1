"""A local anvil chain for the demo and tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from verillm.errors import ChainError, ConfigError

MNEMONIC = "test test test test test test test test test test test junk"
START_SECONDS = 30
STOP_SECONDS = 5


@cache
def account(index: int) -> LocalAccount:
    """Development account ``index`` of anvil's well-known mnemonic; never use it on a public chain."""
    Account.enable_unaudited_hdwallet_features()
    return Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")


@dataclass(frozen=True)
class Devnet:
    """A running anvil: its RPC URL and process id. Accounts come from ``account(i)``."""

    rpc_url: str
    pid: int

    def rpc(self, method: str, *params: Any) -> Any:
        """One JSON-RPC call. Raises ChainError."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}).encode()
        request = urllib.request.Request(self.rpc_url, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                answer = json.load(response)
        except OSError as error:
            raise ChainError(f"devnet: {self.rpc_url} does not answer: {error}") from error
        if "error" in answer:
            raise ChainError(f"devnet: {method}: {answer['error'].get('message')}")
        return answer["result"]

    def mine(self, blocks: int = 1) -> None:
        """Mine ``blocks`` empty blocks at once."""
        self.rpc("anvil_mine", hex(blocks))


def _anvil() -> str:
    local = Path(__file__).resolve().parents[2] / "node_modules" / ".bin" / "anvil"
    found = str(local) if local.exists() else shutil.which("anvil")
    if found is None:
        raise ConfigError("anvil: not found in node_modules/.bin or on PATH; run `make setup`")
    return found


def _free_port(port: int) -> int:
    """``port`` if nothing listens there, 0 for any: a second anvil would otherwise join the first's chain."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ChainError(f"anvil: port {port} is taken ({error}); stop what runs there") from error
        return int(probe.getsockname()[1])


@contextmanager
def start_anvil(port: int = 0, block_time: float | None = None, accounts: int = 20) -> Iterator[Devnet]:
    """Run anvil on 127.0.0.1 until the block ends; it stops even if the block raises.

    ``port`` 0 takes a free one. ``block_time`` None mines one block per transaction; otherwise one every
    ``block_time`` seconds. Raises ConfigError without anvil, ChainError if it does not start.
    """
    port = _free_port(port)
    command = [_anvil(), "--port", str(port), "--accounts", str(accounts), "--mnemonic", MNEMONIC, "--silent"]
    if block_time is not None:
        command += ["--block-time", str(block_time)]
    # Its own process group: the npm wrapper starts the real binary as a child, and both must go.
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        devnet = Devnet(f"http://127.0.0.1:{port}", process.pid)
        _wait_ready(devnet, process)
        yield devnet
    finally:
        _stop(process)


def _wait_ready(devnet: Devnet, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            assert process.stderr is not None
            reason = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise ChainError(f"anvil: ended at start: {reason[-1] if reason else 'no message'}")
        try:
            devnet.rpc("eth_chainId")
            return
        except ChainError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    if process.stderr is not None:
        process.stderr.close()
