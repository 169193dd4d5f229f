"""Advice on the checkpoint interval and what would have saved some of the loss, by the method's worked examples."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from test_cost import example

from postmortem.analysis.advice import (
    Habits,
    Mtbf,
    advise,
    choose_mtbf,
    daly,
    most_available,
    overhead,
    public_mtbf,
    young,
)
from postmortem.analysis.cost import estimate
from postmortem.analysis.cost_pace import measure_pace
from postmortem.analysis.model import Bin, Saving, Span
from postmortem.analysis.savings import find_savings

HOUR, DAY = 3600.0, 86_400.0


def habits(**more: float | bool | None) -> Habits:
    usual: dict[str, float | bool | None] = {
        "step_s": 10.0,
        "delta": 30.0,
        "tau": 1030.0,
        "lag": 30.0,
        "detection": 30.0,
        "restart": 660.0,
        "is_async": False,
    }
    return Habits(**(usual | more))  # type: ignore[arg-type]


def given(seconds: float) -> Mtbf:
    return Mtbf(Span(seconds, seconds, seconds), "measured", "given")


def test_the_optimum_of_bloom() -> None:
    """A save of 40 s and a failure a week: 66 steps of 105.22 s; going from 250 to 100 took 92 % of what there was to gain."""
    delta, week, step = 40.0, 7 * DAY, 105.22
    assert young(delta, week) == pytest.approx(6956, abs=1)
    assert daly(delta, week) == pytest.approx(6929, abs=1)
    assert round(young(delta, week) / step) == 66
    before, after, least = (overhead(tau, delta, week) for tau in (250 * step, 100 * step, young(delta, week)))
    assert (before, after, least) == pytest.approx((0.0233, 0.0125, 0.0115), abs=5e-5)
    assert (before - after) / (before - least) == pytest.approx(0.92, abs=0.005)


def test_the_optimum_of_the_full_example() -> None:
    loss = estimate(replace(example(), mtbf_s=99 * HOUR))
    advice = loss.advice
    assert advice is not None
    assert advice.young_s == pytest.approx(4624, abs=1)
    assert advice.now_s == pytest.approx(1030)
    assert advice.now_overhead == pytest.approx(0.0306, abs=5e-5)
    assert advice.overhead == pytest.approx(0.0130, abs=5e-5)
    assert (advice.save_stall_s, advice.save_lag_s) == pytest.approx((30, 120))
    assert advice.is_near is False
    assert loss.goodput == pytest.approx(7000 / 10260)
    assert loss.save_gpu_hours == pytest.approx(528 * 210 / 3600)


def test_saves_that_take_longer_than_failures_are_apart() -> None:
    assert daly(30.0, 10.0) == 10.0
    assert most_available(30.0, 356_400.0, 0.0) == pytest.approx(30 + (2 * 356_400 * 30 + 900) ** 0.5)


@pytest.mark.parametrize(("tau", "near"), [(4624.0, True), (3200.0, True), (1030.0, False), (20_000.0, False)])
def test_a_flat_optimum(tau: float, near: bool) -> None:
    advice = advise(habits(tau=tau), given(99 * HOUR))
    assert advice is not None
    assert advice.is_near is near


def test_the_interval_is_no_shorter_than_a_save_can_be_written() -> None:
    blocking = advise(habits(delta=0.01, lag=0.01), given(HOUR))
    background = advise(habits(delta=0.01, lag=120.0, is_async=True), given(HOUR))
    assert blocking is not None
    assert background is not None
    assert blocking.tau_s.best == 10.0
    assert background.tau_s.best == 130.0
    assert any("beside the steps" in c for c in background.conditions)
    assert not any("beside the steps" in c for c in blocking.conditions)


def test_no_advice_without_the_cost_of_a_save() -> None:
    assert advise(habits(delta=0.0), given(HOUR)) is None


def test_a_late_detection_is_said() -> None:
    late, soon = (advise(habits(detection=seconds), given(HOUR)) for seconds in (1800.0, 30.0))
    assert late is not None
    assert soon is not None
    assert any("shorten the detection" in c for c in late.conditions)
    assert not any("shorten the detection" in c for c in soon.conditions)


def test_the_failure_rate_in_its_order() -> None:
    assert choose_mtbf(HOUR, 5, DAY, 512) == given(HOUR)
    measured = choose_mtbf(None, 2, DAY, 512)
    assert measured is not None
    # Poisson bounds of two events: 0.2422 to 7.2247.
    assert (measured.span.lo, measured.span.best, measured.span.hi) == pytest.approx(
        (DAY / 7.2247, DAY / 2, DAY / 0.2422), rel=1e-3
    )
    assert measured.basis == "measured"
    once = choose_mtbf(None, 1, DAY, 512)
    assert once == public_mtbf(512)
    assert once is not None
    assert once.basis == "assumed"
    assert (once.span.lo, once.span.best, once.span.hi) == pytest.approx(
        (23.4 * HOUR, 98.9 * HOUR, 126.7 * HOUR), rel=0.01
    )
    assert choose_mtbf(None, 1, DAY, None) is None


def part(name: str, lo: float, best: float, hi: float) -> Bin:
    return Bin(name, lo, best, hi, "measured", True)


def saved(*bins: Bin, tau: float | None = None, advised: float | None = None) -> dict[str, Saving]:
    return {s.what: s for s in find_savings(bins, tau, advised, None)}


def test_a_shorter_interval_would_have_saved_the_rest() -> None:
    lost = part("lost_work", 700, 787.5, 900)
    found = saved(lost, tau=1030, advised=500)["checkpoint_interval"]
    assert (found.saved_s.lo, found.saved_s.best, found.saved_s.hi) == pytest.approx((200, 287.5, 400))
    assert found.interval_s == 500
    assert saved(lost, tau=1030, advised=4604)["checkpoint_interval"].interval_s == 515
    assert not saved(lost, tau=2000)
    assert not saved(lost)


def test_a_minute_of_detection_saves_nothing() -> None:
    late = saved(part("detection", 590, 600, 610))["detection"]
    assert late.saved_s == Span(530, 540, 550)
    assert not saved(part("detection", 30, 60, 90))


def test_the_straggler_of_the_full_example() -> None:
    loss = estimate(replace(example(), price=2.0))
    found = next(s for s in loss.savings if s.what == "straggler")
    assert found.since_step == 701
    assert (found.saved_s.lo, found.saved_s.best, found.saved_s.hi) == pytest.approx((132.5, 132.5, 157.5))
    assert found.cost is not None
    assert found.gpu_hours is not None
    assert found.cost.best == pytest.approx(2 * found.gpu_hours.best)


def test_no_energy_unless_asked() -> None:
    assert estimate(example()).energy_kwh is None
    asked = estimate(replace(example(), watts=700.0, pue=1.2))
    assert asked.energy_kwh is not None
    assert asked.gpu_hours is not None
    assert asked.energy_kwh.best == pytest.approx(asked.gpu_hours.best * 0.7 * 1.2)


def paced(seconds: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"d": seconds}).with_columns(
        pl.lit(1, dtype=pl.Int64).alias("k"),
        pl.lit(False).alias("is_marked"),
        pl.lit(None, dtype=pl.Float64).alias("rate"),
    )


def test_a_job_slow_for_most_of_its_life_is_held_against_its_beginning() -> None:
    """The slow GPU of BLOOM: 5.7 % from step 282 of 600 on."""
    healthy = measure_pace(paced([105.165] * 281 + [111.12] * 319)).healthy_s
    assert healthy == pytest.approx(105.165)


def test_a_lucky_stretch_in_the_middle_is_no_yardstick() -> None:
    healthy = measure_pace(paced([111.12] * 250 + [105.165] * 100 + [111.12] * 250)).healthy_s
    assert healthy == pytest.approx(111.12)
