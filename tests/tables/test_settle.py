"""Printed times become UTC: zones, years, boots, and what is left without a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from postmortem.bundle import plan
from postmortem.tables.ingest import batches, parse_batch
from postmortem.tables.settle import settle
from postmortem.tables.store import connect

XID = "NVRM: Xid (PCI:0000:9d:00): 79, pid=10, GPU has fallen off the bus."
PARSERS = Path(__file__).resolve().parents[2] / "parsers"
Settle = Callable[[Mapping[str, str]], duckdb.DuckDBPyConnection]


@pytest.fixture
def settled(tmp_path: Path) -> Settle:
    """The tables of a bundle of these files, without the analysis."""

    def run(files: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
        bundle, spool = tmp_path / "bundle", tmp_path / "spool"
        for name, text in files.items():
            path = bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        spool.mkdir()
        for batch in batches(plan([bundle]).units, spool, [PARSERS]):
            parse_batch(batch)
        con = connect(None, tmp_path)
        settle(con, spool, [])
        return con

    return run


def times(con: duckdb.DuckDBPyConnection, event: str = "gpu.xid") -> list[tuple[datetime | None, str]]:
    rows: list[Any] = con.execute(
        "SELECT ts, ts_kind FROM events WHERE event = ? ORDER BY file, line", [event]
    ).fetchall()
    return [(r[0], r[1]) for r in rows]


def test_a_printed_date_and_zone_are_exact(settled: Settle) -> None:
    con = settled({"node-7/kern.log": f"2026-02-03T14:02:11.318000+02:00 node-7 kernel: [ 9.5] {XID}\n"})
    assert times(con) == [(datetime(2026, 2, 3, 12, 2, 11, 318_000), "exact")]


def test_a_date_without_zone_takes_that_of_two_times_in_one_line(settled: Settle) -> None:
    log = "2026-02-03T12:00:01Z stdout F [2026-02-03 14:00:01,000] [INFO] node-7:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    con = settled({"node-7/pod.log": log, "node-7/kern.log": f"Feb  3 14:02:11 node-7 kernel: {XID}\n"})
    assert times(con) == [(datetime(2026, 2, 3, 12, 2, 11), "inferred")]


@pytest.mark.parametrize(
    ("newest", "line", "year"),
    [
        ("2026-01-01T00:10:00Z", "Dec 31 23:59:59", 2025),
        ("2025-12-31T23:50:00Z", "Jan  1 00:01:00", 2026),
        ("2024-03-01T00:00:00Z", "Feb 29 12:00:00", 2024),
    ],
)
def test_the_missing_year_is_the_one_nearest_to_the_bundle(settled: Settle, newest: str, line: str, year: int) -> None:
    other = f"{newest[:-1]}.000000+00:00 node-8 kernel: [ 9.5] {XID}\n"
    con = settled({"node-7/kern.log": f"{line} node-7 kernel: {XID}\n", "node-8/kern.log": other})
    ((first, kind), _) = times(con)
    assert first is not None
    assert (first.year, kind) == (year, "inferred")
    assert first.strftime("%b %e %H:%M:%S") == line


def test_an_epoch_in_the_log_dates_the_uptimes_of_its_boot(settled: Settle) -> None:
    kern = f"""\
[    5.400000] rtc_cmos 00:04: setting system clock to 2026-02-03T10:00:04 UTC (1770112804)
[  105.400000] {XID}
"""
    assert times(settled({"node-7/dmesg.txt": kern})) == [(datetime(2026, 2, 3, 10, 1, 44), "inferred")]


def test_an_audit_line_dates_them_too(settled: Settle) -> None:
    kern = f"""\
[    5.000000] audit: type=2000 audit(1770112804.500:1): state=initialized audit_enabled=0 res=1
[   15.000000] {XID}
"""
    assert times(settled({"node-7/dmesg.txt": kern})) == [(datetime(2026, 2, 3, 10, 0, 14, 500_000), "inferred")]


def test_uptime_alone_is_no_time(settled: Settle) -> None:
    assert times(settled({"node-7/dmesg.txt": f"[  105.400000] {XID}\n"})) == [(None, "none")]


def test_a_second_boot_is_not_dated_by_the_first(settled: Settle) -> None:
    kern = f"""\
[    5.400000] rtc_cmos 00:04: setting system clock to 2026-02-03T10:00:04 UTC (1770112804)
[  900.000000] {XID}
[    0.000000] Linux version 6.8.0-45-generic (buildd@x) #45-Ubuntu SMP
[   10.000000] {XID}
"""
    con = settled({"node-7/dmesg.txt": kern})
    (first, second) = times(con)
    assert first == (datetime(2026, 2, 3, 10, 14, 58, 600_000), "inferred")
    assert second == (None, "none")
    boots = con.execute("SELECT boot FROM events WHERE event = 'gpu.xid' ORDER BY line").fetchall()
    assert boots == [(0,), (1,)]


def test_a_line_without_time_takes_that_of_the_line_above(settled: Settle) -> None:
    log = "2026-02-03T14:02:11Z stdout F hello\n[rank3]: RuntimeError: boom\n"
    ((when, kind),) = times(settled({"job.log": log}), "torch.exception")
    assert (when, kind) == (datetime(2026, 2, 3, 14, 2, 11), "inferred")


@pytest.mark.parametrize(
    "stamp", ["[99999999999999.000000]", "9999-12-31T23:59:59Z node-7 kernel:", "1900-01-01T00:00:00Z node-7 kernel:"]
)
def test_times_that_can_not_be_are_none(settled: Settle, stamp: str) -> None:
    found = times(settled({"node-7/kern.log": f"{stamp} {XID}\n"}))
    assert found in ([(None, "none")], [])


def test_rows_are_numbered_in_the_order_of_the_bundle(settled: Settle) -> None:
    line = f"2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] {XID}\n"
    con = settled({"b/kern.log": line * 2, "a/kern.log": line})
    rows = con.execute("SELECT event_id, file, line FROM events ORDER BY event_id").fetchall()
    assert rows == [(1, "a/kern.log", 1), (2, "b/kern.log", 1), (3, "b/kern.log", 2)]
