"""The estimate where something is missing, odd or in the way: saves, logs at intervals, restarts, broken frames."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.analysis.cost import CostInput, estimate
from postmortem.analysis.model import Bin, Loss

START = datetime(2026, 1, 2, 3, 0, 0)
ORDER = {"measured": 0, "inferred": 1, "assumed": 2}


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stamps(seconds: list[float | None]) -> pl.Series:
    return pl.Series([None if s is None else after(s) for s in seconds], dtype=pl.Datetime("us"))


def step_frame(rows: list[tuple[int, float | None, float | None]], attempt: int = 0) -> pl.DataFrame:
    """Steps from (step, seconds after the start, seconds it took)."""
    return pl.DataFrame(
        {
            "attempt": pl.Series([attempt] * len(rows), dtype=pl.Int64),
            "step": pl.Series([r[0] for r in rows], dtype=pl.Int64),
            "ts": stamps([r[1] for r in rows]),
            "step_time_ms": pl.Series([None if r[2] is None else r[2] * 1000 for r in rows], dtype=pl.Float64),
            "is_main": pl.Series([True] * len(rows), dtype=pl.Boolean),
        }
    )


def save_frame(rows: list[tuple[int, str, float | None]], attempt: int = 0) -> pl.DataFrame:
    """Checkpoint lines from (step, kind, seconds after the start)."""
    return pl.DataFrame(
        {
            "attempt": pl.Series([attempt] * len(rows), dtype=pl.Int64),
            "step": pl.Series([r[0] for r in rows], dtype=pl.Int64),
            "kind": pl.Series([r[1] for r in rows], dtype=pl.String),
            "ts": stamps([r[2] for r in rows]),
            "elapsed_ms": pl.Series([None] * len(rows), dtype=pl.Float64),
            "durable": pl.Series([None] * len(rows), dtype=pl.Boolean),
        }
    )


def attempt_frame(*rows: tuple[int, float | None, float | None, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "attempt": pl.Series([r[0] for r in rows], dtype=pl.Int64),
            "start": stamps([r[1] for r in rows]),
            "finish": stamps([r[2] for r in rows]),
            "outcome": pl.Series([r[3] for r in rows], dtype=pl.String),
        }
    )


def steady(last: int, every: int = 1, step_s: float = 2.0, first_s: float = 100.0) -> pl.DataFrame:
    """Steps 1 … last of step_s each from first_s on, a line each `every`."""
    return step_frame([(n, first_s + n * step_s, step_s) for n in range(every, last + 1, every)])


def build(steps: pl.DataFrame, saves: pl.DataFrame, attempts: pl.DataFrame, **more: Any) -> Loss:
    return estimate(CostInput(steps=steps, checkpoints=saves, attempts=attempts, **more))


def bins(loss: Loss) -> dict[str, Bin]:
    return {b.bin: b for b in loss.bins}


def adds_up(loss: Loss) -> bool:
    total = sum(b.best_s for b in loss.bins if b.bin not in ("queue", "restart"))
    return loss.span_s is not None and abs(total - loss.span_s) <= max(1.0, 0.001 * loss.span_s)


def test_steps_between_two_lines_are_placed_by_a_measured_onset() -> None:
    loss = build(
        steady(100, every=10),
        save_frame([(90, "done", 281.0)]),
        attempt_frame((0, 0.0, 400.0, "crashed")),
        onset=after(309.0),
        onset_basis="measured",
        detected=after(320.0),
        gpus=8,
    )
    assert loss.last_step == 104
    assert bins(loss)["lost_work"].best_s == pytest.approx(28.0)
    assert bins(loss)["partial_step"].best_s == pytest.approx(1.0)
    assert bins(loss)["lost_work"].basis == "inferred"
    assert loss.lost_s is not None
    assert loss.lost_s.best == pytest.approx(400 - 280)


def test_the_unlogged_tail_widens_the_upper_bound() -> None:
    loss = build(
        steady(100, every=10),
        save_frame([(90, "done", 281.0)]),
        attempt_frame((0, 0.0, 400.0, "crashed")),
        detected=after(390.0),
        gpus=8,
    )
    lost = bins(loss)["lost_work"]
    assert (lost.lo_s, lost.best_s, lost.hi_s) == pytest.approx((20.0, 20.0, 38.0))
    assert adds_up(loss)


def test_a_save_that_names_no_step_is_moved_to_the_step_then_done() -> None:
    """A log line each 10 steps, a save at 25 that only knows of 20, stopped for 30 s."""
    rows = [(10, 120.0, None), (20, 140.0, None), (30, 190.0, None), (40, 210.0, None), (50, 230.0, None)]
    saves = save_frame([(20, "start", 150.0), (20, "done", 180.0)])
    loss = build(
        step_frame([(s, t, d) for s, t, d in rows]),
        saves,
        attempt_frame((0, 0.0, 300.0, "crashed")),
        onset=after(231.0),
        onset_basis="measured",
        detected=after(240.0),
    )
    assert loss.last_durable_step == 25
    assert bins(loss)["ckpt_stall"].best_s == pytest.approx(30.0)
    assert bins(loss)["lost_work"].best_s == pytest.approx(50.0)


def test_an_async_save_in_flight_is_not_durable() -> None:
    """Saves at 50 and 100 stop the loop for 1 s and take 40 s; the job dies 10 s after the second began."""
    rows = [(n, 100 + 2.0 * n + (1 if n > 50 else 0) + (1 if n > 100 else 0), 2.0) for n in range(1, 105)]
    saves = save_frame([(50, "start", 200.0), (50, "done", 240.0), (100, "start", 301.0)])
    loss = build(
        step_frame([(s, t, d) for s, t, d in rows]),
        saves,
        attempt_frame((0, 0.0, 400.0, "crashed")),
        onset=after(311.0),
        onset_basis="measured",
        detected=after(320.0),
    )
    assert loss.last_durable_step == 50
    assert bins(loss)["ckpt_stall"].best_s == pytest.approx(2.0)
    assert bins(loss)["lost_work"].best_s == pytest.approx(54 * 2.0)
    assert any("step 100 had begun" in note for note in loss.notes)


@pytest.mark.parametrize(
    ("extra", "durable"),
    [
        ([(80, "deleted", 290.0)], 60),
        ([(80, "failed", 290.0)], 80),
        ([(100, "start", 300.0), (100, "failed", 300.5)], 80),
        ([(500, "done", 290.0)], 80),
    ],
)
def test_which_save_counts(extra: list[tuple[int, str, float | None]], durable: int) -> None:
    saves = save_frame([(60, "done", 221.0), (80, "done", 261.0), *extra])
    loss = build(
        steady(100), saves, attempt_frame((0, 0.0, 400.0, "crashed")), onset=after(301.0), detected=after(310.0)
    )
    assert loss.last_durable_step == durable


def test_a_save_to_the_nodes_own_disk_does_not_count() -> None:
    saves = save_frame([(60, "done", 221.0), (80, "done", 261.0)]).with_columns((pl.col("step") == 60).alias("durable"))
    loss = build(steady(100), saves, attempt_frame((0, 0.0, 400.0, "crashed")), detected=after(310.0))
    assert loss.last_durable_step == 60


def test_a_later_load_proves_a_save_and_an_older_one_is_said() -> None:
    saves = save_frame([(60, "done", 221.0), (80, "done", 261.0)])
    later = save_frame([(60, "loaded", 500.0)], attempt=1)
    attempts = attempt_frame((0, 0.0, 400.0, "crashed"), (1, 450.0, None, "unknown"))
    replay = step_frame([(n, 510 + 2.0 * (n - 60), 2.0) for n in range(61, 90)], attempt=1)
    loss = build(pl.concat([steady(100), replay]), pl.concat([saves, later]), attempts, detected=after(310.0))
    assert loss.last_durable_step == 80
    assert bins(loss)["restart"].best_s == pytest.approx(510 + 40 - 450)
    assert any("next attempt loaded step 60" in note for note in loss.notes)


def test_the_resume_point_is_the_floor() -> None:
    steps = step_frame([(n, 100 + 2.0 * (n - 1000), 2.0) for n in range(1001, 1051)])
    loss = build(
        steps, save_frame([(1000, "loaded", 90.0), (1040, "start", 180.0)]),
        attempt_frame((0, 0.0, 300.0, "crashed")), onset=after(201.0), detected=after(210.0),
    )  # fmt: skip
    assert loss.last_durable_step == 1000
    assert bins(loss)["lost_work"].best_s == pytest.approx(100.0)
    assert bins(loss)["productive"].best_s == 0


def test_no_save_lines_and_no_interval_take_half() -> None:
    loss = build(steady(100), save_frame([]), attempt_frame((0, 0.0, 400.0, "crashed")), detected=after(310.0))
    lost = bins(loss)["lost_work"]
    assert (lost.lo_s, lost.best_s, lost.hi_s) == pytest.approx((0.0, 100.0, 200.0))
    assert lost.basis == "assumed"
    assert adds_up(loss)


def test_a_trainer_that_prints_its_saves_and_printed_none_saved_nothing() -> None:
    loss = build(
        steady(100), save_frame([]), attempt_frame((0, 0.0, 400.0, "crashed")), detected=after(310.0), prints_saves=True
    )
    assert loss.last_durable_step == 0
    assert bins(loss)["lost_work"].best_s == pytest.approx(200.0)


def test_without_step_lines_only_idle_and_teardown_are_sure() -> None:
    attempts = attempt_frame((0, 0.0, 1000.0, "crashed")).with_columns(
        pl.lit(after(120.0), dtype=pl.Datetime("us")).alias("first_init")
    )
    loss = build(
        step_frame([]), save_frame([]), attempts, onset=after(900.0), onset_basis="measured", detected=after(930.0)
    )
    lost = bins(loss)["lost_work"]
    assert (lost.lo_s, lost.best_s, lost.hi_s) == pytest.approx((0.0, 0.0, 780.0))
    assert loss.lost_s is not None
    assert (loss.lost_s.lo, loss.lost_s.best, loss.lost_s.hi) == pytest.approx((100.0, 100.0, 880.0))
    assert loss.basis == "assumed"
    assert loss.ettr_attempt is None
    assert adds_up(loss)


def test_without_an_end_the_last_line_and_a_watchdogs_wait() -> None:
    loss = build(
        steady(100), save_frame([(100, "done", 300.0)]), attempt_frame((0, 0.0, None, "crashed")),
        detected=after(310.0), last_seen=after(350.0), watchdog_timeout_s=600.0,
    )  # fmt: skip
    teardown = bins(loss)["teardown"]
    assert (teardown.best_s, teardown.hi_s, teardown.basis) == (40.0, 640.0, "inferred")


def test_a_watchdogs_own_wait_gives_the_onset() -> None:
    loss = build(
        steady(100), save_frame([(100, "done", 300.0)]), attempt_frame((0, 0.0, 1000.0, "hung")),
        onset=after(5.0), onset_basis="measured", watchdog_onset=after(301.5), network_onset=after(400.0),
        detected=after(901.5),
    )  # fmt: skip
    assert bins(loss)["detection"].best_s == pytest.approx(600.0)
    assert bins(loss)["detection"].basis == "measured"


def test_a_completed_job_lost_only_its_last_seconds() -> None:
    saves = save_frame([(100, "start", 300.0), (100, "done", 330.0)])
    loss = build(steady(100), saves, attempt_frame((0, 0.0, 345.0, "completed")), is_fault=False, gpus=8)
    found = bins(loss)
    assert (found["lost_work"].best_s, found["ckpt_stall"].best_s, found["teardown"].best_s) == pytest.approx(
        (0, 30, 15)
    )
    assert loss.lost_s is not None
    assert loss.lost_s.best == pytest.approx(15.0)


def test_a_cancelled_job_has_lost_work() -> None:
    saves = save_frame([(80, "done", 260.0)])
    loss = build(steady(100), saves, attempt_frame((0, 0.0, 310.0, "cancelled")), is_fault=False)
    found = bins(loss)
    assert (found["lost_work"].best_s, found["detection"].best_s, found["teardown"].best_s) == pytest.approx(
        (40, 0, 10)
    )


def test_an_evaluation_is_neither_lost_nor_slow() -> None:
    rows = [(n, 100 + 2.0 * n + (50 if n > 60 else 0), None) for n in range(1, 101)]
    pauses = pl.DataFrame({"kind": ["eval"], "step": [None], "start": [after(221.0)], "end": [after(270.0)]})
    loss = build(
        step_frame([(s, t, d) for s, t, d in rows]), save_frame([(40, "done", 181.0)]),
        attempt_frame((0, 0.0, 400.0, "crashed")), onset=after(351.0), detected=after(360.0), pauses=pauses,
    )  # fmt: skip
    assert bins(loss)["eval"].best_s == pytest.approx(50.0)
    assert bins(loss)["lost_work"].best_s == pytest.approx(120.0)
    assert bins(loss)["degraded"].best_s == pytest.approx(0.0)


def test_waiting_for_data_is_told_from_slow_steps() -> None:
    rows: list[tuple[int, float | None, float | None]] = []
    now = 100.0
    for n in range(1, 101):
        took = 5.0 if 51 <= n <= 60 else 2.0
        now += took
        rows.append((n, now, took))
    pauses = pl.DataFrame({"kind": ["data"], "step": [None], "start": [after(201.0)], "end": [after(249.0)]})
    loss = build(
        step_frame(rows), save_frame([(100, "done", now)]), attempt_frame((0, 0.0, now + 50, "crashed")),
        onset=after(now + 1), detected=after(now + 2), pauses=pauses,
    )  # fmt: skip
    assert bins(loss)["data_wait"].best_s == pytest.approx(30.0)
    assert bins(loss)["degraded"].best_s == pytest.approx(0.0)
    assert loss.throughput_loss == pytest.approx(0.6)


def test_printed_times_that_include_the_save_do_not_count_twice() -> None:
    rows: list[tuple[int, float | None, float | None]] = []
    now = 100.0
    for n in range(1, 101):
        took = 32.0 if n == 51 else 2.0
        now += took
        rows.append((n, now, took))
    saves = save_frame([(50, "start", 200.0), (50, "done", 230.0)])
    loss = build(
        step_frame(rows), saves, attempt_frame((0, 0.0, now + 50, "crashed")), onset=after(now), detected=after(now)
    )
    assert bins(loss)["ckpt_stall"].best_s == pytest.approx(30.0)
    assert bins(loss)["lost_work"].best_s == pytest.approx(100.0)


def test_durations_without_stamps_of_their_own() -> None:
    """Lines without time take the time of a timed neighbour: all steps at 100 s."""
    rows: list[tuple[int, float | None, float | None]] = [(n, 100.0, 2.0) for n in range(1, 201)]
    loss = build(
        step_frame(rows), save_frame([(150, "done", None)]), attempt_frame((0, 0.0, 600.0, "crashed")),
        onset=after(505.0), onset_basis="measured", detected=after(510.0),
    )  # fmt: skip
    assert bins(loss)["lost_work"].best_s == pytest.approx(100.0)
    assert bins(loss)["detection"].best_s == pytest.approx(5.0)
    assert adds_up(loss)


def test_a_restart_that_reaches_no_new_step_is_counted_as_far_as_seen() -> None:
    attempts = attempt_frame((0, 0.0, 400.0, "crashed"), (1, 450.0, 550.0, "crashed"), (2, 560.0, None, "unknown"))
    again = step_frame([(81, 700.0, 2.0)], attempt=2)
    loss = build(
        pl.concat([steady(100), again]), save_frame([(80, "done", 261.0)]), attempts, detected=after(310.0), attempt=0
    )
    assert bins(loss)["queue"].best_s == pytest.approx(60.0)
    assert bins(loss)["restart"].best_s == pytest.approx(100 + 138)


def test_the_last_attempt_is_not_taken_for_the_one_that_failed() -> None:
    attempts = attempt_frame((0, 0.0, 400.0, "crashed"), (1, 450.0, None, "unknown"))
    again = step_frame([(81, 700.0, 2.0)], attempt=1)
    loss = build(pl.concat([steady(100), again]), save_frame([(80, "done", 261.0)]), attempts)
    assert loss.last_step == 100


def test_a_job_slow_for_most_of_its_life_is_not_its_own_yardstick() -> None:
    rows: list[tuple[int, float | None, float | None]] = []
    now = 100.0
    for n in range(1, 201):
        took = 2.0 if n <= 60 else 4.0
        now += took
        rows.append((n, now, took))
    loss = build(step_frame(rows), save_frame([(200, "done", now)]), attempt_frame((0, 0.0, now + 9, "crashed")))
    assert loss.healthy_step_s == pytest.approx(2.0)
    assert loss.throughput_loss == pytest.approx(0.5)


def test_steps_that_start_over_within_one_attempt() -> None:
    first = step_frame([(n, 100 + 2.0 * n, 2.0) for n in range(1, 61)])
    again = step_frame([(n, 500 + 2.0 * (n - 40), 2.0) for n in range(41, 81)])
    loss = build(
        pl.concat([first, again]), save_frame([(40, "done", 181.0)]), attempt_frame((0, 0.0, 700.0, "crashed")),
        onset=after(581.0), detected=after(590.0),
    )  # fmt: skip
    assert loss.last_step == 80
    assert bins(loss)["lost_work"].best_s == pytest.approx(80.0)
    assert adds_up(loss)


@pytest.mark.parametrize("took", [math.nan, math.inf, -1.0, 0.0, 5e-324, 1e300])
def test_a_duration_that_cannot_be_is_left_to_the_stamps(took: float) -> None:
    rows = [(n, 100 + 2.0 * n, took) for n in range(1, 101)]
    loss = build(
        step_frame([(s, t, d) for s, t, d in rows]),
        save_frame([(80, "done", 261.0), (2**62, "done", 262.0)]),
        attempt_frame((0, 0.0, 400.0, "crashed")),
        onset=after(301.0),
        detected=after(310.0),
    )
    assert bins(loss)["lost_work"].best_s == pytest.approx(40.0)
    assert loss.last_durable_step == 80


def test_nothing_at_all() -> None:
    empty = pl.DataFrame()
    loss = estimate(CostInput(empty, empty, empty, pauses=empty))
    assert loss.bins == ()
    assert loss.lost_s is None
    assert loss.notes


def test_times_with_a_zone_are_the_same_times() -> None:
    naive = dict(onset=after(301.0), detected=after(310.0))
    aware = {name: time.replace(tzinfo=UTC) for name, time in naive.items()}
    saves, attempts = save_frame([(80, "done", 261.0)]), attempt_frame((0, 0.0, 400.0, "crashed"))
    zoned = steady(100).with_columns(pl.col("ts").dt.replace_time_zone("UTC"))
    assert build(zoned, saves, attempts, **aware) == build(steady(100), saves, attempts, **naive)


SECONDS = st.one_of(st.none(), st.floats(-1e4, 1e5), st.sampled_from([0.0, 100.0, 200.0]))
DURATIONS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0.1, 50.0))
STEP_ROWS = st.lists(st.tuples(st.integers(-3, 60), SECONDS, DURATIONS), max_size=40)
KINDS = st.sampled_from(["start", "done", "loaded", "failed", "deleted", "odd"])
SAVE_ROWS = st.lists(st.tuples(st.integers(-3, 70), KINDS, SECONDS), max_size=12)
TIMES = st.one_of(st.none(), st.floats(-1e4, 1e5)).map(lambda s: None if s is None else after(s))
OUTCOMES = st.sampled_from(["crashed", "hung", "cancelled", "completed", "unknown"])


@st.composite
def inputs(draw: st.DrawFn) -> CostInput:
    attempts = [(n, draw(SECONDS), draw(SECONDS), draw(OUTCOMES)) for n in range(draw(st.integers(0, 3)))]
    numbers = range(max(1, len(attempts)))
    pauses = [
        {"kind": kind, "step": step, "start": start, "end": end}
        for kind, step, start, end in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["eval", "data", "x"]), st.one_of(st.none(), st.integers(0, 60)), TIMES, TIMES
                ),
                max_size=4,
            )
        )
    ]
    return CostInput(
        steps=pl.concat([step_frame(draw(STEP_ROWS), n) for n in numbers]),
        checkpoints=pl.concat([save_frame(draw(SAVE_ROWS), n) for n in numbers]),
        attempts=attempt_frame(*attempts),
        pauses=pl.DataFrame(
            pauses,
            schema={"kind": pl.String, "step": pl.Int64, "start": pl.Datetime("us"), "end": pl.Datetime("us")},
        ),
        is_fault=draw(st.booleans()),
        onset=draw(TIMES), onset_lo=draw(TIMES), onset_hi=draw(TIMES),
        onset_basis=draw(st.sampled_from(["measured", "inferred", None])),
        watchdog_onset=draw(TIMES), network_onset=draw(TIMES), detected=draw(TIMES),
        first_seen=draw(TIMES), last_seen=draw(TIMES),
        gpus=draw(st.one_of(st.none(), st.integers(0, 1000))),
        save_interval=draw(st.one_of(st.none(), st.integers(-1, 20))),
        prints_saves=draw(st.booleans()), price=draw(st.one_of(st.none(), st.floats(0, 10))),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(inputs())
def test_any_input_gives_a_partition_that_adds_up(inp: CostInput) -> None:
    loss = estimate(inp)
    assert loss.lost_s is None or adds_up(loss)
    assert not any("estimate is wrong" in note for note in loss.notes)
    assert len({b.bin for b in loss.bins}) == len(loss.bins)
    for found in loss.bins:
        assert math.isfinite(found.best_s)
        assert 0 <= found.lo_s <= found.best_s <= found.hi_s
    for span in (loss.lost_s, loss.gpu_hours, loss.cost):
        assert span is None or 0 <= span.lo <= span.best <= span.hi
    for ratio in (loss.ettr_attempt, loss.ettr_run, loss.ettr_wall, loss.throughput_loss):
        assert ratio is None or 0 <= ratio <= 1
