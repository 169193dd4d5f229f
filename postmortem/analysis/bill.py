"""The cost estimate's input, read from the incident's tables."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

import duckdb
import polars as pl

from postmortem.analysis.cost import estimate
from postmortem.analysis.cost_input import CostInput, no_pauses
from postmortem.analysis.model import Finding, Loss
from postmortem.analysis.verdict import Ending
from postmortem.analysis.windows import JobTimes
from postmortem.catalogue.values import polars_schema
from postmortem.schema import TABLE_BY_NAME

GPUS_PER_HOST: Final = 8
CLOCK_SLACK_S: Final = 2.0
"""Stamps of a whole second at both ends of a span, on clocks that agree to milliseconds."""


def job_gpus(con: duckdb.DuckDBPyConnection) -> tuple[int | None, int | None, int | None]:
    """(best, low, high) GPUs of the allocation: the scheduler's number, else ranks; the high bound fills the hosts."""
    stated = con.execute("SELECT max(try_cast(value AS BIGINT)) FROM facts WHERE fact = 'job.gpus'").fetchone()
    used = con.execute("""
        SELECT greatest(coalesce((SELECT max(nranks) FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start')), 0),
                        coalesce((SELECT max(nranks) FROM facts WHERE fact = 'job.world_size'), 0),
                        coalesce((SELECT max(rank) + 1 FROM ranks), 0))""").fetchone()
    world = int(used[0]) if used and used[0] else None
    if stated and stated[0]:
        return int(stated[0]), int(stated[0]), int(stated[0])
    if world is None:
        return None, None, None
    seen = con.execute("SELECT count(DISTINCT rank) FROM ranks").fetchone()
    return (
        world,
        min(world, int(seen[0]) if seen and seen[0] else world),
        math.ceil(world / GPUS_PER_HOST) * GPUS_PER_HOST,
    )


def world_size(con: duckdb.DuckDBPyConnection) -> int | None:
    """Ranks of the job: the largest communicator, the argument dump, else the highest rank seen."""
    row = con.execute("""
        SELECT coalesce((SELECT max(nranks) FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start')), (SELECT max(nranks) FROM facts WHERE fact = 'job.world_size'),
                        (SELECT max(rank) + 1 FROM ranks))""").fetchone()
    return int(row[0]) if row and row[0] else None


def fill_attempts(con: duckdb.DuckDBPyConnection, times: JobTimes, end: Ending) -> None:
    """Fill `attempts`: one row per attempt of the job, the failed one with the scheduler's times."""
    rows = con.execute(
        "SELECT attempt, min(ts), max(ts) FROM steps WHERE is_main GROUP BY attempt ORDER BY attempt"
    ).fetchall()
    if not rows:
        con.execute(
            "INSERT INTO attempts VALUES (0, ?, ?, ?, ?)",
            [times.start, times.end, end.outcome, "first and last line of any rank or the scheduler"],
        )
        return
    for number, (attempt, first, last) in enumerate(rows):
        if attempt == times.attempt:
            values = [attempt, times.start, times.end, end.outcome, "scheduler, else first and last line of any rank"]
        else:
            before = rows[number - 1][2] if number else None
            start = con.execute(
                "SELECT max(coalesce(ts_aligned, ts)) FROM events WHERE event = 'job.start' AND coalesce(ts_aligned, ts) <= ? AND (? IS NULL OR coalesce(ts_aligned, ts) > ?)",
                [first, before, before],
            ).fetchone()
            if not (start and start[0]):
                start = con.execute(
                    """
                    SELECT min(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'nccl', 'torch') AND event IN ('train.start', 'train.resume', 'nccl.version', 'train.checkpoint_loaded')
                    AND coalesce(ts_aligned, ts) <= ? AND (? IS NULL OR coalesce(ts_aligned, ts) > ?)""",
                    [first, before, before],
                ).fetchone()
            after = rows[number + 1][1] if number + 1 < len(rows) else None
            finish = con.execute(
                "SELECT max(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'nccl', 'torch', 'scheduler') AND coalesce(ts_aligned, ts) >= ? AND (? IS NULL OR coalesce(ts_aligned, ts) < ?)",
                [last, after, after],
            ).fetchone()
            values = [
                attempt,
                start[0] if start and start[0] else first,
                finish[0] if finish else last,
                "unknown",
                "first and last line of any rank",
            ]
        con.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?)", values)


def _frame(con: duckdb.DuckDBPyConnection, table: str, order: str) -> pl.DataFrame:
    """A public table as a frame; rows of steps and checkpoints, not of log lines, so Python rows do."""
    schema = polars_schema(TABLE_BY_NAME[table].columns)
    return pl.DataFrame(con.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall(), schema=schema, orient="row")


def _pauses(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    rows = con.execute(
        "SELECT 'eval', step, NULL, coalesce(ts_aligned, ts) AS ts FROM events WHERE event = 'train.eval' ORDER BY ts, event_id"
    ).fetchall()
    return pl.DataFrame(rows, schema=no_pauses().schema, orient="row")


def bill(
    con: duckdb.DuckDBPyConnection, times: JobTimes, end: Ending, best: Finding | None, price: float | None
) -> Loss:
    """The Loss of the incident; its GPUs are those of the allocation."""
    gpus, low, high = job_gpus(con)
    is_fault = end.outcome not in {"completed", "cancelled"}
    onset: datetime | None = best.onset if best is not None and is_fault and best.confidence >= 0.4 else None
    interval = con.execute(
        "SELECT max(try_cast(value AS BIGINT)) FROM facts WHERE fact = 'job.save_interval'"
    ).fetchone()
    seen = con.execute(
        "SELECT min(coalesce(ts_aligned, ts)), max(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'torch', 'nccl') AND (? IS NULL OR coalesce(ts_aligned, ts) < ?)",
        [times.next_start, times.next_start],
    ).fetchone()
    detected = times.detected
    if not is_fault and end.event_id is not None:
        row = con.execute("SELECT coalesce(ts_aligned, ts) FROM events WHERE event_id = ?", [end.event_id]).fetchone()
        detected = row[0] if row else None
    return estimate(
        CostInput(
            steps=_frame(con, "steps", "attempt, step, ts, file, line"),
            checkpoints=_frame(con, "checkpoints", "attempt, ts, file, line"),
            attempts=_frame(con, "attempts", "attempt"),
            pauses=_pauses(con),
            attempt=times.attempt if times.last_progress else None,
            is_fault=is_fault,
            onset=onset,
            onset_lo=best.onset_lo if best and onset else None,
            onset_hi=best.onset_hi if best and onset else None,
            onset_basis="measured" if onset else None,
            watchdog_onset=times.watchdog_onset,
            network_onset=times.network_onset,
            detected=detected,
            first_seen=seen[0] if seen else None,
            last_seen=seen[1] if seen else None,
            gpus=gpus,
            gpus_lo=low,
            gpus_hi=high,
            save_interval=int(interval[0]) if interval and interval[0] else None,
            watchdog_timeout_s=times.watchdog_s,
            price=price,
            clock_slack_s=CLOCK_SLACK_S,
        )
    )
