"""The worked examples of the method, exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import polars as pl
import pytest

from postmortem.analysis.cost import CostInput, estimate
from postmortem.analysis.model import Loss

DAY = datetime(2026, 3, 1)
CHECKPOINTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "attempt": pl.Int64,
    "step": pl.Int64,
    "kind": pl.String,
    "ts": pl.Datetime("us"),
    "elapsed_ms": pl.Float64,
    "durable": pl.Boolean,
}


def at(hour: int, minute: int, second: float) -> datetime:
    """A time of the day of the example."""
    return DAY + timedelta(hours=hour, minutes=minute, seconds=second)


def after(start: datetime, seconds: float) -> datetime:
    return start + timedelta(seconds=seconds)


def steps_of_the_example() -> pl.DataFrame:
    """Steps 1 … 763 of attempt 0, a save of 30 s after each 100th, and step 701 of attempt 1."""
    rows: list[tuple[int, int, datetime, float]] = []
    now = at(8, 11, 50)
    for step in range(1, 764):
        took = 10.0 if step <= 700 else 12.5
        now = after(now, took)
        rows.append((0, step, now, took * 1000))
        if step % 100 == 0:
            now = after(now, 30)
    assert rows[699][2] == at(10, 11, 30)
    assert rows[762][2] == at(10, 25, 7.5)
    rows.append((1, 701, at(10, 51, 10), 10_000.0))
    return pl.DataFrame(rows, schema=["attempt", "step", "ts", "step_time_ms"], orient="row").with_columns(
        pl.lit(True).alias("is_main")
    )


def checkpoints_of_the_example(steps: pl.DataFrame, *, without_last: bool = False) -> pl.DataFrame:
    rows: list[tuple[int, int, str, datetime]] = []
    for step in range(100, 800, 100):
        begun = steps.filter((pl.col("step") == step) & (pl.col("attempt") == 0))["ts"][0]
        rows.append((0, step, "start", begun))
        if not (without_last and step == 700):
            rows.append((0, step, "done", after(begun, 120)))
    if not without_last:
        rows.append((1, 700, "loaded", at(10, 49, 0)))
    return pl.DataFrame(rows, schema=["attempt", "step", "kind", "ts"], orient="row").with_columns(
        pl.lit(None, dtype=pl.Float64).alias("elapsed_ms"), pl.lit(None, dtype=pl.Boolean).alias("durable")
    )


def example() -> CostInput:
    steps = steps_of_the_example()
    return CostInput(
        steps=steps,
        checkpoints=checkpoints_of_the_example(steps),
        attempts=pl.DataFrame(
            {
                "attempt": [0, 1],
                "start": [at(8, 0, 0), at(10, 40, 0)],
                "finish": [at(10, 35, 20), None],
                "outcome": ["crashed", "unknown"],
            }
        ),
        onset=at(10, 25, 12),
        onset_lo=at(10, 25, 12),
        onset_hi=at(10, 25, 12),
        onset_basis="measured",
        detected=at(10, 25, 42.1),
        gpus=528,
        price=2.5,
    )


def seconds_of(loss: Loss) -> dict[str, float]:
    return {b.bin: b.best_s for b in loss.bins}


def test_the_full_partition() -> None:
    loss = estimate(example())
    assert seconds_of(loss) == pytest.approx(
        {
            "init": 710.0,
            "productive": 7000.0,
            "degraded": 0.0,
            "ckpt_stall": 210.0,
            "lost_work": 787.5,
            "partial_step": 4.5,
            "detection": 30.1,
            "teardown": 577.9,
            "queue": 280.0,
            "restart": 660.0,
        },
        abs=1e-3,
    )
    assert loss.span_s == pytest.approx(9320)
    assert all(b.lo_s == pytest.approx(b.best_s) and b.hi_s == pytest.approx(b.best_s) for b in loss.bins)
    assert {b.basis for b in loss.bins} == {"measured"}
    assert loss.basis == "measured"
    assert loss.notes == ()
    assert (loss.last_durable_step, loss.last_step) == (700, 763)
    assert loss.healthy_step_s == pytest.approx(10)


def test_the_totals_of_the_full_partition() -> None:
    loss = estimate(example())
    assert loss.lost_s is not None
    assert loss.gpu_hours is not None
    assert loss.cost is not None
    assert loss.lost_s.best == pytest.approx(2060.0)
    assert loss.gpu_hours.best == pytest.approx(302.13, abs=0.01)
    assert loss.cost.best == pytest.approx(755.33, abs=0.01)
    assert loss.lost_s.lo == pytest.approx(loss.lost_s.hi)
    assert loss.idle_gpu_hours == pytest.approx(89.17, abs=0.01)
    assert loss.throughput_loss == pytest.approx(0.20)
    assert loss.ettr_attempt == pytest.approx(0.751, abs=5e-4)
    assert loss.ettr_run == pytest.approx(0.701, abs=5e-4)
    assert loss.ettr_wall == pytest.approx(0.682, abs=5e-4)


def test_only_the_gpus_with_a_rank() -> None:
    loss = estimate(replace(example(), gpus=512))
    assert loss.gpu_hours is not None
    assert loss.gpu_hours.best == pytest.approx(292.98, abs=0.01)


def test_no_price_no_money() -> None:
    assert estimate(replace(example(), price=None)).cost is None


def test_nodes_that_stay_allocated_pay_for_the_queue() -> None:
    inp = example()
    kept = inp.attempts.with_columns(pl.lit(False).alias("is_released"))
    loss = estimate(replace(inp, attempts=kept))
    assert loss.lost_s is not None
    assert loss.lost_s.best == pytest.approx(2060.0 + 280.0)
    assert loss.ettr_run == pytest.approx(loss.ettr_wall)


def test_variant_a_the_last_save_is_not_shown_to_have_finished() -> None:
    inp = example()
    inp = replace(inp, checkpoints=checkpoints_of_the_example(inp.steps, without_last=True))
    loss = estimate(inp)
    assert loss.last_durable_step == 600
    assert seconds_of(loss)["lost_work"] == pytest.approx(1787.5)
    assert seconds_of(loss)["ckpt_stall"] == pytest.approx(210.0)
    assert any("step 700 had begun" in note for note in loss.notes)


def test_variant_b_no_checkpoint_lines_and_a_known_interval() -> None:
    inp = example()
    first = inp.steps.filter(pl.col("attempt") == 0)
    loss = estimate(
        replace(
            inp,
            steps=first,
            attempts=inp.attempts.head(1),
            checkpoints=pl.DataFrame([], schema=CHECKPOINTS),
            save_interval=100,
        )
    )
    lost = next(b for b in loss.bins if b.bin == "lost_work")
    assert (lost.lo_s, lost.best_s, lost.hi_s) == pytest.approx((0, 787.5, 1787.5))
    assert lost.basis == "inferred"
    assert seconds_of(loss)["ckpt_stall"] == pytest.approx(210.0)
    assert loss.lost_s is not None
    assert (loss.lost_s.lo, loss.lost_s.best, loss.lost_s.hi) == pytest.approx((612.5, 1400.0, 2400.0))


def test_variant_c_no_root_event() -> None:
    loss = estimate(replace(example(), onset=None, onset_lo=None, onset_hi=None, onset_basis=None))
    bins = {b.bin: b for b in loss.bins}
    assert bins["partial_step"].best_s == pytest.approx(12.5)
    assert (bins["partial_step"].lo_s, bins["partial_step"].hi_s) == pytest.approx((0, 34.6))
    assert (bins["detection"].lo_s, bins["detection"].hi_s) == pytest.approx((0, 34.6))
    assert bins["partial_step"].basis == "inferred"
    assert loss.lost_s is not None
    assert (loss.lost_s.lo, loss.lost_s.best, loss.lost_s.hi) == pytest.approx((2060.0, 2060.0, 2060.0))


def test_a_real_crash_two_steps_before_a_save() -> None:
    """384 GPUs, 105.22 s a step, a save each 250, crash two before: the team says 7.3 h."""
    first, step_s = 1750, 105.22
    stamps = [(s, after(DAY, (s - first) * step_s)) for s in range(first + 1, 2249)]
    crash = after(stamps[-1][1], step_s * 0.9)
    steps = pl.DataFrame(stamps, schema=["step", "ts"], orient="row").with_columns(
        pl.lit(0).alias("attempt"), pl.lit(step_s * 1000).alias("step_time_ms")
    )
    saved = pl.DataFrame(
        {"attempt": [0], "step": [2000], "kind": ["done"], "ts": [after(DAY, 250 * step_s)]},
    )
    attempts = pl.DataFrame({"attempt": [0], "start": [DAY], "finish": [crash], "outcome": ["crashed"]})
    loss = estimate(CostInput(steps, saved, attempts, onset=crash, onset_basis="measured", detected=crash, gpus=384))
    assert loss.last_durable_step == 2000
    assert seconds_of(loss)["lost_work"] == pytest.approx(26_094.6, abs=0.1)
    assert loss.lost_s is not None
    assert loss.gpu_hours is not None
    assert 7.25 <= loss.lost_s.best / 3600 <= 7.31
    assert 2783 <= loss.gpu_hours.best <= 2806
