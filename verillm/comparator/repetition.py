"""Text that repeats itself is ill-conditioned, and tells nothing.

After "0 0 0 0 ..." honest kernels differ in their rows as much as int4 weights do from the model. So rows of
such text are not compared; its tokens are.
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 32
"""Positions before a row in which its last two tokens, in their order, make a repetition."""
MOST_REPEATED = 0.5
"""A row does not count if it is one, or if more than this share of the last WINDOW positions are."""


def countable(text: Sequence[int]) -> list[bool]:
    """For each position of ``text`` (token ids), whether its row may be compared."""
    repeats: list[bool] = []
    latest: dict[tuple[int, int], int] = {}
    for position in range(len(text)):
        pair = (text[position - 1], text[position]) if position else None
        seen = latest.get(pair) if pair is not None else None
        repeats.append(seen is not None and position - seen <= WINDOW)
        if pair is not None:
            latest[pair] = position
    return [
        not repeats[position] and sum(repeats[max(0, position - WINDOW) : position]) <= MOST_REPEATED * WINDOW
        for position in range(len(text))
    ]
