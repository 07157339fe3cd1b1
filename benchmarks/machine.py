"""Where and when a benchmark ran; every results file says it."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import torch


def cpu_name() -> str:
    """The first processor's model name, as Linux gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def machine(threads: int | None = None) -> dict[str, Any]:
    """CPU, cores, threads of torch and how they wait, 1-minute load before, torch version, UTC date."""
    return {
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "threads": threads or torch.get_num_threads(),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
        "load_1min": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
