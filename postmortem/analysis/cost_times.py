"""The end of an attempt on the clock: last step, onset of the fault, detection, release of the nodes.

Times are seconds since 1970. Between the last printed step and the onset lie the steps that were done
and not printed (with a log interval above 1), the stall of a save, and the step that was under way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from postmortem.analysis.cost_input import Attempt, CostInput, seconds
from postmortem.analysis.model import Basis

# Slack for stamps of whole seconds from two hosts when an onset is compared with the last step.
SLACK_S = 2.0
# A step counts as done when this share of it is missing: durations are means.
ROUNDING = 0.02


@dataclass(frozen=True, slots=True)
class End:
    """When the nodes were given back: best and latest time."""

    at: float
    latest: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class Ending:
    """`last`: end of the last printed step. `unlogged`: steps after it; `steps_s`, `stall_s`: their time, a save's."""

    last: float
    unlogged: int
    unlogged_lo: int
    unlogged_hi: int
    steps_s: float
    stall_s: float
    onset: float
    onset_lo: float
    onset_hi: float
    onset_basis: Basis
    detected: float
    is_detected: bool
    end: End

    @property
    def partial_s(self) -> float:
        """From the end of the last step, printed or not, to the onset."""
        return max(0.0, self.onset - self.last - self.steps_s - self.stall_s)


@dataclass(frozen=True, slots=True)
class Last:
    """The last printed step: number, end (None: not timed), pace of the last steps and log interval."""

    step: int
    at: float | None
    pace_s: float
    log_every: int


def attempt_end(inp: CostInput, attempt: Attempt, last: float | None) -> End | None:
    """End of the allocation; without an end line the last thing seen, or later by what a watchdog or a grace period waits."""
    if attempt.finish is not None:
        end = max(attempt.finish, last) if last is not None else attempt.finish
        return End(end, end, "measured")
    seen = [t for t in (seconds(inp.last_seen), seconds(inp.detected), seconds(inp.onset), last) if t is not None]
    if not seen:
        return None
    shown, wait = max(seen), max(0.0, inp.watchdog_timeout_s or 0.0)
    # A job that was stopped is killed when its grace after the request is over.
    asked = None if inp.is_fault else seconds(inp.detected)
    return End(shown, max(shown, asked + wait) if asked is not None else shown + wait, "inferred")


def known_detection(inp: CostInput, end: float) -> float:
    """When the job knew: its first fatal line, else the end, for a hang that nobody noticed before."""
    detected = seconds(inp.detected)
    return detected if detected is not None else end


def _clamp(value: float, lo: float, hi: float) -> float:
    return max(lo, min(value, hi))


def choose_onset(inp: CostInput, earliest: float, latest: float) -> tuple[float, Basis] | None:
    """The best evidence of the onset that lies between the last step and the detection."""
    onset = seconds(inp.onset)
    candidates: tuple[tuple[float | None, Basis], ...] = (
        (onset if inp.onset_basis != "inferred" else None, "measured"),
        (seconds(inp.watchdog_onset), "measured"),
        (seconds(inp.network_onset), "inferred"),
        (onset, "inferred"),
    )
    inside = ((t, basis) for t, basis in candidates if t is not None and earliest <= t <= latest)
    return next(inside, None)


@dataclass(frozen=True, slots=True)
class TailSaves:
    """Saves that no step line follows. `proven`: steps they prove past the last printed one.

    `stall_s` is what the finished ones cost the loop; `open_stall_s` what one still writing in the
    background did, if the loop went on; `begun`, `done` are of the last finished one.
    """

    proven: int = 0
    stall_s: float = 0.0
    open_stall_s: float = 0.0
    begun: float | None = None
    done: float | None = None
    is_background: bool = False


def tail_saves(saves: pl.DataFrame, last: Last, usual_stall_s: float) -> TailSaves:
    """The saves after the last step line; `saves` of `blocking_saves`, `usual_stall_s`: cost of a save in this job.

    No line lies inside such a save, so whether it ran in the background is taken from the others.
    """
    reach = last.step + max(1, last.log_every - 1)
    tail = saves.filter((pl.col("step") >= last.step) & (pl.col("step") <= reach)).sort("step", "start")
    if not tail.height:
        return TailSaves()
    written = saves["block"].median()
    # With a log interval longer than a save no line lies inside any; then it took far longer than it cost.
    is_longer = isinstance(written, int | float) and usual_stall_s > 0 and written > 2 * usual_stall_s + SLACK_S
    is_background = bool(saves["is_async"].any()) or is_longer
    finished = tail.filter(pl.col("done").is_not_null())
    cost = pl.lit(usual_stall_s) if is_background else pl.coalesce("block", pl.lit(usual_stall_s))
    newest = finished.row(-1, named=True) if finished.height else {"start": None, "done": None}
    is_open = is_background and tail["done"][-1] is None
    return TailSaves(
        proven=int(tail["step"][-1]) - last.step,
        stall_s=float(finished.with_columns(cost.alias("cost"))["cost"].sum()),
        open_stall_s=usual_stall_s if is_open else 0.0,
        begun=newest["start"],
        done=newest["done"],
        is_background=is_background,
    )


def _untimed_last(inp: CostInput, end: End) -> float:
    """Where the last step is put when no step line is timed: at the onset, else the detection, else the end."""
    onset = choose_onset(inp, -math.inf, end.at)
    if onset is not None and inp.is_fault:
        return onset[0]
    return min(known_detection(inp, end.at), end.at)


def settle_ending(inp: CostInput, last: Last, tail: TailSaves, is_completed: bool, end: End) -> Ending:
    """The ending of an attempt with step lines."""
    at = last.at if last.at is not None else _untimed_last(inp, end)
    end = End(max(end.at, at), max(end.latest, at), end.basis)
    return _after_fault(inp, last, at, tail, end) if inp.is_fault else _unforced(inp, last, at, tail, is_completed, end)


def _steps_by(moment: float, at: float, stall: float, tail: TailSaves, last: Last) -> int:
    """Whole steps between the last line and the moment, at least those proven, fewer than a log interval."""
    steps = (moment - at - stall) / last.pace_s + ROUNDING if last.pace_s > 0 else 0.0
    return int(_clamp(math.floor(steps), tail.proven, max(tail.proven, last.log_every - 1)))


def _after_fault(inp: CostInput, last: Last, at: float, tail: TailSaves, end: End) -> Ending:
    detected = _clamp(known_detection(inp, end.at), at, end.at)
    chosen = choose_onset(inp, at - last.pace_s - SLACK_S, detected + SLACK_S)
    stall = tail.stall_s
    if chosen is not None:
        onset, basis = _clamp(chosen[0], at, detected), chosen[1]
        if onset - at >= stall + tail.open_stall_s + last.pace_s:
            stall += tail.open_stall_s
        unlogged = _steps_by(onset, at, stall, tail, last)
        lo, hi = (seconds(t) for t in (inp.onset_lo, inp.onset_hi))
        onset_lo = _clamp(lo, at, onset) if lo is not None else onset
        onset_hi = _clamp(hi, onset, detected) if hi is not None else onset
    else:
        unlogged, basis = tail.proven, "inferred"
        onset_lo = min(at + stall + unlogged * last.pace_s, detected)
        onset, onset_hi = min(onset_lo + last.pace_s, detected), detected
    steps_s = min(unlogged * last.pace_s, onset - at)
    return Ending(
        last=at,
        unlogged=unlogged,
        unlogged_lo=tail.proven,
        unlogged_hi=max(unlogged, _steps_by(onset_hi, at, stall, tail, last)),
        steps_s=steps_s,
        stall_s=min(stall, onset - at - steps_s),
        onset=onset,
        onset_lo=onset_lo,
        onset_hi=onset_hi,
        onset_basis=basis,
        detected=detected,
        is_detected=inp.detected is not None,
        end=end,
    )


def _unforced(inp: CostInput, last: Last, at: float, tail: TailSaves, is_completed: bool, end: End) -> Ending:
    """Onset and detection are the end of the last step, or of the save after it when the loop waited for that.

    A job that completes waits for a background save too; one that is stopped goes on stepping beside it.
    """
    asked = seconds(inp.detected)
    waits = tail.done is not None and (is_completed or not tail.is_background)
    alive = max((t for t in (asked, None if waits else tail.done) if t is not None), default=at)
    stall = tail.stall_s
    if (asked if asked is not None else end.at) - at >= stall + tail.open_stall_s + last.pace_s:
        stall += tail.open_stall_s
    unlogged = _steps_by(alive, at, stall, tail, last)
    if waits and tail.done is not None and unlogged == tail.proven:
        stop = _clamp(tail.done, at, end.at)
        begun = _clamp(tail.begun if tail.begun is not None else stop, at, stop)
        steps_s = min(begun - at, (unlogged + 1) * last.pace_s) if unlogged else 0.0
        stall, unlogged_hi = stop - begun, unlogged
    else:
        steps_s = min(unlogged * last.pace_s, end.at - at)
        stall = min(stall, end.at - at - steps_s)
        stop, unlogged_hi = at + steps_s + stall, max(tail.proven, last.log_every - 1)
    return Ending(
        last=at,
        unlogged=unlogged,
        unlogged_lo=tail.proven,
        unlogged_hi=unlogged_hi,
        steps_s=steps_s,
        stall_s=stall,
        onset=stop,
        onset_lo=stop,
        onset_hi=stop,
        onset_basis="measured",
        detected=stop,
        is_detected=True,
        end=end,
    )
