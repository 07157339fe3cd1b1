"""Calibration and verdict on synthetic jobs with the spreads measured on real models."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from verillm.comparator.calibration import MIN_JOBS, HonestJob, calibrate
from verillm.comparator.direction import Direction
from verillm.comparator.observation import JobObservation, RowComparison
from verillm.comparator.tolerance import FLOORS_Q40, ToleranceTable
from verillm.comparator.verdict import judge, weigh
from verillm.constants import Dtype, Verdict
from verillm.errors import ConfigError, EncodingError
from verillm.types import TOKEN_BOUNDARY

Q24 = 1 << 24
HONEST_L2 = (0.008, 0.011, 0.017)
HONEST_COSINES = (0.01, 0.02, 0.03)
BASE = 1 << 40


def ratio(l2: float) -> int:
    return round(l2 * l2 / 2 * BASE)


def draw_job(rng: np.random.Generator, rows: int, tokens: int, factor: float = 1.0) -> HonestJob:
    """Rows lognormal around the medians, 1 % of tokens lose by 0.04 on average, pairs nearly unrelated."""
    job = rng.normal(0, 0.08)
    ratios = tuple(
        tuple(ratio(factor * m * math.exp(job + z)) for z in rng.normal(0, 0.25, rows)) for m in HONEST_L2
    )
    pairs = rows * (rows - 1) // 2
    cosines = tuple(tuple(rng.normal(rng.normal(c, 0.01), 0.14, pairs).tolist()) for c in HONEST_COSINES)
    lost = rng.random(tokens) < 0.01
    margins = np.where(lost, rng.exponential(0.04 * factor, tokens), 0.0) * Q24
    return HonestJob(ratios, cosines, tuple(int(m) for m in margins))


def observe(job: HonestJob, first: int = 100) -> JobObservation:
    rows = tuple(
        RowComparison(b, 10 * i, r, BASE)
        for b, ratios in enumerate(job.ratios_q40)
        for i, r in enumerate(ratios)
    )
    shared = tuple(
        Direction(b, len(cosines), float(np.mean(cosines)))
        for b, cosines in enumerate(job.cosines)
        if cosines
    )
    return JobObservation(rows, tuple((first + i, m) for i, m in enumerate(job.margins_q24)), shared)


@pytest.fixture(scope="module")
def table() -> ToleranceTable:
    rng = np.random.default_rng(1)
    return calibrate([draw_job(rng, 16, 96) for _ in range(30)], Dtype.BF16)


def test_honest_jobs_pass(table: ToleranceTable) -> None:
    rng = np.random.default_rng(2)
    for i in range(400):
        job = draw_job(rng, int(rng.integers(1, 17)), int(rng.integers(1, 600)))
        assert judge(observe(job), table).verdict is Verdict.ACCEPT, i


def test_pooled_evidence_keeps_its_promise_over_honest_jobs(table: ToleranceTable) -> None:
    """Mean E at most 1, and P(E >= 1/a) at most a: here at the a that 4,000 jobs can show."""
    rng = np.random.default_rng(12)
    found = np.array([weigh(observe(draw_job(rng, 8, 64)), table).pooled for _ in range(4000)])
    assert np.exp(found).mean() <= 1
    for rate in (0.1, 0.01):
        assert (found >= -math.log(rate)).mean() <= rate


def replace_rows(job: HonestJob, boundary: int, ratios: list[int]) -> HonestJob:
    every = list(job.ratios_q40)
    every[boundary] = tuple(ratios)
    return HonestJob(tuple(every), job.cosines, job.margins_q24)


def test_one_honest_outlier_is_not_enough(table: ToleranceTable) -> None:
    job = draw_job(np.random.default_rng(9), 8, 8)
    outlier = replace_rows(job, 2, [table.row_tolerance_q40[2], *job.ratios_q40[2][1:]])
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


@pytest.mark.parametrize("opened", [2, 4, 16])
def test_int4_is_rejected_by_the_size_of_its_deviations(table: ToleranceTable, opened: int) -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        verdict = judge(observe(draw_job(rng, opened, 1, factor=22.0)), table)
        assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 0, 0)


def test_size_and_direction_together_catch_what_neither_does(table: ToleranceTable) -> None:
    """int8 on other hardware: deviations somewhat above the honest ones, that share a direction."""
    job = draw_job(np.random.default_rng(13), 16, 32, factor=1.9)
    seen = observe(job)
    shared = tuple(Direction(b, 110, 0.11) for b in range(3))
    both = weigh(JobObservation(seen.rows, seen.margins, shared), table)
    assert 0 < both.size < table.decisive
    assert 0 < both.direction < table.decisive
    assert both.pooled > table.decisive
    verdict = judge(JobObservation(seen.rows, seen.margins, shared), table)
    assert verdict.verdict is Verdict.REJECT
    assert verdict.reason.startswith("rows:")
    assert verdict.statistics["cosine_1"] == pytest.approx(0.11)


def test_a_changed_last_segment_shows_at_its_boundary_alone(table: ToleranceTable) -> None:
    job = draw_job(np.random.default_rng(4), 16, 8)
    limit = table.row_tolerance_q40[2]
    for factors, position in (({5: 0.99}, 50), ({5: 1.05, 9: 1.1}, 50)):
        rows = [int(limit * factors.get(i, 0.9)) for i in range(16)]
        verdict = judge(observe(replace_rows(job, 2, rows)), table)
        assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, position, 2)
        assert verdict.statistics["relative_l2_2"] > 4 * verdict.statistics["relative_l2_honest_2"]


def test_forged_text_is_rejected_at_its_first_bad_token(table: ToleranceTable) -> None:
    seen = observe(draw_job(np.random.default_rng(5), 8, 40))
    margins = list(seen.margins)
    margins[17] = (117, 4 * table.token_limit_q24)
    margins[30] = (130, 9 * table.token_limit_q24)
    verdict = judge(JobObservation(seen.rows, tuple(margins), seen.directions), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 117, TOKEN_BOUNDARY)


def test_pooled_margins_catch_many_small_ones(table: ToleranceTable) -> None:
    small = table.token_limit_q24 // 3
    margins = tuple((i, small + (i == 33)) for i in range(64))
    verdict = judge(JobObservation((), margins), table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 33, TOKEN_BOUNDARY)
    assert verdict.statistics["log10_e_tokens"] > verdict.statistics["log10_e_decisive"]


def test_finish_and_unable(table: ToleranceTable) -> None:
    seen = observe(draw_job(np.random.default_rng(6), 4, 8))
    cut = JobObservation(seen.rows, seen.margins, finish_ok=False, finish_position=107)
    verdict = judge(cut, table)
    assert (verdict.verdict, verdict.position, verdict.boundary) == (Verdict.REJECT, 107, TOKEN_BOUNDARY)
    bad = tuple(RowComparison(0, 1, BASE, BASE) for _ in range(3))
    assert judge(JobObservation(bad, (), unable="out of memory"), table).verdict is Verdict.UNABLE
    assert judge(JobObservation((), ()), table).verdict is Verdict.UNABLE
    for unknown in (
        JobObservation((RowComparison(3, 0, 0, 1),), ()),
        JobObservation((RowComparison(0, 0, 0, 1),), (), (Direction(3, 2, 0.0),)),
    ):
        with pytest.raises(ConfigError, match="boundary"):
            judge(unknown, table)


def test_fp32_has_floors_for_other_hardware() -> None:
    exact = [HonestJob(((1, 2, 1, 2),), ((),), (0,) * 20) for _ in range(6)]
    table = calibrate(exact, Dtype.FP32)
    floor = FLOORS_Q40[Dtype.FP32]
    assert table.row_tolerance_q40 == (floor,)
    assert table.token_limit_q24 >= Q24 // 64

    def verdict_at(r: int) -> Verdict:
        rows = tuple(RowComparison(0, i, r, BASE) for i in range(8))
        return judge(JobObservation(rows, ((50, 0),)), table).verdict

    assert table.boundaries[0].row_reject_q40 == floor
    assert verdict_at(floor >> 4) is Verdict.ACCEPT
    assert verdict_at(floor + 1) is Verdict.REJECT
    assert verdict_at(ratio(0.002)) is Verdict.REJECT  # bf16 served as fp32


def test_more_spread_gives_wider_limits() -> None:
    def calibrated(spread: float) -> ToleranceTable:
        rng = np.random.default_rng(7)
        jobs = [
            HonestJob((tuple(ratio(0.02 * math.exp(z)) for z in rng.normal(0, spread, 16)),), ((),), (0,))
            for _ in range(24)
        ]
        return calibrate(jobs, Dtype.BF16)

    narrow, wide = calibrated(0.1), calibrated(0.4)
    assert narrow.row_tolerance_q40[0] < wide.row_tolerance_q40[0]
    rows = tuple(RowComparison(0, i, ratio(0.06), BASE) for i in range(8))
    assert weigh(JobObservation(rows, ()), narrow).pooled > weigh(JobObservation(rows, ()), wide).pooled


def test_bit_equal_rows_of_calibration_jobs_are_left_out() -> None:
    rng = np.random.default_rng(14)
    jobs = [draw_job(rng, 16, 96) for _ in range(12)]
    equal = HonestJob(((), (), ()), ((), (), ()), (0,) * 96)
    mixed, plain = calibrate([*jobs, equal, equal], Dtype.BF16), calibrate(jobs, Dtype.BF16)
    assert mixed.boundaries == plain.boundaries
    assert mixed.jobs == plain.jobs == 12
    with pytest.raises(ConfigError, match="rows that differ"):
        calibrate([*jobs[:3], equal, equal], Dtype.BF16)


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
    d["boundaries"][0]["size"]["single_q16"] = -1


def _empty(d: dict) -> None:
    d["boundaries"] = []


@pytest.mark.parametrize("spoil", [_drop, _extra, _float, _bool, _negative, _empty])
def test_bad_tables_are_errors(table: ToleranceTable, spoil: Callable[[dict], None]) -> None:
    data = table.to_dict()
    spoil(data)
    with pytest.raises(EncodingError):
        ToleranceTable.from_dict(data)


def test_calibration_refuses_too_little() -> None:
    job = draw_job(np.random.default_rng(15), 2, 2)
    with pytest.raises(ConfigError, match="jobs"):
        calibrate([job] * (MIN_JOBS - 1), Dtype.BF16)
    with pytest.raises(ConfigError, match="same boundaries"):
        calibrate([job] * MIN_JOBS + [HonestJob(((1,), (1,)), ((), ()), (0,))], Dtype.BF16)
    with pytest.raises(ConfigError, match="same positions"):
        calibrate([job] * MIN_JOBS + [HonestJob(((1,), (1,), (1, 2)), ((), (), ()), (0,))], Dtype.BF16)
    with pytest.raises(ConfigError, match="output token"):
        calibrate([job] * MIN_JOBS + [HonestJob(((1,), (1,), (1,)), ((), (), ()), ())], Dtype.BF16)
    with pytest.raises(ConfigError, match="false_positive_rate"):
        calibrate([job] * MIN_JOBS, Dtype.BF16, 0.5)
    wild = HonestJob(((BASE, BASE),), ((),), (0,))
    with pytest.raises(ConfigError, match="not honest"):
        calibrate([wild] * MIN_JOBS, Dtype.BF16)
