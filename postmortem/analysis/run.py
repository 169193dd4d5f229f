"""The analysis from settled tables to the answer; every step leaves its table behind."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache

import duckdb

from postmortem.analysis.bill import Asked, bill, fill_attempts, job_gpus, world_size
from postmortem.analysis.candidates import left_out, load_candidates, load_edges, score
from postmortem.analysis.clocks import align, fill_clocks
from postmortem.analysis.congestion import join_congestion
from postmortem.analysis.derived import mismatch, slow_ranks
from postmortem.analysis.hangs import hang
from postmortem.analysis.hops import with_hops
from postmortem.analysis.late_ranks import SLOWING, late_ranks, to_name_a_rank
from postmortem.analysis.model import Analysis, Clock, Coverage, Finding, Job, Loss, Outcome
from postmortem.analysis.queue_pairs import measure_queue_pairs, with_lost_throughput
from postmortem.analysis.rivals import in_order
from postmortem.analysis.sight import Sight, sight, stopped_for_slowness
from postmortem.analysis.signs import create_macros, draw_edges, find_signs
from postmortem.analysis.stragglers import explained_by_traces, read_traces, slow_workers, taxed
from postmortem.analysis.survived import survived
from postmortem.analysis.training import (
    broken_numbers,
    slowed_since,
    unfinished_preparation,
    unfinished_save,
    waiting_for_data,
)
from postmortem.analysis.verdict import decide, ending, findings, with_derived
from postmortem.analysis.windows import JobTimes, job_times
from postmortem.decoders import expand_hostlist
from postmortem.tables.statements import run

EXPECTED_SOURCES = ("kernel", "nccl", "torch", "trainer", "switch", "scheduler")


def run_sql(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Run the statements of a SQL file of this package, in order."""
    run(con, "postmortem.analysis", name)


def analyse(
    con: duckdb.DuckDBPyConnection, bundle: str, price: float | None = None, asked: Asked | None = None
) -> Analysis:
    """The answer for the incident whose tables `settle` has filled in `con`; fills all other public tables."""
    create_macros(con)
    _list_nodes(con)
    run_sql(con, "names.sql")
    run_sql(con, "counters.sql")
    align(con)
    run_sql(con, "joins.sql")
    run_sql(con, "progress.sql")
    run_sql(con, "episodes.sql")
    run_sql(con, "slow.sql")
    times = job_times(con)
    find_signs(con)
    draw_edges(con, times)
    _mark_window(con, times)
    run_sql(con, "candidates.sql")
    edges = load_edges(con)
    sources = {r[0] for r in con.execute("SELECT DISTINCT source FROM events").fetchall()}
    scored = score(load_candidates(con), edges, times, sources, cache(lambda when: slowed_since(con, when, times)))
    end = ending(con, times, scored)
    seen = sight(con)
    traces = read_traces(con)
    slow_pairs, queue_pairs = measure_queue_pairs(con)
    computed = (
        mismatch(con),
        hang(con),
        slow_pairs,
        slow_workers(con, traces) or slow_ranks(con) or late_ranks(con),
        broken_numbers(con, times),
        unfinished_preparation(con, times),
        unfinished_save(con, times),
        waiting_for_data(con, times),
    )
    derived = [d for d in computed if d is not None]
    found = list(in_order(with_derived(con, findings(con, scored, edges, times, end, seen), derived, end)))
    found = with_hops(con, found, times.attempt)
    verdict = explained_by_traces(decide(found, end), traces, has_failure=times.has_failure)
    fill_attempts(con, times, end)
    loss = taxed(bill(con, times, end, found[0] if found else None, price, asked), traces)
    found, verdict = stopped_for_slowness(found, verdict, loss)
    _store(con, found, loss)
    return Analysis(
        bundle=bundle,
        job=_job(con, times, end.outcome),
        verdict=verdict,
        findings=tuple(found),
        survived=survived(scored),
        loss=loss,
        slow_ranks=tuple(r for d in derived for r in d.ranks),
        slow_queue_pairs=tuple(q for d in derived for q in d.queue_pairs),
        traces=tuple(t.view for t in traces),
        queue_pairs=with_lost_throughput(queue_pairs, loss),
        congestion=join_congestion(con),
        to_name_a_rank=to_name_a_rank(
            con,
            loss,
            is_named=verdict.cause in SLOWING or any(d.ranks or d.queue_pairs for d in derived),
            has_traces=bool(traces),
        ),
        coverage=_coverage(con, sources, seen),
        clocks=_clocks(con),
        detected=times.detected,
        last_progress=times.last_progress,
    )


def _list_nodes(con: duckdb.DuckDBPyConnection) -> None:
    """Temporary table `listed_nodes`: the scheduler's node lists, expanded (`node-[01-03]`)."""
    con.execute("CREATE TEMP TABLE listed_nodes (job_id VARCHAR, host VARCHAR)")
    for job_id, value in con.execute(
        "SELECT DISTINCT job_id, value FROM facts WHERE fact = 'job.nodes' AND value IS NOT NULL ORDER BY ALL LIMIT 1000"
    ).fetchall():
        con.execute("INSERT INTO listed_nodes SELECT ?, unnest(?)", [job_id, expand_hostlist(value)])


def _mark_window(con: duckdb.DuckDBPyConnection, times: JobTimes) -> None:
    low, high = times.window
    con.execute("CREATE TEMP TABLE job_window AS SELECT ? AS attempt", [times.attempt])
    con.execute(
        "UPDATE episodes SET in_window = CASE WHEN first_ts IS NULL THEN NULL ELSE coalesce(last_ts >= ?, true) AND coalesce(first_ts <= ?, true) END",
        [low, high],
    )


def _job(con: duckdb.DuckDBPyConnection, times: JobTimes, outcome: Outcome) -> Job:
    gpus, low, high = job_gpus(con)
    hosts = con.execute("SELECT count(*) FROM job_nodes").fetchone()
    step = con.execute("SELECT max(step) FROM steps WHERE is_main AND attempt = ?", [times.attempt]).fetchone()
    name = con.execute(
        """
        SELECT coalesce(max(job_id) FILTER (event = 'job.start' AND coalesce(ts_aligned, ts) = ?), max(job_id)) FROM events
        WHERE source = 'scheduler' AND job_id IS NOT NULL""",
        [times.start],
    ).fetchone()
    frame = con.execute("""
        SELECT CASE WHEN regexp_matches(text, 'elapsed time per iteration') THEN 'megatron' WHEN regexp_matches(text, 'tps: .*tflops|\\[titan\\]') THEN 'torchtitan'
          WHEN regexp_matches(text, 'iter time \\(s\\)|\\[deepspeed|RunningAvgSamplesPerSec') THEN 'deepspeed' WHEN regexp_matches(text, 'completed step: ') THEN 'maxtext'
          WHEN regexp_matches(text, 'train_step_timing') THEN 'nemo' END AS f, count(*)
        FROM events WHERE event = 'train.step' GROUP BY 1 HAVING f IS NOT NULL ORDER BY 2 DESC, 1 LIMIT 1""").fetchone()
    return Job(
        name=name[0] if name else None,
        start=times.start,
        end=times.end,
        outcome=outcome,
        world_size=world_size(con),
        gpus=gpus,
        gpus_lo=low,
        gpus_hi=high,
        hosts=int(hosts[0]) if hosts and hosts[0] else None,
        last_step=int(step[0]) if step and step[0] is not None else None,
        framework=frame[0] if frame else None,
    )


def _coverage(con: duckdb.DuckDBPyConnection, sources: set[str], seen: Sight) -> Coverage:
    row = con.execute(
        "SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(lines), 0), coalesce(sum(events), 0) FROM coverage"
    ).fetchone()
    assert row is not None
    odd = con.execute("SELECT file, line, why FROM odd_lines ORDER BY file, line, why LIMIT 200").fetchall()
    missing = tuple(s for s in EXPECTED_SOURCES if s not in sources)
    return Coverage(
        int(row[0]),
        int(row[1]),
        int(row[2]),
        int(row[3]),
        tuple((f, int(n), w) for f, n, w in odd),
        missing,
        left_out(con) + seen.gaps(),
    )


def _clocks(con: duckdb.DuckDBPyConnection) -> tuple[Clock, ...]:
    """The first 500 rows of `clocks`; a span of a stepped clock says in its basis until when it holds."""
    fill_clocks(con)
    rows = con.execute("""
        SELECT host, offset_ms, uncertainty_ms, zone, basis || coalesce(strftime(valid_to, ' (until %Y-%m-%d %H:%M:%S)'), '') FROM clocks
        ORDER BY host, valid_from NULLS FIRST LIMIT 500""").fetchall()
    return tuple(Clock(*r) for r in rows)


def _store(con: duckdb.DuckDBPyConnection, found: list[Finding], loss: Loss) -> None:
    """Fill findings, evidence and losses."""
    rows: dict[str, list[list[object]]] = {"findings": [], "evidence": [], "losses": []}
    for number, f in enumerate(found, 1):
        culprit = json.dumps({k: v for k, v in asdict(f.culprit).items() if v not in (None, (), [])}, sort_keys=True)
        rows["findings"].append([number, f.cause, f.confidence, culprit, f.onset, f.onset_lo, f.onset_hi, f.summary])
        rows["evidence"] += [[number, e.role, e.file, e.line, e.ts, e.text, e.event_id] for e in f.evidence]
    rows["losses"] = [[b.bin, b.lo_s, b.best_s, b.hi_s, b.basis, b.is_lost] for b in loss.bins]
    for table, values in rows.items():
        if values:
            places = ", ".join("(" + ", ".join("?" * len(row)) + ")" for row in values)
            con.execute(f"INSERT INTO {table} VALUES {places}", [value for row in values for value in row])
