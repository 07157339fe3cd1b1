"""Calibration and verdict on synthetic jobs with the spreads measured on real models."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from verillm.comparator.calibration import MIN_JOBS, HonestJob, calibrate
from verillm.comparator.student import t_quantile, t_tail
from verillm.comparator.tolerance import FLOORS_Q40, ToleranceTable
from verillm.comparator.verdict import JobObservation, RowComparison, judge
from verillm.constants import Dtype, Verdict
from verillm.errors import ConfigError, EncodingError
from verillm.types import TOKEN_BOUNDARY

Q24 = 1 << 24
HONEST_L2 = (0.008, 0.011, 0.017)
BASE = 1 << 40


def ratio(l2: float) -> int:
    return round(l2 * l2 / 2 * BASE)


def draw_job(rng: np.random.Generator, rows: int, tokens: int, factor: float = 1.0) -> HonestJob:
    """Rows lognormal around the medians, 1 % of tokens lose by 0.04 on average."""
    job = rng.normal(0, 0.08)
    ratios = tuple(
        tuple(ratio(factor * m * math.exp(job + z)) for z in rng.normal(0, 0.25, rows)) for m in HONEST_L2
    )
    lost = rng.random(tokens) < 0.01
    margins = np.where(lost, rng.exponential(0.04 * factor, tokens), 0.0) * Q24
    return HonestJob(ratios, tuple(int(m) for m in margins))


def observe(job: HonestJob, first: int = 100) -> JobObservation:
    rows = tuple(
        RowComparison(b, 10 * i, r, BASE)
        for b, ratios in enumerate(job.ratios_q40)
        for i, r in enumerate(ratios)
    )
    return JobObservation(rows, tuple((first + i, m) for i, m in enumerate(job.margins_q24)))


@pytest.fixture(scope="module")
def table() -> ToleranceTable:
    rng = np.random.default_rng(1)
    return calibrate([draw_job(rng, 16, 96) for _ in range(30)], Dtype.BF16)


def test_student_quantiles_against_tables() -> None:
    assert t_quantile(0.025, 10) == pytest.approx(2.228139, abs=1e-5)
    assert t_quantile(0.0005, 5) == pytest.approx(6.86883, abs=1e-4)
    assert t_quantile(1e-9, 1) == pytest.approx(1 / (math.pi * 1e-9), rel=1e-6)  # Cauchy
    assert t_tail(0.0, 7) == pytest.approx(0.5)
    assert t_tail(5.0, 1e5) == pytest.approx(2.8665e-7, rel=1e-2)  # normal


def test_honest_jobs_pass(table: ToleranceTable) -> None:
    rng = np.random.default_rng(2)
    for i in range(400):
        job = draw_job(rng, int(rng.integers(1, 17)), int(rng.integers(1, 600)))
        assert judge(observe(job), table).verdict is Verdict.ACCEPT, i


def replace_rows(job: HonestJob, boundary: int, ratios: list[int]) -> HonestJob:
    every = list(job.ratios_q40)
    every[boundary] = tuple(ratios)
    return HonestJob(tuple(every), job.margins_q24)


def test_one_honest_outlier_is_not_enough(table: ToleranceTable) -> None:
    job = draw_job(np.random.default_rng(9), 8, 8)
    outlier = replace_rows(job, 2, [int(table.row_tolerance_q40[2] * 1.5), *job.ratios_q40[2][1:]])
    assert judge(observe(outlier), table).verdict is Verdict.ACCEPT


def test_one_foreign_row_is_rejected_and_named(table: ToleranceTable) -> None:
    job = draw_job(np.random.default_rng(3), 8, 8)
    rows = list(job.ratios_q40[1])
    rows[4] = rows[6] = BASE  # D/N = 1: unrelated rows of equal norm
    seen = observe(replace_rows(job, 1, rows))
    verdict = judge(JobObservation(tuple(reversed(seen.rows)), seen.margins), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 40, 1)
    assert verdict.reason.startswith("row:")
    assert verdict.false_positive_rate == pytest.approx(1e-6)


@pytest.mark.parametrize("opened", [4, 8, 16])
def test_int4_is_rejected_by_its_mean_row(table: ToleranceTable, opened: int) -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        verdict = judge(observe(draw_job(rng, opened, 1, factor=22.0)), table)
        assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 0, 0)


def test_mean_of_rows_names_the_first_beyond_tolerance_or_the_largest(table: ToleranceTable) -> None:
    job = draw_job(np.random.default_rng(4), 16, 8)
    limit = table.row_tolerance_q40[2]
    for factors, position in (({5: 0.99}, 50), ({5: 1.1, 9: 1.4}, 50)):
        rows = [int(limit * factors.get(i, 0.98)) for i in range(16)]
        verdict = judge(observe(replace_rows(job, 2, rows)), table)
        assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, position, 2)
        assert verdict.statistics["relative_l2_2"] > verdict.statistics["relative_l2_limit_2"]


def test_forged_text_is_rejected_at_its_first_bad_token(table: ToleranceTable) -> None:
    seen = observe(draw_job(np.random.default_rng(5), 8, 40))
    margins = list(seen.margins)
    margins[17] = (117, 4 * table.token_limit_q24)
    margins[30] = (130, 9 * table.token_limit_q24)
    verdict = judge(JobObservation(seen.rows, tuple(margins)), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 117, TOKEN_BOUNDARY)


def test_pooled_margins_catch_many_small_ones(table: ToleranceTable) -> None:
    small = table.token_limit_q24 // 3
    margins = tuple((i, small + (i == 33)) for i in range(64))
    verdict = judge(JobObservation((), margins), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 33, TOKEN_BOUNDARY)
    assert verdict.statistics["mean_margin"] > verdict.statistics["mean_margin_limit"]


def test_finish_and_unable(table: ToleranceTable) -> None:
    seen = observe(draw_job(np.random.default_rng(6), 4, 8))
    verdict = judge(JobObservation(seen.rows, seen.margins, finish_ok=False, finish_position=107), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 107, TOKEN_BOUNDARY)
    bad = tuple(RowComparison(0, 1, BASE, BASE) for _ in range(3))
    assert judge(JobObservation(bad, (), unable="out of memory"), table).verdict is Verdict.UNABLE
    assert judge(JobObservation((), ()), table).verdict is Verdict.UNABLE
    with pytest.raises(ConfigError, match="boundary"):
        judge(JobObservation((RowComparison(3, 0, 0, 1),), ()), table)


def test_fp32_has_floors_for_other_hardware() -> None:
    exact = [HonestJob(((0, 1, 0, 2),), (0,) * 20) for _ in range(6)]
    table = calibrate(exact, Dtype.FP32)
    floor = FLOORS_Q40[Dtype.FP32]
    assert table.row_tolerance_q40 == (floor,)
    assert table.token_limit_q24 >= Q24 // 64

    def verdict_at(r: int) -> Verdict:
        rows = tuple(RowComparison(0, i, r, BASE) for i in range(8))
        return judge(JobObservation(rows, ((50, 0),)), table).verdict

    assert table.boundaries[0].row_reject_q40 == floor
    assert verdict_at(floor) is Verdict.ACCEPT
    assert verdict_at(floor + 1) is Verdict.REJECT
    assert verdict_at(ratio(0.002)) is Verdict.REJECT  # bf16 served as fp32


def test_more_spread_gives_wider_limits() -> None:
    def limits(spread: float) -> ToleranceTable:
        rng = np.random.default_rng(7)
        jobs = [
            HonestJob((tuple(ratio(0.02 * math.exp(z)) for z in rng.normal(0, spread, 16)),), (0,))
            for _ in range(24)
        ]
        return calibrate(jobs, Dtype.BF16)

    narrow, wide = limits(0.05), limits(0.3)
    assert narrow.row_tolerance_q40[0] < wide.row_tolerance_q40[0]
    assert narrow.mean_row_limit(0, 8, 1e-7) < wide.mean_row_limit(0, 8, 1e-7)
    assert (
        wide.mean_row_limit(0, 16, 1e-7) < wide.mean_row_limit(0, 2, 1e-7) < wide.mean_row_limit(0, 2, 1e-9)
    )


def test_margin_sum_limit_holds_by_simulation(table: ToleranceTable) -> None:
    rng = np.random.default_rng(8)
    scale, rate, tokens = table.margin_scale_q24, table.margin_rate_ppb / 1e9, 64
    sums = rng.gamma(np.maximum(rng.binomial(tokens, rate, 200_000), 1e-12)) * scale
    for tail in (1e-2, 1e-3):
        assert float((sums > table.margin_sum_limit(tokens, tail)).mean()) <= tail


def test_table_round_trips_through_json_and_is_integers_only(table: ToleranceTable) -> None:
    data = json.loads(json.dumps(table.to_dict()), parse_float=lambda x: pytest.fail(f"float {x}"))
    assert ToleranceTable.from_dict(data) == table


def _drop(d: dict) -> None:
    del d["jobs"]


def _extra(d: dict) -> None:
    d["note"] = 1


def _float(d: dict) -> None:
    d["token_limit_q24"] = 1.0


def _bool(d: dict) -> None:
    d["boundaries"][0]["row_tolerance_q40"] = True


def _negative(d: dict) -> None:
    d["boundaries"][0]["row_log2_sd_q16"] = -1


def _empty(d: dict) -> None:
    d["boundaries"] = []


@pytest.mark.parametrize("spoil", [_drop, _extra, _float, _bool, _negative, _empty])
def test_bad_tables_are_errors(table: ToleranceTable, spoil: Callable[[dict], None]) -> None:
    data = table.to_dict()
    spoil(data)
    with pytest.raises(EncodingError):
        ToleranceTable.from_dict(data)


def test_calibration_refuses_too_little() -> None:
    job = HonestJob(((ratio(0.01), ratio(0.02)),), (0, 1))
    with pytest.raises(ConfigError, match="jobs"):
        calibrate([job] * (MIN_JOBS - 1), Dtype.BF16)
    with pytest.raises(ConfigError, match="same boundaries"):
        calibrate([job] * MIN_JOBS + [HonestJob(((1,), (1,)), (0,))], Dtype.BF16)
    with pytest.raises(ConfigError, match="output token"):
        calibrate([job] * MIN_JOBS + [HonestJob(((1,),), ())], Dtype.BF16)
    with pytest.raises(ConfigError, match="false_positive_rate"):
        calibrate([job] * MIN_JOBS, Dtype.BF16, 0.5)
    wild = [HonestJob(((ratio(2.0 * 20.0**-i),),), (0,)) for i in range(4)]
    with pytest.raises(ConfigError, match="row tolerance"):
        calibrate(wild, Dtype.BF16)
