"""The allocation of the attempt that failed: when its nodes were given and taken, and whether the scheduler says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import duckdb

EARLY: Final = datetime(1970, 1, 1)
LATE: Final = datetime(2100, 1, 1)
TOGETHER: Final = timedelta(seconds=10)
"""Lines of one start (pods placed, job running) lie this close together."""

OURS = """
    foreign_jobs AS (
      SELECT job_id FROM listed_nodes GROUP BY job_id HAVING count(*) FILTER (host IN (FROM job_nodes)) = 0 AND EXISTS (FROM listed_nodes l JOIN job_nodes j ON j.host = l.host)
    )"""
"""Jobs of the scheduler's log that run on none of this job's nodes, where those of this one are listed."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Start and end (naive UTC, None: not known) and whether the scheduler states them; else first and last line of any rank."""

    start: datetime | None
    end: datetime | None
    is_start_stated: bool
    is_end_stated: bool


def finest(stamps: list[datetime]) -> datetime | None:
    """The earliest stamp; where it is a whole second, the first within it that shows a fraction: the same moment, written finer."""
    if not stamps:
        return None
    first = min(stamps)
    if first.microsecond:
        return first
    return min((t for t in stamps if t.microsecond and t < first + timedelta(seconds=1)), default=first)


def _stamps(con: duckdb.DuckDBPyConnection, sql: str, values: list[object]) -> list[datetime]:
    return [row[0] for row in con.execute(sql, values).fetchall() if isinstance(row[0], datetime)]


def given(con: duckdb.DuckDBPyConnection, first: datetime, before: datetime | None) -> datetime | None:
    """The last start that the scheduler states up to `first`, the attempt's first step, and after `before`, the last one of the attempt before.

    A job that had ended by then, or that runs on other nodes, is another one.
    """
    starts = _stamps(
        con,
        f"""
        WITH {OURS}, s AS (
          SELECT job_id, coalesce(ts_aligned, ts) AS ts FROM events WHERE event = 'job.start'
          UNION ALL SELECT NULL, min(ts) FROM facts WHERE fact = 'pod.node' AND ts > ?)
        SELECT ts FROM s WHERE ts > ? AND ts <= ? AND (job_id IS NULL OR job_id NOT IN (FROM foreign_jobs)) AND NOT EXISTS (
          FROM events e WHERE e.event = 'job.end' AND e.job_id = s.job_id AND coalesce(e.ts_aligned, e.ts) > s.ts AND coalesce(e.ts_aligned, e.ts) < ?)
        ORDER BY ts""",
        [before or EARLY, before or EARLY, first, first],
    )
    return finest([t for t in starts if t >= starts[-1] - TOGETHER])


def taken(con: duckdb.DuckDBPyConnection, last: datetime, following: datetime | None) -> datetime | None:
    """The first end of the job that the scheduler states after `last`, its last progress, and before the next attempt."""
    return finest(
        _stamps(
            con,
            f"""
            WITH {OURS}
            SELECT coalesce(ts_aligned, ts) AS t FROM events WHERE event = 'job.end' AND source = 'scheduler' AND t >= ? AND t < ?
              AND (job_id IS NULL OR job_id NOT IN (FROM foreign_jobs))""",
            [last, following or LATE],
        )
    )


def find_allocation(
    con: duckdb.DuckDBPyConnection,
    before: datetime | None,
    first: datetime | None,
    last: datetime | None,
    following: datetime | None,
) -> Allocation:
    """The allocation of the attempt whose steps ran from `first` to `last`; `before` is the last step of the attempt before, `following` the first of the next."""
    start = given(con, first or last or following or LATE, before)
    end = taken(con, last or EARLY, following)
    seen = con.execute(
        "SELECT min(coalesce(ts_aligned, ts)), max(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'torch', 'nccl') AND coalesce(ts_aligned, ts) > ? AND coalesce(ts_aligned, ts) < ?",
        [before or EARLY, following or LATE],
    ).fetchone() or (None, None)
    if end is not None:
        return Allocation(start or seen[0], end, start is not None, True)
    later = con.execute(
        """
        SELECT max(coalesce(ts_aligned, ts)) FROM events WHERE source = 'scheduler' AND event IN ('job.cancelled', 'job.timeout', 'job.preempted', 'job.node_fail', 'process.exit')
          AND coalesce(ts_aligned, ts) >= ? AND coalesce(ts_aligned, ts) < ?""",
        [last or EARLY, following or LATE],
    ).fetchone()
    tail = [t for t in (seen[1], later[0] if later else None) if t is not None]
    return Allocation(start or seen[0], max(tail) if tail else None, start is not None, False)
