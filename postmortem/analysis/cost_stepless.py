"""The estimate for an attempt without step lines: idle time and teardown, and bounds for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from postmortem.analysis.cost_attempt import durable_without_lines
from postmortem.analysis.cost_books import Slack, ending_bins, exact
from postmortem.analysis.cost_input import CostInput, Records
from postmortem.analysis.cost_times import Ending, attempt_end, choose_onset, known_detection
from postmortem.analysis.model import Bin


@dataclass(frozen=True, slots=True)
class Stepless:
    """Bins of the attempt, its start, end and onset, and how much more may be lost."""

    bins: tuple[Bin, ...]
    start: float
    ending: Ending
    durable: int | None
    less: float
    more: float
    notes: tuple[str, ...]


def estimate_without_steps(records: Records, inp: CostInput, start: float | None) -> Stepless | None:
    """Idle time and teardown of the attempt; None when it can't be put on the clock.

    Work between the last save (else the first NCCL initialisation, else the start) and the onset may be
    lost; after a shown save it surely was under way and is the best guess, without one nothing is.
    """
    attempt = records.attempt
    end = attempt_end(inp, attempt, None)
    if end is None:
        return None
    begun = min(start, end.at) if start is not None else end.at
    detected = max(begun, min(known_detection(inp, end.at), end.at))
    chosen = choose_onset(inp, begun, detected + 2.0) if inp.is_fault else (detected, "measured")
    onset = min(chosen[0], detected) if chosen else detected
    durable, saved = durable_without_lines(records, attempt)
    ready = attempt.first_init if attempt.first_init is not None else attempt.loop_start
    ready = max(begun, min(ready, onset)) if ready is not None else begun
    floor = max(ready, min(saved, onset)) if saved is not None else ready
    lost = onset - floor if saved is not None else 0.0
    ending = Ending(
        last=onset,
        unlogged=0,
        unlogged_lo=0,
        unlogged_hi=0,
        steps_s=0.0,
        stall_s=0.0,
        onset=onset,
        onset_lo=onset if chosen else floor,
        onset_hi=onset,
        onset_basis=chosen[1] if chosen else "inferred",
        detected=detected,
        is_detected=inp.detected is not None,
        end=end,
    )
    bins = (
        exact("init", ready - begun, "inferred"),
        exact("lost_work", lost, "inferred" if saved is not None else "assumed", 0.0, onset - floor),
        *ending_bins(ending, inp.is_fault, Slack(clocks=inp.clock_slack_s)),
        exact("other", onset - ready - lost, "measured", 0.0),
    )
    note = "No step line is in the bundle: the work lost is only bounded."
    return Stepless(
        bins, begun, ending, durable, lost + inp.clock_slack_s, onset - floor - lost + inp.clock_slack_s, (note,)
    )
