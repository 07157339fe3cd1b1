"""What a check of a receipt found, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from verillm.constants import Verdict
from verillm.errors import ProofError, VeriLLMError

_WHOLE = ("prompt", "worker-commitment")
"""Findings whose position is where a list begins that is wrong as a whole."""


@dataclass(frozen=True)
class Finding:
    """One check's result. ``boundary`` and ``position`` name where the job diverges, if the check knows;
    boundary 65535 means the token at ``position``."""

    name: str
    ok: bool
    message: str
    boundary: int | None = None
    position: int | None = None


@dataclass(frozen=True)
class Report:
    """All findings. ``verdict`` is the model's word (None: the model was not run)."""

    findings: tuple[Finding, ...]
    verdict: Verdict | None = None

    @property
    def ok(self) -> bool:
        """True if every check passed and the model, if it was run, accepted."""
        return all(f.ok for f in self.findings) and self.verdict in (None, Verdict.ACCEPT)

    @property
    def divergence(self) -> Finding | None:
        """The failed finding that names the first diverging position.

        A finding about one row or token goes before those that only say that a whole list is wrong.
        """
        placed = [f for f in self.findings if not f.ok and f.position is not None]
        return min(placed, key=lambda f: (f.name in _WHOLE, f.position, f.boundary), default=None)


class PlacedError(ProofError):
    """A failed proof about one boundary and position."""

    def __init__(self, message: str, boundary: int, position: int) -> None:
        super().__init__(message)
        self.boundary, self.position = boundary, position


def run_check(name: str, check: Callable[[], str]) -> Finding:
    """A check's finding: its message, or the typed error that it raised."""
    try:
        return Finding(name, True, check())
    except PlacedError as error:
        return Finding(name, False, str(error), error.boundary, error.position)
    except VeriLLMError as error:
        return Finding(name, False, str(error))
