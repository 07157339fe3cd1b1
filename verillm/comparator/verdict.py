"""The verdict over a whole job: every opened row and every token margin, pooled, and single extremes.

A job is rejected if its pooled evidence is decisive, if one row or one token alone is beyond its limit, or
if its finish does not fit. Three kinds of evidence are pooled: how large the rows' deviations are, whether
they share a direction, and by how much tokens lose. For sizes and directions there is one Bayes factor for
all boundaries together and one for each by itself (a cheat may touch only the last layers), averaged. Since a
cheat may show in any of the kinds (a forger's rows are honest), the pool is the mean of all their products:

    E = ((1 + E_size) (1 + E_direction) (1 + E_tokens) - 1) / 7

The products take it that the kinds are independent for an honest job, given the honest model; the rest
holds under any dependence.

A reject names a place: the smallest position, and then boundary, of what rejects alone (a row, a token, the
finish) and of the pool's. The pool's is the first row beyond ``row_tolerance_q40``, or else the largest of
the boundary where sizes weigh most, or the token with the largest margin if tokens weigh more than rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from verillm.comparator.compare import exceeds, ratio_q40
from verillm.comparator.direction import Direction
from verillm.comparator.likelihood import log_mean
from verillm.comparator.observation import JobObservation, RowComparison
from verillm.comparator.tolerance import ToleranceTable, mean_excess
from verillm.constants import Verdict
from verillm.errors import ConfigError
from verillm.types import TOKEN_BOUNDARY


@dataclass(frozen=True)
class Evidence:
    """ln E of each kind, and pooled. ``boundaries[b]`` is that of sizes at b, 0 where no row was compared."""

    boundaries: tuple[float, ...]
    size: float
    direction: float
    tokens: float
    pooled: float


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


def weigh(observation: JobObservation, table: ToleranceTable) -> Evidence:
    """The evidence of what was seen so far. Raises ConfigError for a row at an unknown boundary."""
    known = len(table.boundaries)
    compared = [row.boundary for row in observation.rows] + [d.boundary for d in observation.directions]
    if any(not 0 <= boundary < known for boundary in compared):
        raise ConfigError(f"boundary: an opened row is outside the manifest's {known} boundaries")
    boundaries, size = _weigh_sizes(observation.rows, table)
    direction = _weigh_directions(observation.directions, table)
    tokens = table.margin_factor([margin for _, margin in observation.margins])
    kinds = (size, direction, tokens)
    products = [sum(chosen) for count in (1, 2, 3) for chosen in combinations(kinds, count)]
    return Evidence(boundaries, size, direction, tokens, log_mean(products))


def _weigh_sizes(rows: Sequence[RowComparison], table: ToleranceTable) -> tuple[tuple[float, ...], float]:
    """(ln E by boundary, ln E of all)."""
    excess: list[dict[int, float]] = [{} for _ in table.boundaries]
    for row in rows:
        excess[row.boundary][row.position] = table.excess(row.boundary, ratio_q40(row.d, row.n))
    factors = tuple(
        table.size_factor(list(seen.values()), b.size)
        for seen, b in zip(excess, table.boundaries, strict=True)
    )
    everywhere = sorted(set.intersection(*(set(seen) for seen in excess)))
    means = [mean_excess([seen[position] for seen in excess], table.boundaries) for position in everywhere]
    return factors, _averaged(
        [factor for factor, seen in zip(factors, excess, strict=True) if seen],
        table.size_factor(means, table.mean_size) if means else None,
    )


def _weigh_directions(directions: Sequence[Direction], table: ToleranceTable) -> float:
    excess = [d.cosine - table.boundaries[d.boundary].direction.center for d in directions]
    factors = [
        table.direction_factor(value, d.pairs, table.boundaries[d.boundary].direction)
        for d, value in zip(directions, excess, strict=True)
    ]
    if len(directions) < len(table.boundaries):
        return _averaged(factors, None)
    pairs, mean = min(d.pairs for d in directions), math.fsum(excess) / len(excess)
    return _averaged(factors, table.direction_factor(mean, pairs, table.mean_direction))


def _averaged(factors: Sequence[float], whole: float | None) -> float:
    """Half for all boundaries together, half for each by itself; 0 if nothing was compared."""
    if not factors:
        return 0.0
    single = log_mean(factors)
    return single if whole is None else log_mean([whole, single])


def judge(observation: JobObservation, table: ToleranceTable) -> JobVerdict:
    """Accept, reject or unable. Raises ConfigError for a row at a boundary that the table does not have."""
    if observation.unable is not None:
        return JobVerdict(Verdict.UNABLE, 0, 0, observation.unable)
    if not observation.rows and not observation.margins:
        return JobVerdict(Verdict.UNABLE, 0, 0, "no row and no token was compared")
    evidence = weigh(observation, table)
    findings = _single_findings(observation, table)
    if evidence.pooled >= table.decisive:
        findings.append(_pooled_finding(observation, table, evidence))
    statistics, rate = _statistics(observation, table, evidence), table.false_positive_rate
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


def _pooled_finding(observation: JobObservation, table: ToleranceTable, evidence: Evidence) -> Finding:
    odds = f"10^{evidence.pooled / math.log(10):.1f} times likelier from another computation than from this"
    if evidence.tokens > max(evidence.size, evidence.direction):
        position, _ = max(observation.margins, key=lambda item: item[1])
        return position, TOKEN_BOUNDARY, f"tokens: {odds}"
    tolerances = table.row_tolerance_q40
    beyond = [
        (row.position, row.boundary)
        for row in observation.rows
        if exceeds(row.d, row.n, tolerances[row.boundary])
    ]
    strongest = max(
        observation.rows, key=lambda row: (evidence.boundaries[row.boundary], ratio_q40(row.d, row.n))
    )
    return *min(beyond, default=(strongest.position, strongest.boundary)), f"rows: {odds}"


def _statistics(observation: JobObservation, table: ToleranceTable, evidence: Evidence) -> dict[str, float]:
    """For reports: log10 E of each kind and, per boundary, mean relative L2 seen and of honest work."""
    found = {
        "log10_e": evidence.pooled / math.log(10),
        "log10_e_size": evidence.size / math.log(10),
        "log10_e_direction": evidence.direction / math.log(10),
        "log10_e_tokens": evidence.tokens / math.log(10),
        "log10_e_decisive": table.decisive / math.log(10),
    }
    for b, limits in enumerate(table.boundaries):
        seen = [table.excess(b, ratio_q40(row.d, row.n)) for row in observation.rows if row.boundary == b]
        if seen:
            center = limits.size.center
            found[f"relative_l2_{b}"] = _relative_l2(center + math.fsum(seen) / len(seen))
            found[f"relative_l2_honest_{b}"] = _relative_l2(center)
    for d in observation.directions:
        found[f"cosine_{d.boundary}"] = d.cosine
    if observation.margins:
        values = [margin / 2**24 for _, margin in observation.margins]
        found["mean_margin"], found["max_margin"] = math.fsum(values) / len(values), max(values)
    return found


def _relative_l2(log2_q40: float) -> float:
    """D/N is half the squared relative L2 distance."""
    return math.sqrt(2.0 * 2.0 ** (log2_q40 - 40))
