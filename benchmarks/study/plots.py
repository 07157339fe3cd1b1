"""The study's pictures, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

from .claims import PREFIXES, Outcome
from .rates import roc
from .summary import AUC_TOKENS, FPR, grouped, peer_scores, ranks, scores
from .tasks import CONTROL

matplotlib.use("Agg")
from matplotlib import pyplot

SHOWN = ("int8 weights", "int8 weights, groups of 32", "low-rank change of 0.3 %", "int8 KV cache")
CURVES = (
    *SHOWN, "int4 weights", "forged output, int4 decode", "temperature 1.0 for 0.7", "other seed",
    "early stop", "speculation accepts too much",
)  # fmt: skip


def draw(honest: Sequence[Outcome], others: Sequence[Outcome], folder: Path) -> list[Path]:
    """One file of each kind per model and dtype."""
    folder.mkdir(parents=True, exist_ok=True)
    groups, written = grouped(others), []
    for model, dtype in sorted({(model, dtype) for _, model, dtype in groups}):
        mine = {name: group for (name, m, d), group in groups.items() if (m, d) == (model, dtype)}
        own = [o for o in honest if (o.model, o.dtype) == (model, dtype)]
        for kind, figure in (
            ("roc", _roc(mine)),
            ("tokens", _tokens(mine)),
            ("boundaries", _boundaries(own, mine)),
        ):
            path = folder / f"{kind}-{model}-{dtype}.png"
            figure.savefig(path, dpi=110, bbox_inches="tight")
            pyplot.close(figure)
            written.append(path)
    return written


def _roc(groups: dict[str, list[Outcome]]) -> pyplot.Figure:
    """Ours and the peers', for the cheats that are hard to see."""
    shown = [name for name in SHOWN if name in groups]
    figure, axes = pyplot.subplots(
        1, max(1, len(shown)), figsize=(4 * max(1, len(shown)), 3.6), squeeze=False
    )
    control = groups[CONTROL]
    for axis, name in zip(axes[0], shown, strict=False):
        axis.plot(*roc(ranks(control, AUC_TOKENS), ranks(groups[name], AUC_TOKENS)), label="VeriLLM", lw=2.5)
        for peer in control[0].peers:
            curves = (peer_scores(group, peer, AUC_TOKENS) for group in (control, groups[name]))
            axis.plot(*roc(*curves), label=peer, lw=1.2, ls="--")
        axis.set(title=f"{name}, {AUC_TOKENS} tokens", xlabel="false positives", ylabel="caught")
        axis.legend(fontsize=7)
    return figure


def _tokens(groups: dict[str, list[Outcome]]) -> pyplot.Figure:
    """Share of jobs caught at FPR, over the output tokens seen."""
    figure, axis = pyplot.subplots(figsize=(7, 4.4))
    for name in (name for name in CURVES if name in groups):
        longest = max(o.output_tokens for o in groups[name])
        counts = [k for k in PREFIXES if k <= longest]
        caught = [np.mean([s >= -np.log(FPR) for s in scores(groups[name], k)]) for k in counts]
        axis.plot(counts, caught, marker="o", ms=3, label=name)
    axis.set(
        xscale="log", xlabel="output tokens", ylabel=f"jobs caught, false positives <= {FPR:g}",
        ylim=(-0.03, 1.03), xticks=PREFIXES, xticklabels=[str(k) for k in PREFIXES],
    )  # fmt: skip
    axis.legend(fontsize=7, loc="lower right")
    return figure


def _boundaries(honest: Sequence[Outcome], groups: dict[str, list[Outcome]]) -> pyplot.Figure:
    """Honest and cheating jobs: size and shared direction of the deviations, at each boundary."""
    kinds: dict[str, Sequence[Outcome]] = {"honest matrix": honest or groups[CONTROL]}
    kinds |= {name: groups[name] for name in (*SHOWN, "int4 weights") if name in groups}
    count = len(groups[CONTROL][0].log2)
    figure, axes = pyplot.subplots(2, count, figsize=(4.2 * count, 6.4), squeeze=False)
    for b in range(count):
        for row, field in enumerate(("log2", "cosines")):
            values = [
                [getattr(o, field)[b] for o in group if len(getattr(o, field)) == count]
                for group in kinds.values()
            ]
            axes[row][b].boxplot(values, orientation="horizontal", whis=(0, 100), tick_labels=list(kinds))
            axes[row][b].tick_params(labelleft=b == 0, labelsize=7)
            axes[row][b].invert_yaxis()
            axes[row][b].set_xlabel("mean log2(D/N)" if row == 0 else "mean cosine of deviations")
        axes[0][b].set_title(f"boundary {b}")
    return figure
