"""Compile every kernel for sm_80 and sm_90 without a GPU, and print what came out as JSON lines.

A script: the process must not be in interpreter mode (``test_compiled`` runs it).
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from verillm.constants import Dtype
from verillm.kernels import comparator, rows, sampler, tree
from verillm.kernels.launch import OPTIONS

TARGETS = (80, 90)
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
FLOAT_OPERATION = re.compile(r"^\s*(?:@!?%\w+\s+)?(\w+(?:\.\w+)*\.(?:f16|bf16|f32|f64)\w*)\s", re.MULTILINE)


def variants() -> Iterator[tuple[str, Any, dict[str, str], dict[str, int], int]]:
    """(name, kernel, types of the arguments that are not int64 pointers, compile-time values, warps)."""
    for unit in (64, 16):
        types = {"data": f"*i{unit}", "exponent": "i64", "lowest": "i64"}
        yield f"row_roots {unit}", rows.row_roots_kernel, types, {"UNIT": unit, "BLOCK": 32}, rows.WARPS
    yield "row_leaves", tree.row_leaves_kernel, {}, {"BLOCK": 32}, 1
    yield "tree_level", tree.tree_level_kernel, {}, {"BLOCK": 32}, 1
    yield "claims", sampler.claims_kernel, {"logits": "*i32"}, {"BLOCK": 32}, 1
    yield "scan", sampler.scan_kernel, {"logits": "*i32"}, {"BLOCK": sampler.BLOCK}, sampler.WARPS
    yield "finish", sampler.finish_kernel, {}, {"SPLITS": 256}, 1
    for dtype, block in ((Dtype.BF16, 1024), (Dtype.FP32, 8192)):
        exponent, fraction = comparator._LAYOUT[dtype]
        word = f"*i{8 * dtype.itemsize}"
        values = {"EXPONENT": exponent, "FRACTION": fraction, "BLOCK": block}
        warps = comparator.warps(block)
        yield f"statistics {dtype.name}", comparator.statistics_kernel, {"a": word, "b": word}, values, warps


def scalar(name: str) -> bool:
    """Whether an argument is a number; all others are pointers."""
    return name.endswith("_step") or name in (
        *("rows", "units", "chunks", "kept", "per_program", "rounds", "count", "vocab", "splits", "d"),
    )


def resources(cubin: bytes) -> dict[str, int]:
    """REG, STACK and LOCAL of the one kernel in ``cubin``: registers and bytes per thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", run.stdout + run.stderr))
    return {key: int(value) for key, value in found.items()}


def main() -> None:
    for name, kernel, types, values, warps in variants():
        signature = {
            argument: "constexpr" if argument in values else "i32" if scalar(argument) else "*i64"
            for argument in kernel.arg_names
        } | types
        source = ASTSource(fn=kernel, signature=signature, constexprs=values)
        for target in TARGETS:
            made = triton.compile(
                source, target=GPUTarget("cuda", target, 32), options={"num_warps": warps, **OPTIONS}
            )
            line = {
                "kernel": kernel.fn.__name__,
                "name": name,
                "sm": target,
                "ptx_target": re.findall(r"\.target (\w+)", made.asm["ptx"]),
                "cubin_bytes": len(made.asm["cubin"]),
                "float_operations": sorted(set(FLOAT_OPERATION.findall(made.asm["ptx"]))),
                **resources(made.asm["cubin"]),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
