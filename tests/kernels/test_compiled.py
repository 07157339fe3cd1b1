"""Every kernel compiles to PTX and machine code for sm_80 and sm_90; neither a GPU nor a driver is needed."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import verillm.kernels

MAX_REGISTERS = 255


@pytest.fixture(scope="module")
def compiled() -> list[dict[str, Any]]:
    """What ``tests.kernels.compiled`` prints, in a process that does not interpret."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_DEFAULT_FP_FUSION"] = "0"
    command = [sys.executable, "-m", "tests.kernels.compiled"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    for line in lines:
        print("{name:20} sm_{sm} {REG:3} registers {STACK} stack {LOCAL} local".format(**line))
    return lines


def test_every_kernel_is_compiled_for_both_targets(compiled):
    kernels = {
        name
        for module in pkgutil.iter_modules(verillm.kernels.__path__, "verillm.kernels.")
        for name in vars(importlib.import_module(module.name))
        if name.endswith("_kernel")
    }
    assert kernels
    made = {(line["kernel"], line["sm"]) for line in compiled}
    assert made == {(kernel, sm) for kernel in kernels for sm in (80, 90)}
    assert all(line["ptx_target"][0].startswith(f"sm_{line['sm']}") for line in compiled)
    assert all(line["cubin_bytes"] > 0 for line in compiled)


def test_no_state_spills_to_local_memory(compiled):
    """keccak's 50 registers of state must stay registers; a spill shows as stack or local bytes."""
    spilled = [line for line in compiled if line["STACK"] or line["LOCAL"] or line["REG"] > MAX_REGISTERS]
    assert spilled == []


def test_no_kernel_has_floating_point_arithmetic(compiled):
    """So no contraction, rounding mode or flush of subnormals can change a result."""
    assert {line["name"]: line["float_operations"] for line in compiled if line["float_operations"]} == {}
