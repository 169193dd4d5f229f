"""What is said beside the loss: goodput, the price of running, energy, advice on the checkpoint interval, what would have saved it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from postmortem.analysis.advice import Habits, advise, choose_mtbf
from postmortem.analysis.cost_attempt import AttemptSteps
from postmortem.analysis.cost_input import CostInput
from postmortem.analysis.cost_restart import Restart
from postmortem.analysis.model import Advice, Bin, Loss, Saving, Span
from postmortem.analysis.savings import find_savings, find_straggler


def _seconds(bins: tuple[Bin, ...], name: str) -> float:
    return sum(part.best_s for part in bins if part.bin == name)


def _median(values: pl.Series) -> float | None:
    median = values.drop_nulls().median()
    return float(median) if isinstance(median, int | float) else None


def save_period(own: AttemptSteps, healthy: float, stall: float) -> float | None:
    """Seconds from save to save: the median of those seen, else the interval at healthy pace; None where neither is known."""
    seen = _median(own.saves.sort("start")["start"].drop_nulls().diff())
    if seen is not None and seen > 0 and own.saves["start"].drop_nulls().len() >= 3:
        return seen
    return own.interval * healthy + stall if own.interval else None


def find_habits(own: AttemptSteps, bins: tuple[Bin, ...], restart: Restart) -> Habits | None:
    """How the job saves, notices and restarts; None without a healthy step time."""
    healthy = own.lines.pace.healthy_s
    if not healthy:
        return None
    is_async = bool(own.saves["is_async"].any()) if own.saves.height else False
    stall = own.usual_stall_s
    if not stall and not is_async:
        stall = _median(own.saves["block"]) or 0.0
    again = restart.restart_s if restart.is_seen else _seconds(bins, "init") + _seconds(bins, "ckpt_load")
    return Habits(
        step_s=healthy,
        delta=stall,
        tau=save_period(own, healthy, stall),
        lag=_median(own.saves["done"] - own.saves["start"]) or stall,
        detection=_seconds(bins, "detection"),
        restart=again,
        is_async=is_async,
    )


def _priced(saving: Saving, inp: CostInput) -> Saving:
    if not inp.gpus or inp.gpus <= 0:
        return saving
    hours = Span(*(s * inp.gpus / 3600 for s in (saving.saved_s.lo, saving.saved_s.best, saving.saved_s.hi)))
    cost = Span(hours.lo * inp.price, hours.best * inp.price, hours.hi * inp.price) if inp.price is not None else None
    return replace(saving, gpu_hours=hours, cost=cost)


def find_advice(
    own: AttemptSteps, bins: tuple[Bin, ...], restart: Restart, inp: CostInput
) -> tuple[Advice | None, tuple[Saving, ...]]:
    """The advice (None where a save's cost or the failure rate is not known) and the savings."""
    habits = find_habits(own, bins, restart)
    if habits is None:
        return None, ()
    mtbf = choose_mtbf(inp.mtbf_s, inp.failures, inp.failures_in_s, inp.gpus)
    advice = advise(habits, mtbf) if mtbf is not None else None
    advised = advice.tau_s.best + advice.save_stall_s if advice else None
    straggler = find_straggler(own.lines.frame, own.lines.pace.healthy_s)
    return advice, tuple(_priced(s, inp) for s in find_savings(bins, habits.tau, advised, straggler))


def with_extras(loss: Loss, inp: CostInput) -> Loss:
    """The loss with goodput, the GPU-hours of slow steps and saves, and the energy of what was lost where it was asked for."""
    total = sum(part.best_s for part in loss.bins)
    productive = _seconds(loss.bins, "productive")
    gpus = inp.gpus if inp.gpus and inp.gpus > 0 else None
    energy = None
    if loss.gpu_hours is not None and inp.watts is not None:
        factor = inp.watts / 1000 * inp.pue
        energy = Span(loss.gpu_hours.lo * factor, loss.gpu_hours.best * factor, loss.gpu_hours.hi * factor)
    has_productive = any(part.bin == "productive" for part in loss.bins)
    return replace(
        loss,
        goodput=min(1.0, productive / total) if has_productive and total > 0 else None,
        tax_gpu_hours=gpus * _seconds(loss.bins, "degraded") / 3600 if gpus and has_productive else None,
        save_gpu_hours=gpus * _seconds(loss.bins, "ckpt_stall") / 3600 if gpus and has_productive else None,
        energy_kwh=energy,
        watts=inp.watts if energy is not None else None,
    )
