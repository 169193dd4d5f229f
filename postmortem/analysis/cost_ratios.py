"""ETTR, effective training time ratio: durable step time over wall time, with and without the queue."""

from __future__ import annotations

from dataclasses import dataclass

from postmortem.analysis.cost_attempt import read_attempt
from postmortem.analysis.cost_input import CostInput, Records
from postmortem.analysis.cost_restart import Restart
from postmortem.analysis.cost_steps import split_at


@dataclass(frozen=True, slots=True)
class Ratios:
    """The three ratios; None when there is no span to divide by."""

    attempt: float | None
    run: float | None
    wall: float | None


def _earlier(records: Records, inp: CostInput, begun: float) -> tuple[float, float, float]:
    """Productive, charged and queue seconds of the attempts before, as far back as both their ends are known.

    Durable is what the attempt after it resumed from. An attempt without start or end stops the walk:
    what lies before it cannot be put on the clock.
    """
    if not records.earlier():
        return 0.0, 0.0, 0.0
    productive = charged = queue = 0.0
    durable: float | None = None
    chosen = read_attempt(records, records.attempt, inp)
    if chosen is not None:
        durable = float(chosen.resumed if chosen.resumed is not None else chosen.lines.first_step)
    for attempt in reversed(records.earlier()):  # attempts, a handful
        if attempt.start is None or attempt.finish is None or attempt.finish < attempt.start or attempt.finish > begun:
            break
        own = read_attempt(records, attempt, inp)
        if own is not None and durable is not None:
            productive += min(split_at(own.lines, durable)[0], attempt.finish - attempt.start)
            durable = float(own.resumed if own.resumed is not None else own.lines.first_step)
        charged += attempt.finish - attempt.start
        between = begun - attempt.finish
        charged += 0.0 if attempt.is_released else between
        queue += between if attempt.is_released else 0.0
        begun = attempt.start
    return productive, charged, queue


def effective_time(
    records: Records, inp: CostInput, start: float, end: float, productive: float, restart: Restart
) -> Ratios:
    """ETTR of the attempt, the run (charged time only) and the wall (with the queue), up to the first new step."""
    before, charged, queue = _earlier(records, inp, start)
    span = end - start
    run = span + charged + restart.restart_s + restart.paid_s
    wall = run + queue + restart.queue_s - restart.paid_s

    def share(part: float, whole: float) -> float | None:
        return min(1.0, part / whole) if whole > 0 else None

    return Ratios(share(productive, span), share(productive + before, run), share(productive + before, wall))
