"""Spool → the tables `events`, `facts`, `files`, `coverage`, `odd_lines` and what decoders wrote, times in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from postmortem.bundle import Problem
from postmortem.catalogue.matcher import ROW_SCHEMA
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import ENTITY, TABLE_BY_NAME
from postmortem.tables.ingest import FILE_SCHEMA, ODD_SCHEMA
from postmortem.tables.known_switches import find_switches, rename_decoded
from postmortem.tables.repeats import NUMBERS
from postmortem.tables.statements import parsed
from postmortem.tables.store import create_tables, fill_from_spool
from postmortem.tables.switch_names import SwitchName

DECODED: Final = (
    "collectives",
    "groups",
    "qp_samples",
    "proxy_steps",
    "coll_samples",
    "op_times",
    "ports",
    "counters",
    "stacks",
)
"""Public tables that decoders alone fill."""

STATED: Final = ("gpus", "nics", "addresses")
"""Public tables to which decoders contribute: their rows become the temporary tables `stated_gpus`, …"""

ROWWISE: Final = ("raw_rows", "placed", "dated", "settled")
"""Tables of settle.sql with a row per row of the spool: of a large one they are views, so that nothing as long is held."""
VIEWS_FROM: Final = 500_000
MOST_RANKS: Final = 1 << 24
SORTED_ROWS: Final = 100_000

_CALL: Final = "'opCount .* count [0-9]+', 'opCount ' || lower(to_hex(p.seq)) || ' … count ' || p.numel"
_PAIR: Final = "'qp_num [0-9]+ .*', 'qp_num ' || p.qpn || ' …'"
_CHANNEL: Final = "'Channel [0-9]+', 'Channel ' || lpad(p.channel::VARCHAR, 2, '0')"
_REPEATED: Final = {
    "line": "p.line",
    "offset": 'p."offset" + t."offset" - t._offset',
    "from_neighbour": "false",
    **{name: f"coalesce(p.{name}, t.{name})" for name in NUMBERS},
    **{
        name: f"CASE WHEN p.seq IS NOT NULL THEN regexp_replace(t.{name}, {_CALL}) WHEN p.qpn IS NOT NULL THEN regexp_replace(t.{name}, {_PAIR})"
        f" WHEN p.channel IS NOT NULL THEN regexp_replace(t.{name}, {_CHANNEL}) ELSE t.{name} END"
        for name in ("text", "message")
    },
}
"""What a row for a narrow one has of its own; the rest is its template's. Pointers of calls are not kept; an ellipsis stands for them."""

_EMPTY: Final[dict[str, dict[str, pl.DataType | type[pl.DataType]]]] = {
    "events": {**ROW_SCHEMA, "from_neighbour": pl.Boolean},
    "files": dict(FILE_SCHEMA),
    "odd_lines": dict(ODD_SCHEMA),
}
"""Folders of the spool that are missed when nothing was written there, and their columns."""
_TYPES: Final = {polars: name for name, polars in POLARS_TYPES.items()}
_STAR: Final = "(?:[0-9]{4} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +[0-9]{1,2} "
_KEPT: Final = (
    *("file", "line", "offset", "sub", "definition", "event", "source", "host", "uptime_s", "from_neighbour"),
    *("stamp_us", "stamp_has_year", "stamp_zone_s", "stamp_res_us", "stamp2_us", "stamp2_zone_s"),
)


def _own(name: str) -> str:
    return f'r."{name}"'


def _repeated(name: str) -> str:
    return _REPEATED.get(name, f't."{name}"')


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the line pass in a folder of the spool: where they come from, the two numbers that tell them apart, and the SQL of a column by its name."""

    source: str
    row_id: str
    nth: str
    column: Callable[[str], str]

    def select(self, columns: Sequence[str]) -> str:
        """Their numbers and `columns`."""
        listed = ", ".join(f'{self.column(name)} AS "{name}"' for name in columns)
        return f"SELECT {self.row_id} AS row_id, {self.nth} AS nth, {listed} FROM {self.source}"

    def narrow(self, *, is_fact: bool | None, may_be_double: bool) -> str:
        """Their numbers, their places, and what tells their time."""
        c = self.column
        said = f"{c('source')} IN ('switch', 'host') THEN regexp_matches(coalesce({c('text')}, ''), '(?:^|[ :>])"
        told = {
            "is_fact": c("is_fact") if is_fact is None else str(is_fact).lower(),
            "may_be_double": str(may_be_double).lower(),
            "value": f"CASE WHEN {c('event')} IN ('clock.boot_epoch', 'clock.zone') THEN {c('value')} END",
            "has_guid": f"{c('guid')} IS NOT NULL",
            "is_manager": f"contains({c('headers')}, '|opensm|') OR contains({c('headers')}, '|ufm|')",
            "is_starred": f"CASE WHEN {said}\\*{_STAR}') ELSE false END",
            "is_unsynced": f"CASE WHEN {said}[.*]{_STAR}') ELSE false END",
        }
        columns = {**{name: c(name) for name in _KEPT}, **told}
        listed = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
        return f"SELECT {self.row_id} AS row_id, {self.nth} AS nth, {listed} FROM {self.source}"


_EVENTS: Final = _Rows("spooled_events r", "r.row_id * 4", "0", _own)
_FACTS: Final = _Rows("spooled_facts r", "r.row_id * 4 + 1", "0", _own)
_REPEATS: Final = _Rows(
    "spooled_repeats p JOIN numbered_templates t USING (template)", "p.row_id * 4 + 2", "t.nth", _repeated
)
"""A template has a row for each event of its line."""


def _load(con: duckdb.DuckDBPyConnection, spool: Path, folder: str) -> bool:
    """A temporary view `spooled_…` over a folder of the spool, its rows numbered; False when nothing was written there."""
    pattern = spool / folder / "*.parquet"
    if any(pattern.parent.glob("*.parquet")):
        path = str(pattern).replace("'", "''")
        con.execute(
            f"CREATE TEMP VIEW spooled_{folder} AS SELECT *, (file_index::BIGINT << 34) + file_row_number AS row_id FROM read_parquet('{path}')"
        )
        return True
    if folder in _EMPTY:
        columns = ", ".join(f'"{name}" {_TYPES[kind]}' for name, kind in _EMPTY[folder].items())
        con.execute(f"CREATE TEMP TABLE spooled_{folder} ({columns}, row_id BIGINT)")
    return False


def settle(
    con: duckdb.DuckDBPyConnection,
    spool: Path,
    problems: list[Problem],
    *,
    whole: bool = True,
    zone_s: int | None = None,
    switch_names: Sequence[SwitchName] = (),
) -> None:
    """Create all public tables in `con` and fill those that parsing alone can fill.

    Without `whole` the table `events` has of lines that come back thousands of times only the first and the last
    (`postmortem.tables.repeats`); `coverage` counts all. `zone_s`: seconds east of UTC of clocks whose zone no line tells, UTC where it is None.
    `switch_names`: rules for the names that switches go by; the temporary table `switch_names` says which ones were used.
    """
    con.execute(f"SET VARIABLE given_zone_s = {'NULL' if zone_s is None else int(zone_s)}::INTEGER")
    create_tables(con)
    there = {
        name for name in ("events", "facts", "templates", "repeats", "files", "odd_lines") if _load(con, spool, name)
    }
    # A huge file is read in ranges, each of which has a row.
    con.execute("""
        CREATE TEMP TABLE raw_files AS
        SELECT file, any_value(kind) AS kind, sum(bytes)::BIGINT AS bytes, any_value(host) AS host, any_value(host_basis) AS host_basis,
               string_agg(DISTINCT note, '; ') AS note, any_value(rank) AS rank, sum(lines)::BIGINT AS lines, sum(odd)::BIGINT AS odd, max(mtime) AS mtime
        FROM spooled_files GROUP BY file""")
    find_switches(con, spool, switch_names, tuple(there & {"events", "facts"}))
    if "repeats" in there and whole:
        con.execute("""
            CREATE TEMP TABLE numbered_templates AS
            SELECT *, row_number() OVER (PARTITION BY template ORDER BY sub, definition, event) AS nth FROM spooled_templates""")
    else:
        there.discard("repeats")
    rows = [_EVENTS.narrow(is_fact=None, may_be_double=True)]
    if "facts" in there:
        rows.append(_FACTS.narrow(is_fact=True, may_be_double=False))
    if "repeats" in there:
        rows.append(_REPEATS.narrow(is_fact=None, may_be_double=False))
    con.execute(f"CREATE TEMP VIEW spooled_rows AS {' UNION ALL '.join(rows)}")
    counted = " + ".join(f"(SELECT count(*) FROM spooled_{name})" for name in ("events", "repeats") if name in there)
    count = con.execute(f"SELECT {counted or '0'}").fetchone()
    is_large = bool(count and count[0] > VIEWS_FROM)
    for s in parsed("postmortem.tables", "settle.sql"):
        con.execute(s.sql.replace("TEMP TABLE", "TEMP VIEW", 1) if is_large and s.name in ROWWISE else s.sql)
    _events(con, there, in_order=whole, in_parts=whole or is_large)
    for name in DECODED:
        fill_from_spool(con, spool, name)
    for name in STATED:
        con.execute(f"CREATE TEMP TABLE stated_{name} AS FROM {name} LIMIT 0")
        fill_from_spool(con, spool, name, f"stated_{name}")
    rename_decoded(con)
    con.execute("CREATE TEMP TABLE omitted (file VARCHAR, recognised HUGEINT, events HUGEINT)")
    if "templates" in there and not whole:
        con.execute("""
            INSERT INTO omitted
            SELECT file, sum(times) AS recognised, sum(times * events) AS events FROM (
                SELECT file, template, any_value(times) AS times, count(*) FILTER (NOT is_fact) AS events FROM spooled_templates GROUP BY file, template
            ) GROUP BY file""")
    _files(con, problems)
    con.execute("DROP VIEW zoned")
    for name in reversed(ROWWISE):
        con.execute(f"DROP {'VIEW' if is_large else 'TABLE'} {name}")
    for name in ("omitted", "newest", "numbered", "boots"):
        con.execute(f"DROP TABLE {name}")


def _events(con: duckdb.DuckDBPyConnection, there: set[str], *, in_order: bool, in_parts: bool) -> None:
    """Fill `events`, numbered in the order of files and lines, `facts`, and the temporary tables `row_clock` and `borrowed`."""
    con.execute("CREATE TEMP TABLE borrowed (event_id BIGINT)")
    con.execute(
        "CREATE TEMP TABLE row_clock (event_id BIGINT, clock BIGINT, res_us BIGINT, is_borrowed BOOLEAN, lines INTEGER)"
    )
    # Only what is sorted at a time has to be held; the files of a part follow those of the part before.
    parts = (
        []
        if not in_parts
        else con.execute(f"""
        SELECT min(file), max(file), sum(n)::BIGINT FROM (
          SELECT file, n, (sum(n) OVER (ORDER BY file ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - n) // {SORTED_ROWS} AS part
          FROM (SELECT file, count(*) AS n FROM settled WHERE NOT is_fact GROUP BY file)) GROUP BY part ORDER BY part""").fetchall()
    )
    names_hca, done = _hca_names(con, there), 0
    if len(parts) < 2:
        _numbered(con, there, 0, None, in_order=in_order, names_hca=names_hca)
    else:
        for first, last, count in parts:
            _numbered(con, there, done, (first, last), in_order=in_order, names_hca=names_hca)
            done += count
    columns = TABLE_BY_NAME["facts"].names[1:]
    own = {"ts", "ts_kind", "host", "boot"}
    listed = ", ".join(f'{"s" if c in own else "r"}."{c}"' for c in columns)
    stored = [c for c in columns if c not in own]
    for name, rows in (("facts", _FACTS), ("repeats", _REPEATS)):
        if name in there:
            con.execute(f"""
                INSERT INTO facts SELECT s.event, {listed} FROM ({rows.select(stored)}) r JOIN settled s USING (row_id, nth)
                WHERE s.is_fact ORDER BY s.file, s.line, s."offset", s.sub, s.definition""")


def _all(there: set[str], columns: Sequence[str]) -> str:
    """The numbers and `columns` of all rows that may be events."""
    return " UNION ALL ".join(r.select(columns) for r in (_EVENTS, *((_REPEATS,) if "repeats" in there else ())))


def _hca_names(con: duckdb.DuckDBPyConnection, there: set[str]) -> bool:
    """The temporary table `hca_names`, when there is any: NCCL's queue-pair lines name the HCA by its index in the list that the same process printed at its start."""
    found = con.execute("SELECT EXISTS (FROM settled WHERE event = 'nccl.qp')").fetchone()
    if not found or not found[0]:
        return False
    rows = _all(there, ("event", "dev", "pid", "message"))
    con.execute(f"""
        CREATE TEMP TABLE hca_names AS
        WITH named AS (
          SELECT s.file, s.line, s."offset", s.sub, s.host, r.* FROM ({rows}) r JOIN settled s USING (row_id, nth) WHERE r.event IN ('nccl.qp', 'nccl.ib_device')
        )
        SELECT q.file, q.line, q."offset", arg_max(d.dev, (d.file = q.file AND d.line < q.line, d.line)) AS dev
        FROM named q LEFT JOIN named d
          ON d.event = 'nccl.ib_device' AND d.dev IS NOT NULL AND d.sub = try_cast(q.dev AS BIGINT) AND d.host = q.host AND d.pid = q.pid AND contains(d.message, 'Using [')
         AND d.file = q.file
        WHERE q.event = 'nccl.qp' AND regexp_full_match(q.dev, '[0-9]+') GROUP BY q.file, q.line, q."offset"
    """)
    return True


def _numbered(
    con: duckdb.DuckDBPyConnection,
    there: set[str],
    done: int,
    span: tuple[str, str] | None,
    *,
    in_order: bool,
    names_hca: bool,
) -> None:
    """The events of the files of `span` (of all without one), numbered from `done` + 1."""
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE numbered AS
        SELECT {done} + row_number() OVER in_order AS event_id, row_id, nth, file, line, "offset", host, boot, ts, ts_kind, clock_host, class, used_zone_s AS zone_s,
          CASE WHEN date_us IS NULL AND anchor_rank = 1 THEN 'uptime' ELSE zone_basis END AS zone_basis,
          max(coalesce(CASE WHEN date_us IS NULL THEN 1000000 END, stamp_res_us, 1000000)) OVER place AS res_us, bool_or(from_neighbour) OVER place AS is_borrowed,
          lag((file_number, line, "offset")) OVER in_order IS DISTINCT FROM (file_number, line, "offset") AS is_first
        FROM settled WHERE NOT is_fact {"AND file BETWEEN ? AND ?" if span else ""}
        WINDOW place AS (PARTITION BY file_number, line, "offset"), in_order AS (ORDER BY file_number, line, "offset", sub, definition, event)""",
        span or (),
    )
    own = {"boot": "n.boot"}
    # What no job has is a damaged number, and sums of it would not fit any column.
    own |= {c: f"CASE WHEN r.{c} < {MOST_RANKS} THEN r.{c} END" for c in ("rank", "local_rank", "nranks", "peer_rank")}
    if names_hca:
        own["dev"] = "CASE WHEN r.event = 'nccl.qp' AND h.file IS NOT NULL THEN h.dev ELSE r.dev END"
    entity = ", ".join(own.get(c.name, f'r."{c.name}"') for c in ENTITY)
    columns = ["source", "event", "severity", "file", "line", "offset", "message", "text"]
    columns += [c.name for c in ENTITY if c.name != "boot"]
    con.execute(
        f"""
        INSERT INTO events
        SELECT n.ts, n.ts_kind, n.host, r.source, r.event, r.severity, r.file, r.line, r."offset", r.message, {entity}, n.ts, n.ts, n.ts, n.event_id, r.text
        FROM ({_all(there, columns)}) r JOIN numbered n USING (row_id, nth)
        {'LEFT JOIN hca_names h ON h.file = n.file AND h.line = n.line AND h."offset" = n."offset"' if names_hca else ""}
        {"WHERE r.file BETWEEN ? AND ?" if span else ""} {"ORDER BY n.event_id" if in_order else ""}""",
        span or (),
    )
    con.execute(
        "INSERT INTO row_clock SELECT event_id, clock, res_us, is_borrowed, is_first::INTEGER FROM numbered JOIN clock_key USING (clock_host, class, zone_s, zone_basis) WHERE ts IS NOT NULL"
    )
    # Rows whose time is that of the line above: at least that late, no more is known.
    con.execute("INSERT INTO borrowed SELECT event_id FROM numbered WHERE is_borrowed")


def _files(con: duckdb.DuckDBPyConnection, problems: list[Problem]) -> None:
    con.execute(
        "INSERT INTO files SELECT f.file, f.kind, f.bytes, h.host, h.basis, f.note FROM raw_files f LEFT JOIN file_host h USING (file) ORDER BY f.file"
    )
    con.execute("INSERT INTO odd_lines SELECT file, line, why, text FROM spooled_odd_lines ORDER BY file, line, why")
    for problem in sorted(problems, key=lambda p: (p.name, p.what)):
        con.execute(
            "INSERT INTO files SELECT ?, 'unreadable', 0, NULL, 'none', ? WHERE NOT EXISTS (FROM files WHERE file = ?)",
            [problem.name, problem.what, problem.name],
        )
        con.execute("INSERT INTO odd_lines VALUES (?, 0, ?, '')", [problem.name, problem.what])
    con.execute("""
        INSERT INTO coverage
        SELECT f.file, f.bytes, coalesce(r.lines, 0), coalesce(e.recognised, 0) + coalesce(n.recognised, 0), coalesce(e.events, 0) + coalesce(n.events, 0),
               greatest(coalesce(r.odd, 0), CASE WHEN f.note IS NULL THEN 0 ELSE 1 END), e.sources, e.first_ts, e.last_ts
        FROM files f LEFT JOIN raw_files r USING (file) LEFT JOIN (
            SELECT file, count(DISTINCT line) AS recognised, count(*) FILTER (NOT is_fact) AS events,
                   string_agg(DISTINCT source, ',' ORDER BY source) AS sources,
                   min(ts) FILTER (NOT is_fact) AS first_ts, max(ts) FILTER (NOT is_fact) AS last_ts
            FROM settled GROUP BY file) e USING (file)
        LEFT JOIN omitted n USING (file)
        ORDER BY f.file""")
