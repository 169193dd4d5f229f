"""Growth of counters between readings, and the events it gives."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from postmortem.analysis.run import run_sql
from postmortem.schema import TABLE_BY_NAME
from postmortem.tables.store import connect, create_table

NOON = datetime(2026, 2, 3, 12)
Reading = dict[str, Any]


@pytest.fixture
def con(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """Empty tables `counters` and `events`."""
    con = connect(None, tmp_path)
    for name in ("counters", "events"):
        create_table(con, TABLE_BY_NAME[name])
    return con


def reading(value: float, **other: Any) -> Reading:
    """A reading of the symbol errors of mlx5_0 on node-01."""
    return {
        "ts": None, "host": "node-01", "dev": "mlx5_0", "port": "1", "ifname": None, "counter": "symbol_error",
        "value": value, "program": "sysfs", "file": "a.txt", "line": 1,
    } | other  # fmt: skip


def computed(con: duckdb.DuckDBPyConnection, *readings: Reading) -> list[float | None]:
    """The deltas of these readings, in their order."""
    for n, r in enumerate(readings):
        names = ", ".join(r)
        con.execute(f"INSERT INTO counters ({names}) VALUES ({', '.join('?' * len(r))})", list(r.values()))
        assert n < 100
    run_sql(con, "counters.sql")
    return [d[0] for d in con.execute("SELECT delta FROM counters ORDER BY rowid").fetchall()]


def events(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return con.execute(
        "SELECT event, severity, ts, ts_kind, host, dev, code, value FROM events ORDER BY event_id"
    ).fetchall()


def test_by_time_whatever_the_files(con: duckdb.DuckDBPyConnection) -> None:
    later = NOON + timedelta(minutes=5)
    assert computed(con, reading(50, ts=later, file="a"), reading(20, ts=NOON, file="z")) == [30, None]
    assert events(con) == [("link.errors", "warning", later, "exact", "node-01", "mlx5_0", "symbol_error", "30")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("counters_before.txt", "counters_after.txt"),
        ("node-01/pre/x", "node-01/post/x"),
        ("snap_2.txt", "snap_10.txt"),
        ("perf-20260203-1155.txt", "perf-20260203-1205.txt"),
        ("t0/x.txt", "t1/x.txt"),
    ],
)
def test_by_the_names_of_files(con: duckdb.DuckDBPyConnection, first: str, second: str) -> None:
    assert computed(con, reading(9, file=second), reading(4, file=first)) == [5, None]


def test_by_lines_within_a_file(con: duckdb.DuckDBPyConnection) -> None:
    assert computed(con, reading(4, line=3), reading(9, line=30), reading(9, line=60)) == [None, 5, 0]


@pytest.mark.parametrize(
    "other",
    [
        {"file": "b.txt"},
        {"host": "node-02", "line": 2},
        {"port": "2", "line": 2},
        {"counter": "link_downed", "line": 2},
        {"program": "perfquery", "line": 2},
    ],
)
def test_readings_that_do_not_belong_together(con: duckdb.DuckDBPyConnection, other: Reading) -> None:
    assert computed(con, reading(4), reading(99) | other) == [None, None]
    assert events(con) == []


def test_numbered_files_of_unknown_hosts_are_not_compared(con: duckdb.DuckDBPyConnection) -> None:
    assert computed(con, reading(4, host=None, file="x_1"), reading(99, host=None, file="x_2")) == [None, None]


def test_nameless_ports_are_not_compared(con: duckdb.DuckDBPyConnection) -> None:
    nameless = {"dev": None, "port": None, "program": "ethtool -S"}
    assert computed(con, reading(4, **nameless), reading(99, line=2, **nameless)) == [None, None]


def test_counters_of_the_whole_host_are(con: duckdb.DuckDBPyConnection) -> None:
    stack = {"dev": None, "port": None, "program": "nstat", "counter": "TcpRetransSegs"}
    assert computed(con, reading(4, line=3, **stack), reading(6, line=4, **stack)) == [None, 2]


def test_a_counter_that_fell_was_cleared(con: duckdb.DuckDBPyConnection) -> None:
    assert computed(con, reading(400), reading(3, line=2), reading(20, line=3)) == [None, None, 17]


def test_growth_of_link_errors_is_an_event_and_nothing_else_is(con: duckdb.DuckDBPyConnection) -> None:
    computed(
        con,
        reading(4), reading(14, line=2),  # ten symbols
        reading(4, port="2"), reading(5000, port="2", line=2),
        reading(0, port="3", counter="link_downed"), reading(1, port="3", counter="link_downed", line=2),
        reading(70, port="3"), reading(5000, port="3", line=2),
        reading(7, port="4", counter="port_xmit_wait"), reading(10**9, port="4", counter="port_xmit_wait", line=2),
        reading(10**6, port="5"),
        reading(1, port="ALL"), reading(10**6, port="ALL", line=2),
    )  # fmt: skip
    found = con.execute("SELECT port, code, value, ts, ts_kind, source FROM events ORDER BY port").fetchall()
    assert found == [
        ("2", "symbol_error", "4996", None, "none", "host"),
        ("3", "link_downed", "1", None, "none", "host"),
    ]


def test_switches_are_named_as_source(con: duckdb.DuckDBPyConnection) -> None:
    row = {"host": "leaf-1", "dev": None, "port": "Et1/1", "counter": "FCS", "program": "show interfaces counters"}
    computed(con, reading(0, **row), reading(99, line=2, **row))
    assert con.execute("SELECT source, host, port FROM events").fetchall() == [("switch", "leaf-1", "Et1/1")]


def test_another_xid_than_before_was_raised_in_between(con: duckdb.DuckDBPyConnection) -> None:
    gpu = {"dev": "0000:03:00.0", "port": None, "counter": "DCGM_FI_DEV_XID_ERRORS", "program": "prometheus"}
    times = [NOON + timedelta(minutes=n) for n in range(4)]
    computed(
        con, *(reading(v, ts=t, line=n, **gpu) for n, (v, t) in enumerate(zip((0, 79, 79, 45), times, strict=True)))
    )
    found = con.execute("SELECT event, xid, pci, ts FROM events ORDER BY ts").fetchall()
    assert found == [("gpu.xid", 79, "0000:03:00.0", times[1]), ("gpu.xid", 45, "0000:03:00.0", times[3])]


def test_an_old_xid_is_no_event(con: duckdb.DuckDBPyConnection) -> None:
    gpu = {"dev": "gpu3", "port": None, "counter": "DCGM_FI_DEV_XID_ERRORS", "program": "prometheus"}
    computed(con, reading(79, ts=NOON, **gpu), reading(79, ts=NOON + timedelta(hours=1), **gpu))
    assert events(con) == []
