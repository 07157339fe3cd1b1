"""The client half: submit jobs, get receipts, check them. Imports neither torch nor numba."""

from __future__ import annotations

from verillm.sdk.aio import AsyncClient
from verillm.sdk.client import Client, ClientStatus
from verillm.sdk.findings import Finding, Report
from verillm.sdk.generation import Generation, Reset, Stream, TextDelta
from verillm.sdk.receipt import Receipt
from verillm.sdk.verify import check_receipt, verify_receipt

__all__ = [
    "AsyncClient",
    "Client",
    "ClientStatus",
    "Finding",
    "Generation",
    "Receipt",
    "Report",
    "Reset",
    "Stream",
    "TextDelta",
    "check_receipt",
    "verify_receipt",
]
