"""The cost estimate's input, read from the incident's tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import duckdb
import polars as pl

from postmortem.analysis.allocation import EARLY, LATE, given, taken
from postmortem.analysis.cost import estimate
from postmortem.analysis.cost_input import CostInput, no_pauses
from postmortem.analysis.model import Finding, Loss
from postmortem.analysis.verdict import Ending
from postmortem.analysis.windows import FAILURES, SKEW_S, JobTimes
from postmortem.catalogue.values import polars_schema
from postmortem.schema import TABLE_BY_NAME

GPUS_PER_HOST: Final = 8
GRACE_S: Final = 30.0
"""Seconds that processes get between the request to stop and being killed: Slurm's KillWait and Kubernetes' grace period, unchanged."""
SAVES_ARE_PRINTED: Final = r"elapsed time per iteration|tps: .*tflops|global_step=\d+, RunningAvg|completed step: "
"""Step lines of Megatron-LM, torchtitan, DeepSpeed and MaxText, which log every save by themselves."""
HALF: Final = timedelta(seconds=0.5)


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


_STARTS = "'train.start', 'train.resume', 'nccl.version', 'train.checkpoint_loaded'"
SCHEDULER: Final = "scheduler"
RANKS: Final = "first and last line of any rank"


def _other_start(con: duckdb.DuckDBPyConnection, first: datetime, before: datetime | None) -> tuple[datetime, str]:
    """Start of an attempt that is not the failed one: the scheduler's, else the first line that shows it, and which of them."""
    stated = given(con, first, before)
    if stated is not None and (before is None or stated > before):
        return stated, SCHEDULER
    row = con.execute(
        f"""
        SELECT min(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'nccl', 'torch') AND event IN ({_STARTS})
          AND event_id NOT IN (FROM borrowed) AND coalesce(ts_aligned, ts) <= ? AND coalesce(ts_aligned, ts) > ?""",
        [first, before or EARLY],
    ).fetchone()
    return (row[0] if row and row[0] else first), RANKS


def _other_end(con: duckdb.DuckDBPyConnection, last: datetime, after: datetime | None) -> datetime:
    """End of an attempt that is not the failed one: the scheduler's, else the last line before the next one's first step."""
    stated = taken(con, last, after)
    if stated is not None:
        return stated
    row = con.execute(
        "SELECT max(coalesce(ts_aligned, ts)) FROM events WHERE source IN ('trainer', 'nccl', 'torch', 'scheduler') AND coalesce(ts_aligned, ts) >= ? AND coalesce(ts_aligned, ts) < ?",
        [last, after or LATE],
    ).fetchone()
    return row[0] if row and row[0] else last


def fill_attempts(con: duckdb.DuckDBPyConnection, times: JobTimes, end: Ending) -> None:
    """Fill `attempts`: one row per attempt of the job, the failed one with the scheduler's times."""
    rows = con.execute(
        "SELECT attempt, min(ts), max(ts) FROM steps WHERE is_main GROUP BY attempt ORDER BY attempt"
    ).fetchall()
    own = f"{SCHEDULER}, else {RANKS}"
    if not rows:
        con.execute("INSERT INTO attempts VALUES (0, ?, ?, ?, ?)", [times.start, times.end, end.outcome, own])
        return
    before: datetime | None = None
    for number, (attempt, first, last) in enumerate(rows):  # attempts, a handful
        after = rows[number + 1][1] if number + 1 < len(rows) else None
        if attempt == times.attempt:
            values = [attempt, times.start, times.end, end.outcome, own]
        elif first is None:
            values = [attempt, None, None, "unknown", RANKS]
        else:
            start, basis = _other_start(con, first, before)
            values = [attempt, start, _other_end(con, last, after), "unknown", basis]
        con.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?)", values)
        before = values[2] or before


_COUNTED: Final = """
    WHERE is_main OR rowid IN (SELECT rowid FROM steps WHERE NOT is_main AND ts IS NOT NULL ORDER BY epoch_us(ts) % 1000000 = 0, rowid LIMIT 3)"""
"""The steps that count, and of those that ranks print for themselves (there may be millions) three, to tell how fine their stamps are."""


def _frame(con: duckdb.DuckDBPyConnection, table: str, order: str, where: str = "") -> pl.DataFrame:
    """A public table as a frame; rows of steps and checkpoints, not of log lines, so Python rows do."""
    schema = polars_schema(TABLE_BY_NAME[table].columns)
    return pl.DataFrame(
        con.execute(f"SELECT * FROM {table} {where} ORDER BY {order}").fetchall(), schema=schema, orient="row"
    )


def middle(moment: datetime | None) -> datetime | None:
    """A stamp cut to the whole second stands for the middle of that second."""
    return moment + HALF if moment is not None and moment.microsecond == 0 else moment


def _middles(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its stamps in the middle of their seconds, where all of them (three at least) are whole seconds."""
    stamps = frame["ts"].drop_nulls()
    if stamps.len() < 3 or bool((stamps.dt.epoch("us") % 1_000_000 != 0).any()):
        return frame
    return frame.with_columns(pl.col("ts") + HALF)


def _attempts(con: duckdb.DuckDBPyConnection, times: JobTimes) -> pl.DataFrame:
    """The attempts with a start only where the scheduler states it and an end only of those that are known to have ended.

    `first_line`: where the start is not stated, the first line that shows the attempt.
    """
    rows = []
    for attempt, start, finish, outcome, basis in con.execute("SELECT * FROM attempts ORDER BY attempt").fetchall():
        is_own = attempt == times.attempt
        has_start = times.is_start_stated if is_own else basis == SCHEDULER
        has_end = times.is_end_stated if is_own else True
        rows.append(
            (
                attempt,
                middle(start) if has_start else None,
                middle(finish) if has_end else None,
                outcome,
                None if has_start else start,
            )
        )
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "attempt": pl.Int64,
        "start": pl.Datetime("us"),
        "finish": pl.Datetime("us"),
        "outcome": pl.String,
        "first_line": pl.Datetime("us"),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _pauses(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    rows = con.execute(
        "SELECT 'eval', step, NULL, coalesce(ts_aligned, ts) AS ts FROM events WHERE event = 'train.eval' ORDER BY ts, event_id"
    ).fetchall()
    return pl.DataFrame(rows, schema=no_pauses().schema, orient="row")


def _clock_slack(con: duckdb.DuckDBPyConnection, times: JobTimes) -> float:
    """Seconds that the clock of the last step line may be off from the scheduler's, which no shared event ties to it."""
    row = con.execute(
        """
        SELECT epoch_us(e.ts_hi - e.ts_lo) / 2e6 FROM steps s JOIN events e ON e.file = s.file AND e.line = s.line AND e.event = 'train.step'
        WHERE s.is_main AND s.attempt = ? AND e.ts_hi IS NOT NULL ORDER BY s.step DESC LIMIT 1""",
        [times.attempt],
    ).fetchone()
    return max(SKEW_S, float(row[0]) if row and row[0] else 0.0)


def _prints_saves(con: duckdb.DuckDBPyConnection, times: JobTimes) -> bool:
    """The log of the attempt's steps is of a trainer that prints a line for every save, and is shown from its first step or load on."""
    row = con.execute(
        f"""
        WITH own AS (SELECT min(step) AS first, count(*) AS n FROM steps WHERE is_main AND attempt = $attempt),
        loaded AS (SELECT count(*) AS n FROM checkpoints WHERE attempt = $attempt AND kind = 'loaded'),
        gaps AS (SELECT mode(k) AS k FROM (SELECT step - lag(step) OVER (ORDER BY step) AS k FROM steps WHERE is_main AND attempt = $attempt) WHERE k > 0),
        told AS (
          SELECT count(*) AS n FROM steps s JOIN events e ON e.file = s.file AND e.line = s.line AND e.event = 'train.step'
          WHERE s.is_main AND s.attempt = $attempt AND regexp_matches(e.text, '{SAVES_ARE_PRINTED}'))
        SELECT told.n = own.n AND (loaded.n > 0 OR own.first <= coalesce(gaps.k, 1)) FROM own, loaded, gaps, told""",
        {"attempt": times.attempt},
    ).fetchone()
    return bool(row and row[0])


def _asked(con: duckdb.DuckDBPyConnection, times: JobTimes, end: Ending) -> datetime | None:
    """First line by which the job knew of its fault; of a job that was stopped, the request; None for one that completed."""
    if end.outcome == "cancelled" and end.event_id is not None:
        row = con.execute("SELECT coalesce(ts_aligned, ts) FROM events WHERE event_id = ?", [end.event_id]).fetchone()
        return row[0] if row else None
    return None if end.outcome == "completed" else times.detected


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user gave for the bill: mean time between failures (seconds), whether energy is wanted, watts of a GPU, PUE."""

    mtbf_s: float | None = None
    wants_energy: bool = False
    watts: float | None = None
    pue: float = 1.0


def failures(con: duckdb.DuckDBPyConnection) -> tuple[int, float]:
    """(attempts that failed, seconds that all attempts ran): an attempt failed when a failure is printed after its last step."""
    names = ", ".join(f"'{name}'" for name in FAILURES)
    row = con.execute(f"""
        WITH s AS (SELECT attempt, max(ts) AS last, lead(min(ts)) OVER (ORDER BY attempt) AS following FROM steps WHERE is_main AND ts IS NOT NULL GROUP BY attempt)
        SELECT count(*) FILTER (EXISTS (FROM events e WHERE e.event IN ({names}) AND e.severity IN ('error', 'fatal')
            AND coalesce(e.ts_aligned, e.ts) >= s.last AND (s.following IS NULL OR coalesce(e.ts_aligned, e.ts) < s.following))),
          sum(epoch_us(a.finish - a.start)) / 1e6
        FROM s JOIN attempts a USING (attempt)""").fetchone()
    return (int(row[0]), float(row[1] or 0.0)) if row else (0, 0.0)


def telemetry_watts(con: duckdb.DuckDBPyConnection) -> float | None:
    """Usual power of a GPU by the bundle's own readings (DCGM, nvidia-smi), watts; an idle or absurd reading is none."""
    row = con.execute(
        "SELECT median(value) FROM counters WHERE regexp_matches(counter, '(?i)^(DCGM_FI_DEV_POWER_USAGE|power[._ ]draw.*|gpu[._ ]power.*)$') AND value BETWEEN 100 AND 3000"
    ).fetchone()
    return float(row[0]) if row and row[0] is not None else None


def bill(
    con: duckdb.DuckDBPyConnection,
    times: JobTimes,
    end: Ending,
    best: Finding | None,
    price: float | None,
    asked: Asked | None = None,
) -> Loss:
    """The Loss of the incident; its GPUs are those of the allocation."""
    asked = asked or Asked()
    failed, ran = failures(con)
    watts = (telemetry_watts(con) or asked.watts) if asked.wants_energy else None
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
    last_seen = max((t for t in (seen[1] if seen else None, times.end) if t is not None), default=None)
    loss = estimate(
        CostInput(
            steps=_middles(_frame(con, "steps", "attempt, step, ts, file, line", _COUNTED)),
            checkpoints=_middles(_frame(con, "checkpoints", "attempt, ts, file, line")),
            attempts=_attempts(con, times),
            pauses=_pauses(con),
            attempt=times.attempt if times.last_progress else None,
            is_fault=is_fault,
            onset=onset,
            onset_lo=best.onset_lo if best and onset else None,
            onset_hi=best.onset_hi if best and onset else None,
            onset_basis="measured" if onset else None,
            watchdog_onset=times.watchdog_onset,
            network_onset=times.network_onset,
            detected=middle(_asked(con, times, end)),
            first_seen=times.start,
            last_seen=last_seen,
            gpus=gpus,
            gpus_lo=low,
            gpus_hi=high,
            save_interval=int(interval[0]) if interval and interval[0] else None,
            prints_saves=_prints_saves(con, times),
            watchdog_timeout_s=times.watchdog_s if is_fault else GRACE_S,
            price=price,
            clock_slack_s=_clock_slack(con, times),
            mtbf_s=asked.mtbf_s,
            failures=failed,
            failures_in_s=ran,
            watts=watts,
            pue=asked.pue,
        )
    )
    if asked.wants_energy and watts is None:
        note = "Energy was asked for, and the bundle holds no reading of a GPU's power: give it with --gpu-watts."
        return replace(loss, notes=(*loss.notes, note))
    return loss
