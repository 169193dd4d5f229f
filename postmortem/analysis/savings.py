"""What would have saved some of the loss: each a difference of two computed totals (lost_compute.md section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from postmortem.analysis.cost_pace import DEGRADED_RATIO, WINDOW_STEPS, slow_period
from postmortem.analysis.model import Bin, Saving, Span

SOON_S: Final = 60.0
"""A detection that takes no longer needs no better one."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """Excess of the slow period, seconds: from its first slow step on, and from when a window of slow steps had shown it."""

    since: int
    excess: float
    after_seen: float


def find_straggler(lines: pl.DataFrame, healthy: float | None) -> Straggler | None:
    """The slow period of an attempt's step lines (of `cost_steps`); None when there was none."""
    if healthy is None or healthy <= 0:
        return None
    period = slow_period(lines, healthy).filter(pl.col("d") >= DEGRADED_RATIO * healthy)
    if not period.height:
        return None
    excess = period.select(
        ((pl.col("d") - healthy) * pl.col("k")).alias("s"),
        (pl.col("k").cum_sum() - pl.col("k")).alias("before"),
        "step",
        "k",
    )
    seen = excess.filter(pl.col("before") >= WINDOW_STEPS)
    since = int(excess["step"][0]) - int(excess["k"][0]) + 1
    return Straggler(since, float(excess["s"].sum()), float(seen["s"].sum()))


def _less(part: Bin, limit: float) -> Span:
    """What is saved when the bin could have held no more than `limit` seconds."""
    return Span(*(max(0.0, value - limit) for value in (part.lo_s, part.best_s, part.hi_s)))


def find_savings(
    bins: tuple[Bin, ...], tau: float | None, advised: float | None, straggler: Straggler | None
) -> Iterator[Saving]:
    """The savings in seconds; `tau`: seconds from save to save now, `advised`: what the advice says, None unknown."""
    by_name = {part.bin: part for part in bins}
    lost, found = by_name.get("lost_work"), by_name.get("detection")
    if lost is not None and lost.hi_s > 0 and tau is not None and tau > 0:
        # Advice that is no shorter than the present interval would have saved nothing: half of it is looked at then.
        other = advised if advised is not None and advised < tau else tau / 2
        saved = _less(lost, other)
        if saved.best > 0:
            yield Saving("checkpoint_interval", saved, interval_s=other)
    if found is not None and found.best_s > SOON_S:
        yield Saving("detection", _less(found, SOON_S))
    if straggler is not None and straggler.excess > 0:
        yield Saving(
            "straggler", Span(straggler.after_seen, straggler.after_seen, straggler.excess), since_step=straggler.since
        )
