"""The study's arithmetic: rates, ROC curves, what counts as caught; and that every kind of cheat is in it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.study.cheats import CHEATS
from benchmarks.study.claims import Outcome
from benchmarks.study.rates import auc, auc_interval, lower_limit, roc, upper_limit
from benchmarks.study.summary import result, table, tokens_needed
from benchmarks.study.tasks import CONTROL
from benchmarks.study.weights import changes


def outcome(provider: str, job: int, scores: dict[int, float], **changed) -> Outcome:
    fields = {
        "provider": provider,
        "verifier": "plain",
        "model": "toy",
        "dtype": "bf16",
        "job": job,
        "prompt_tokens": 3,
        "output_tokens": max(scores),
        "rejected": False,
        "reason": "",
        "pooled": scores[max(scores)],
        "disputable": False,
        "lost": 0,
        "scores": {k: (0.0, 0.0, 0.0, score) for k, score in scores.items()},
        "ranks": scores,
        "peers": {"other": {k: score / 2 for k, score in scores.items()}},
        "depths": [0.0, scores[max(scores)]],
        "log2": [-14.0, -13.0],
        "cosines": [0.01, 0.02],
        **changed,
    }
    return Outcome(**fields)


def test_limits_of_rates_are_clopper_and_pearsons() -> None:
    assert upper_limit(0, 10_000) == pytest.approx(1 - 0.05 ** (1 / 10_000))
    assert upper_limit(0, 10_000) == pytest.approx(3e-4, rel=2e-3)  # the rule of three
    assert lower_limit(20, 20) == pytest.approx(0.05 ** (1 / 20))
    assert upper_limit(2, 20) == pytest.approx(0.2826, abs=1e-4)  # tables of binomial limits
    assert upper_limit(5, 5) == 1.0


def test_auc_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(1)
    honest, cheats = rng.integers(0, 9, 40).tolist(), rng.integers(2, 12, 30).tolist()
    pairs = [(c > h) + (c == h) / 2 for h in honest for c in cheats]
    assert auc(honest, cheats) == pytest.approx(np.mean(pairs))
    assert auc([0, 1], [math.inf, math.inf]) == 1
    low, high = auc_interval(honest, cheats, seed=1)
    assert low < auc(honest, cheats) < high


def test_a_roc_curve_runs_from_corner_to_corner_and_has_the_auc_below_it() -> None:
    rng = np.random.default_rng(2)
    honest, cheats = rng.normal(0, 1, 50), rng.normal(1, 1, 60)
    false, true = roc(honest.tolist(), cheats.tolist())
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(true, false) == pytest.approx(auc(honest.tolist(), cheats.tolist()))


def test_tokens_needed_is_the_fewest_from_which_on_all_counts_suffice() -> None:
    def cheats(scores: dict[int, float]) -> list[Outcome]:
        return [outcome("x", job, scores) for job in range(20)]

    assert tokens_needed(cheats({1: 0, 2: 9, 4: 20}), 9) == 2
    assert tokens_needed(cheats({1: 10, 2: 3, 4: 20}), 9) == 4  # 1 token was luck
    assert tokens_needed(cheats({1: 0, 2: 0, 4: 3}), 9) is None
    mixed = cheats({1: 0, 2: 20, 4: 20})[:18] + [outcome("x", 18, {1: 0, 2: 0, 4: 0})] * 2
    assert tokens_needed(mixed, 9) is None  # a tenth of the jobs is never caught


def test_the_result_is_json_and_counts_what_it_should() -> None:
    honest = [outcome("batch 1", job, {1: -1.0, 2: -2.0}) for job in range(9)]
    honest.append(outcome("eager", 9, {1: 3.0}, rejected=True, verifier="other engine"))
    control = [outcome(CONTROL, job, {1: -1.0, 2: -2.0}) for job in range(4)]
    cheats = [outcome("int4 weights", job, {1: 5.0, 2: math.inf}, rejected=True) for job in range(4)]
    found = json.loads(json.dumps(result(honest, control + cheats, seed=1), allow_nan=False))
    assert (found["honest_comparisons"], found["honest_rejects"], found["honest_jobs"]) == (10, 1, 10)
    (row,) = found["cheats"]
    assert (row["name"], row["model"], row["dtype"], row["rejected"]) == ("int4 weights", "toy", "bf16", 4)
    assert (row["tokens_needed"], row["auc"], row["peer_auc"]) == (2, 1.0, 1.0)
    assert row["random_depth_caught"] == 0.5  # at the second of two depths
    assert "int4 weights" in table(found)
    assert [r["provider"] for r in found["by_provider"]] == ["batch 1", "eager"]


def test_every_cheat_that_the_protocol_must_stop_is_there() -> None:
    wanted = (
        "int8", "int4", "int3", "fp8", "int8 KV", "fp8 KV", "layer dropped", "early exit", "other model",
        "low-rank", "prompt truncated", "prompt altered", "system prompt", "temperature", "top-p", "seed",
        "forged output", "speculation", "early stop", "forged EOS", "padded", "replayed", "shuffled",
        "constant", "random", "sign-flipped", "NaN",
    )  # fmt: skip
    assert [kind for kind in wanted if not any(kind in name for name in CHEATS)] == []
    assert set(changes(30)) == set(changes(18))
