"""Slow workers from traces of timed operations: who, by how much, since when, and what it cost the job's steps.

Rules I1 to I6 and I9 of correlation.md, and the what-if of lost_compute.md section 4. A worker is held against the replicas of its own
pipeline stage; a long stage and work that differs from microbatch to microbatch are named as what they are, not blamed on a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import duckdb
import numpy as np
import polars as pl

from postmortem.analysis.derived import Derived
from postmortem.analysis.model import Culprit, Loss, SlowRank, Verdict
from postmortem.analysis.model_slow import TraceView
from postmortem.analysis.pace import view_of
from postmortem.analysis.peers import Floats
from postmortem.analysis.suspects import Suspect, slow_by_links, slow_by_work
from postmortem.analysis.what_if import COMPUTE, NEIGHBOURS, Course, course_of
from postmortem.tables.statements import run

MAX_TRACES: Final = 16


@dataclass(frozen=True, slots=True)
class Traced:
    """What one trace says: the figures for the report, and the workers that are slow."""

    view: TraceView
    ranks: tuple[SlowRank, ...]
    suspects: tuple[Suspect, ...]


def read_traces(con: duckdb.DuckDBPyConnection) -> list[Traced]:
    """Each trace of the bundle, in order of its name; fills `rank_times`. Needs `op_times`."""
    run(con, "postmortem.analysis", "stragglers.sql")
    names = [
        r[0]
        for r in con.execute("SELECT DISTINCT trace FROM op_traces ORDER BY trace LIMIT ?", [MAX_TRACES]).fetchall()
    ]
    return [_read(con, name) for name in names]


def _read(con: duckdb.DuckDBPyConnection, trace: str) -> Traced:
    work = _frame(
        con,
        "SELECT stage, dp_rank, rank, step, sum_s, least_s, file, line FROM op_work WHERE trace = ? ORDER BY stage, rank, step",
        trace,
    )
    ops = _frame(
        con,
        "SELECT stage, dp_rank, step, op, seq, start_s, duration_s, chunk FROM op_times JOIN op_traces USING (file)"
        " WHERE trace = ? AND stage IS NOT NULL AND dp_rank IS NOT NULL AND seq IS NOT NULL ORDER BY file, line",
        trace,
    )
    course = course_of(ops) if ops.height else None
    suspects = slow_by_work(con, trace, work)
    if course is not None:
        suspects += slow_by_links(course, work, {(s.stage, s.replica) for s in suspects})
    suspects.sort(key=lambda s: (-s.ratio, s.rank))
    ranks = _ranks(course, suspects)
    _store(con, trace, work, suspects, ranks)
    return Traced(view_of(trace, work, course, suspects), ranks, tuple(suspects))


def _frame(con: duckdb.DuckDBPyConnection, sql: str, trace: str) -> pl.DataFrame:
    found = pl.from_arrow(con.sql(sql, params=[trace]).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def _repaired(course: Course, suspects: list[Suspect], of_these: list[Suspect]) -> Floats:
    """The real times with those of `of_these` as they should be: the ideal's, at the level of their own stage.

    The level is that of all workers but the suspects; a long stage stays long.
    """
    out, ideal = course.seconds.copy(), course.ideal()
    healthy = np.ones(course.seconds.shape, dtype=np.bool_)
    for s in suspects:
        healthy[np.ix_(course.stage == s.stage, course.replica == s.replica)] = False
    for s in of_these:
        for name in COMPUTE if s.kind == "compute" else NEIGHBOURS:
            rows = (course.op == name) & (course.stage == s.stage)
            mine, all_of_kind = healthy & rows[:, None], healthy & (course.op == name)[:, None]
            if not mine.any():
                continue
            cells = np.ix_(rows, course.replica == s.replica)
            out[cells] = ideal[cells] * course.seconds[mine].mean() / max(course.seconds[all_of_kind].mean(), 1e-12)
    return out


def _ranks(course: Course | None, suspects: list[Suspect]) -> tuple[SlowRank, ...]:
    """The slow workers; `slowdown` is by how much this one alone lengthens the job's steps, once all others are repaired."""
    healthy = 0.0
    if course is not None and suspects:
        healthy = course.step_s(_repaired(course, suspects, suspects))
    ranks = []
    for s in suspects:
        slowdown = s.ratio
        if course is not None and healthy > 0:
            others = [x for x in suspects if x is not s]
            slowdown = course.step_s(_repaired(course, suspects, others)) / healthy
        sure = 0.95 if s.waits_least else 0.9 if s.ratio >= 1.05 else 0.75
        kind = "compute" if s.kind == "compute" else "network"
        ranks.append(SlowRank(s.rank, round(slowdown, 4), s.since, kind, sure, round(s.ratio, 4)))  # type: ignore[arg-type]
    return tuple(ranks)


def _store(
    con: duckdb.DuckDBPyConnection, trace: str, work: pl.DataFrame, suspects: list[Suspect], ranks: tuple[SlowRank, ...]
) -> None:
    """One row of `rank_times` per worker of the trace."""
    if not work.height:
        return
    usual = work.with_columns(pl.col("sum_s") / pl.col("sum_s").median().over("stage", "step"))
    frame = (
        work.group_by("rank", "stage", "dp_rank")
        .agg(pl.col("sum_s").median().alias("work_s"), pl.len().alias("steps"))
        .join(usual.group_by("rank").agg(pl.col("sum_s").median().alias("ratio")), on="rank")
        .join(
            pl.DataFrame(
                {
                    "rank": [r.rank for r in ranks],
                    "slowdown": [r.slowdown for r in ranks],
                    "since_step": [r.since_step for r in ranks],
                    "kind": [s.kind for s in suspects],
                    "own": [s.ratio for s in suspects],
                },
                schema={
                    "rank": pl.Int64,
                    "slowdown": pl.Float64,
                    "since_step": pl.Int64,
                    "kind": pl.String,
                    "own": pl.Float64,
                },
            ),
            on="rank",
            how="left",
        )
        .sort("stage", "rank")
        .with_columns(
            pl.lit(trace).alias("trace"),
            pl.when(pl.col("kind") == "compute").then("own").otherwise("ratio").alias("ratio"),
        )
    )
    con.register("rank_times_found", frame.to_arrow())
    con.execute(
        "INSERT INTO rank_times SELECT trace, rank, stage, dp_rank, steps, work_s, ratio, slowdown, since_step, kind FROM rank_times_found"
        " ORDER BY stage, rank"
    )
    con.unregister("rank_times_found")


def slow_workers(con: duckdb.DuckDBPyConnection, traces: list[Traced]) -> Derived | None:
    """The slow workers of all traces as a computed candidate; the culprit is that of the trace whose steps suffer most."""
    guilty = [t for t in traces if t.ranks]
    if not guilty:
        return None
    worst = max(guilty, key=lambda t: (t.view.slowdown or t.suspects[0].ratio, t.view.trace))
    first = worst.suspects[0]
    place = con.execute("SELECT node, gpu, pci, local_rank FROM ranks WHERE rank = ?", [first.rank]).fetchone()
    one = place if place and len(worst.suspects) == 1 else None
    hosts = con.execute(
        "SELECT DISTINCT node FROM ranks WHERE rank IN (SELECT unnest(?)) LIMIT 2", [[s.rank for s in worst.suspects]]
    ).fetchall()
    ranks = tuple(sorted(s.rank for s in worst.suspects))
    return Derived(
        "rank_straggler",
        max(r.confidence for r in worst.ranks),
        Culprit(
            host=hosts[0][0] if len(hosts) == 1 else None,
            rank=first.rank if len(ranks) == 1 else ranks[0],
            ranks=ranks,
            gpu=one[1] if one else None,
            pci=one[2] if one else None,
            local_rank=one[3] if one else None,
        ),
        worst.view.summary,
        shown=tuple(_evidence(con, s) for t in (worst, *(g for g in guilty if g is not worst)) for s in t.suspects[:3])[
            :6
        ],
        ranks=tuple(r for t in guilty for r in t.ranks),
    )


def _evidence(con: duckdb.DuckDBPyConnection, s: Suspect) -> tuple[str, int, str]:
    """The longest operation of a slow worker: the row of the trace, its values written out."""
    row = con.execute(
        "SELECT rank, dp_rank, stage, step, op, seq, microbatch, start_s, duration_s FROM op_times WHERE file = ? AND line = ?",
        [s.file, s.line],
    ).fetchone()
    heads = ("rank", "dp_rank", "stage", "step", "optype", "seq_id", "mb_id", "start_ts", "duration")
    text = " ".join(f"{h}={_figure(v)}" for h, v in zip(heads, row or (), strict=False) if v is not None)
    return s.file, s.line, text


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def explained_by_traces(verdict: Verdict, traces: list[Traced], *, has_failure: bool) -> Verdict:
    """The verdict, where nothing is established and nothing failed: `none`, with what the traces say of the job's pace."""
    told = [t.view for t in traces if t.view.cause in {"stage", "variation", "even"}]
    if verdict.cause not in {"unknown", "none"} or has_failure or not told or any(t.ranks for t in traces):
        return verdict
    worst = max(told, key=lambda v: v.slowdown or 0.0)
    if verdict.cause == "none":
        return replace(verdict, summary=f"{verdict.summary} {worst.summary}")
    return Verdict("none", 0.8, Culprit(), worst.summary)


def taxed(loss: Loss, traces: list[Traced]) -> Loss:
    """The loss with the straggler tax of the worst trace (spatial form: 1 - 1/S), unless enough steps show one of their own.

    Steps are compared with the job's own past: of what was slow from the first step on they show nothing, so their 0 says nothing against a trace.
    """
    known = [t.view for t in traces if t.view.waste_share is not None]
    if not known:
        return loss
    worst = max(known, key=lambda v: v.slowdown or 0.0)
    notes = (*loss.notes, *(f"Trace {v.trace}: {v.summary}" for v in known[:MAX_TRACES]))
    if loss.throughput_loss and loss.throughput_basis != "few steps":
        return replace(loss, notes=notes)
    return replace(loss, throughput_loss=worst.waste_share, throughput_basis="trace", slow_steps=None, notes=notes)
