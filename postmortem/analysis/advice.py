"""How often to save: the interval that loses least, with the conditions under which that holds (lost_compute.md sections 7 and 8).

All times are seconds. δ: what one save keeps the step loop waiting; M: mean time between failures; R: time to restart;
τ: from the end of one save to the start of the next, unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from postmortem.analysis.model import Advice, Basis, Span

PUBLIC_RATES: Final = (3.7e-4, 4.74e-4, 2.0e-3)
"""Interruptions per GPU-day, public: BLOOM (A100, 384 GPUs), Llama 3 (H100, 16,384 GPUs), OPT-175B (A100, 1,024 GPUs)."""
DAY_S: Final = 86_400.0
NEAR: Final = 1.5
"""Within this factor of the optimum the overhead is next to the least: the curve is flat."""


@dataclass(frozen=True, slots=True)
class Mtbf:
    """Mean time between failures of the job, seconds, with its bounds, its basis and where it comes from."""

    span: Span
    basis: Basis
    source: str


def young(delta: float, mtbf: float) -> float:
    """First order optimum, sqrt(2 δ M)."""
    return math.sqrt(2 * delta * mtbf)


def daly(delta: float, mtbf: float) -> float:
    """Higher order optimum (eq. 37 of Daly's paper, as in LLNL's scr); M itself where a save takes 2 M or longer."""
    if delta >= 2 * mtbf:
        return mtbf
    share = delta / (2 * mtbf)
    return young(delta, mtbf) * (1 + math.sqrt(share) / 3 + share / 9) - delta


def most_available(delta: float, mtbf: float, restart: float) -> float:
    """Availability-optimal interval from save to save, δ included (arXiv 2410.18124)."""
    return delta + math.sqrt(2 * (mtbf + restart) * delta + delta**2)


def overhead(tau: float, delta: float, mtbf: float) -> float:
    """Share of time lost to saves and to the half interval that a failure takes, δ/τ + τ/2M; τ from save to save."""
    return delta / tau + tau / (2 * mtbf)


def expected_ettr(tau: float, delta: float, mtbf: float, fixed: float) -> float:
    """Expected ETTR, first order; `fixed`: what a failure costs besides work, write lag + detection + restart."""
    return max(0.0, 1 - delta / tau - (tau / 2 + fixed) / mtbf)


def _chi_square_even(p: float, dof: int) -> float:
    """Quantile of chi-square with an even number of degrees of freedom, where the distribution is a Poisson sum; by bisection."""

    def below(x: float) -> float:
        term = total = math.exp(-x / 2)
        for i in range(1, dof // 2):
            term *= x / 2 / i
            total += term
        return 1 - total

    lo, hi = 0.0, 20.0 * dof + 100
    for _ in range(200):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if below(mid) < p else (lo, mid)
    return (lo + hi) / 2


def measured_mtbf(failures: int, seconds: float) -> Mtbf:
    """M = T/n with its 95 % bounds from chi-square; `failures` is at least 1."""
    lo = 2 * seconds / _chi_square_even(0.975, 2 * failures + 2)
    hi = 2 * seconds / _chi_square_even(0.025, 2 * failures)
    return Mtbf(Span(lo, seconds / failures, hi), "measured", f"{failures} failures of this job's attempts")


def public_mtbf(gpus: int) -> Mtbf:
    """M from public failure rates for that many GPUs."""
    low, usual, high = (DAY_S / (rate * gpus) for rate in reversed(PUBLIC_RATES))
    return Mtbf(Span(low, usual, high), "assumed", "public failure rates per GPU-day of OPT-175B, Llama 3 and BLOOM")


def choose_mtbf(given: float | None, failures: int, seconds: float, gpus: int | None) -> Mtbf | None:
    """M as given, else from the attempts (a job that died once says nothing), else public rates; None without GPUs."""
    if given is not None and given > 0:
        return Mtbf(Span(given, given, given), "measured", "given")
    if failures >= 2 and seconds > 0:
        return measured_mtbf(failures, seconds)
    return public_mtbf(gpus) if gpus is not None and gpus > 0 else None


@dataclass(frozen=True, slots=True)
class Habits:
    """What the job does now. `tau`: from save to save, None unknown; `lag`: from a state's capture until it is durable."""

    step_s: float
    delta: float
    tau: float | None
    lag: float
    detection: float
    restart: float
    is_async: bool


def _conditions(habits: Habits, mtbf: Mtbf, best: float) -> tuple[str, ...]:
    found = [
        "Failures come independently and at a constant rate: not on new machines (2 to 3 times as many in the first week), "
        "nor right after a restart on the same bad node.",
        "Storage and network stand the load of that many saves.",
    ]
    if mtbf.basis == "assumed":
        found.append("This job's own failure rate is not known: give it with --mtbf-hours.")
    if habits.delta > 0.1 * mtbf.span.best:
        found.append("A save takes long against the time between failures: the formula is then a rough guide.")
    if habits.detection > best:
        found.append("Failures are noticed later than the interval is long: shorten the detection first.")
    if habits.is_async:
        found.append(
            "Saves run beside the steps: the limit is the time that one takes to be written, not what the loop waits."
        )
    return tuple(found)


def advise(habits: Habits, mtbf: Mtbf) -> Advice | None:
    """The advice; None where the cost of a save is not known."""
    if habits.delta <= 0 or habits.step_s <= 0:
        return None
    floor = max(habits.delta, habits.step_s, habits.lag + habits.step_s if habits.is_async else 0.0)

    def spread(rule: Callable[[float], float]) -> Span:
        return Span(*(rule(m) for m in (mtbf.span.lo, mtbf.span.best, mtbf.span.hi)))

    advised = spread(lambda m: max(floor, daly(habits.delta, m)))
    fixed = habits.lag + habits.detection + habits.restart
    m, period = mtbf.span.best, advised.best + habits.delta
    advice = Advice(
        tau_s=advised,
        tau_steps=max(1, round(advised.best / habits.step_s)),
        young_s=young(habits.delta, m),
        daly_s=daly(habits.delta, m),
        availability_s=most_available(habits.delta, m, habits.restart),
        floor_s=floor,
        save_stall_s=habits.delta,
        save_lag_s=habits.lag,
        mtbf_s=mtbf.span,
        mtbf_basis=mtbf.basis,
        mtbf_source=mtbf.source,
        overhead=overhead(period, habits.delta, m),
        ettr=expected_ettr(period, habits.delta, m, fixed),
        conditions=_conditions(habits, mtbf, advised.best),
    )
    if habits.tau is None or habits.tau <= 0:
        return advice
    now = max(habits.tau - habits.delta, 1e-9)
    return replace(
        advice,
        now_s=habits.tau,
        now_overhead=overhead(habits.tau, habits.delta, m),
        now_ettr=expected_ettr(habits.tau, habits.delta, m, fixed),
        is_near=advised.best / NEAR <= now <= advised.best * NEAR,
    )
