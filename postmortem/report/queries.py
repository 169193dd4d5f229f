"""What the report reads from the database: typed rows of the queries in reports/sql."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import duckdb

from postmortem.resources import data_folder


@dataclass(frozen=True, slots=True)
class Lane:
    """Events of one place in the window, by severity; the `bad_` fields say where trouble began."""

    name: str
    fatal: int
    error: int
    warning: int
    info: int
    bad_at: datetime | None = None
    bad_event: str | None = None
    bad_file: str | None = None
    bad_line: int | None = None


@dataclass(frozen=True, slots=True)
class LaneBin:
    """One cell of the timeline; `place` 0 is the lane of all others, `worst` 0 info to 3 fatal."""

    place: int
    bin: int
    worst: int
    events: int
    bad: int
    event: str


@dataclass(frozen=True, slots=True)
class StepBin:
    """Step times (ms) of a run of steps."""

    bin: int
    first: int
    last: int
    steps: int
    fastest: float
    typical: float
    slowest: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A finished checkpoint."""

    step: int
    is_durable: bool


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """How much of one member was understood."""

    file: str
    kind: str
    host: str
    bytes: int
    lines: int
    recognised: int
    events: int
    odd: int
    sources: str
    note: str


@dataclass(frozen=True, slots=True)
class CoverageTotals:
    """How many members were not understood."""

    files: int
    unreadable: int
    binary: int
    silent: int
    lines: int
    recognised: int
    odd: int


@dataclass(frozen=True, slots=True)
class OddLine:
    """One example of a line that could not be read."""

    file: str
    line: int
    why: str
    text: str


@cache
def _sql(name: str) -> str:
    return (data_folder("reports") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _rows(con: duckdb.DuckDBPyConnection, name: str, **values: object) -> list[tuple[Any, ...]]:
    return con.execute(_sql(name), values).fetchall() if values else con.execute(_sql(name)).fetchall()


def rows_of(con: duckdb.DuckDBPyConnection, name: str, **values: object) -> list[tuple[Any, ...]]:
    """Rows of the query reports/sql/<name>.sql."""
    return _rows(con, name, **values)


def event_range(con: duckdb.DuckDBPyConnection) -> tuple[datetime, datetime] | None:
    """First and last time of the events; None when none has a time."""
    first, last = _rows(con, "timeline_range")[0]
    return None if first is None else (first, last)


def lanes(con: duckdb.DuckDBPyConnection, lo: datetime, hi: datetime) -> list[Lane]:
    """Every place with events in the window, the worst first."""
    found = []
    for name, fatal, error, warning, info, bad in _rows(con, "timeline_lanes", lo=lo, hi=hi):
        worst = (bad["moment"], bad["event"], bad["file"], bad["line"]) if bad else (None, None, None, None)
        found.append(Lane(name, fatal, error, warning, info, *worst))
    return found


def lane_bins(con: duckdb.DuckDBPyConnection, lo: datetime, hi: datetime, names: list[str], bins: int) -> list[LaneBin]:
    """The cells of the timeline that hold events, by place and bin."""
    rows = _rows(con, "timeline_bins", lo=lo, hi=hi, lanes=names, bins=bins)
    return [LaneBin(place, bin_, worst, events, bad, event or "") for place, bin_, worst, events, bad, event in rows]


def step_bins(con: duckdb.DuckDBPyConnection, bins: int) -> list[StepBin]:
    """Step times of the last attempt that did work, in at most `bins` runs of steps."""
    return [StepBin(*row) for row in _rows(con, "steps", bins=bins)]


def checkpoints(con: duckdb.DuckDBPyConnection, first: int, last: int) -> list[Checkpoint]:
    """Finished checkpoints among these steps, at most 500."""
    return [Checkpoint(*row) for row in _rows(con, "checkpoints", first=first, last=last)]


def file_coverage(con: duckdb.DuckDBPyConnection, rows: int) -> list[FileCoverage]:
    """Members of the bundle, the least understood first."""
    return [FileCoverage(*row) for row in _rows(con, "coverage", rows=rows)]


def coverage_totals(con: duckdb.DuckDBPyConnection) -> CoverageTotals:
    """Counts over all members."""
    return CoverageTotals(*_rows(con, "coverage_totals")[0])


def odd_lines(con: duckdb.DuckDBPyConnection, rows: int) -> list[OddLine]:
    """Examples of odd lines, by file and line."""
    return [OddLine(*row) for row in _rows(con, "odd_lines", rows=rows)]


def rank_ends(con: duckdb.DuckDBPyConnection, since: datetime | None) -> list[tuple[Any, ...]]:
    """(rank, node, local rank, kind, event, time, file, line) of the first error of every rank since a time; nulls where there is none."""
    return _rows(con, "rank_ends", lo=since)


def settings(con: duckdb.DuckDBPyConnection, rows: int) -> list[tuple[str, str, int, str, int]]:
    """(name, value, hosts that print it, file, line) of the job's settings, at most `rows`."""
    return [(name, value, hosts, file, line) for name, value, _, hosts, file, line in _rows(con, "settings", rows=rows)]


def switch_names(con: duckdb.DuckDBPyConnection, rows: int) -> list[tuple[str, str, str, int]]:
    """(printed name, name given for it, file, line) of the switches that go by a given name, at most `rows`."""
    return con.execute(
        "SELECT a, b, file, line FROM joins WHERE kind = 'switch-name' ORDER BY b, a LIMIT ?", [rows]
    ).fetchall()
