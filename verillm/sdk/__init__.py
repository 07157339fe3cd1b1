"""The client half: submit jobs, get receipts, check them. Loads neither torch nor numba, and no module before
it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verillm.sdk.aio import AsyncClient
    from verillm.sdk.client import Client, ClientStatus
    from verillm.sdk.findings import Finding, Report
    from verillm.sdk.generation import Generation, Reset, Stream, TextDelta
    from verillm.sdk.receipt import Receipt
    from verillm.sdk.verify import check_receipt, verify_receipt

_HOMES = {
    "AsyncClient": "aio",
    "Client": "client",
    "ClientStatus": "client",
    "Finding": "findings",
    "Generation": "generation",
    "Receipt": "receipt",
    "Report": "findings",
    "Reset": "generation",
    "Stream": "generation",
    "TextDelta": "generation",
    "check_receipt": "verify",
    "verify_receipt": "verify",
}
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


def __getattr__(name: str) -> Any:
    """Load a name's module on first use."""
    if name in _HOMES:
        return getattr(import_module(f"verillm.sdk.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
