"""The verdict over a whole job: every opened row and every token margin, and both pooled.

A reject names its first divergence, the smallest position and then boundary, of: a row, a token or a finish
that rejects alone; where the mean of a boundary's rows rejects, its first row beyond ``row_tolerance_q40`` or
else its largest. If only the sum of the margins rejects, it names the token with the largest margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from verillm.comparator.compare import exceeds, ratio_q40
from verillm.comparator.tolerance import TEST_FAMILIES, ToleranceTable, log2_ratio
from verillm.constants import Verdict
from verillm.errors import ConfigError
from verillm.types import TOKEN_BOUNDARY


@dataclass(frozen=True)
class RowComparison:
    """D and N (``compare.row_statistics``) of the rows at one boundary and position."""

    boundary: int
    position: int
    d: int
    n: int


@dataclass(frozen=True)
class JobObservation:
    """What a verifier saw. ``margins``: (position of the token, margin Q24) of every output token.
    ``finish_position``: position of the last output token, or of the first that breaks the finish rule.
    ``unable``: why the verifier could not check, if it could not."""

    rows: tuple[RowComparison, ...]
    margins: tuple[tuple[int, int], ...]
    finish_ok: bool = True
    finish_position: int = 0
    unable: str | None = None


@dataclass(frozen=True)
class JobVerdict:
    """``boundary`` / ``position`` name the first divergence of a reject (TOKEN_BOUNDARY: a token), else 0.
    ``false_positive_rate``: probability at most that an honest job is rejected, given the table's model."""

    verdict: Verdict
    boundary: int
    position: int
    reason: str
    statistics: dict[str, float] = field(default_factory=dict)
    false_positive_rate: float = 0.0


Finding = tuple[int, int, str]
"""(position, boundary, reason): the smallest is the first divergence."""


def judge(observation: JobObservation, table: ToleranceTable) -> JobVerdict:
    """Accept, reject or unable. Raises ConfigError for a row at a boundary that the table does not have."""
    if observation.unable is not None:
        return JobVerdict(Verdict.UNABLE, 0, 0, observation.unable)
    if not observation.rows and not observation.margins:
        return JobVerdict(Verdict.UNABLE, 0, 0, "no row and no token was compared")
    known = len(table.boundaries)
    if any(not 0 <= row.boundary < known for row in observation.rows):
        raise ConfigError(f"boundary: an opened row is outside the manifest's {known} boundaries")
    statistics: dict[str, float] = {}
    findings = _single_findings(observation, table) + _pooled_rows(observation, table, statistics)
    findings = findings or _pooled_margins(observation, table)
    statistics.update(_margin_statistics(observation, table))
    rate = table.false_positive_rate
    if not findings:
        return JobVerdict(Verdict.ACCEPT, 0, 0, "within tolerance", statistics, rate)
    position, boundary, reason = min(findings)
    return JobVerdict(Verdict.REJECT, boundary, position, reason, statistics, rate)


def _single_findings(observation: JobObservation, table: ToleranceTable) -> list[Finding]:
    findings: list[Finding] = []
    for row in observation.rows:
        limit = table.boundaries[row.boundary].row_reject_q40
        if exceeds(row.d, row.n, limit):
            found = ratio_q40(row.d, row.n) / 2**40
            reason = f"row: D/N {found:.3g} is above the limit {limit / 2**40:.3g}"
            findings.append((row.position, row.boundary, reason))
    for position, margin in observation.margins:
        if margin > table.token_limit_q24:
            reason = (
                f"token: margin {margin / 2**24:.3g} is above the limit {table.token_limit_q24 / 2**24:.3g}"
            )
            findings.append((position, TOKEN_BOUNDARY, reason))
    if not observation.finish_ok:
        reason = "finish: the output does not end as its finish reason says"
        findings.append((observation.finish_position, TOKEN_BOUNDARY, reason))
    return findings


def _pooled_rows(
    observation: JobObservation, table: ToleranceTable, statistics: dict[str, float]
) -> list[Finding]:
    findings: list[Finding] = []
    tail = table.false_positive_rate / TEST_FAMILIES / len(table.boundaries)
    for boundary in sorted({row.boundary for row in observation.rows}):
        rows = [row for row in observation.rows if row.boundary == boundary]
        logs = [log2_ratio(ratio_q40(row.d, row.n), table.row_dtype) for row in rows]
        mean = math.fsum(logs) / len(logs)
        limit = table.mean_row_limit(boundary, len(logs), tail)
        statistics[f"relative_l2_{boundary}"] = _relative_l2(mean)
        statistics[f"relative_l2_limit_{boundary}"] = _relative_l2(limit)
        if mean > limit:
            tolerance = table.boundaries[boundary].row_tolerance_q40
            beyond = [row for row in rows if exceeds(row.d, row.n, tolerance)]
            first = min((row.position for row in beyond), default=rows[logs.index(max(logs))].position)
            reason = f"rows: mean relative L2 {_relative_l2(mean):.3g} is above {_relative_l2(limit):.3g}"
            findings.append((first, boundary, reason))
    return findings


def _relative_l2(log2_q40: float) -> float:
    """D/N is half the squared relative L2 distance."""
    return math.sqrt(2.0 * 2.0 ** (log2_q40 - 40))


def _margin_sum(observation: JobObservation, table: ToleranceTable) -> tuple[int, float]:
    """(sum of the margins, each clipped at the single-token limit; its limit), Q24."""
    clipped = sum(min(margin, table.token_limit_q24) for _, margin in observation.margins)
    tail = table.false_positive_rate / TEST_FAMILIES
    return clipped, table.margin_sum_limit(len(observation.margins), tail)


def _pooled_margins(observation: JobObservation, table: ToleranceTable) -> list[Finding]:
    total, limit = _margin_sum(observation, table)
    if total <= limit:
        return []
    position, _ = max(observation.margins, key=lambda item: item[1])
    return [
        (position, TOKEN_BOUNDARY, f"tokens: margins sum to {total / 2**24:.3g}, above {limit / 2**24:.3g}")
    ]


def _margin_statistics(observation: JobObservation, table: ToleranceTable) -> dict[str, float]:
    tokens = len(observation.margins)
    if tokens == 0:
        return {}
    total, limit = _margin_sum(observation, table)
    return {
        "mean_margin": total / tokens / 2**24,
        "mean_margin_limit": limit / tokens / 2**24,
        "max_margin": max(margin for _, margin in observation.margins) / 2**24,
    }
