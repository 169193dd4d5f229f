"""Analyses and tables that the report tests print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import duckdb

from postmortem.analysis.model import (
    Analysis,
    Bin,
    Clock,
    Coverage,
    Culprit,
    Evidence,
    Finding,
    Job,
    Loss,
    Rival,
    SlowQueuePair,
    SlowRank,
    Span,
    Survived,
    Verdict,
)
from postmortem.schema import TABLES

VERSION = "9.9.9"
ONSET = datetime(2026, 1, 2, 3, 4, 5)


def after(seconds: float) -> datetime:
    """A time so many seconds after the onset."""
    return ONSET + timedelta(seconds=seconds)


def tables() -> duckdb.DuckDBPyConnection:
    """A database with every public table, all empty."""
    con = duckdb.connect()
    for table in TABLES:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        con.execute(f'CREATE TABLE "{table.name}" ({columns})')
    return con


def insert(con: duckdb.DuckDBPyConnection, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
    """Adds rows; `columns` is a comma separated list."""
    marks = ", ".join("?" for _ in columns.split(","))
    con.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", [list(row) for row in rows])


def filled() -> duckdb.DuckDBPyConnection:
    """The tables of `crash`: events of five places, steps with a slow end, checkpoints, coverage, odd lines."""
    con = tables()
    events = [
        (1, ONSET, "node-7", "kernel", "gpu.fallen_off_bus", "fatal", "node-7/dmesg", 12),
        (2, after(30), "node-1", "nccl", "nccl.remote_closed", "error", "node-1/nccl.log", 90),
        (3, after(-5), "node-2", "kernel", "host.thermal_throttle", "warning", "node-2/dmesg", 4),
        (4, after(-3), None, "trainer", "train.step", "info", "train.log", 40),
        (5, None, "node-3", "kernel", "host.panic", "fatal", "node-3/dmesg", 1),
    ]
    insert(con, "events", "event_id, ts, host, source, event, severity, file, line", events)
    steps = [
        (0, step, after(10 * (step - 60)), 10_000.0 if step < 45 else 14_000.0, True, "train.log", step)
        for step in range(1, 61)
    ]
    insert(con, "steps", "attempt, step, ts, step_time_ms, is_main, file, line", steps)
    saves = [(0, 20, "done", True, "train.log", 20), (0, 40, "done", True, "train.log", 41)]
    insert(con, "checkpoints", "attempt, step, kind, durable, file, line", saves)
    coverage = [("node-7/dmesg", 900, 14, 3, 2, 1, "kernel"), ("node-1/nccl.log", 9000, 120, 44, 40, 0, "nccl")]
    insert(con, "coverage", "file, bytes, lines, recognised, events, odd, sources", coverage)
    insert(con, "files", "file, kind, bytes, host, note", [("core.77", "binary", 10_000, "node-7", "a core dump")])
    insert(con, "odd_lines", "file, line, why, text", [("node-7/dmesg", 13, "bytes that are no text", "\x00\x01")])
    return con


def crash() -> Analysis:
    """A GPU that left the bus, with everything that an analysis can say."""
    culprit = Culprit(host="node-7", gpu=3, pci="0000:1b:00.0", rank=59, ranks=(59,), port="1", local_rank=3)
    proof = Evidence(
        "node-7/dmesg",
        12,
        "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
        "cause",
        ONSET,
        "node-7",
        "gpu.fallen_off_bus",
        1,
        ("line 9", "line 10", "line 11"),
        ("line 13", "line 14"),
    )
    effect = Evidence(
        "node-1/nccl.log", 90, "NCCL WARN Connection closed by remote peer", "effect", after(30), "node-1"
    )
    best = Finding(
        "pcie_drop",
        0.93456789,
        culprit,
        "GPU 3 of node-7 fell off the bus.",
        (proof, effect),
        ONSET,
        chosen_over=(Rival("host_crash", "node-7 kept logging for ten minutes"),),
        next_steps=("Drain node-7.",),
        collect=("nvidia-bug-report of node-7",),
    )
    second = Finding("gpu_fault", 0.2, culprit, "The GPU failed otherwise.", (effect,), after(30))
    bins = (
        Bin("productive", 600, 600, 600, "measured"),
        Bin("lost_work", 1000, 2000, 2100, "inferred", True),
        Bin("detection", 30, 30, 30, "measured", True),
    )
    return Analysis(
        "bundle.tar.gz",
        Job("gpt", after(-9000), after(620), "crashed", 512, 528, hosts=64, last_step=60, framework="megatron"),
        Verdict("pcie_drop", 0.93456789, culprit, best.summary, ONSET, ONSET, after(0.5)),
        (best, second),
        (Survived("host.thermal_throttle", "node-2", "CPU1", after(-5), None, "steps went on"),),
        (SlowRank(211, 1.4, 45, "compute", 0.6),),
        (SlowQueuePair("node-9", "mlx5_4", 1032, "10.0.0.2", 6.1, 140.0, 12, 0.7),),
        loss=Loss(
            528, 40, 60, bins, Span(1030, 2030, 2130), Span(301.5, 302.13, 303.0), Span(755.1, 755.33, 755.6), 
            "inferred", 10.0, 0.75, 0.7, 0.68, 0.28, 89.2, 2630, ("The last save was not finished.",),
        ),
        coverage=Coverage(3, 19_900, 134, 42, (("node-7/dmesg", 13, "bytes that are no text"),), ("switch logs",)),
        clocks=(Clock("node-1", 12.5, 2.0, "+08:00", "common collectives"), Clock("node-2", None, None, None, "nothing")),
        detected=after(30.1),
        last_progress=after(-3),
    )  # fmt: skip


def unknown() -> Analysis:
    """A hang with two weak findings."""
    line = Evidence("rank3.log", 44, "Watchdog caught collective operation timeout", "effect", ONSET, "gpu0")
    hang = Finding("collective_hang", 0.36, Culprit(), "All ranks timed out.", (line,), ONSET, collect=("dumps",))
    slow = Finding("rank_straggler", 0.18, Culprit(rank=3), "Rank 3 came late.", (line,), ONSET)
    verdict = Verdict("unknown", 0.36, Culprit(), "Nothing shows what kept rank 3 away.")
    job = Job(outcome="hung", end=after(10))
    return Analysis("hang", job, verdict, (hang, slow), loss=Loss(gpus=16, gpu_hours=Span(2.53, 10.7, 18.8)))


def quiet() -> Analysis:
    """A run in which nothing went wrong."""
    job = Job("sft", after(-3600), after(60), "completed", 8, 8, hosts=1, last_step=1200)
    verdict = Verdict("none", 0.97, Culprit(), "The job reached its last step.")
    return Analysis("night", job, verdict, loss=Loss(gpus=8, gpu_hours=Span(0.1, 0.1, 0.1)), last_progress=ONSET)
