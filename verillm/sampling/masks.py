"""Top-k and top-p thresholds from the largest exact logits and bounds on the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from verillm.constants import PPM
from verillm.sampling.sampler import NO_THRESHOLD, Q24, Ints

MASS_ERROR = 1e-9
"""Relative; far above what the order of a float64 sum changes."""


class Undecided(Exception):
    """Bounds on the logits do not decide; the exact ones of the whole vocabulary will."""


class Masks:
    """What the thresholds of ``sampler`` can be on the whole vocabulary.

    ``values`` are exact logits (Q24), the ``k`` largest among them (0: no top-k). All others are at most
    ``unseen`` (a real number), and their softmax mass is ``tail[0]`` to ``tail[1]`` in units of
    exp(``top`` / temperature).
    """

    def __init__(
        self, values: Ints, unseen: float, top: float, tail: Sequence[float], k: int, temperature_ppm: int
    ) -> None:
        self._largest = np.sort(values)[::-1]
        self._kth = int(self._largest[k - 1]) if k else NO_THRESHOLD
        self._unseen = int(np.ceil(unseen * Q24))
        scale = PPM / (Q24 * temperature_ppm)
        self._mass = np.cumsum(np.exp((self._largest - self._largest[0]) * scale))
        with np.errstate(over="ignore", invalid="ignore"):
            unit = np.exp((top * Q24 - self._largest[0]) * scale)
            self._totals = np.minimum(self._mass[-1] + np.array(tail) * unit, 1e300)

    def threshold(self, top_p_ppm: int) -> tuple[int, int]:
        """(least, most) that the threshold can be. Raises Undecided if it may be among the unseen."""
        if top_p_ppm >= PPM:
            return self._kth, self._kth
        low, high = self._totals * (max(top_p_ppm, 0) / PPM) * (1 - MASS_ERROR, 1 + MASS_ERROR)
        first, last = np.searchsorted(self._mass, (low, high))
        if not (last < len(self._mass) and self._largest[last] > self._unseen):
            raise Undecided
        return max(self._kth, int(self._largest[last])), max(self._kth, int(self._largest[first]))
