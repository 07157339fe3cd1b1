"""VeriLLM: verifiable LLM inference on strangers' GPUs. ``import verillm`` loads neither torch nor numba.

The client's names are here, for example ``verillm.Client(...).generate(...)`` and ``verillm.Receipt``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verillm.sdk import (
        AsyncClient,
        Client,
        Finding,
        Generation,
        Receipt,
        Report,
        Reset,
        TextDelta,
        check_receipt,
        verify_receipt,
    )

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Client",
    "Finding",
    "Generation",
    "Receipt",
    "Report",
    "Reset",
    "TextDelta",
    "check_receipt",
    "verify_receipt",
]


def __getattr__(name: str) -> Any:
    """The client's names, loaded on first use: the protocol's modules do not need them."""
    if name in __all__:
        return getattr(import_module("verillm.sdk"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
