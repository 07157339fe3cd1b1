"""What a provider claims of a job, and what our verdict and the peers make of it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from verillm.commitment.job import RowStore
from verillm.comparator.compare import paper_statistics, ratio_q40, rows_statistics
from verillm.comparator.observation import JobObservation, compare_rows
from verillm.comparator.repetition import countable
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import judge, weigh
from verillm.constants import FinishReason, Verdict
from verillm.engine.finish import first_violation
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.errors import RowError

from .peers import Peer, Rows, prefix_scores
from .workload import Request

U8 = NDArray[np.uint8]
OPENED = 16
"""Positions opened per job, as the networks of ``verillm/params.json`` do."""
PREFIXES = (1, 2, 4, 8, 16, 32, 64)
"""Output tokens after which evidence is weighed."""


@dataclass(frozen=True)
class Claim:
    """``rows[b]``: uint8 [P + O - 1, row_bytes] at boundary b; ``output`` O tokens. ``eos``: what ends an
    output of this job; None: the model's."""

    request: Request
    rows: list[U8]
    output: list[int]
    finish: FinishReason
    eos: tuple[int, ...] | None = None


def claim_of(request: Request, state: SequenceState) -> Claim:
    """An honest claim of what was computed."""
    if state.finish_reason is None:
        raise ValueError("state: not finished")
    rows = [state.store.rows(b) for b in range(state.store.boundaries)]
    return Claim(request, rows, list(state.output), state.finish_reason)


@dataclass
class Outcome:
    """One comparison. ``rejected``: the verdict over the whole job, with positions drawn from all of it.

    ``scores[k]``: ln E (size, direction, tokens, pooled) of the first k output tokens alone, their rows and
    margins; pooled is inf if a single row, token or the finish rejects. ``ranks[k]``: pooled, with no
    allowance for other hardware, which peers do not make either. ``peers[name][k]``: their scores.
    ``depths[b]``: pooled of the whole job's rows at boundaries 0 to b alone, as a verifier sees them that
    runs only that many layers; it has no logits.
    ``log2``: mean log2(D/N) of all rows by boundary; ``cosines`` those of the whole job; ``paper``: P_e,
    P_m, P_w, mean error after the final norm.
    """

    provider: str
    verifier: str
    model: str
    dtype: str
    job: int
    prompt_tokens: int
    output_tokens: int
    rejected: bool
    reason: str
    pooled: float
    disputable: bool
    lost: int
    scores: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    ranks: dict[int, float] = field(default_factory=dict)
    peers: dict[str, dict[int, float]] = field(default_factory=dict)
    depths: list[float] = field(default_factory=list)
    log2: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    paper: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Comparison:
    """One claim against one verifier's rows of the same tokens. Raises RowError for rows with NaN or Inf."""

    def __init__(self, claim: Claim, own: RowStore, engine: Engine, table: ToleranceTable) -> None:
        self.claim, self.own, self.engine, self.table = claim, own, engine, table
        self.first = len(claim.request.prompt)
        boundaries = range(len(engine.boundaries))
        self.statistics = [rows_statistics(claim.rows[b], own.rows(b), engine.dtype) for b in boundaries]
        self.margins = self._margins()
        broken = first_violation(
            claim.output,
            claim.finish,
            engine.eos_token_ids if claim.eos is None else claim.eos,
            claim.request.spec.stop,
            claim.request.spec.max_output_tokens,
            engine.decode,
        )
        self.finish_ok = broken is None
        self.finish_position = self.first + (len(claim.output) - 1 if broken is None else broken)

    def _margins(self) -> NDArray[np.int64]:
        final = self.own.rows(len(self.engine.boundaries) - 1)[self.first - 1 :]
        sampling = self.claim.request.spec.sampling
        return self.engine.margins(final, sampling, self.first - 1, self.claim.output)[0]

    def observe(self, positions: Sequence[int], outputs: int) -> JobObservation:
        """What a verifier sees that opens ``positions`` and checks the first ``outputs`` tokens."""
        text = (*self.claim.request.prompt, *self.claim.output)
        counts = countable(text)
        positions = [position for position in positions if counts[position]]
        at = np.asarray(positions, int)
        tokens = [text[position] for position in positions]
        found = [
            compare_rows(b, positions, tokens, rows[at], self.own.rows(b)[at], self.engine.dtype)
            for b, rows in enumerate(self.claim.rows)
        ]
        seen = tuple((self.first + i, int(m)) for i, m in enumerate(self.margins[:outputs]))
        rows = tuple(row for rows, _ in found for row in rows)
        directions = tuple(d for _, shared in found for d in shared)
        # An output that ends early or late is only seen once it is all there.
        ended = outputs == len(self.claim.output)
        return JobObservation(rows, seen, directions, self.finish_ok or not ended, self.finish_position)

    @staticmethod
    def shallow(seen: JobObservation, depth: int) -> JobObservation:
        """What is left of it without the boundaries below ``depth`` and without logits."""
        return JobObservation(
            tuple(row for row in seen.rows if row.boundary <= depth),
            (),
            tuple(d for d in seen.directions if d.boundary <= depth),
        )

    def whole(self, rng: random.Random) -> JobObservation:
        """As the protocol does it: positions drawn from prompt and output, every token."""
        count = self.first + len(self.claim.output) - 1
        positions = sorted(rng.sample(range(count), min(OPENED, count)))
        return self.observe(positions, len(self.claim.output))

    def prefix(self, outputs: int, rng: random.Random) -> JobObservation:
        """Only the rows that the first ``outputs`` tokens were sampled from, and those tokens."""
        start = self.first - 1
        positions = sorted(rng.sample(range(start, start + outputs), min(OPENED, outputs)))
        return self.observe(positions, outputs)


def evaluate(
    claim: Claim,
    own: RowStore,
    engine: Engine,
    table: ToleranceTable,
    names: Mapping[str, str],
    peers: Sequence[Peer] | None = None,
) -> Outcome:
    """``names``: provider, verifier, model and dtype of the outcome. With ``peers``, perhaps none, the scores
    of prefixes and depths too."""
    request = claim.request
    shape = {"prompt_tokens": len(request.prompt), "output_tokens": len(claim.output)}
    rng = random.Random(f"openings {request.number} {sorted(names.items())}")
    try:
        compared = Comparison(claim, own, engine, table)
    except RowError as error:
        scores = {k: (math.inf,) * 4 for k in PREFIXES if k <= len(claim.output)}
        infinite = {peer.name: _peer_scores(peer, claim, own, engine, None) for peer in peers or ()}
        return Outcome(
            **names, job=request.number, **shape, rejected=True, reason=f"refused: {error}",
            pooled=math.inf, disputable=False, lost=0, scores=scores, ranks={k: math.inf for k in scores},
            peers=infinite,
        )  # fmt: skip
    seen = compared.whole(rng)
    verdict = judge(seen, table)
    limits = table.row_tolerance_q40
    outcome = Outcome(
        **names,
        job=request.number,
        **shape,
        rejected=verdict.verdict is Verdict.REJECT,
        reason=verdict.reason,
        pooled=verdict.statistics["log10_e"] * math.log(10),
        disputable=any(ratio_q40(row.d, row.n) > limits[row.boundary] for row in seen.rows),
        lost=int((compared.margins > 0).sum()),
    )
    if peers is not None:
        strict = replace(table, size_allowance_q16=0, direction_allowance_q16=0)
        for k in (k for k in PREFIXES if k <= len(claim.output)):
            part = compared.prefix(k, rng)
            outcome.scores[k] = _scores(part, table)
            outcome.ranks[k] = _scores(part, strict)[3]
        depths = range(len(engine.boundaries))
        outcome.depths = [_scores(compared.shallow(seen, b), table)[3] for b in depths]
        outcome.peers = {p.name: _peer_scores(p, claim, own, engine, compared.margins) for p in peers}
    _describe(outcome, compared)
    return outcome


def _scores(seen: JobObservation, table: ToleranceTable) -> tuple[float, float, float, float]:
    """ln E of each kind, and pooled; pooled is inf if a single row, token or the finish rejects."""
    evidence = weigh(seen, table)
    hard = evidence.pooled < table.decisive and judge(seen, table).verdict is Verdict.REJECT
    return evidence.size, evidence.direction, evidence.tokens, math.inf if hard else evidence.pooled


def _peer_scores(
    peer: Peer, claim: Claim, own: RowStore, engine: Engine, margins: NDArray[np.int64] | None
) -> dict[int, float]:
    """On the rows that output tokens are sampled from; ``margins`` None: they could not be computed."""
    last = len(engine.boundaries) - 1
    prefixes = [k for k in PREFIXES if k <= len(claim.output)]
    first = len(claim.request.prompt)
    theirs, ours = (Rows(rows, engine.dtype, first) for rows in (claim.rows[last], own.rows(last)))
    seen = np.zeros(len(claim.output), np.int64) if margins is None else margins
    scores = prefix_scores(peer, theirs.sampled_from(), ours.sampled_from(), seen, prefixes)
    return dict(zip(prefixes, scores, strict=True))


def _describe(outcome: Outcome, compared: Comparison) -> None:
    everything = range(outcome.prompt_tokens - 1, outcome.prompt_tokens + outcome.output_tokens - 1)
    for row in compared.observe(everything, 0).directions:
        outcome.cosines.append(row.cosine)
    for d, n in compared.statistics:
        ratios = np.maximum(d.astype(float) / np.maximum(n.astype(float), 1.0), 2.0**-40)
        outcome.log2.append(float(np.log2(ratios[outcome.prompt_tokens - 1 :]).mean()))
    last, at = len(compared.statistics) - 1, outcome.prompt_tokens - 1
    found = paper_statistics(
        np.ascontiguousarray(compared.claim.rows[last][at:]),
        compared.own.rows(last)[at:],
        compared.engine.dtype,
    )
    outcome.paper = (
        found.exponent_differs, found.large_deviation, found.small_deviation, found.mean_error
    )  # fmt: skip
