"""What came after the attempt: the queue, and the time until the first step that is new."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from postmortem.analysis.cost_books import weakest
from postmortem.analysis.cost_input import Attempt
from postmortem.analysis.model import Basis


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds of queue and restart; `paid_s` is the part of the queue in which the nodes stayed allocated."""

    queue_s: float = 0.0
    paid_s: float = 0.0
    restart_s: float = 0.0
    basis: Basis = "measured"
    gpus: int | None = None
    """GPUs of the attempt that restarted, where known."""
    is_seen: bool = False
    """A later attempt is in the bundle."""
    unseen_s: float = 0.0
    """Queue before attempts whose start is not known, which may have been theirs."""
    sooner_s: float = 0.0
    """How much earlier the first new step may have begun."""
    stand_in_s: float = 0.0
    """Seconds before the first line that shows the attempt, taken for its own and not for queue."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """How to time a step that prints no duration: tokens of one step, else the usual seconds; the log interval."""

    tokens_per_step: float | None
    pace_s: float
    log_every: int


def _first_new(steps: pl.DataFrame, number: int, durable: float, rate: Rate) -> tuple[float, bool] | None:
    """When the first step past `durable` began in the attempt, and whether its duration is known; None if never."""
    own = steps.filter((pl.col("attempt") == number) & pl.col("t").is_not_null())
    new = own.filter(pl.col("step") > durable)
    if not new.height:
        return None
    row = new.row(0, named=True)
    count = row["step"] - durable
    earlier = own.filter(pl.col("step") <= durable)
    if not earlier.height and count > 1:
        # The first line of an attempt that resumed elsewhere: it stands for no more than its log interval.
        distances = own["step"].diff().drop_nulls()
        seen = distances.mode().min() if distances.len() else None
        count = min(count, max(float(seen) if isinstance(seen, int) else 1.0, float(rate.log_every)))
    d = row["d"]
    if d is None and rate.tokens_per_step and row["rate"]:
        d = rate.tokens_per_step / row["rate"]
    if d is None and earlier.height and row["t"] > earlier["t"][-1]:
        d = (row["t"] - earlier["t"][-1]) / (row["step"] - earlier["step"][-1])
    known = d is not None
    return float(row["t"] - count * (d if d is not None else rate.pace_s)), known


def _begin(attempt: Attempt, steps: pl.DataFrame) -> tuple[float | None, Basis]:
    if attempt.start is not None:
        return attempt.start, "measured"
    first = steps.filter(pl.col("attempt") == attempt.number)["t"].min()
    seen = [
        t for t in (attempt.first_line, attempt.first_init, attempt.loop_start, first) if isinstance(t, int | float)
    ]
    return (min(seen), "inferred") if seen else (None, "inferred")


def _loop_begin(steps: pl.DataFrame, number: int, begun: float, rate: Rate) -> float:
    """When the first printed step of the attempt began; `begun` when none is timed."""
    timed = steps.filter((pl.col("attempt") == number) & pl.col("t").is_not_null()).head(1)
    if not timed.height:
        return begun
    row = timed.row(0, named=True)
    return float(row["t"] - (row["d"] if row["d"] is not None else rate.pace_s))


def measure_restart(
    left: Attempt,
    later: list[Attempt],
    steps: pl.DataFrame,
    durable: float,
    end: float,
    rate: Rate,
    init_s: float = 0.0,
) -> Restart:
    """Queue and restart over the later attempts until one does a step past `durable`.

    An attempt that dies before that is restart as a whole. `left` ended at `end`. An attempt whose start is not known began before
    the first line that shows it: `init_s`, what `left` took from its start to its first step, stands in (0: not known).
    """
    queue = paid = total = unseen = stand_in = 0.0
    basis: Basis = "measured"
    gpus: int | None = None
    is_seen = False
    for attempt in later:  # attempts, a handful
        begun, how = _begin(attempt, steps)
        if begun is None:
            continue
        is_seen, gpus = True, attempt.gpus
        begun = max(begun, end)
        shown = begun
        if how != "measured" and init_s > 0:
            begun, how = max(end, min(begun, _loop_begin(steps, attempt.number, begun, rate) - init_s)), "assumed"
        stand_in += shown - begun
        queue += begun - end
        paid += 0.0 if left.is_released else begun - end
        if how != "measured":
            basis = how
            unseen += begun - end
        new = _first_new(steps, attempt.number, durable, rate)
        if new is not None:
            started, is_timed = new
            started = max(begun, started)
            total += started - begun
            if is_timed:
                return Restart(queue, paid, total, basis, gpus, True, unseen, stand_in_s=stand_in)
            # The first step of an attempt is slow and its length unknown: it began after the loop was opened.
            opened = attempt.loop_start if attempt.loop_start is not None else begun
            late = max(0.0, started - max(opened, shown))
            return Restart(queue, paid, total, weakest((basis, "inferred")), gpus, True, unseen, late, stand_in)
        last = steps.filter(pl.col("attempt") == attempt.number)["t"].max()
        ends = attempt.finish if attempt.finish is not None else last
        stop = max(begun, float(ends)) if isinstance(ends, int | float) else begun
        total += stop - begun
        left, end = attempt, stop
    if not is_seen:
        return Restart()
    note = "No later attempt is seen to reach a new step: the restart is counted up to where the bundle ends."
    return Restart(queue, paid, total, weakest((basis, "inferred")), gpus, True, unseen, 0.0, stand_in, (note,))
