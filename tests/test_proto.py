"""The committed gRPC stubs are those of the committed .proto."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", ["verillm_pb2.py", "verillm_pb2.pyi", "verillm_pb2_grpc.py"])
def test_stubs_are_generated_from_the_proto(name: str, tmp_path: Path) -> None:
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "grpc_python", "pyi")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, "verillm/rpc/verillm.proto"]
    subprocess.run(command, cwd=ROOT, check=True)
    generated = tmp_path / "verillm" / "rpc" / name
    assert generated.read_text() == (ROOT / "verillm" / "rpc" / name).read_text()
