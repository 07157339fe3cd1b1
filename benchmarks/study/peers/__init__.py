"""Other schemes, run on the same activations as ours: TOPLOC, Token-DiFR and Activation-DiFR.

``peers`` says which can run here. A peer proves and scores rows after the final norm: see ``Peer``, ``Rows``.
"""

from __future__ import annotations

from .activation_difr import DIMENSIONS, ActivationDifr
from .rows import Ints, Peer, PeerUnavailable, Rows, prefix_scores
from .token_difr import TokenDifr
from .toploc import Toploc

__all__ = [
    "ActivationDifr",
    "Peer",
    "PeerUnavailable",
    "Rows",
    "TokenDifr",
    "Toploc",
    "peers",
    "prefix_scores",
]


def peers(honest_margins: Ints) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can run here, and by name why another cannot. ``honest_margins`` (Q24) of tokens apart
    from those to be scored calibrate Token-DiFR's clip."""
    found: list[Peer] = [TokenDifr.calibrated(honest_margins), *map(ActivationDifr, DIMENSIONS)]
    missing: dict[str, str] = {}
    try:
        found.append(Toploc())
    except PeerUnavailable as reason:
        missing[Toploc.name] = str(reason)
    return found, missing
