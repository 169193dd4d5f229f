"""A trace for ui.perfetto.dev: hosts, GPUs, NICs, ranks, switch ports as tracks, on one clock.

Steps, collectives and timed transfers are slices, faults are instants, counters are counters; arrows lead from causes to effects (table
`edges`) and along the lines that prove the first finding. Rows come from the database in batches and are written at once. The loop is over
the rows that are drawn, at most `LIMIT` of each kind: a trace has one record for each.
"""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final, cast

import duckdb

from postmortem.analysis.model import Analysis
from postmortem.analysis.stored import load
from postmortem.errors import UsageError
from postmortem.outputs import partial
from postmortem.report import perfetto_wire as wire
from postmortem.report.words import cause_title, culprit_name
from postmortem.resources import data_folder

LIMIT: Final = 400_000
"""Rows drawn of each kind; the viewer becomes slow with many more."""
ARROWS: Final = 20_000
BATCH: Final = 4096
US: Final = 1000
ROOT: Final = 1
ORDER: Final = (
    ("verdict", "job", "host ", "switch ", "place ", "operations", "queue pairs"),
    ("events", "steps", "checkpoints", "GPU ", "NIC ", "device ", "port ", "rank ", "stage ", "counters"),
)
"""Beginnings of names in the order they are shown: below the root, and further down."""
SLICES: Final = ("attempts", "steps", "checkpoints", "collectives", "coll_samples", "qp_samples", "op_times")
SOURCES: Final = {
    "events": "severity IN ('warning', 'error', 'fatal')",
    "steps": "is_main OR rank IS NOT NULL",
    "collectives": "true",
    "coll_samples": "true",
    "qp_samples": "true",
    "op_times": "true",
    "counters": "true",
}
"""Rows of each table that belong in the trace."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a trace holds; `left_out` counts rows by table that have no time or are above the limit."""

    packets: int
    tracks: int
    left_out: tuple[tuple[str, int], ...]


class _Writer:
    """Writes packets; describes a track before its first event, and gives slices that overlap tracks of the same name."""

    def __init__(self, file: IO[bytes], name: str, origin_us: int) -> None:
        self.file = file
        self.packets = 0
        self.uuids: dict[tuple[str, ...], int] = {}
        self.lanes: dict[tuple[str, ...], list[tuple[float, int]]] = {}
        self.drawn: dict[str, int] = {}
        self.put(wire.clock_snapshot(origin_us * US))
        self.put(wire.track(ROOT, f"postmortem: {name}", None))

    def put(self, data: bytes) -> None:
        if data:
            self.file.write(data)
            self.packets += 1

    def track(self, path: tuple[str, ...], lane: int = 0, unit: str | None = None) -> int:
        """Id of the track; the tracks above it are described too."""
        key = (*path, f"\0{lane}{'' if unit is None else 'c'}")
        if key not in self.uuids:
            # A digest of the name: the same in every trace of the bundle.
            digest = blake2b("\x1f".join(key).encode("utf-8", "backslashreplace"), digest_size=7).digest()
            self.uuids[key] = int.from_bytes(digest, "big") + 2
            parent = self.track(path[:-1]) if len(path) > 1 else ROOT
            self.put(wire.track(self.uuids[key], path[-1], parent, _place(path), unit))
        return self.uuids[key]

    def slice(
        self, path: tuple[str, ...], begin_us: int, end_us: int | None, name: str, category: str, notes: Any
    ) -> None:
        """A slice, begin and end; without an end it goes on to the end of the trace."""
        # Slices of a track must lie within one another: one that begins before another ends gets the next free track of that name.
        lanes = self.lanes.setdefault(path, [])
        ends = float("inf") if end_us is None else end_us
        if lanes and lanes[0][0] <= begin_us:
            lane = heapq.heapreplace(lanes, (ends, lanes[0][1]))[1]
        else:
            lane = len(lanes)
            heapq.heappush(lanes, (ends, lane))
        uuid = self.track(path, lane)
        self.put(wire.event(wire.BEGIN, uuid, begin_us * US, name, category, notes))
        if end_us is not None:
            self.put(wire.event(wire.END, uuid, max(begin_us, end_us) * US))


def _place(path: tuple[str, ...]) -> int:
    """Where a track stands among its siblings: by kind, then by the number in its name."""
    kinds = ORDER[min(len(path) - 1, 1)]
    kind = next((place for place, head in enumerate(kinds) if path[-1].startswith(head)), len(kinds))
    digits = "".join(c for c in path[-1].split(" ")[1] if c in "0123456789")[:6] if " " in path[-1] else ""
    return kind * 1_000_000 + int(digits or 0)


@cache
def _sql(name: str) -> str:
    return (data_folder("reports") / "sql" / "trace" / f"{name}.sql").read_text(encoding="utf-8")


def _batches(
    con: duckdb.DuckDBPyConnection, name: str, values: dict[str, int]
) -> Iterator[tuple[list[str], list[Any]]]:
    """Column names and rows of a query, some thousand at a time."""
    text = _sql(name)
    cursor = con.execute(text, {key: value for key, value in values.items() if f"${key}" in text})
    names = [column[0] for column in cursor.description or []]
    while rows := cursor.fetchmany(BATCH):
        yield names, rows


def write_file(con: duckdb.DuckDBPyConnection, target: Path) -> Written:
    """Write the trace of an incident's database to a file, compressed where its name ends in `.gz`; it is whole or as it was."""
    try:
        analysis, _ = load(con)
    except UsageError:
        analysis = None  # of an older version: a trace without its verdict
    with partial(target) as path, path.open("wb") as file:
        if target.suffix != ".gz":
            return write_trace(con, file, analysis)
        # No name and no time in the header: the same incident gives the same bytes.
        with gzip.GzipFile("", "wb", 6, file, 0) as packed:
            return write_trace(con, cast("IO[bytes]", packed), analysis)


def write_trace(
    con: duckdb.DuckDBPyConnection, file: IO[bytes], analysis: Analysis | None = None, limit: int = LIMIT
) -> Written:
    """Write the trace of the incident whose tables are in `con` (they may be read-only); `analysis` adds the verdict.

    Times are those of the common clock (`ts_aligned`), nanoseconds since 1970, UTC. The same tables give the same bytes.
    """
    row = con.execute(
        "SELECT epoch_us(min(coalesce(ts_aligned, ts))) FROM events WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01'"
    ).fetchone()
    origin = (
        int(row[0]) if row and row[0] is not None else int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    )
    values = {"limit": limit, "origin_us": origin}
    for statement in _sql("setup").split(";\n"):
        if statement.strip():
            con.execute(statement, {"arrows": ARROWS} if "$arrows" in statement else None)
    writer = _Writer(file, analysis.bundle if analysis else "incident", origin)
    if analysis is not None:
        _verdict(writer, analysis)
    _instants(writer, con, values)
    for name in SLICES:
        _slices(writer, con, name, values)
    _counters(writer, con, values)
    return Written(writer.packets, len(writer.uuids), tuple(_left_out(con, writer.drawn)))


def _us(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1)).total_seconds() * 1_000_000)


def _verdict(writer: _Writer, analysis: Analysis) -> None:
    """The key times as instants, the bounds of the onset as a slice, and each finding at its onset."""
    verdict, job = analysis.verdict, analysis.job
    track = writer.track(("verdict",))
    notes = [("verdict", f"{cause_title(verdict.cause)}, {verdict.word}"), ("summary", verdict.summary)]
    for name, moment in (
        ("started", job.start),
        ("last progress", analysis.last_progress),
        ("onset", verdict.onset),
        ("detected", analysis.detected),
        ("ended", job.end),
    ):
        if moment is not None and moment.year >= 1971:
            mine = notes if name == "onset" else []
            writer.put(wire.event(wire.INSTANT, track, _us(moment) * US, name, "verdict", mine))
    lo, hi = verdict.onset_lo, verdict.onset_hi
    if lo is not None and hi is not None and lo.year >= 1971 and lo < hi:
        writer.slice(("verdict", "onset between"), _us(lo), _us(hi), "onset", "verdict", notes)
    for number, finding in enumerate(analysis.findings[:20], start=1):
        if finding.onset is None or finding.onset.year < 1971:
            continue
        place = writer.track(("verdict", f"finding {number}"))
        facts: list[tuple[str, wire.Value]] = [("confidence", finding.confidence), ("summary", finding.summary)]
        named = culprit_name(finding.culprit, finding.cause)
        facts += [("culprit", named)] if named else []
        writer.put(
            wire.event(
                wire.INSTANT,
                place,
                _us(finding.onset) * US,
                f"{number}. {cause_title(finding.cause)}",
                "finding",
                facts,
            )
        )


def _notes(names: list[str], row: tuple[Any, ...]) -> list[tuple[str, wire.Value]]:
    return [(name, value) for name, value in zip(names, row, strict=True) if value is not None]


def _instants(writer: _Writer, con: duckdb.DuckDBPyConnection, values: dict[str, int]) -> None:
    severity = 0
    for names, rows in _batches(con, "instants", values):
        for path, name, category, begin, flows, last_flows, *rest in rows:
            uuid = writer.track(tuple(path))
            notes = _notes(names[6:], tuple(rest))
            writer.put(wire.event(wire.INSTANT, uuid, begin * US, name, category, notes, flows or (), last_flows or ()))
            severity += rest[0] in ("warning", "error", "fatal")
    writer.drawn["events"] = severity


def _slices(writer: _Writer, con: duckdb.DuckDBPyConnection, query: str, values: dict[str, int]) -> None:
    drawn = 0
    for names, rows in _batches(con, query, values):
        for path, name, category, begin, end, *rest in rows:
            writer.slice(tuple(path), begin, end, name, category, _notes(names[5:], tuple(rest)))
        drawn += len(rows)
    writer.drawn[query] = drawn


def _counters(writer: _Writer, con: duckdb.DuckDBPyConnection, values: dict[str, int]) -> None:
    drawn = 0
    for _, rows in _batches(con, "counters", values):
        for path, at, value in rows:
            writer.put(wire.count(writer.track(tuple(path), unit=""), at * US, value))
        drawn += sum(path[0] != "job" for path, _, _ in rows)
    writer.drawn["counters"] = drawn


def _left_out(con: duckdb.DuckDBPyConnection, drawn: dict[str, int]) -> Iterator[tuple[str, int]]:
    for table, condition in SOURCES.items():
        row = con.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
        missing = (int(row[0]) if row else 0) - drawn.get(table, 0)
        if missing > 0:
            yield table, missing
