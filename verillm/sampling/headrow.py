"""The logits of one row: approximate ones of the whole vocabulary, exact ones where they decide.

What ``sample`` and ``margin`` return are the integers of ``sampler.sample`` and ``sampler.margins`` on the
exact logits of the whole vocabulary. Where the bound on the approximation does not show them, those functions
are called.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verillm.constants import PPM
from verillm.errors import InvalidRequest
from verillm.sampling import kernel, race, sampler
from verillm.sampling.masks import Masks, Undecided
from verillm.sampling.sampler import LOGIT_LIMIT, NO_THRESHOLD, TOP_P_SLACK_PPM, Ints
from verillm.types import SamplingParams

ROUNDING = 2.0**-8 * 1.01
"""Relative error of rounding a logit to bfloat16, against the rounded one."""
MOST = 16384
"""Tokens that are looked at exactly; a row that needs more takes the long way."""
TAIL_SHARES = (2.0**-2, 2.0**-8)
"""Softmax mass that top-p leaves unseen, of that beyond p: at the first try and at the second."""


class LogitRow:
    """The judge of a row whose ``logits``, float32 or float64 [vocab], are all at hand."""

    def __init__(self, logits: NDArray[np.floating]) -> None:
        self._logits = logits

    def sample(self, params: SamplingParams, position: int) -> int:
        """The token drawn for the row at ``position``. Raises RowError."""
        return sampler.sample(self._logits, params, position)

    def margin(self, params: SamplingParams, position: int, claimed: int) -> tuple[int, int]:
        """(margin of ``claimed`` in Q24, the token that ``sample`` returns). Raises InvalidRequest or
        RowError."""
        gaps, best = sampler.margins(self._logits[None], params, position, np.array([claimed]))
        return int(gaps[0]), int(best[0])


class HeadRow:
    """One row after the final norm against the output matrix.

    ``row`` float64 [d]; ``weights`` and ``approx`` bfloat16 bits, uint16 [vocab, d] and [vocab]. Each
    approximate logit was within ``error`` of the exact one before it was rounded to bfloat16. An exact
    logit is the float64 dot product in the order of ``kernel.exact_logits``.
    """

    def __init__(
        self, row: NDArray[np.float64], weights: NDArray[np.uint16], approx: NDArray[np.uint16], error: float
    ) -> None:
        self._row, self._weights, self._approx = row, weights, approx
        self._error, self._largest = error, race.magnitude(approx)
        self._bound = error + ROUNDING * self._largest

    def sample(self, params: SamplingParams, position: int) -> int:
        """As ``LogitRow.sample``."""
        try:
            return self._judge(params, position, None)[1]
        except Undecided:
            return LogitRow(self.logits()).sample(params, position)

    def margin(self, params: SamplingParams, position: int, claimed: int) -> tuple[int, int]:
        """As ``LogitRow.margin``."""
        if not 0 <= claimed < len(self._approx):
            raise InvalidRequest(f"claimed: token {claimed} is outside the vocabulary of {len(self._approx)}")
        try:
            return self._judge(params, position, claimed)
        except Undecided:
            return LogitRow(self.logits()).margin(params, position, claimed)

    def logits(self) -> NDArray[np.float64]:
        """The exact logits of the whole vocabulary: float64 [vocab]."""
        return kernel.exact_logits(self._row, self._weights, np.arange(len(self._approx)))

    def _judge(self, params: SamplingParams, position: int, claimed: int | None) -> tuple[int, int]:
        """(margin of ``claimed``, or 0 if it is None; the best token)."""
        if not self._bound <= LOGIT_LIMIT:
            raise Undecided
        k = params.top_k if params.top_k < len(self._approx) else 0
        if params.temperature_ppm == 0 or (k == 0 and params.top_p_ppm == PPM):
            return self._unmasked(params, position, claimed)
        rest = 1 - params.top_p_ppm / PPM
        for share in (rest * part for part in TAIL_SHARES) if rest else (1.0,):
            try:
                return self._masked(params, position, claimed, k, share)
            except Undecided:
                continue
        raise Undecided

    def _unmasked(self, params: SamplingParams, position: int, claimed: int | None) -> tuple[int, int]:
        out = np.empty(MOST, np.int64)
        if params.temperature_ppm == 0:
            limit = self._top() - 2 * self._bound
            ids = self._fits(out, race.at_least(self._approx, limit, out))
        else:
            start = race.argmax(self._approx) if claimed is None else claimed
            count = race.contenders(
                self._approx, self._bound, self._largest, start,
                np.uint64(params.seed), np.uint64(position), params.temperature_ppm, out,
            )  # fmt: skip
            ids = self._fits(out, count)
        scores = self._scores(ids, self._values(ids), params, position)
        best = int(np.argmax(scores))
        if claimed is None or claimed == ids[best]:
            return 0, int(ids[best])
        own = np.array([claimed])
        return int(scores[best] - self._scores(own, self._values(own), params, position)[0]), int(ids[best])

    def _masked(
        self, params: SamplingParams, position: int, claimed: int | None, k: int, share: float
    ) -> tuple[int, int]:
        temperature, out = params.temperature_ppm / PPM, np.empty(MOST, np.int64)
        limit, *tail = race.mask_limit(self._approx, self._error, ROUNDING, k, temperature, share)
        ids = self._fits(out, race.at_least(self._approx, limit, out))
        values = self._values(ids)
        unseen = limit + self._error + ROUNDING * abs(limit)
        masks = Masks(values, unseen, self._top(), tail, k, params.temperature_ppm)
        low, high = masks.threshold(params.top_p_ppm)
        ids, values = ids[values >= low], values[values >= low]
        scores = self._scores(ids, values, params, position)
        best = int(np.argmax(scores))
        if values[best] < high:
            raise Undecided
        if claimed is None or claimed == ids[best]:
            return 0, int(ids[best])
        slack = TOP_P_SLACK_PPM if params.top_p_ppm < PPM else 0
        loose, strict = (masks.threshold(params.top_p_ppm + sign * slack) for sign in (1, -1))
        if loose[0] != loose[1] or strict[0] != strict[1]:
            raise Undecided
        own = np.array([claimed])
        value = self._values(own)
        gaps = scores - self._scores(own, value, params, position)
        gap = int(np.minimum(gaps, values - strict[0]).max())
        return max(gap, loose[0] - int(value[0]) if loose[0] != NO_THRESHOLD else 0, 0), int(ids[best])

    def _top(self) -> float:
        """The largest approximate logit."""
        return float(kernel.value_of(self._approx[race.argmax(self._approx)]))

    def _fits(self, out: Ints, count: int) -> Ints:
        if count == race.CROWDED:
            raise Undecided
        return out[:count]

    def _values(self, ids: Ints) -> Ints:
        """Exact logits of the tokens, Q24."""
        logits = kernel.exact_logits(self._row, self._weights, ids)
        approx = (self._approx[ids].astype(np.uint32) << 16).view(np.float32)
        if not bool((np.abs(logits - approx) <= self._bound).all()):
            raise Undecided  # the matrix product is less exact than was said: do not trust it
        return sampler.logits_q24(logits)

    def _scores(self, ids: Ints, values: Ints, params: SamplingParams, position: int) -> Ints:
        if params.temperature_ppm == 0:
            return values
        noise = kernel.noise_at(np.uint64(params.seed), np.uint64(position), ids)
        return values + (noise * params.temperature_ppm) // PPM
