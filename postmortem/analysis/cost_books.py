"""The partition of an attempt's wall time: every second in one bin, by steps, saves and the ending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from postmortem.analysis.checkpoints import Durable
from postmortem.analysis.cost_steps import StepLines, split_at
from postmortem.analysis.cost_times import Ending
from postmortem.analysis.model import Basis, Bin

LOST_BINS = frozenset({"lost_work", "partial_step", "detection", "teardown", "restart"})
AFTER_BINS = frozenset({"queue", "restart"})
WEAKNESS: dict[Basis, int] = {"measured": 0, "inferred": 1, "assumed": 2}
TOLERANCE_S, TOLERANCE_SHARE = 1.0, 0.001
# A part of the total that decides the word for it.
WEIGHTY = 0.05


def weakest(words: Iterable[Basis]) -> Basis:
    """The weakest of the words; measured when there is none."""
    return max(words, key=WEAKNESS.__getitem__, default="measured")


def exact(name: str, best: float, basis: Basis, lo: float | None = None, hi: float | None = None) -> Bin:
    """A bin; bounds default to the best value and are put around it."""
    low = best if lo is None else min(lo, best)
    high = best if hi is None else max(hi, best)
    return Bin(name, max(0.0, low), best, high, basis, name in LOST_BINS)


def tolerance(span: float) -> float:
    """How far the bins may miss the span, seconds."""
    return max(TOLERANCE_S, TOLERANCE_SHARE * abs(span))


def breach(bins: Iterable[Bin], span: float) -> str | None:
    """The sentence to print when the bins of the attempt do not add up to its span."""
    total = sum(b.best_s for b in bins if b.bin not in AFTER_BINS)
    if abs(total - span) <= tolerance(span):
        return None
    return f"The bins add up to {total:.1f} s and the attempt lasted {span:.1f} s: this estimate is wrong."


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of an attempt in seconds, split at the last durable step; `lost_lo`, `lost_hi` bound the lost part."""

    healthy: float
    excess: float
    data: float
    lost: float
    lost_lo: float
    lost_hi: float
    less: float
    more: float
    """How far the lost part may be off for the last durable step alone: unlogged steps only move between bins."""
    stall: float
    evals: float
    other: float
    start: float
    note: str | None = None


def _lost(lines: StepLines, scale: float, at: float, unlogged: int, step_s: float) -> float:
    after = split_at(lines, at)[3] * scale
    return after + max(0.0, lines.last_step + unlogged - max(at, lines.last_step)) * step_s


def divide_work(lines: StepLines, ending: Ending, durable: Durable, floor: float | None) -> Work:
    """The part of the attempt between its first step and the onset, less the step under way.

    Stamps win over printed durations: where those exceed the time between the stamps, all are scaled
    down to it, and a difference past the tolerance is said.
    """
    busy = lines.busy_s
    start = lines.start_t
    if start is None:
        start = ending.last - busy
    if floor is not None:
        start = min(max(start, floor), ending.last)
    span = max(0.0, ending.last - start)
    scale = min(1.0, span / busy) if busy > 0 else 1.0
    note = None
    # Whole seconds on both sides of each stall leave up to one more per stall.
    coarse = lines.resolution_s * (1 + int(lines.frame["is_marked"].sum()))
    if busy - span > tolerance(span) + coarse and not lines.is_untimed:
        note = f"Printed step times exceed the time between the stamps by {busy - span:.1f} s and were scaled to it."
    step_s = ending.steps_s / ending.unlogged if ending.unlogged else (lines.pace.current_s or 0.0)
    kept = min(float(ending.unlogged), max(0.0, durable.at - lines.last_step))
    healthy, excess, data, _ = split_at(lines, durable.at)
    usual = lines.pace.healthy_s or 0.0

    def lost(at: float, unlogged: int) -> float:
        return _lost(lines, scale, at, unlogged, step_s)

    best = lost(durable.at, ending.unlogged)
    more = lost(durable.earliest, ending.unlogged) - best
    less = best - lost(durable.latest, ending.unlogged)
    if not lines.has_last_stamp:
        more += (ending.unlogged_hi - ending.unlogged) * step_s
    if lines.start_t is None and floor is not None:
        # Without stamps the time between start and last step that no duration fills may be a hang after it.
        more += max(0.0, ending.last - floor - busy)
    if lines.is_untimed:
        less, more = best, max(more, ending.last - start - best)
    return Work(
        healthy=healthy * scale + kept * min(step_s, usual),
        excess=excess * scale + kept * max(0.0, step_s - usual),
        data=data * scale,
        lost=best,
        lost_lo=lost(durable.latest, ending.unlogged_lo) if not lines.is_untimed else 0.0,
        lost_hi=max(lost(durable.earliest, ending.unlogged_hi), best + more if lines.is_untimed else 0.0),
        less=less,
        more=more,
        stall=float(lines.frame["save_s"].sum()) * scale + ending.stall_s,
        evals=float(lines.frame["eval_s"].sum()) * scale,
        other=max(0.0, span - busy * scale),
        start=start,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class Slack:
    """Seconds that may be off: whole steps in the partial one, resolution of the stamps, clocks of two programs."""

    unlogged: float = 0.0
    resolution: float = 0.0
    clocks: float = 0.0

    @property
    def total(self) -> float:
        """What the total may be off for it: unlogged steps are lost either way."""
        return self.resolution + self.clocks


def ending_bins(ending: Ending, is_fault: bool, slack: Slack, under_way: float = 0.0) -> list[Bin]:
    """partial_step, detection, teardown; `under_way`: seconds that a step which nothing times may have run."""
    sooner, later = ending.onset - ending.onset_lo, ending.onset_hi - ending.onset
    found = ending.onset_basis if ending.is_detected else weakest((ending.onset_basis, "inferred"))
    step_s = ending.steps_s / ending.unlogged if ending.unlogged else 0.0
    fewer = (ending.unlogged - ending.unlogged_lo) * step_s
    teardown, late = ending.end.at - ending.detected, ending.end.latest - ending.end.at
    if not is_fault:
        off = slack.total
        return [
            exact("partial_step", 0.0, "measured"),
            exact("detection", 0.0, "measured"),
            exact("teardown", teardown, ending.end.basis, teardown - off, teardown + late + off),
        ]
    partial, detection = ending.partial_s, ending.detected - ending.onset
    partial_lo = partial - sooner - slack.unlogged - slack.resolution
    partial_hi = partial + later + fewer + slack.resolution + under_way
    return [
        exact("partial_step", partial, ending.onset_basis, partial_lo, partial_hi),
        exact("detection", detection, found, detection - later, detection + sooner),
        exact(
            "teardown",
            teardown,
            ending.end.basis,
            teardown - slack.clocks,
            teardown + late + slack.clocks,
        ),
    ]
