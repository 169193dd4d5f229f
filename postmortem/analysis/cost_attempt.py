"""One attempt read for the books: its step lines, its saves, and what is known of the last durable one."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from postmortem.analysis.checkpoints import (
    Durable,
    Evidence,
    find_saves,
    last_durable,
    place_saves,
    resume_step,
    save_interval,
    shown_steps,
)
from postmortem.analysis.cost_input import Attempt, CostInput, Records, seconds
from postmortem.analysis.cost_pace import measure_pace
from postmortem.analysis.cost_steps import StepLines, blocking_saves, mark_lines, settle_lines, stamped_lines


@dataclass(frozen=True, slots=True)
class AttemptSteps:
    """Step lines and saves (of `blocking_saves`) of an attempt that has step lines."""

    lines: StepLines
    saves: pl.DataFrame
    resumed: int | None
    interval: int | None

    @property
    def usual_stall_s(self) -> float:
        """Seconds that a save of this attempt costs the step loop: the median of those measured, 0 without any."""
        median = self.lines.frame.filter(pl.col("has_save") & pl.col("gap").is_not_null())["save_s"].median()
        return float(median) if isinstance(median, int | float) else 0.0


def _room(attempt: Attempt, inp: CostInput) -> float | None:
    """Seconds the steps of an attempt may have taken by all else that is known; None when an end is missing."""
    begun = (attempt.loop_start, attempt.first_init, attempt.start, seconds(inp.first_seen))
    stopped = (seconds(inp.onset), seconds(inp.detected), attempt.finish, seconds(inp.last_seen))
    lo = next((t for t in begun if t is not None), None)
    hi = next((t for t in stopped if t is not None), None)
    return hi - lo if lo is not None and hi is not None and hi > lo else None


def read_attempt(records: Records, attempt: Attempt, inp: CostInput) -> AttemptSteps | None:
    """Lines and saves of the attempt; None when it has no step line.

    Saves are placed before the lines are settled, for a save marks the line after its step, and for that
    the pace of the unmarked lines must be known: hence two passes over the pace.
    """
    steps = records.steps.filter(pl.col("attempt") == attempt.number)
    if not steps.height:
        return None
    resumed = resume_step(records.saves, attempt.number, int(steps["step"][0]))
    raw = stamped_lines(steps, resumed, attempt.start, attempt.finish, attempt.loop_start)
    saves = find_saves(records.saves, attempt.number)
    marked = mark_lines(raw, saves, records.pauses, None)
    rough = measure_pace(
        marked.with_columns(pl.coalesce("d", pl.when(~pl.col("is_marked")).then(pl.col("gap") / pl.col("k"))))
    )
    saves = place_saves(saves, marked, rough.current_s)
    interval = save_interval(saves, inp.save_interval) or save_interval(
        records.saves.filter(pl.col("kind").is_in(["start", "done"])), None
    )
    saves = blocking_saves(saves, raw)
    marked = mark_lines(raw, saves, records.pauses, interval)
    return AttemptSteps(
        settle_lines(marked, saves, records.pauses, resumed, _room(attempt, inp)), saves, resumed, interval
    )


def find_durable(records: Records, attempt: Attempt, own: AttemptSteps, inp: CostInput, last: float) -> Durable:
    """The last durable step of the attempt, of which `last` is the last step done."""
    shown, loaded = shown_steps(records.saves, own.saves, attempt.number, int(last))
    has_lines = bool(records.saves.filter(pl.col("kind").is_in(["start", "done", "failed"])).height)
    evidence = Evidence(
        shown=tuple(shown),
        loaded_later=loaded,
        resumed=own.resumed,
        interval=own.interval,
        has_lines=has_lines or loaded is not None or inp.prints_saves,
        is_completed=not inp.is_fault and attempt.outcome == "completed",
    )
    unfinished = own.saves.filter(pl.col("done").is_null())["step"].to_list()
    return last_durable(evidence, own.lines.first_step, last, tuple(sorted(unfinished)))


def durable_without_lines(records: Records, attempt: Attempt) -> tuple[int | None, float | None]:
    """Last durable step of an attempt without step lines, and when its save ended (None: not shown)."""
    saves = find_saves(records.saves, attempt.number)
    done = saves.filter(pl.col("is_durable")).sort("step")
    resumed = resume_step(records.saves, attempt.number, None)
    later = records.saves.filter((pl.col("attempt") > attempt.number) & (pl.col("kind") == "loaded"))
    if not done.height:
        return (int(later["step"][0]) if later.height else resumed), None
    row = done.row(-1, named=True)
    times = [t for t in (row["done"], row["start"]) if t is not None]
    return max(int(row["step"]), resumed or 0), max(times) if times else None
