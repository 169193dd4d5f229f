"""What slowed the steps of a traced job: a worker, a long stage, unequal microbatches, or nothing (lost_compute.md section 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.analysis.model_slow import TraceView
from postmortem.analysis.peers import MIN_RATIO, Floats
from postmortem.analysis.suspects import Suspect
from postmortem.analysis.what_if import Course

Mask = npt.NDArray[np.bool_]

SIGNIFICANT: Final = 1.03
"""Slowdown S of a job from which on it matters (rule I3)."""

MAIN_SHARE: Final = 0.5
"""Share of the slowdown that goes away with one thing repaired, from which on that thing is what slowed the job."""

MAX_NAMED: Final = 8


def view_of(trace: str, work: pl.DataFrame, course: Course | None, suspects: list[Suspect]) -> TraceView:
    """The figures of a trace and the sentence that says what slowed its steps."""
    workers, steps = work["rank"].n_unique(), work["step"].n_unique()
    stages = int(work["stage"].max()) + 1 if work.height else 0  # type: ignore[arg-type]
    base = TraceView(trace, workers, stages, steps)
    if course is None or not work.height:
        return replace(
            base,
            cause="rank" if suspects else "unknown",
            summary=f"{_names(suspects)}."
            if suspects
            else "The operations of its steps do not fit one schedule: only workers of a stage were compared.",
        )
    real, ideal = course.step_s(course.seconds), course.step_s(course.ideal())
    gap = real - ideal
    if ideal <= 0:
        return base

    def share(seconds: Floats) -> float | None:
        return round((real - course.step_s(seconds)) / gap, 4) if gap > 1e-9 else None

    means = work.group_by("stage").agg(pl.col("sum_s").mean()).sort("sum_s", "stage", descending=True)
    longest = int(means["stage"][0])
    others = float(means["sum_s"][1:].mean()) if means.height > 1 else 0.0  # type: ignore[arg-type]
    view = replace(
        base,
        step_s=round(real, 6),
        ideal_s=round(ideal, 6),
        slowdown=round(real / ideal, 6),
        waste_share=round(1 - ideal / real, 6),
        worker_share=share(_with_ideal(course, _worst(course))),
        longest_stage=longest,
        stage_ratio=round(float(means["sum_s"][0]) / others, 4) if others > 0 else None,
        stage_share=share(_with_ideal(course, course.stage == longest)),
        variation_share=share(course.even_work()),
    )
    cause, said = _explained(view, suspects)
    return replace(view, cause=cause, summary=said)  # type: ignore[arg-type]


def _worst(course: Course) -> Mask:
    """Mask of the operations of the worst 3 % of the workers, by their work against their stage's median."""
    work = np.char.endswith(course.op, "-compute")
    order = [int(r) for r in np.unique(course.replica)]
    sums = {
        (s, r): float(np.median(course.seconds[np.ix_(work & (course.stage == s), course.replica == r)].sum(axis=0)))
        for s in range(course.stages)
        for r in order
    }
    middle = {s: float(np.median([sums[s, r] for r in order])) for s in range(course.stages)}
    worst = sorted(sums, key=lambda w: (-sums[w] / max(middle[w[0]], 1e-12), w))[: max(1, -(-3 * len(sums) // 100))]
    mask = np.zeros(course.seconds.shape, dtype=np.bool_)
    for s, r in worst:
        mask[np.ix_(course.stage == s, course.replica == r)] = True
    return mask


def _with_ideal(course: Course, mask: Mask) -> Floats:
    """The real times with the ideal ones where `mask` (of operations, or of operations and columns) says so."""
    full = mask if mask.ndim == 2 else np.broadcast_to(mask[:, None], course.seconds.shape)
    return np.where(full, course.ideal(), course.seconds)


def _names(suspects: list[Suspect]) -> str:
    listed = suspects[:MAX_NAMED]
    who = ("Rank " if len(suspects) == 1 else "Ranks ") + ", ".join(str(s.rank) for s in listed)
    who += f" and {len(suspects) - len(listed)} more" if len(suspects) > len(listed) else ""
    first = suspects[0]
    what = "work takes" if first.kind == "compute" else "transfers take"
    since = f" since step {first.since}" if first.since is not None else ""
    up_to = "up to " if len(suspects) > 1 else ""
    return (
        f"{who}: own {what} {up_to}{first.ratio:.2f} times as long as that of other replicas of the same stage{since}"
    )


def _explained(view: TraceView, suspects: list[Suspect]) -> tuple[str, str]:
    """(kind of cause, sentence)."""
    assert view.slowdown is not None
    assert view.waste_share is not None
    tax = (
        f"steps take {view.slowdown:.2f} times as long as with equal work everywhere ({view.step_s:.4g} s against {view.ideal_s:.4g} s): "
        f"{100 * view.waste_share:.0f} % of the GPU-hours"
    )
    if suspects:
        return "rank", f"{_names(suspects)}; {tax}."
    if view.slowdown < SIGNIFICANT:
        return "even", f"No worker, stage or link is slow; {tax}."
    parts = []
    cause = "unknown"
    if (
        (view.stage_share or 0.0) >= MAIN_SHARE
        and (view.stage_ratio or 1.0) >= MIN_RATIO
        and view.longest_stage is not None
    ):
        which = "last" if view.longest_stage == view.stages - 1 else f"{view.longest_stage + 1}."
        parts.append(
            f"the {which} of {view.stages} pipeline stages has {view.stage_ratio:.2f} times the work of the others"
        )
        cause = "stage"
    if (view.variation_share or 0.0) >= MAIN_SHARE:
        parts.append("work differs from microbatch to microbatch on all workers, as with sequences of unequal length")
        cause = (
            "variation" if cause == "unknown" or (view.variation_share or 0.0) > (view.stage_share or 0.0) else cause
        )
    if not parts:
        return "unknown", f"No worker is slow; {tax}, and no single thing explains it."
    return cause, f"No machine is slow: {' and '.join(parts)}; {tax}."
