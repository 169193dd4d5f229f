"""Printed times become UTC: zones, years, boots, and what is left without a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from postmortem.bundle import plan
from postmortem.tables.batches import batches
from postmortem.tables.ingest import parse_batch
from postmortem.tables.settle import settle
from postmortem.tables.store import connect

XID = "NVRM: Xid (PCI:0000:9d:00): 79, pid=10, GPU has fallen off the bus."
PARSERS = Path(__file__).resolve().parents[2] / "parsers"
Settle = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def settled(tmp_path: Path) -> Settle:
    """The tables of a bundle of these files, without the analysis."""

    def run(files: Mapping[str, str], zone_s: int | None = None) -> duckdb.DuckDBPyConnection:
        bundle, spool = tmp_path / "bundle", tmp_path / "spool"
        for name, text in files.items():
            path = bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        spool.mkdir()
        for batch in batches(plan([bundle]).units, spool, [PARSERS]):
            parse_batch(batch)
        con = connect(None, tmp_path)
        settle(con, spool, [], zone_s=zone_s)
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
    ("other", "hour"),
    [
        ("", 6),
        (f"2026-02-03T14:00:00.000000+02:00 node-7 kernel: [ 9.5] {XID}\n", 12),
        (f"2026-02-03T14:00:00.000000+00:00 node-7 kernel: [ 9.5] {XID}\n", 14),
    ],
)
def test_a_given_zone_holds_where_no_line_tells_one(settled: Settle, other: str, hour: int) -> None:
    con = settled({"node-7/kern.log": f"{other}2026-02-03 14:02:11 node-7 kernel: {XID}\n"}, zone_s=8 * 3600)
    moment, _ = times(con)[-1]
    assert moment == datetime(2026, 2, 3, hour, 2, 11)


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


AUDIT = 'audit: type=1400 audit(1770112804.553:65): apparmor="STATUS" operation="profile_replace" profile="unconfined" name="/usr/bin/x" pid=3775319 comm="apparmor_parser"'
"""1770112804 is 2026-02-03 10:00:04 UTC."""


def test_an_epoch_in_a_syslog_without_year_tells_its_zone(settled: Settle) -> None:
    kern = f"""\
Feb  3 19:00:04 node-7 kernel: [  105.400000] {AUDIT}
Feb  3 19:02:11 node-7 kernel: [  232.000000] {XID}
"""
    newest = f"2026-02-03T10:30:00.000000+00:00 node-8 kernel: [ 9.5] {XID}\n"
    con = settled({"node-7/messages": kern, "node-8/kern.log": newest})
    assert times(con)[0] == (datetime(2026, 2, 3, 10, 2, 11), "inferred")


def test_an_epoch_around_new_year_brings_its_own_year(settled: Settle) -> None:
    epoch = int(datetime(2025, 12, 31, 20, 0, 4, tzinfo=UTC).timestamp())
    kern = f"Jan  1 05:00:04 node-7 kernel: [  105.400000] audit: type=2000 audit({epoch}.500:1): state=initialized audit_enabled=0 res=1\n"
    con = settled({"node-7/messages": kern + f"Jan  1 05:02:11 node-7 kernel: [  232.000000] {XID}\n"})
    ((when, _),) = times(con)
    assert when is not None
    assert when.strftime("%m-%d %H:%M:%S") == "12-31 20:02:11"


def test_uptimes_of_a_boot_that_another_file_dates_tell_the_zone(settled: Settle) -> None:
    dmesg = f"[   65.400000] {AUDIT}\n"
    con = settled(
        {"node-7/dmesg.txt": dmesg, "node-7/messages": f"Feb  3 05:02:11 node-7 kernel: [  192.400000] {XID}\n"}
    )
    assert times(con) == [(datetime(2026, 2, 3, 10, 2, 11), "inferred")]


def test_what_a_scheduler_says_of_a_host_is_not_in_the_host_s_zone(settled: Settle) -> None:
    kern = f"2026-02-03T14:02:11.318000+02:00 node-7 kernel: [ 9.5] {XID}\n"
    pods = '{"apiVersion":"v1","kind":"Event","type":"Normal","reason":"Scheduled","message":"Successfully assigned training/job-worker-0 to node-7","lastTimestamp":"2026-02-03T11:50:00Z","involvedObject":{"kind":"Pod","namespace":"training","name":"job-worker-0"}}\n'
    con = settled(
        {"node-7/kern.log": kern, "events.jsonl": pods, "node-7/messages": f"Feb  3 14:03:00 node-7 kernel: {XID}\n"}
    )
    assert [t for t, _ in times(con)] == [datetime(2026, 2, 3, 12, 2, 11, 318_000), datetime(2026, 2, 3, 12, 3)]


@pytest.mark.parametrize(("pods", "hour"), [(True, 12), (False, 10)])
def test_a_job_s_own_lines_are_utc_in_containers_and_local_without(settled: Settle, pods: bool, hour: int) -> None:
    said = '{"apiVersion":"v1","kind":"Event","type":"Normal","reason":"Scheduled","message":"Successfully assigned training/job-worker-0 to node-7","lastTimestamp":"2026-02-03T11:50:00Z","involvedObject":{"kind":"Pod","namespace":"training","name":"job-worker-0"}}\n'
    files = {
        "node-7/kern.log": f"2026-02-03T14:02:11.318000+02:00 node-7 kernel: [ 9.5] {XID}\n",
        "node-7/job.log": "[2026-02-03 12:00:01,000] [INFO] node-7:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n",
    }
    con = settled(files | ({"events.jsonl": said} if pods else {}))
    assert times(con, "nccl.version") == [(datetime(2026, 2, 3, hour, 0, 1), "inferred")]


def test_a_fabric_manager_prints_the_zone_of_most_hosts(settled: Settle) -> None:
    kern = f"2026-02-03T20:02:11.318000+08:00 node-7 kernel: [ 9.5] {XID}\n"
    sm = 'Feb 03 19:58:27 585807 [4F2006C0] 0x01 -> perfmgr_log_errors: ERR 543D: XmitWait : 249269003 : node "leaf-1" (NodeGUID: 0xfc6a1c03003200d0) : port 4\n'
    con = settled({"node-7/kern.log": kern, "opensm.log": sm})
    assert times(con, "congestion.wait") == [(datetime(2026, 2, 3, 11, 58, 27, 585_807), "inferred")]


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("*Mar  1 00:00:43.123", (None, "none")),
        ("*Feb  3 14:02:11.123", (datetime(2026, 2, 3, 14, 2, 11, 123_000), "inferred")),
        (".Feb  3 2026 14:02:11.123 UTC", (datetime(2026, 2, 3, 14, 2, 11, 123_000), "inferred")),
        ("Feb  3 2026 14:02:11.123 UTC", (datetime(2026, 2, 3, 14, 2, 11, 123_000), "exact")),
        ("*Mar  1 1993 00:00:43.123 UTC", (None, "none")),
    ],
)
def test_a_switch_s_own_doubts_about_its_clock_are_believed(
    settled: Settle, stamp: str, expected: tuple[datetime | None, str]
) -> None:
    line = f"<187>45: sw-1: {stamp}: %LINK-3-UPDOWN: Interface TenGigabitEthernet1/0/1, changed state to down\n"
    newest = f"2026-02-03T14:30:00.000000+00:00 node-8 kernel: [ 9.5] {XID}\n"
    con = settled({"switch.log": line, "node-8/kern.log": newest})
    assert times(con, "link.down") == [expected]
