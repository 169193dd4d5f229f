"""Step lines of one attempt with what happened between them: steps, saves, evaluations.

One row per step line. A line stands for k steps (1, or the log interval); between its stamp and the
one before lie k steps and, where marked, the stall of a save and an evaluation. A printed duration is
believed for the steps; what the stamps leave beyond it is the stall. Trainers that print no duration
get it from their token rate (calibrated on unmarked lines), else from the stamps.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from postmortem.analysis.cost_pace import Pace, measure_pace

# A line of a step with a save beside it that is so much slower than the others has the save in its
# printed time; below, its own jitter would be taken for a stall.
INCLUDES_STALL = 1.5
# Printed times are refused when they exceed the distance of the stamps this far: garbage, or another unit.
ABSURD_RATIO, ABSURD_S = 10.0, 60.0
FROZEN_RATIO = 1.2
# What a blocking save leaves to the steps beside it, in steps of the lines around: less, and the save did not block.
PLAUSIBLE = (0.9, 1.5)
# Stamps of whole seconds give a stall to a second or two; the save's own lines may be finer.
COARSE = 2.0
# Seconds that one line accounts for.
_BUSY = pl.col("k") * pl.col("d") + pl.col("save_s") + pl.col("eval_s")


@dataclass(frozen=True, slots=True)
class StepLines:
    """Step lines of an attempt.

    Columns of `frame`: step, t, k, d (mean seconds of a step, null unknown), rate, data, gap (s since
    the line before, null unknown), has_save, has_pause, is_marked (either), in_data_stall, save_s and
    eval_s (seconds the loop stood still before this line). By step.
    """

    frame: pl.DataFrame
    pace: Pace
    log_every: int
    first_step: int
    """The step before the first one of the first line."""
    is_untimed: bool = False
    """No line has a stamp or a duration: the steps share the time of the attempt evenly."""

    @property
    def last_step(self) -> int:
        """Last step printed."""
        return int(self.frame["step"][-1])

    @property
    def last_t(self) -> float | None:
        """End of the last printed step: its stamp, else the last stamp plus the durations since, if any."""
        stamped = self._stamped()
        return float(stamped["t"][-1] + self.busy_s - stamped["busy"][-1]) if stamped.height else None

    @property
    def start_t(self) -> float | None:
        """When the first step began, by the first stamp and the durations up to it; None without stamps."""
        stamped = self._stamped()
        return float(stamped["t"][0] - stamped["busy"][0]) if stamped.height else None

    @property
    def busy_s(self) -> float:
        """Seconds of steps, saves and evaluations together."""
        return float(self.frame.select(_BUSY.sum()).item())

    @property
    def resolution_s(self) -> float:
        """1 when stamps are whole seconds, cut or rounded; else 0."""
        return _resolution(self.frame)

    @property
    def has_last_stamp(self) -> bool:
        """The last step line is timed."""
        return self.frame["t"][-1] is not None

    def _stamped(self) -> pl.DataFrame:
        return self.frame.select("t", _BUSY.cum_sum().alias("busy")).filter(pl.col("t").is_not_null())


def _resolution(lines: pl.DataFrame) -> float:
    stamps = lines["t"].drop_nulls()
    parts = (stamps % 1.0).unique()
    # Cut stamps, or those moved to the middle of their second.
    return 1.0 if stamps.len() >= 3 and parts.len() == 1 and parts[0] in (0.0, 0.5) else 0.0


def _within(t: pl.Expr, lo: float | None, hi: float | None) -> pl.Expr:
    """The stamp, or null when it lies outside the attempt by more than a minute: another run's, or a broken clock."""
    keep = pl.lit(True)
    if lo is not None:
        keep = keep & (t >= lo - 60)
    if hi is not None:
        keep = keep & (t <= hi + 60)
    return pl.when(keep).then(t)


def log_interval(steps: pl.Series) -> int:
    """Commonest distance of two printed steps, at least 1; of equally common ones the least."""
    distances = steps.diff().drop_nulls()
    return max(1, int(distances.mode().min())) if distances.len() else 1  # type: ignore[arg-type]


def _first_count(first: int, resumed: int | None, every: int) -> int:
    """Steps the first line stands for."""
    if resumed is not None and 0 < first - resumed <= every:
        return first - resumed
    if first <= every:
        return max(1, first)
    return every


def _in_order(t: pl.Series) -> pl.Series:
    """Stamps that do not run backwards; of the two ways to drop the others the one that keeps more."""
    frame = t.to_frame("t").with_columns(
        pl.when(pl.col("t") >= pl.col("t").cum_max()).then("t").alias("up"),
        pl.when(pl.col("t") <= pl.col("t").cum_min(reverse=True)).then("t").alias("down"),
    )
    return frame["up"] if frame["up"].count() >= frame["down"].count() else frame["down"]


def _has_frozen_stamps(lines: pl.DataFrame, room: float | None) -> bool:
    """The stamps are of other lines: the printed times need far longer than the stamps span, and the attempt has room.

    Trainers that print no time get that of the nearest line that has one.
    """
    total = float((lines["k"] * lines["d"]).sum())
    spread = lines.select(pl.col("t").max() - pl.col("t").min()).item()
    if spread is None or total <= FROZEN_RATIO * spread + ABSURD_S:
        return False
    return room is None or total <= room


def stamped_lines(
    steps: pl.DataFrame, resumed: int | None, lo: float | None, hi: float | None, loop_start: float | None
) -> pl.DataFrame:
    """Rows of `main_steps` of one attempt with k, gap and loop_gap; stamps that cannot be theirs are null.

    loop_gap: s from the opening of the loop to the first line, on that line only.
    """
    every = log_interval(steps["step"])
    first = int(steps["step"][0])
    lines = steps.with_columns(
        _within(pl.col("t"), lo, hi).alias("t"),
        pl.col("step").diff().fill_null(_first_count(first, resumed, every)).alias("k"),
    )
    lines = lines.with_columns(_in_order(lines["t"]).alias("t"))
    if _has_frozen_stamps(lines, hi - lo if lo is not None and hi is not None else None):
        lines = lines.with_columns(pl.lit(None, dtype=pl.Float64).alias("t"))
    opened = pl.col("t") - pl.lit(loop_start, dtype=pl.Float64)
    is_first = pl.int_range(pl.len()) == 0
    return lines.with_columns(
        pl.col("t").diff().alias("gap"), pl.when(is_first & (opened > 0)).then(opened).alias("loop_gap")
    ).with_columns(
        pl.when(pl.col("gap").is_null() | (pl.col("k") * pl.col("d") <= ABSURD_RATIO * pl.col("gap") + ABSURD_S)).then(
            "d"
        )
    )


def mark_lines(lines: pl.DataFrame, saves: pl.DataFrame, pauses: pl.DataFrame, interval: int | None) -> pl.DataFrame:
    """Lines with has_save, has_pause, is_marked, in_data_stall; a save of step s is before the first line past s.

    By step and not by time: the save lines come from another rank, whose clock and resolution differ.
    Where the bundle shows no save at all, multiples of a known interval are taken for one.
    """
    before = pl.col("step") - pl.col("k")
    saved = _lines_after(lines, saves["step"])
    has_save = pl.col("step").is_in(saved)
    if not saves.height and interval:
        has_save = (before > 0) & ((pl.col("step") - 1) // interval > (before - 1) // interval)
    evals = pauses.filter(pl.col("kind") == "eval")
    by_step = _lines_after(lines, evals["step"].drop_nulls())
    middle = evals.filter(pl.col("step").is_null()).select(
        ((pl.coalesce("start", "end") + pl.coalesce("end", "start")) / 2).alias("t")
    )["t"]
    by_time = _lines_at(lines, middle.drop_nulls())
    data = pauses.filter((pl.col("kind") == "data") & pl.col("start").is_not_null())
    stalled = _lines_overlapping(lines, data)
    return lines.with_columns(
        has_save.alias("has_save"),
        (pl.col("step").is_in(by_step) | pl.col("step").is_in(by_time)).alias("has_pause"),
        pl.col("step").is_in(stalled).alias("in_data_stall"),
    ).with_columns((pl.col("has_save") | pl.col("has_pause")).alias("is_marked"))


def _lines_after(lines: pl.DataFrame, steps: pl.Series) -> list[int]:
    """Step of the first line past each given step."""
    wanted = pl.DataFrame({"at": (steps + 1).cast(pl.Int64)}).sort("at")
    found = wanted.join_asof(lines.select("step"), left_on="at", right_on="step", strategy="forward", coalesce=False)
    # The first line has nothing before it in this attempt.
    return [s for s in found["step"].drop_nulls().unique().to_list() if s != lines["step"][0]]


def _lines_at(lines: pl.DataFrame, times: pl.Series) -> list[int]:
    """Step of the first line stamped at or after each time."""
    stamped = lines.filter(pl.col("t").is_not_null()).select("t", "step").sort("t")
    wanted = pl.DataFrame({"at": times.cast(pl.Float64)}).sort("at")
    found = wanted.join_asof(stamped, left_on="at", right_on="t", strategy="forward")
    return list(found["step"].drop_nulls().unique().to_list())


def _lines_overlapping(lines: pl.DataFrame, spans: pl.DataFrame) -> list[int]:
    """Steps of the lines during which one of the spans ran."""
    ends = spans.select(pl.col("start"), pl.coalesce("end", "start").alias("end"))
    opened = lines.select("step", "t", (pl.col("t") - pl.col("gap")).fill_null(pl.col("t")).alias("from"))
    hits = opened.join_where(ends, pl.col("from") <= pl.col("end"), pl.col("t") >= pl.col("start"))
    return list(hits["step"].unique().to_list())


def blocking_saves(saves: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Saves with is_async and block (seconds the loop stood still by the save's own lines, null unknown).

    A save is async when a step line lies between its start and its end, or when it says when it was
    handed over. The time of a blocking save is end - start, else the duration it prints.
    """
    stamps = lines.filter(pl.col("t").is_not_null()).select(pl.col("t").alias("line_t"))
    # A stamp in the middle of its second may stand half a second late.
    margin = 0.5 + 0.5 * _resolution(lines)
    inside = (
        saves.with_row_index("n")
        .join_where(stamps, pl.col("line_t") > pl.col("start") + margin, pl.col("line_t") < pl.col("done") - margin)[
            "n"
        ]
        .unique()
    )
    handed_over = pl.col("staged") - pl.col("start")
    whole = pl.coalesce(pl.col("done") - pl.col("start"), "elapsed")
    return (
        saves.with_row_index("n")
        .with_columns((pl.col("n").is_in(inside.to_list()) | pl.col("staged").is_not_null()).alias("is_async"))
        .with_columns(pl.when("is_async").then(handed_over).otherwise(whole).alias("block"))
        .with_columns(pl.when(pl.col("block") >= 0).then("block"))
        .drop("n")
    )


def _durations(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with d from the stamps where nothing else lies between them, else from the token rate."""
    tokens = lines.filter(~pl.col("is_marked") & (pl.col("gap") > 0)).select(
        (pl.col("rate") * pl.col("gap") / pl.col("k")).median()
    )
    per_step = tokens.item() if tokens.height else None
    from_rate = pl.lit(per_step, dtype=pl.Float64) / pl.col("rate")
    from_gap = pl.when(~pl.col("is_marked") & (pl.col("gap") > 0)).then(pl.col("gap") / pl.col("k"))
    from_loop = pl.col("loop_gap") / pl.col("k")
    return lines.with_columns(pl.coalesce("d", from_gap, from_rate, from_loop).alias("d"))


def settle_lines(
    lines: pl.DataFrame, saves: pl.DataFrame, pauses: pl.DataFrame, resumed: int | None, room: float | None
) -> StepLines:
    """The step lines with every duration and stall settled; `saves` of `blocking_saves`, `lines` of `mark_lines`.

    `room`: seconds that the steps have together, for a log without any time.
    """
    lines = _durations(lines)
    is_untimed = not lines["d"].count() and not lines["t"].count()
    if is_untimed and room is not None and room > 0:
        stalls = float(saves["block"].sum())
        lines = lines.with_columns(pl.lit(max(0.0, room - stalls) / max(1, int(lines["k"].sum()))).alias("d"))
    pace = measure_pace(lines)
    healthy = pace.healthy_s
    lines = _with_known_stalls(lines, saves, pauses)
    lines = lines.with_columns(_neighbours(healthy).alias("near"))
    rough = pl.col("near")
    # A marked line without a duration: a blocking save leaves the rest of the gap to the steps, if that is plausible.
    left = (pl.col("gap") - pl.col("block") - pl.col("eval_known").fill_null(0.0)) / pl.col("k")
    plausible = left.is_between(PLAUSIBLE[0] * rough, PLAUSIBLE[1] * rough) & pl.col("is_marked")
    lines = lines.with_columns(pl.coalesce("d", pl.when(plausible).then(left), rough).alias("d"))
    # A printed duration holds the stall when it is far beyond its neighbours, or beyond them by just what the save says.
    beyond = pl.col("k") * (pl.col("d") - rough)
    fits = pl.col("has_save") & ((beyond - pl.col("block")).abs() < 0.25 * pl.col("block"))
    includes = pl.col("is_marked") & ((pl.col("d") > INCLUDES_STALL * rough) | fits.fill_null(False))
    includes = includes & ((pl.col("gap") - pl.col("k") * pl.col("d")) < 0.5 * pl.col("k") * (pl.col("d") - rough))
    over = pl.min_horizontal(pl.col("k") * (pl.col("d") - rough), pl.coalesce("block", pl.lit(float("inf"))))
    shrunk = pl.col("d") - over / pl.col("k")
    lines = lines.with_columns(pl.when(includes.fill_null(False)).then(shrunk).otherwise("d").alias("d"))
    frame = _split_rest(lines).with_columns(pl.col("d").fill_null(0.0))
    every = log_interval(lines["step"])
    first = int(frame["step"][0]) - int(frame["k"][0])
    return StepLines(frame, pace, every, max(0, first) if resumed is None else first, is_untimed)


def _neighbours(healthy: float | None) -> pl.Expr:
    """Step time of the slower unmarked line beside, so that a slow period is no stall; else the healthy one."""
    calm = pl.when(~pl.col("is_marked")).then("d")
    return pl.coalesce(pl.max_horizontal(calm.forward_fill(), calm.backward_fill()), pl.lit(healthy, dtype=pl.Float64))


def _with_known_stalls(lines: pl.DataFrame, saves: pl.DataFrame, pauses: pl.DataFrame) -> pl.DataFrame:
    """Lines with block and eval_known: what the saves' and evaluations' own lines say, per line."""
    steps = lines.select(pl.col("step").alias("line"))
    per_line = (
        saves.select((pl.col("step") + 1).alias("at"), "block")
        .sort("at")
        .join_asof(steps, left_on="at", right_on="line", strategy="forward", coalesce=False)
        .group_by("line")
        .agg(pl.when(pl.col("block").is_not_null().all()).then(pl.col("block").sum()).alias("block"))
    )
    evals = pauses.filter((pl.col("kind") == "eval") & (pl.col("end") >= pl.col("start")))
    stamps = lines.filter(pl.col("t").is_not_null()).select(pl.col("step").alias("line"), "t").sort("t")
    known = (
        evals.select(((pl.col("start") + pl.col("end")) / 2).alias("at"), (pl.col("end") - pl.col("start")).alias("s"))
        .sort("at")
        .join_asof(stamps, left_on="at", right_on="t", strategy="forward", coalesce=False)
        .group_by("line")
        .agg(pl.col("s").sum().alias("eval_known"))
    )
    return lines.join(per_line, left_on="step", right_on="line", how="left", maintain_order="left").join(
        known, left_on="step", right_on="line", how="left", maintain_order="left"
    )


def _split_rest(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with save_s and eval_s: what the stamps leave beyond the steps, shared between save and evaluation.

    With one of them between two lines it gets the rest; with both, the evaluation gets what its lines
    say, else the rest after the save's.
    """
    rest = (pl.col("gap") - pl.col("k") * pl.col("d")).clip(0.0)
    if coarse := COARSE * _resolution(lines):
        rest = pl.when((rest - pl.col("block")).abs() <= coarse).then("block").otherwise(rest)
    only_save = pl.col("has_save") & ~pl.col("has_pause")
    only_eval = pl.col("has_pause") & ~pl.col("has_save")
    eval_share = pl.coalesce("eval_known", rest - pl.coalesce("block", pl.lit(0.0))).clip(0.0)
    both = pl.col("has_pause") & pl.col("has_save")
    eval_s = (
        pl.when(only_eval).then(pl.coalesce(rest, "eval_known")).when(both).then(pl.min_horizontal(eval_share, rest))
    )
    save_s = (
        pl.when(only_save).then(pl.coalesce(rest, "block")).when(both).then(rest - pl.min_horizontal(eval_share, rest))
    )
    return lines.with_columns(eval_s.fill_null(0.0).alias("eval_s"), save_s.fill_null(0.0).alias("save_s"))


def split_at(lines: StepLines, step: float) -> tuple[float, float, float, float]:
    """Seconds of the steps up to `step`: healthy part, excess, waiting for data; and of the steps after it.

    A step between two lines takes its share of the line's mean. Waiting for data is the excess of lines
    in a data stall, or as much of it as the printed data time exceeds its own median.
    """
    healthy = lines.pace.healthy_s or 0.0
    before = (step - (pl.col("step") - pl.col("k"))).clip(0.0, pl.col("k"))
    over = (pl.col("d") - healthy).clip(0.0)
    waited = (pl.col("data") - pl.col("data").median()).clip(0.0).fill_null(0.0)
    data = pl.when("in_data_stall").then(over).otherwise(pl.min_horizontal(over, waited))
    sums = lines.frame.select(
        (before * (pl.col("d") - over)).sum().alias("healthy"),
        (before * (over - data)).sum().alias("excess"),
        (before * data).sum().alias("data"),
        ((pl.col("k") - before) * pl.col("d")).sum().alias("after"),
    )
    healthy_s, excess_s, data_s, after_s = (float(v or 0.0) for v in sums.row(0))
    return healthy_s, excess_s, data_s, after_s
