"""Which episode explains which: what `draw_edges` makes of episodes, cables and NICs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import duckdb
import pytest

from postmortem.analysis.signs import create_macros, draw_edges
from postmortem.analysis.windows import JobTimes
from postmortem.tables.store import create_tables

NOON = datetime(2026, 1, 2, 12)
TIMES = JobTimes(0, NOON, None, None, None, None, None, 1.0, 30.0, 600.0, None, True)
F10 = "F10 a bad optic takes the link down"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Empty tables with one cable, leaf-1 Ethernet1/17 to mlx5_3 of node-7, which is also 0000:9c:00.0."""
    with duckdb.connect() as made:
        create_tables(made)
        create_macros(made)
        made.execute(
            "INSERT INTO ports (switch, port, host, dev) VALUES ('leaf-1', 'Ethernet1/17', 'node-7', 'mlx5_3')"
        )
        made.execute("INSERT INTO nics (host, dev, ifname, pci) VALUES ('node-7', 'mlx5_3', 'ib3', '0000:9c:00.0')")
        yield made


def explained(con: duckdb.DuckDBPyConnection, *episodes: tuple[str, str, str, float]) -> list[tuple[int, int]]:
    """(cause, effect) that F10 draws between episodes (event, host, entity, seconds after noon), numbered from 1."""
    for number, (event, host, entity, after) in enumerate(episodes, start=1):
        when = NOON + timedelta(seconds=after)
        con.execute(
            "INSERT INTO events (event_id, ts, ts_lo, ts_hi, event, host) VALUES (?, ?, ?, ?, ?, ?)",
            [number, when, when, when, event, host],
        )
        con.execute(
            "INSERT INTO episodes (episode, event, host, entity, first_ts, last_ts, event_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [number, event, host, entity, when, when, number],
        )
    draw_edges(con, TIMES)
    return con.execute("SELECT cause_episode, effect_episode FROM edges WHERE rule = ? ORDER BY ALL", [F10]).fetchall()


OPTIC = ("nic.module", "node-7", "0000:9c:00.0", 0.0)


@pytest.mark.parametrize("port", ["Ethernet1/17", "Eth1/17"])
def test_an_optic_explains_both_ends_of_its_cable(con: duckdb.DuckDBPyConnection, port: str) -> None:
    down = [("nic.port_state", "node-7", "0000:9c:00.0", 400.0), ("link.down", "leaf-1", port, 400.0)]
    assert explained(con, OPTIC, *down) == [(1, 2), (1, 3)]


def test_the_switchs_own_optic_explains_the_hosts_end(con: duckdb.DuckDBPyConnection) -> None:
    assert explained(
        con, ("optic.alarm", "leaf-1", "Ethernet1/17", 0.0), ("nic.port_state", "node-7", "mlx5_3", 60.0)
    ) == [(1, 2)]


@pytest.mark.parametrize(
    "down",
    [
        ("link.down", "leaf-1", "Ethernet1/18", 400.0),
        ("link.down", "leaf-2", "Ethernet1/17", 400.0),
        ("nic.port_state", "node-8", "0000:9c:00.0", 400.0),
        ("link.down", "leaf-1", "Ethernet1/17", -60.0),
        ("link.down", "leaf-1", "Ethernet1/17", 7300.0),
    ],
    ids=["another port", "another switch", "another host", "before it", "hours later"],
)
def test_near_misses_are_not_explained(con: duckdb.DuckDBPyConnection, down: tuple[str, str, str, float]) -> None:
    assert explained(con, OPTIC, down) == []


def test_without_a_cable_list_the_ends_are_not_one(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM ports")
    assert explained(con, OPTIC, ("link.down", "leaf-1", "Ethernet1/17", 400.0)) == []
