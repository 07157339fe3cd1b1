"""From comparisons to the study's result: a JSON-ready dict and its tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .claims import PREFIXES, Outcome
from .rates import auc, auc_interval, lower_limit, upper_limit
from .tasks import CONTROL

FPR = 1e-4
"""Guaranteed false-positive rate at which ``tokens_needed`` is taken: ln E of at least ln(1 / FPR)."""
POWER = 0.95
"""Share of a cheat's jobs that must be caught."""
AUC_TOKENS = 8
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
Groups = dict[tuple[str, str, str], list[Outcome]]


def grouped(outcomes: Iterable[Outcome]) -> Groups:
    """By (provider, model, dtype)."""
    groups: Groups = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.provider, outcome.model, outcome.dtype].append(outcome)
    return groups


def scores(outcomes: Sequence[Outcome], tokens: int) -> list[float]:
    """Pooled ln E after ``tokens`` output tokens; of shorter outputs, after their last."""
    return [o.scores[max(k for k in o.scores if k <= tokens)][3] for o in outcomes]


def ranks(outcomes: Sequence[Outcome], tokens: int) -> list[float]:
    """What ROC curves are drawn of: pooled ln E without allowance for other hardware."""
    return [o.ranks[max(k for k in o.ranks if k <= tokens)] for o in outcomes]


def peer_scores(outcomes: Sequence[Outcome], name: str, tokens: int) -> list[float]:
    found = (o.peers[name] for o in outcomes)
    return [peer[max(k for k in peer if k <= tokens)] for peer in found]


def tokens_needed(outcomes: Sequence[Outcome], limit: float) -> int | None:
    """Fewest output tokens after which, and after all larger counts, POWER of the jobs score ``limit``."""
    needed = None
    for k in reversed(PREFIXES):
        if k > max(o.output_tokens for o in outcomes):
            continue
        if sum(score >= limit for score in scores(outcomes, k)) < POWER * len(outcomes):
            break
        needed = k
    return needed


def cheat_row(cheat: Sequence[Outcome], control: Sequence[Outcome], seed: int) -> dict[str, Any]:
    one = cheat[0]
    ours, honest = ranks(cheat, AUC_TOKENS), ranks(control, AUC_TOKENS)
    counts = [k for k in PREFIXES if k <= max(o.output_tokens for o in cheat)]
    peers = {
        name: {k: auc(peer_scores(control, name, k), peer_scores(cheat, name, k)) for k in counts}
        for name in control[0].peers
    }
    at = min(AUC_TOKENS, counts[-1])
    rejected = sum(o.rejected for o in cheat)
    last = [o.scores[max(o.scores)] for o in cheat]
    return {
        "name": one.provider,
        "model": one.model,
        "dtype": one.dtype,
        "jobs": len(cheat),
        "rejected": rejected,
        "rejected_at_least": lower_limit(rejected, len(cheat)),
        "disputable": sum(o.disputable for o in cheat),
        "tokens_needed": tokens_needed(cheat, -math.log(FPR)),
        "fpr": FPR,
        "tokens_needed_by_fpr": {str(level): tokens_needed(cheat, -math.log(level)) for level in LEVELS},
        "auc": auc(honest, ours),
        "auc_interval": auc_interval(honest, ours, seed),
        "peer_auc": max((by_tokens[at] for by_tokens in peers.values()), default=None),
        "auc_by_tokens": {k: auc(ranks(control, k), ranks(cheat, k)) for k in counts},
        "peers_auc_by_tokens": peers,
        "random_depth_caught": _random_depth(cheat),
        "toploc_rejected": _toploc(cheat),
        "log10_e": {
            kind: _finite_median([score[i] for score in last]) / math.log(10)
            for i, kind in enumerate(("size", "direction", "tokens", "pooled"))
        },
        **_described(cheat),
    }


def _random_depth(outcomes: Sequence[Outcome]) -> float:
    """Expected share caught at FPR by the rows alone, if one boundary is drawn to stop at."""
    return float(np.mean([[pooled >= -math.log(FPR) for pooled in o.depths or [math.inf]] for o in outcomes]))


def _finite_median(values: Sequence[float]) -> float:
    """inf (a single row, token or the finish rejects) counts as the largest that JSON can hold: 10^300."""
    return float(np.median(np.minimum(values, 300 * math.log(10))))


def _toploc(outcomes: Sequence[Outcome]) -> int | None:
    """Jobs that TOPLOC's own thresholds reject; its score is above 1 then."""
    if "toploc" not in outcomes[0].peers:
        return None
    return sum(score > 1 for score in peer_scores(outcomes, "toploc", PREFIXES[-1]))


def _described(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means over jobs of what was seen: rows by boundary, and the paper's statistics."""
    seen = [o for o in outcomes if o.log2]
    if not seen:
        return {}
    log2 = np.array([o.log2 for o in seen]).mean(axis=0)
    cosines = [o.cosines for o in seen if len(o.cosines) == len(o.log2)]
    names = ("exponent_differs", "large_deviation", "small_deviation", "mean_error")
    paper = np.array([o.paper for o in seen]).mean(axis=0)
    tokens = sum(o.output_tokens for o in seen)
    return {
        "relative_l2": [float(math.sqrt(2.0 * 2.0**value)) for value in log2],
        "cosines": [float(value) for value in np.array(cosines).mean(axis=0)] if cosines else None,
        "losing_tokens": sum(o.lost for o in seen) / tokens,
        "paper": dict(zip(names, (float(value) for value in paper), strict=True)),
    }


def honest_rows(outcomes: Sequence[Outcome], key: str) -> list[dict[str, Any]]:
    """Per model, dtype and ``key`` ("provider" or "verifier")."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for o in outcomes:
        groups[o.model, o.dtype, getattr(o, key)].append(o)
    return [
        {
            "model": model,
            "dtype": dtype,
            key: name,
            "comparisons": len(group),
            "rejects": sum(o.rejected for o in group),
            "largest_log10_e": max(o.pooled for o in group) / math.log(10),
            **_described(group),
        }
        for (model, dtype, name), group in groups.items()
    ]


def honest_totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    pooled = np.array([o.pooled for o in outcomes])
    rejects = sum(o.rejected for o in outcomes)
    return {
        "honest_comparisons": len(outcomes),
        "honest_rejects": rejects,
        "honest_reject_rate_at_most": upper_limit(rejects, len(outcomes)),
        "honest_jobs": len({(o.model, o.dtype, o.provider, o.job) for o in outcomes}),
        "honest_distinct_prompts": len({(o.model, o.dtype, o.job) for o in outcomes}),
        "honest_beyond_row_tolerance": sum(o.disputable for o in outcomes),
        "honest_mean_e": float(np.exp(np.minimum(pooled, 50)).mean()),
        "honest_share_above": {str(level): float((pooled >= -math.log(level)).mean()) for level in LEVELS},
    }


def result(honest: Sequence[Outcome], others: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """``others``: cheats and their controls."""
    groups = grouped(others)
    cheats = [
        cheat_row(cheat, groups[CONTROL, model, dtype], seed)
        for (name, model, dtype), cheat in groups.items()
        if name != CONTROL
    ]
    return {
        **honest_totals(honest),
        "cheats": cheats,
        "control": [
            {"model": model, "dtype": dtype, "jobs": len(group), "rejected": sum(o.rejected for o in group),
             "toploc_rejected": _toploc(group), **_described(group)}
            for (name, model, dtype), group in groups.items() if name == CONTROL
        ],
        "by_provider": honest_rows(honest, "provider"),
        "by_verifier": honest_rows(honest, "verifier"),
    }  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """For people."""
    lines = [
        f"honest: {found['honest_comparisons']} comparisons of {found['honest_jobs']} jobs "
        f"({found['honest_distinct_prompts']} prompts), "
        f"{found['honest_rejects']} rejected "
        f"(rate at most {found['honest_reject_rate_at_most']:.1e} at 95 %, were they independent); "
        f"mean E {found['honest_mean_e']:.2f}",
        "",
        f"{'cheat':34} {'model':13} dtype  rejected  tokens needed  AUC ({AUC_TOKENS} tokens)   best peer"
        "   relative L2   cosine",
    ]
    for row in found["cheats"]:
        needed = "-" if row["tokens_needed"] is None else str(row["tokens_needed"])
        peer = "-" if row["peer_auc"] is None else f"{row['peer_auc']:.4f}"
        size = f"{row['relative_l2'][-1]:.2g}" if "relative_l2" in row else "-"
        cosine = f"{row['cosines'][-1]:.2f}" if row.get("cosines") else "-"
        lines.append(
            f"{row['name']:34} {row['model']:13} {row['dtype']:5} {row['rejected']:4}/{row['jobs']:<4} "
            f"{needed:>14} {row['auc']:16.4f} {peer:>11} {size:>13} {cosine:>8}"
        )
    lines += [
        "",
        f"tokens needed: {POWER:.0%} of the jobs have E >= {1 / FPR:.0f}, so at a guaranteed false-positive "
        f"rate of {FPR:g}; rejected: by the whole verdict, at the manifest's rate",
    ]
    return "\n".join(lines)
