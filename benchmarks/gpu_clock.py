"""Times on the device's own clock, and the two ceilings that kernels are held against."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from verillm.kernels.keccak import ROUNDS, constants_on, permute, store_hash
from verillm.kernels.launch import OPTIONS

KECCAK_OPS = 24 * 190
"""32-bit operations of one keccak-f[1600] with three-input logic and funnel shifts. Per round: theta's
parities 20 logic, their differences 10 and 10 shifts, applied 50; rho 48 shifts; chi 50; iota 2. The sm_90
machine code has 192 to 196."""
SCAN_OPS = 334
"""Instructions per token of the sampler's scan, reductions included, counted in its sm_90 machine code."""
CYCLES_PER_LAUNCH = 200_000
"""A pause of some 100 us, longer than a launch takes the host."""
LANES = 64
"""32-bit logic operations per clock of one multiprocessor, compute capability 8.0 and 9.0 (CUDA C++
Programming Guide, arithmetic throughput)."""


def median_us(call: Callable[[], object], calls: int = 20, repeats: int = 7, launches: int = 4) -> float:
    """Microseconds of one ``call`` on the device: the median over ``repeats`` of ``calls`` in a row. A pause
    that the device takes first lets the host run ahead with its ``launches`` per call, so what a launch costs
    the host does not count."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(CYCLES_PER_LAUNCH * launches * calls)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


@triton.jit
def _rotl(x, n: tl.constexpr):
    return (x << n) | (x >> (32 - n))


@triton.jit(do_not_specialize=["loops"])
def integer_kernel(out, loops, BLOCK: tl.constexpr):
    """80 independent enough 32-bit operations per loop, 7 logic to 3 shifts as in keccak."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = i.to(tl.uint32)
    b, c, d = a * 3 + 1, a * 5 + 2, a * 7 + 3
    e, f, g = a * 9 + 4, a * 11 + 5, a * 13 + 6
    for _ in range(loops):
        for _ in tl.static_range(8):
            a = _rotl(a ^ (b & c), 7)
            b = _rotl(b ^ (c & d), 9)
            c = _rotl(c ^ (d & e), 11)
            d ^= e & f
            e ^= f & g
            f ^= g & a
            g ^= a & b
    tl.store(out + i, (a ^ b ^ c ^ d ^ e ^ f ^ g).to(tl.int32, bitcast=True))


@triton.jit(do_not_specialize=["rounds"])
def permutation_kernel(out, constants, rounds, BLOCK: tl.constexpr):
    """4 permutations per thread, without any input."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    s = ()
    for w in tl.static_range(25):
        s += ((i + w).to(tl.uint64),)
    for _ in range(4):
        s = permute(s, constants, rounds)
    store_hash(out + i * 4, s, i >= 0)


def smi(field: str) -> str:
    """One field of nvidia-smi, "" if it is not there."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def copy_rate(size: int = 1 << 30) -> float:
    """Bytes read and written per second by a device-to-device copy of ``size`` bytes."""
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / median_us(lambda: target.copy_(source), calls=10) * 1e6


def integer_rate(processors: int) -> float:
    """32-bit logic and shift operations per second, measured."""
    programs, block, loops = processors * 16, 128, 1000
    out = torch.empty(programs * block, dtype=torch.int32, device="cuda")
    us = median_us(
        lambda: integer_kernel[(programs,)](out, loops, BLOCK=block, num_warps=4, **OPTIONS), calls=3
    )
    return programs * block * loops * 80 / us * 1e6


def permutation_rate(processors: int) -> tuple[float, int]:
    """(keccak-f per second without memory traffic, warps per program at which that is)."""
    best = (0.0, 0)
    device = torch.device("cuda", torch.cuda.current_device())
    for warps in (1, 2, 4):
        programs, block = processors * 128 // warps, 32 * warps
        out = torch.empty((programs * block, 4), dtype=torch.int64, device=device)

        def call(out: Any = out, programs: int = programs, block: int = block, warps: int = warps) -> None:
            permutation_kernel[(programs,)](
                out, constants_on(device), ROUNDS, BLOCK=block, num_warps=warps, **OPTIONS
            )

        best = max(best, (4 * programs * block / median_us(call, calls=3) * 1e6, warps))
    return best


def ceilings() -> dict[str, Any]:
    """The card and what it does at best: copying, and 32-bit integer operations by formula and measured."""
    properties = torch.cuda.get_device_properties(0)
    processors = properties.multi_processor_count
    clock = smi("clocks.max.sm")
    formula = processors * LANES * float(clock) * 1e6 if clock.replace(".", "").isdigit() else None
    measured = integer_rate(processors)
    permutations, warps = permutation_rate(processors)
    return {
        "card": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "processors": processors,
        "max_clock_mhz": clock,
        "driver": smi("driver_version"),
        "copy_bytes_per_s": copy_rate(),
        "integer_ops_per_s": measured,
        "integer_ops_per_s_by_formula": formula,
        "keccak_ops": KECCAK_OPS,
        "permutations_per_s": permutations,
        "permutations_warps": warps,
        "permutations_share_of_integer_rate": permutations * KECCAK_OPS / measured,
    }
