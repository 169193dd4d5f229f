"""How fast the job steps when it is well, and when it did not (the job against its own past).

Input everywhere: the frame of `cost_steps.StepLines`, one row per step line with `d`, the mean seconds
of one of its `k` steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

WINDOW_STEPS = 10
DEGRADED_RATIO = 1.03
MIN_HEALTHY_STEPS = 20
# Below this share of the overall median, the fastest windows are another regime and not luck: a job
# that was slow for more than half of its life would otherwise be its own yardstick. Less far below,
# they must lie before the slow ones: what the job did once is its yardstick, a lucky stretch is not.
FAST_REGIME = 1 / 1.10


@dataclass(frozen=True, slots=True)
class Pace:
    """`healthy_s`: median seconds of a healthy step, None when no step is timed; `current_s`: of the last lines."""

    healthy_s: float | None = None
    current_s: float | None = None
    is_assumed: bool = True
    """Fewer than 20 healthy steps stand behind it."""


def _window(lines: pl.DataFrame) -> int:
    """Lines that make up ten steps."""
    k = lines["k"].median()
    return max(1, math.ceil(WINDOW_STEPS / max(float(k) if isinstance(k, int | float) else 1.0, 1.0)))


def _median(values: pl.Series) -> float | None:
    median = values.drop_nulls().median()
    return float(median) if isinstance(median, int | float) and math.isfinite(median) else None


def _in_slow_window(reference: float, window: int) -> pl.Expr:
    """True for each row that a window covers whose median is 3 % or more above the reference."""
    slow = pl.col("d").rolling_median(window, min_samples=window) >= DEGRADED_RATIO * reference
    ahead = slow.fill_null(False).cast(pl.Int8).reverse().rolling_max(window, min_samples=1).reverse()
    return ahead == 1


def _eligible(lines: pl.DataFrame) -> pl.DataFrame:
    """Timed lines that are neither warm-up nor beside a save or an evaluation; fewer conditions when too few remain."""
    timed = lines.filter(pl.col("d").is_not_null())
    total = int(timed["k"].sum())
    done = pl.col("k").cum_sum() - pl.col("k")
    warm = timed.filter(done >= max(5, total // 100))
    clean = warm.filter(~pl.col("is_marked"))
    for candidate in (clean, warm, timed.slice(1), timed):
        if candidate["k"].sum() >= MIN_HEALTHY_STEPS:
            return candidate
    return next((c for c in (clean, warm, timed.slice(1)) if c.height), timed)


def _fast_regime(lines: pl.DataFrame, reference: float, window: int) -> float | None:
    """Median of the fast minority, when most of the run was slower than it at the same work per step: by 10 %, or later and by 3 %."""
    medians = lines.with_columns(pl.col("d").rolling_median(window, min_samples=window).alias("w")).with_row_index("n")
    base = medians["w"].drop_nulls().quantile(0.1)
    if base is None or DEGRADED_RATIO * base >= reference:
        return None
    is_fast = pl.col("w") <= DEGRADED_RATIO * base
    fast, slow = medians.filter(is_fast), medians.filter(~is_fast)
    slow_before = slow.filter(pl.col("n") < (fast["n"].median() or 0)).height
    if base >= FAST_REGIME * reference and slow_before > 0.1 * fast.height:
        return None
    work_fast, work_all = (_median(f["d"] * f["rate"]) for f in (fast, lines))
    if work_fast and work_all and abs(work_fast / work_all - 1) > 0.05:
        return None  # a ramp of the batch size: more work per step, not a slower job
    return _median(fast["d"]) if fast["k"].sum() >= MIN_HEALTHY_STEPS else None


def measure_pace(lines: pl.DataFrame) -> Pace:
    """Healthy and current pace of an attempt's step lines."""
    eligible = _eligible(lines)
    first = _median(eligible["d"])
    if first is None:
        return Pace()
    window = _window(eligible)
    reference = _fast_regime(eligible, first, window) or first
    healthy = eligible.filter(~_in_slow_window(reference, window))
    if not healthy.height:
        healthy = eligible
    return Pace(
        healthy_s=_median(healthy["d"]) or first,
        current_s=_median(lines["d"].drop_nulls().tail(max(1, _window(lines)))) or first,
        is_assumed=int(healthy["k"].sum()) < MIN_HEALTHY_STEPS,
    )


def slow_period(lines: pl.DataFrame, healthy_s: float) -> pl.DataFrame:
    """Timed lines of the degraded periods, in order.

    A period is a run of windows of ten steps with a median of 1.03 times healthy or more, its fast first
    and last steps cut off: they lie in a window with slow ones and are not slow.
    """
    timed = lines.filter(pl.col("d").is_not_null())
    if not timed.height:
        return timed
    # Warm-up and the steps beside a save are slow for other reasons; they do not open a period by themselves.
    marked = timed.with_columns(
        _in_slow_window(healthy_s, _window(timed)).alias("in_period"),
        (pl.col("d") >= DEGRADED_RATIO * healthy_s).alias("is_slow"),
    ).with_columns(pl.col("in_period").rle_id().alias("run"))
    slow = pl.col("is_slow").cast(pl.Int64)
    inner = (slow.cum_sum().over("run") > 0) & (slow.cum_sum(reverse=True).over("run") > 0)
    return marked.filter(pl.col("in_period") & inner)


def throughput_loss(lines: pl.DataFrame, healthy_s: float) -> tuple[float, int]:
    """(1 - healthy / mean step time over the degraded periods, how many steps these have); 0 when there was none."""
    period = slow_period(lines, healthy_s)
    steps = int(period["k"].sum())
    total = float((period["d"] * period["k"]).sum())
    return (max(0.0, 1 - healthy_s * steps / total) if steps and total > 0 else 0.0), steps
