"""What the death of a job cost: the partition of its wall time, the loss in seconds, GPU-hours and money.

Each second of the allocation goes into one bin, and what the bins leave is `other`. Bins carry bounds
and how they are known. The bounds of the total are not the sums of those of the bins: the onset moves
seconds between partial_step and detection, the unlogged steps between lost_work and partial_step, and
neither moves the total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from postmortem.analysis.checkpoints import Durable
from postmortem.analysis.cost_attempt import AttemptSteps, find_durable, read_attempt
from postmortem.analysis.cost_books import Slack, Work, breach, divide_work, ending_bins, exact, weakest
from postmortem.analysis.cost_extras import find_advice, with_extras
from postmortem.analysis.cost_input import Attempt, CostInput, Records, read_records, seconds
from postmortem.analysis.cost_pace import throughput_loss
from postmortem.analysis.cost_ratios import effective_time
from postmortem.analysis.cost_restart import Rate, Restart, measure_restart
from postmortem.analysis.cost_stepless import estimate_without_steps
from postmortem.analysis.cost_times import End, Ending, Last, attempt_end, settle_ending, tail_saves
from postmortem.analysis.cost_totals import add_up
from postmortem.analysis.model import Basis, Bin, Loss

__all__ = ["CostInput", "estimate"]


def estimate(inp: CostInput) -> Loss:
    """The loss of the attempt in which the fault lies; never raises on odd input, says in `notes` what it lacked.

    Only the bundle's own times are used. Without any time the bins are empty and `lost_s` is None.
    """
    records = read_records(inp)
    own = read_attempt(records, records.attempt, inp)
    return _with_steps(records, inp, own) if own is not None else _without_steps(records, inp)


def _load_bin(records: Records, number: int, most: float) -> float:
    """Seconds that the attempt's own load took by its line; 0 where it does not say."""
    loaded = records.saves.filter((pl.col("attempt") == number) & (pl.col("kind") == "loaded"))["elapsed"].max()
    return min(float(loaded), most) if isinstance(loaded, int | float) else 0.0


def _overhead_bins(records: Records, own: AttemptSteps, work: Work, start: float, is_start_known: bool) -> list[Bin]:
    """init and, where its duration is printed, ckpt_load."""
    init = max(0.0, work.start - start)
    load = _load_bin(records, records.attempt.number, init)
    timed = own.lines.start_t is not None and is_start_known
    basis: Basis = "measured" if timed else "inferred"
    return [exact("init", init - load, basis), *([exact("ckpt_load", load, "measured")] if load else [])]


def _work_bins(own: AttemptSteps, work: Work, durable: Durable, ending: Ending) -> list[Bin]:
    """The bins between the first step and the end of the last; optional ones only where they hold something."""
    steps: Basis = "assumed" if own.lines.pace.is_assumed or own.lines.is_untimed else "measured"
    timed: Basis = "assumed" if own.lines.is_untimed else "inferred" if ending.unlogged and work.lost else "measured"
    lost_basis = weakest((durable.basis, timed))
    healthy = exact(
        "productive", work.healthy, weakest((durable.basis, steps)), work.healthy - work.more, work.healthy + work.less
    )
    optional = [exact("data_wait", work.data, "measured"), exact("eval", work.evals, "measured")]
    return [
        healthy,
        exact("degraded", work.excess, steps),
        *(b for b in optional if b.best_s > 0),
        exact("ckpt_stall", work.stall, "measured"),
        exact("lost_work", work.lost, lost_basis, work.lost_lo, work.lost_hi),
    ]


def _restart_bins(restart: Restart) -> list[Bin]:
    if not restart.is_seen:
        return []
    waited = restart.restart_s
    return [
        exact(
            "queue",
            restart.queue_s,
            restart.basis,
            restart.queue_s - restart.unseen_s,
            restart.queue_s + restart.stand_in_s,
        ),
        exact(
            "restart",
            waited,
            restart.basis,
            waited - restart.sooner_s - restart.stand_in_s,
            waited + restart.unseen_s,
        ),
    ]


def _rate(own: AttemptSteps) -> Rate:
    """How to time the first new step of the next attempt."""
    tokens = own.lines.frame.select((pl.col("rate") * pl.col("d")).median()).item()
    lines = own.lines
    return Rate(float(tokens) if tokens is not None else None, lines.pace.healthy_s or 0.0, lines.log_every)


def _ending(inp: CostInput, attempt: Attempt, own: AttemptSteps, pace_s: float) -> Ending:
    """The ending; a job without any stamp gets a clock of its own that starts at 0."""
    lines = own.lines
    last = Last(lines.last_step, lines.last_t, pace_s, lines.log_every)
    end = attempt_end(inp, attempt, lines.last_t) or End(lines.busy_s, lines.busy_s, "assumed")
    tail = tail_saves(own.saves, last, own.usual_stall_s)
    return settle_ending(inp, last, tail, attempt.outcome == "completed", end)


def _with_steps(records: Records, inp: CostInput, own: AttemptSteps) -> Loss:
    attempt, lines = records.attempt, own.lines
    pace = lines.pace.current_s or 0.0
    ending = _ending(inp, attempt, own, pace)
    durable = find_durable(records, attempt, own, inp, lines.last_step + ending.unlogged)
    given = attempt.start if attempt.start is not None else seconds(inp.first_seen)
    # The first line that is seen is no start: the steps before it were done in the attempt all the same.
    work = divide_work(lines, ending, durable, given if lines.start_t is None else attempt.start)
    start = min(given, work.start) if given is not None else work.start
    init_s = work.start - start if attempt.start is not None else 0.0
    restart = measure_restart(attempt, records.later(), records.steps, durable.at, ending.end.at, _rate(own), init_s)
    timed = lines.last_t is not None
    clocks = max(0.0, inp.clock_slack_s) if timed else 0.0
    slack = Slack((ending.unlogged_hi - ending.unlogged) * pace, lines.resolution_s, clocks)
    # Without stamps nothing says how far the step under way had come.
    under_way = pace if inp.is_fault and not timed else 0.0
    # Without a fault, seconds between the last line and a last save that are not whole steps.
    gap = 0.0 if inp.is_fault else max(0.0, ending.onset - ending.last - ending.steps_s - ending.stall_s)
    bins = [
        *_overhead_bins(records, own, work, start, attempt.start is not None),
        *_work_bins(own, work, durable, ending),
        *ending_bins(ending, inp.is_fault, slack, under_way),
    ]
    if work.other + gap > 0:
        bins.append(exact("other", work.other + gap, "measured"))
    healthy = lines.pace.healthy_s
    lost_share, slow_steps = throughput_loss(lines.frame, healthy) if healthy else (None, None)
    loss = Loss(
        gpus=inp.gpus,
        last_durable_step=durable.step,
        last_step=lines.last_step + ending.unlogged,
        healthy_step_s=healthy,
        throughput_loss=lost_share,
        slow_steps=slow_steps,
        throughput_basis=("few steps" if lines.pace.is_assumed else "steps") if healthy else None,
        notes=tuple(n for n in (*_step_notes(own, ending), *durable.notes, work.note) if n),
    )
    more = work.more + slack.total + under_way
    account = Account(tuple(bins), start, ending, restart, work.less + slack.total, more)
    loss = _assemble(records, inp, account, loss)
    advice, savings = find_advice(own, loss.bins, restart, inp)
    return replace(loss, advice=advice, savings=savings)


def _without_steps(records: Records, inp: CostInput) -> Loss:
    attempt = records.attempt
    start = attempt.start if attempt.start is not None else seconds(inp.first_seen)
    found = estimate_without_steps(records, inp, start)
    if found is None:
        return Loss(gpus=inp.gpus, notes=("Neither steps nor the end of the job are known: no loss can be stated.",))
    saved = float(found.durable) if found.durable is not None else 0.0
    restart = measure_restart(attempt, records.later(), records.steps, saved, found.ending.end.at, Rate(None, 0.0, 1))
    account = Account(found.bins, found.start, found.ending, restart, found.less, found.more)
    return _assemble(records, inp, account, Loss(gpus=inp.gpus, last_durable_step=found.durable, notes=found.notes))


@dataclass(frozen=True, slots=True)
class Account:
    """The bins of the attempt with what is needed to add them up; `less` and `more` bound the sum of the lost ones."""

    bins: tuple[Bin, ...]
    start: float
    ending: Ending
    restart: Restart
    less: float
    more: float


def _assemble(records: Records, inp: CostInput, account: Account, loss: Loss) -> Loss:
    """The loss with totals, ratios and the notes on what holds for any attempt."""
    ending, restart = account.ending, account.restart
    bins = (*account.bins, *_restart_bins(restart))
    late = ending.end.latest - ending.end.at + restart.unseen_s
    less = account.less + restart.sooner_s + restart.stand_in_s
    totals = add_up(bins, less, account.more + late, restart, inp)
    span = ending.end.at - account.start
    productive = sum(b.best_s for b in bins if b.bin == "productive")
    ratios = effective_time(records, inp, account.start, ending.end.at, productive, restart)
    has_productive = any(b.bin == "productive" for b in bins)
    said = (*loss.notes, *_end_notes(records, inp, ending, restart), breach(bins, span))
    loss = replace(
        loss,
        bins=bins,
        lost_s=totals.lost,
        gpu_hours=totals.gpu_hours,
        cost=totals.cost,
        basis=totals.basis,
        ettr_attempt=ratios.attempt if has_productive else None,
        ettr_run=ratios.run if has_productive else None,
        ettr_wall=ratios.wall if has_productive else None,
        idle_gpu_hours=inp.gpus * (ending.end.at - ending.onset) / 3600 if inp.gpus and inp.gpus > 0 else None,
        span_s=span,
        notes=tuple(note for note in said if note),
    )
    return with_extras(loss, inp)


def _step_notes(own: AttemptSteps, ending: Ending) -> list[str]:
    notes: list[str] = []
    if own.lines.is_untimed:
        notes.append("No step line has a time: the steps share the time of the attempt evenly.")
    elif own.lines.pace.is_assumed:
        notes.append("Fewer than 20 undisturbed steps are timed: the healthy step time is assumed.")
    if ending.unlogged_hi > 0:
        every = own.lines.log_every
        notes.append(
            f"Steps are printed every {every}; {ending.unlogged_lo} to {ending.unlogged_hi} more may have been done "
            f"after the last one printed, {ending.unlogged} are counted."
        )
    return notes


def _end_notes(records: Records, inp: CostInput, ending: Ending, restart: Restart) -> list[str]:
    notes: list[str] = []
    if records.attempt.start is None:
        notes.append("The start of the job is not in the bundle; the first line seen stands for it.")
    if ending.end.basis != "measured":
        notes.append("The end of the job is not in the bundle; the last line seen stands for it.")
    if inp.is_fault and not restart.is_seen:
        what = "has no times" if records.later() else "is not in the bundle"
        notes.append(f"The next attempt {what}: no time to restart is counted.")
    if restart.stand_in_s > 0:
        notes.append(
            "When the next attempt was given its nodes is not in the bundle: as long from there to its first step "
            "as in this attempt is taken for restart, the rest for queue."
        )
    return [*notes, *restart.notes]
