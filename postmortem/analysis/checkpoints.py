"""Saves of a job, and the last step whose state would have survived its death.

A checkpoint counts only where the bundle shows that it was finished: a done line, or a later attempt
that loads it. A start, a timer and a configured interval prove nothing; without any save line they
give an estimate with wide bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from postmortem.analysis.model import Basis

_SAVES = {
    "step": pl.Int64,
    "start": pl.Float64,
    "staged": pl.Float64,
    "done": pl.Float64,
    "elapsed": pl.Float64,
    "is_durable": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Durable:
    """The last durable step as best, earliest and latest guess; `step` is None where only its share is known.

    `at` is where the books are split, in steps and possibly between two of them.
    """

    step: int | None
    at: float
    earliest: float
    latest: float
    basis: Basis
    notes: tuple[str, ...] = ()


def find_saves(rows: pl.DataFrame, attempt: int) -> pl.DataFrame:
    """One row per save of the attempt: step, start, staged, done, elapsed (s), is_durable; by time.

    `rows` is `checkpoint_rows`. `staged` is the last start line of a save that has several (an async
    save says when it hands over to the background). With a done line per rank the latest counts. The
    same step may come twice: trainers that print no step get the last step that was printed.
    """
    own = rows.filter((pl.col("attempt") == attempt) & pl.col("kind").is_in(["start", "done"]))
    if not own.height:
        return pl.DataFrame(schema=_SAVES)
    is_start, is_done = pl.col("kind") == "start", pl.col("kind") == "done"
    opens = (is_start & is_done.shift(1).over("step").fill_null(False)).cast(pl.Int64).cum_sum().over("step")
    start, done = (pl.col("t").filter(is_it) for is_it in (is_start, is_done))
    return (
        own.with_columns(opens.alias("nth"))
        .group_by("step", "nth", maintain_order=True)
        .agg(
            start.min().alias("start"),
            pl.when(start.count() > 1).then(start.max()).alias("staged"),
            done.max().alias("done"),
            pl.col("elapsed").filter(is_done).max().alias("elapsed"),
            (is_done & pl.col("durable")).any().alias("is_durable"),
        )
        .with_columns(pl.coalesce("start", pl.col("done") - pl.col("elapsed")).alias("start"))
        .select(*_SAVES)
    )


def place_saves(saves: pl.DataFrame, lines: pl.DataFrame, pace_s: float | None) -> pl.DataFrame:
    """Saves with the step moved on where a save plainly began after the last printed step.

    Trainers that log every k-th step and name no step in a save line leave the save on the last printed
    step. A save that starts n whole steps after that line, n < k, is of the step that was then done.
    Where the gap holds an evaluation this can't be told, and the step stays. A second save after the same line is counted from
    the end of the first when that makes it fit: the loop stood still for that one.
    """
    if not saves.height or not lines.height or not pace_s:
        return saves
    room = pl.col("k_after") - 1
    from_line = ((pl.col("start") - pl.col("t_line")) / pace_s).round()
    again = ((pl.col("start") - pl.col("done").shift(1).over("step")) / pace_s).round()
    ahead = pl.when((from_line > room) & again.is_between(1, room)).then(again).otherwise(from_line)
    known = lines.select(
        "step",
        pl.col("t").alias("t_line"),
        pl.col("k").shift(-1).fill_null(pl.col("k").mode().min()).alias("k_after"),
        pl.col("has_pause").shift(-1).fill_null(False).alias("is_unclear"),
    )
    moves = (ahead >= 1) & (ahead <= room) & ~pl.col("is_unclear")
    return (
        saves.join(known, on="step", how="left", maintain_order="left")
        .with_columns(
            pl.when(moves.fill_null(False)).then(pl.col("step") + ahead.cast(pl.Int64, strict=False)).otherwise("step")
        )
        .select(*_SAVES)
    )


def save_interval(saves: pl.DataFrame, configured: int | None) -> int | None:
    """Steps between saves: as configured, else the commonest distance of the saves seen."""
    if configured is not None and configured > 0:
        return configured
    distances = saves["step"].unique().sort().diff().drop_nulls()
    return int(distances.mode().min()) if distances.len() else None  # type: ignore[arg-type]


def resume_step(rows: pl.DataFrame, attempt: int, first_step: int | None) -> int | None:
    """The step the attempt was loaded from; None when it says nothing, or something past its own first step."""
    loaded = rows.filter((pl.col("attempt") == attempt) & (pl.col("kind") == "loaded"))["step"]
    if first_step is not None:
        loaded = loaded.filter(loaded <= first_step)
    return int(loaded.max()) if loaded.len() else None  # type: ignore[arg-type]


def shown_steps(rows: pl.DataFrame, saves: pl.DataFrame, attempt: int, last_step: int) -> tuple[list[int], int | None]:
    """Steps with a finished save up to `last_step`, in order, and the step that the next attempt loaded.

    Left out are steps deleted before the attempt ended (after it, the restart could still have used
    them) unless a later attempt loads them, and saves to the node's own disk.
    """
    later = rows.filter((pl.col("attempt") > attempt) & (pl.col("kind") == "loaded") & (pl.col("step") <= last_step))
    loaded = int(later["step"][0]) if later.height else None
    deleted = rows.filter((pl.col("attempt") <= attempt) & (pl.col("kind") == "deleted"))
    gone = deleted.group_by("step").agg(pl.col("t").max().alias("gone"))
    kept = (
        saves.filter(pl.col("is_durable") & (pl.col("step") <= last_step))
        .join(gone, on="step", how="left")
        .filter(pl.col("gone").is_null() | (pl.col("gone") < pl.col("done")))
    )
    earlier = rows.filter((pl.col("attempt") < attempt) & (pl.col("kind") == "done") & pl.col("durable"))
    old = set(earlier["step"].to_list()) - set(gone["step"].to_list())
    steps = set(kept["step"].to_list()) | ({loaded} if loaded is not None else set())
    return sorted(steps | {s for s in old if s <= last_step}), loaded


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of saves when the last durable step is decided; steps of the attempt's own count."""

    shown: tuple[int, ...]
    loaded_later: int | None
    resumed: int | None
    interval: int | None
    has_lines: bool
    """Any line of a save is in the bundle, or the trainer is known to print one for every save."""
    is_completed: bool


def last_durable(evidence: Evidence, first: int, last: float, unfinished: tuple[int, ...]) -> Durable:
    """The last durable step of an attempt that ran steps first+1 … last.

    `first` is where the attempt started (the resume point, else the step before its first line).
    `unfinished` are steps whose save began and is not shown to have ended.
    """
    floor = float(evidence.resumed if evidence.resumed is not None else first)
    proven = [s for s in evidence.shown if s > floor]
    if proven:
        step = proven[-1]
        return Durable(
            step, float(step), float(step), float(step), "measured", _proven_notes(evidence, step, unfinished)
        )
    if evidence.has_lines:
        notes = _proven_notes(evidence, int(floor), unfinished)
        return Durable(
            int(floor), floor, floor, floor, "measured" if evidence.resumed is not None else "inferred", notes
        )
    if evidence.is_completed:
        note = "No save is shown; a job that completed is taken to have saved its last step."
        return Durable(None, last, floor, last, "assumed", (note,))
    if evidence.interval:
        # Multiples count from step 0, not from the resume point: trainers test step % interval.
        step = int(last // evidence.interval * evidence.interval)
        best, before = max(floor, float(step)), max(floor, float(step - evidence.interval))
        note = f"No line shows a finished save; a save every {evidence.interval} steps is taken for granted."
        return Durable(int(best), best, before, last, "inferred", (note,))
    note = "No line shows a save and the interval is not known: half of the work since the start is taken as lost."
    return Durable(None, (floor + last) / 2, floor, last, "assumed", (note,))


def _proven_notes(evidence: Evidence, step: int, unfinished: tuple[int, ...]) -> tuple[str, ...]:
    notes: list[str] = []
    open_saves = [s for s in unfinished if s > step]
    if open_saves:
        notes.append(
            f"The save of step {open_saves[-1]} had begun and is not shown to have finished; "
            f"the loss reaches back to step {step}."
        )
    if evidence.loaded_later is not None and evidence.loaded_later < step:
        notes.append(f"Step {step} was saved, yet the next attempt loaded step {evidence.loaded_later}.")
    return tuple(notes)
