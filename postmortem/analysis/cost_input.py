"""What the cost estimate is computed from, and the one place that makes its frames safe to use.

Frames may come from broken bundles: columns missing, of another type, all null, rows in any order.
Everything past this module sees the columns it expects, times as seconds since 1970 (UTC), finite
positive durations or null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

import polars as pl

MAX_STEP: Final = 10**12
_EPOCH = datetime(1970, 1, 1)
_NO_PAUSES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "kind": pl.String,
    "step": pl.Int64,
    "start": pl.Datetime("us"),
    "end": pl.Datetime("us"),
}


def no_pauses() -> pl.DataFrame:
    """An empty frame of pauses."""
    return pl.DataFrame([], schema=_NO_PAUSES)


@dataclass(frozen=True, slots=True)
class CostInput:
    """The records `estimate` works on; every time is a naive datetime in UTC on the job's one clock.

    `steps`, `checkpoints`, `attempts`: columns of the tables of those names; of `steps` only rows with
    `is_main` count. `attempts` may have more columns, all optional: `gpus` (GPUs of that allocation),
    `is_released` (false: the nodes stayed allocated, or are paid for, until the next attempt, so the
    queue is paid), `loop_start` (the line that opens the training loop), `first_init` (first
    `nccl.init_done`), `first_line` (first line of any rank, where the start is not known).
    `pauses`: when the step loop stood still or waited for something other than a save; columns `kind`
    (eval or data), `step` (the step it follows, may be null), `start`, `end` (either may be null).
    """

    steps: pl.DataFrame
    checkpoints: pl.DataFrame
    attempts: pl.DataFrame
    pauses: pl.DataFrame = field(default_factory=no_pauses)
    attempt: int | None = None
    """The attempt to account for; None: the one in which the fault lies, else the last that did steps."""
    is_fault: bool = True
    """False: completed, cancelled, pre-empted or out of time."""
    onset: datetime | None = None
    onset_lo: datetime | None = None
    onset_hi: datetime | None = None
    onset_basis: Literal["measured", "inferred"] | None = None
    watchdog_onset: datetime | None = None
    """Time of a watchdog line minus the wait that it states."""
    network_onset: datetime | None = None
    """Time of NCCL's network error minus the retry time of the queue pair."""
    detected: datetime | None = None
    """First line by which the job knew; without a fault the request to stop, if any."""
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    """First and last line of any rank of the attempt: stand in for a missing start and end."""
    clock_slack_s: float = 0.0
    """How far the clocks of trainer and scheduler may still be apart: widens the bounds of what lies between them."""
    gpus: int | None = None
    gpus_lo: int | None = None
    gpus_hi: int | None = None
    save_interval: int | None = None
    """Steps between saves as configured; measured from the saves where None."""
    prints_saves: bool = False
    """The trainer is known to print a line for every save and its log is in the bundle: no line, no save."""
    watchdog_timeout_s: float | None = None
    price: float | None = None
    """Money per GPU-hour; no money is printed without it."""
    mtbf_s: float | None = None
    """Mean time between failures as given."""
    failures: int = 0
    failures_in_s: float = 0.0
    """Attempts of the bundle that failed, and the seconds that all of them ran together."""
    watts: float | None = None
    """Power of a busy GPU; set only when energy was asked for."""
    pue: float = 1.0


def seconds(value: datetime | None) -> float | None:
    """Seconds since 1970; a datetime with a zone is converted first."""
    if value is None:
        return None
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH).total_seconds()


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    """The column as `dtype`, or nulls where the frame lacks it or the value does not convert."""
    if name not in frame.columns:
        return pl.lit(None, dtype=dtype).alias(name)
    return pl.col(name).cast(dtype, strict=False).alias(name)


def _seconds(frame: pl.DataFrame, name: str, alias: str) -> pl.Expr:
    return (_column(frame, name, pl.Datetime("us")).dt.epoch("us") / 1e6).alias(alias)


def _positive(expr: pl.Expr) -> pl.Expr:
    """Null unless it can be a duration or rate at all: a microsecond to some years, so that no sum or quotient overflows."""
    return pl.when(expr.is_between(1e-6, 1e9)).then(expr)


def main_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt and step: attempt, step, t, d (s, as printed), rate (tokens/s), data (s waiting for data).

    Key attempt, step; in that order. Rows without a step, or with a negative one, are dropped. Of several rows of a
    step the last one that is timed wins.
    """
    main = _column(steps, "is_main", pl.Boolean).fill_null(True) if "is_main" in steps.columns else pl.lit(True)
    return (
        steps.filter(main)
        .select(
            _column(steps, "attempt", pl.Int64).fill_null(0),
            _column(steps, "step", pl.Int64),
            _seconds(steps, "ts", "t"),
            _positive(_column(steps, "step_time_ms", pl.Float64) / 1000).alias("d"),
            _positive(_column(steps, "tokens_per_s", pl.Float64)).alias("rate"),
            _positive(_column(steps, "data_time_ms", pl.Float64) / 1000).alias("data"),
        )
        .filter(pl.col("step").is_between(0, MAX_STEP))
        .sort("attempt", "step", "t", nulls_last=False, maintain_order=True)
        .unique(["attempt", "step"], keep="last", maintain_order=True)
    )


def checkpoint_rows(checkpoints: pl.DataFrame) -> pl.DataFrame:
    """attempt, step, kind, t, elapsed (s), durable; by attempt and time, rows without a step dropped."""
    return (
        checkpoints.select(
            _column(checkpoints, "attempt", pl.Int64).fill_null(0),
            _column(checkpoints, "step", pl.Int64),
            _column(checkpoints, "kind", pl.String).fill_null(""),
            _seconds(checkpoints, "ts", "t"),
            _positive(_column(checkpoints, "elapsed_ms", pl.Float64) / 1000).alias("elapsed"),
            _column(checkpoints, "durable", pl.Boolean).fill_null(True),
        )
        .filter(pl.col("step").is_between(0, MAX_STEP))
        .sort("attempt", "t", nulls_last=True, maintain_order=True)
    )


def pause_rows(pauses: pl.DataFrame) -> pl.DataFrame:
    """kind, step, start, end in seconds; a pause with one end of it known has the other null."""
    return pauses.select(
        _column(pauses, "kind", pl.String).fill_null(""),
        _column(pauses, "step", pl.Int64),
        _seconds(pauses, "start", "start"),
        _seconds(pauses, "end", "end"),
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt; times in seconds, None where the bundle does not say."""

    number: int
    start: float | None = None
    finish: float | None = None
    outcome: str = "unknown"
    gpus: int | None = None
    is_released: bool = True
    loop_start: float | None = None
    first_init: float | None = None
    first_line: float | None = None


def attempt_list(attempts: pl.DataFrame, steps: pl.DataFrame) -> list[Attempt]:
    """Attempts by number, those that only `steps` (of `main_steps`) knows included."""
    rows = attempts.select(
        _column(attempts, "attempt", pl.Int64).fill_null(0),
        _seconds(attempts, "start", "start"),
        _seconds(attempts, "finish", "finish"),
        _column(attempts, "outcome", pl.String).fill_null("unknown"),
        _column(attempts, "gpus", pl.Int64),
        _column(attempts, "is_released", pl.Boolean).fill_null(True),
        _seconds(attempts, "loop_start", "loop_start"),
        _seconds(attempts, "first_init", "first_init"),
        _seconds(attempts, "first_line", "first_line"),
    ).unique("attempt", keep="last", maintain_order=True)
    # A handful of attempts, not log lines: records are easier to follow than columns.
    known = {row[0]: Attempt(*row) for row in rows.iter_rows()}
    for number in steps["attempt"].unique().to_list():
        known.setdefault(number, Attempt(number))
    return [known[number] for number in sorted(known)]


def chosen_attempt(inp: CostInput, attempts: list[Attempt], steps: pl.DataFrame) -> Attempt:
    """The attempt to account for: the named one, the one that holds the fault, the last that failed or did steps."""
    by_number = {a.number: a for a in attempts}
    if inp.attempt is not None and inp.attempt in by_number:
        return by_number[inp.attempt]
    first = dict(steps.group_by("attempt").agg(pl.col("t").min()).iter_rows())
    moment = next((t for t in (seconds(inp.detected), seconds(inp.onset)) if t is not None), None)
    worked = [a for a in attempts if a.number in first]
    if moment is not None:
        begun = [(a, a.start if a.start is not None else first.get(a.number)) for a in attempts]
        inside = [a for a, start in begun if start is not None and start <= moment + 1]
        if inside:
            return inside[-1]
    failed = [a for a in worked if a.outcome in ("crashed", "hung")]
    pool = failed or worked or attempts
    return pool[-1] if pool else Attempt(0)


@dataclass(frozen=True, slots=True)
class Records:
    """The frames made safe, and the attempt to account for."""

    steps: pl.DataFrame
    saves: pl.DataFrame
    pauses: pl.DataFrame
    attempts: list[Attempt]
    attempt: Attempt

    def later(self) -> list[Attempt]:
        """Attempts after the chosen one."""
        return [a for a in self.attempts if a.number > self.attempt.number]

    def earlier(self) -> list[Attempt]:
        """Attempts before the chosen one."""
        return [a for a in self.attempts if a.number < self.attempt.number]


def read_records(inp: CostInput) -> Records:
    """The input as everything past this module sees it."""
    steps = main_steps(inp.steps)
    attempts = attempt_list(inp.attempts, steps)
    chosen = chosen_attempt(inp, attempts, steps)
    return Records(steps, checkpoint_rows(inp.checkpoints), pause_rows(inp.pauses), attempts, chosen)
