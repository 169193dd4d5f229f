"""Totals over the bins: seconds, GPU-hours, money, and the word for how well they are known."""

from __future__ import annotations

from dataclasses import dataclass

from postmortem.analysis.cost_books import WEIGHTY, weakest
from postmortem.analysis.cost_input import CostInput
from postmortem.analysis.cost_restart import Restart
from postmortem.analysis.model import Basis, Bin, Span


@dataclass(frozen=True, slots=True)
class Totals:
    """Lost seconds, their GPU-hours and cost (None without GPUs, without a price), and the basis."""

    lost: Span
    gpu_hours: Span | None
    cost: Span | None
    basis: Basis


def _times(span: Span, factor: float) -> Span:
    return Span(span.lo * factor, span.best * factor, span.hi * factor)


def add_up(bins: tuple[Bin, ...], less: float, more: float, restart: Restart, inp: CostInput) -> Totals:
    """Totals of the lost bins and of a paid queue; `less` and `more` are how far the truth may lie from their sum.

    The restart runs on the GPUs of its own allocation, all else on those of the attempt. The basis is
    the weakest of the bins that make up 5 % or more of the total.
    """
    lost_bins = [b for b in bins if b.is_lost]
    best = sum(b.best_s for b in lost_bins) + restart.paid_s
    lost = Span(max(0.0, best - less), best, best + more)
    # A bin of nothing that may be much (work lost without step lines) is no small part either.
    basis = weakest(b.basis for b in lost_bins if max(b.best_s, b.hi_s - b.lo_s) >= WEIGHTY * best)
    if not inp.gpus or inp.gpus <= 0:
        return Totals(lost, None, None, basis)
    ratio = restart.gpus / inp.gpus if restart.gpus is not None and restart.gpus > 0 else 1.0
    extra = restart.restart_s * (ratio - 1)
    lo, hi = (g if g is not None and g > 0 else inp.gpus for g in (inp.gpus_lo, inp.gpus_hi))
    hours = Span(
        (lost.lo + extra) * min(lo, inp.gpus) / 3600,
        (lost.best + extra) * inp.gpus / 3600,
        (lost.hi + extra) * max(hi, inp.gpus) / 3600,
    )
    return Totals(lost, hours, _times(hours, inp.price) if inp.price is not None else None, basis)
