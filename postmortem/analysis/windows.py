"""The job's own times and settings: when it last made progress, when it knew, how long its timeouts are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import duckdb

from postmortem.analysis.allocation import find_allocation

FAILURES: Final = (
    "nccl.ib_completion_error",
    "nccl.remote_closed",
    "nccl.socket_error",
    "nccl.cuda_error",
    "nccl.system_error",
    "nccl.ib_verbs_error",
    "nccl.mismatch",
    "nccl.abort",
    "torch.watchdog_timeout",
    "torch.watchdog_error",
    "torch.heartbeat_timeout",
    "torch.exception",
    "torch.cuda_error",
    "torch.oom",
    "torch.store_error",
    "torch.collective_mismatch",
    "torch.abort",
    "process.signal",
    "process.exit",
    "torch.elastic_failure",
    "train.checkpoint_failed",
)
"""Events by which a job knows that it is failing."""

DEFAULT_WATCHDOG_S: Final = 600.0
DEFAULT_HEARTBEAT_S: Final = 600.0
"""TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC."""
DEFAULT_SLURMD_S: Final = 300.0
"""SlurmdTimeout: how long slurmctld waits for a node that says nothing before it is DOWN."""
SKEW_S: Final = 5.0
"""Clocks of ordinary hosts agree far better; what differs by less than this is not ordered by the clock alone."""


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Times of the attempt that failed (naive UTC) and the settings that open windows around them, seconds."""

    attempt: int
    start: datetime | None
    end: datetime | None
    last_progress: datetime | None
    detected: datetime | None
    watchdog_onset: datetime | None
    network_onset: datetime | None
    step_s: float | None
    t_retry_s: float
    watchdog_s: float
    next_start: datetime | None
    has_failure: bool
    is_start_stated: bool = False
    is_end_stated: bool = False
    """The scheduler states start and end; else they are the first and last line of any rank."""
    heartbeat_s: float = DEFAULT_HEARTBEAT_S
    slurmd_s: float = DEFAULT_SLURMD_S

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """Where the fault must lie: from just before the last progress (or the watchdog's onset) to detection."""
        pad = timedelta(seconds=max(30.0, 3 * (self.step_s or 0.0)) + SKEW_S)
        begins = [t for t in (self.last_progress, self.watchdog_onset, self.network_onset) if t is not None]
        low = min(begins) - pad if begins else None
        high = self.detected or self.end
        return low, (high + timedelta(seconds=SKEW_S)) if high else None


def retry_seconds(con: duckdb.DuckDBPyConnection) -> float:
    """T_retry = 4.096 µs · 2^timeout · retries from the job's environment, else the default of its NCCL version."""
    found = dict(
        con.execute("""
        SELECT code, max(try_cast(regexp_extract(value, '[0-9]+') AS INTEGER)) FROM events
        WHERE event = 'nccl.env' AND code IN ('NCCL_IB_TIMEOUT', 'NCCL_IB_RETRY_CNT') GROUP BY code""").fetchall()
    )
    timeout, retries = found.get("NCCL_IB_TIMEOUT"), found.get("NCCL_IB_RETRY_CNT") or 7
    if timeout is None or not 1 <= timeout <= 31:
        row = con.execute("""
            SELECT regexp_extract(value, '^([0-9]+)\\.([0-9]+)', ['a', 'b']) FROM events
            WHERE event = 'nccl.version' AND regexp_matches(value, '^2\\.[0-9]+') ORDER BY event_id LIMIT 1""").fetchone()
        minor = int(row[0]["b"]) if row else 23
        timeout = 14 if minor < 14 else 18 if minor < 23 else 20
    return float(4.096e-6 * 2.0**timeout * min(retries, 7 if retries > 15 else retries))


def _one(con: duckdb.DuckDBPyConnection, sql: str, values: list[object] | None = None) -> tuple[object, ...]:
    row = con.execute(sql, values or []).fetchone()
    return row if row is not None else ()


def _when(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _failing_attempt(con: duckdb.DuckDBPyConnection) -> tuple[int, datetime | None, datetime | None]:
    """(attempt, its last progress, the next attempt's first step): the first attempt followed by a failure, else the last.

    Where the ranks' lines have no time, a scheduler that saw the job fail before it was started again says the same.
    """
    names = ", ".join(f"'{e}'" for e in FAILURES)
    rows = con.execute(f"""
        WITH a AS (SELECT attempt, max(ts) AS last, min(ts) AS first FROM steps WHERE is_main AND ts IS NOT NULL GROUP BY attempt),
        b AS (SELECT *, lead(first) OVER (ORDER BY attempt) AS next FROM a)
        SELECT b.attempt, b.last, b.next, count(e.event_id) FROM b LEFT JOIN events e
          ON (e.event IN ({names}) OR (e.event = 'job.end' AND b.next IS NOT NULL)) AND e.severity IN ('error', 'fatal')
         AND coalesce(e.ts_aligned, e.ts) >= b.last - INTERVAL 30 SECOND AND (b.next IS NULL OR coalesce(e.ts_aligned, e.ts) < b.next)
        GROUP BY ALL ORDER BY b.attempt""").fetchall()
    if not rows:
        return 0, None, None
    chosen = next((r for r in rows if r[3]), rows[-1])
    return int(chosen[0]), chosen[1], chosen[2]


def job_times(con: duckdb.DuckDBPyConnection) -> JobTimes:
    """JobTimes of the incident in `con` (tables events, facts, steps filled)."""
    attempt, last, following = _failing_attempt(con)
    names = ", ".join(f"'{e}'" for e in FAILURES)
    after = last - timedelta(seconds=30) if last else datetime(1970, 1, 1)
    before = following or datetime(2100, 1, 1)
    # A time borrowed from the line above only says "not before"; it counts where no failure has its own.
    first_fail = _when(
        _one(
            con,
            f"""
        SELECT coalesce(min(coalesce(ts_aligned, ts)) FILTER (event_id NOT IN (FROM borrowed)), max(coalesce(ts_aligned, ts))) FROM events
        WHERE event IN ({names}) AND severity IN ('error', 'fatal') AND coalesce(ts_aligned, ts) >= ? AND coalesce(ts_aligned, ts) < ?""",
            [after, before],
        )[0]
    )
    any_fail = bool(
        _one(con, f"SELECT count(*) FROM events WHERE event IN ({names}) AND severity IN ('error', 'fatal')")[0]
    )
    watchdog = _one(
        con,
        """
        SELECT min(coalesce(ts_aligned, ts) - to_microseconds((elapsed_ms * 1000)::BIGINT)), max(timeout_ms) / 1000 FROM events
        WHERE event = 'torch.watchdog_timeout' AND elapsed_ms IS NOT NULL AND (ts IS NULL OR coalesce(ts_aligned, ts) < ?)""",
        [before],
    )
    heartbeat, slurmd = _one(
        con,
        """
        SELECT (SELECT max(elapsed_ms) / 1000 FROM events WHERE event = 'torch.heartbeat_timeout'),
          (SELECT max(try_cast(value AS DOUBLE)) FROM facts WHERE fact = 'slurm.slurmd_timeout')""",
    )
    retry = retry_seconds(con)
    network = _when(
        _one(
            con,
            """
        SELECT min(coalesce(ts_aligned, ts)) FROM events WHERE event = 'nccl.ib_completion_error' AND status = '12'
          AND coalesce(ts_aligned, ts) >= ? AND coalesce(ts_aligned, ts) < ?""",
            [after, before],
        )[0]
    )
    step = _one(con, "SELECT median(step_time_ms) / 1000 FROM steps WHERE is_main AND attempt = ?", [attempt])[0]
    if step is None:
        step = _one(
            con,
            """
            SELECT median(d) FROM (SELECT epoch_ms(ts - lag(ts) OVER (ORDER BY step)) / 1000.0 / nullif(step - lag(step) OVER (ORDER BY step), 0) AS d
            FROM steps WHERE is_main AND attempt = ?)""",
            [attempt],
        )[0]
    first, earlier = _one(
        con,
        "SELECT min(ts) FILTER (attempt = ?), max(ts) FILTER (attempt < ?) FROM steps WHERE is_main",
        [attempt, attempt],
    )
    allocation = find_allocation(con, _when(earlier), _when(first), last, following)
    # A start that is only inferred, from another file's first line say, is none when the job had made its last step before it.
    is_possible = allocation.is_start_stated or last is None or allocation.start is None or allocation.start <= last
    return JobTimes(
        attempt=attempt,
        start=allocation.start if is_possible else None,
        end=allocation.end,
        last_progress=last,
        detected=first_fail,
        watchdog_onset=_when(watchdog[0]),
        network_onset=network - timedelta(seconds=retry) if network else None,
        step_s=float(step) if isinstance(step, (int, float)) else None,
        t_retry_s=retry,
        watchdog_s=float(watchdog[1]) if isinstance(watchdog[1], (int, float)) else DEFAULT_WATCHDOG_S,
        next_start=following,
        has_failure=any_fail,
        is_start_stated=allocation.is_start_stated,
        is_end_stated=allocation.is_end_stated,
        heartbeat_s=heartbeat if isinstance(heartbeat, float) and heartbeat > 0 else DEFAULT_HEARTBEAT_S,
        slurmd_s=slurmd if isinstance(slurmd, float) and slurmd > 0 else DEFAULT_SLURMD_S,
    )
