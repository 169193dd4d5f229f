"""Spool → the tables `events`, `facts`, `files`, `coverage`, `odd_lines` and what decoders wrote, times in UTC."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from postmortem.bundle import Problem
from postmortem.catalogue.matcher import ROW_SCHEMA
from postmortem.schema import ENTITY, TABLE_BY_NAME
from postmortem.tables.ingest import FILE_SCHEMA, ODD_SCHEMA
from postmortem.tables.repeats import REPEAT_SCHEMA
from postmortem.tables.statements import parsed
from postmortem.tables.store import create_tables, fill_from_spool

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

ROWWISE: Final = ("placed", "dated", "settled")
"""Tables of settle.sql with a row per row of the spool: of a large one they are views, so that nothing as wide is held."""
VIEWS_FROM: Final = 200_000
SORTED_ROWS: Final = 100_000

_REPEATED: Final = """
    SELECT t.* EXCLUDE (template, times, _offset) REPLACE (
      p.line AS line, p."offset" + t."offset" - t._offset AS "offset",
      coalesce(p.seq, t.seq) AS seq, coalesce(p.numel, t.numel) AS numel, coalesce(p.qpn, t.qpn) AS qpn, coalesce(p.channel, t.channel) AS channel,
      CASE WHEN p.seq IS NOT NULL THEN regexp_replace(t.text, 'opCount .* count [0-9]+', 'opCount ' || lower(to_hex(p.seq)) || ' … count ' || p.numel)
           WHEN p.qpn IS NOT NULL THEN regexp_replace(t.text, 'qp_num [0-9]+ .*', 'qp_num ' || p.qpn || ' …') 
           WHEN p.channel IS NOT NULL THEN regexp_replace(t.text, 'Channel [0-9]+', 'Channel ' || lpad(p.channel::VARCHAR, 2, '0')) ELSE t.text END AS text,
      CASE WHEN p.seq IS NOT NULL THEN regexp_replace(t.message, 'opCount .* count [0-9]+', 'opCount ' || lower(to_hex(p.seq)) || ' … count ' || p.numel)
           WHEN p.qpn IS NOT NULL THEN regexp_replace(t.message, 'qp_num [0-9]+ .*', 'qp_num ' || p.qpn || ' …') 
           WHEN p.channel IS NOT NULL THEN regexp_replace(t.message, 'Channel [0-9]+', 'Channel ' || lpad(p.channel::VARCHAR, 2, '0')) ELSE t.message END AS message
    ), false AS from_neighbour
    FROM repeats p JOIN templates t USING (template)"""
"""Whole rows for the narrow ones. Pointers of calls are not kept; an ellipsis stands for them."""


def _load(con: duckdb.DuckDBPyConnection, spool: Path, folder: str, schema: dict[str, object], alias: str) -> None:
    """A temporary view `alias` over a spool folder, empty when nothing was written there."""
    pattern = spool / folder / "*.parquet"
    if any(pattern.parent.glob("*.parquet")):
        path = str(pattern).replace("'", "''")
        con.execute(f"CREATE TEMP VIEW {alias} AS SELECT * FROM read_parquet('{path}', union_by_name = true)")
        return
    empty = pl.DataFrame(schema=schema)  # type: ignore[arg-type]
    con.register(f"{alias}_empty", empty)
    con.execute(f"CREATE TEMP TABLE {alias} AS SELECT * FROM {alias}_empty")


def settle(
    con: duckdb.DuckDBPyConnection,
    spool: Path,
    problems: list[Problem],
    *,
    whole: bool = True,
    zone_s: int | None = None,
) -> None:
    """Create all public tables in `con` and fill those that parsing alone can fill.

    Without `whole` the table `events` has of lines that come back thousands of times only the first and the last
    (`postmortem.tables.repeats`); `coverage` counts all. `zone_s`: seconds east of UTC of clocks whose zone no line tells, UTC where it is None.
    """
    con.execute(f"SET VARIABLE given_zone_s = {'NULL' if zone_s is None else int(zone_s)}::INTEGER")
    create_tables(con)
    rows = {**ROW_SCHEMA, "from_neighbour": pl.Boolean}
    _load(con, spool, "events", dict(rows), "raw_events")
    _load(con, spool, "facts", dict(rows), "raw_facts")
    _load(
        con,
        spool,
        "templates",
        {**ROW_SCHEMA, "template": pl.Int64, "_offset": pl.Int64, "times": pl.Int64},
        "templates",
    )
    _load(con, spool, "repeats", dict(REPEAT_SCHEMA), "repeats")
    _load(con, spool, "files", dict(FILE_SCHEMA), "file_parts")
    # A huge file is read in ranges, each of which has a row.
    con.execute("""
        CREATE TEMP TABLE raw_files AS
        SELECT file, any_value(kind) AS kind, sum(bytes)::BIGINT AS bytes, any_value(host) AS host, any_value(host_basis) AS host_basis,
               string_agg(DISTINCT note, '; ') AS note, any_value(rank) AS rank, sum(lines)::BIGINT AS lines, sum(odd)::BIGINT AS odd, max(mtime) AS mtime
        FROM file_parts GROUP BY file""")
    _load(con, spool, "odd_lines", dict(ODD_SCHEMA), "raw_odd")
    # In a file of several outputs a line may have gone through the line pass and through a section's decoder, which knows more of it.
    con.execute(
        "CREATE TEMP TABLE decoded_lines AS SELECT DISTINCT file, line, event FROM raw_events WHERE definition < 0"
    )
    con.execute(
        """
        CREATE TEMP VIEW raw_rows AS
        SELECT * FROM raw_events e WHERE e.definition < 0 OR NOT EXISTS (FROM decoded_lines d WHERE d.file = e.file AND d.line = e.line AND d.event = e.event)
        UNION ALL BY NAME SELECT * REPLACE (true AS is_fact) FROM raw_facts"""
        + (f" UNION ALL BY NAME {_REPEATED}" if whole else "")
    )
    count = con.execute("SELECT (SELECT count(*) FROM raw_events) + (SELECT count(*) FROM repeats)").fetchone()
    is_large = bool(count and count[0] > VIEWS_FROM)
    for s in parsed("postmortem.tables", "settle.sql"):
        con.execute(s.sql.replace("TEMP TABLE", "TEMP VIEW", 1) if is_large and s.name in ROWWISE else s.sql)
    _events(con)
    for name in DECODED:
        fill_from_spool(con, spool, name)
    for name in STATED:
        con.execute(f"CREATE TEMP TABLE stated_{name} AS FROM {name} LIMIT 0")
        fill_from_spool(con, spool, name, f"stated_{name}")
    con.execute(f"""
        CREATE TEMP TABLE omitted AS
        SELECT file, sum(times) AS recognised, sum(times * events) AS events FROM (
            SELECT file, template, any_value(times) AS times, count(*) FILTER (NOT is_fact) AS events FROM templates GROUP BY file, template
        ) WHERE {str(not whole).lower()} GROUP BY file""")
    _files(con, problems)
    con.execute("DROP VIEW zoned")
    for name in reversed(ROWWISE):
        con.execute(f"DROP {'VIEW' if is_large else 'TABLE'} {name}")
    for name in ("omitted", "newest", "hca_names", "numbered"):
        con.execute(f"DROP TABLE {name}")


def _events(con: duckdb.DuckDBPyConnection) -> None:
    """Fill `events`, numbered in the order of files and lines, `facts`, and the temporary tables `row_clock` and `borrowed`."""
    con.execute("CREATE TEMP TABLE borrowed (event_id BIGINT)")
    con.execute(
        "CREATE TEMP TABLE row_clock (event_id BIGINT, clock BIGINT, res_us BIGINT, is_borrowed BOOLEAN, lines INTEGER)"
    )
    # Only what is sorted at a time has to be held; the files of a part follow those of the part before.
    parts = con.execute(f"""
        SELECT min(file), max(file), sum(n)::BIGINT FROM (
          SELECT file, n, (sum(n) OVER (ORDER BY file ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - n) // {SORTED_ROWS} AS part
          FROM (SELECT file, count(*) AS n FROM settled WHERE NOT is_fact GROUP BY file)) GROUP BY part ORDER BY part""").fetchall()
    done = 0
    if not parts:
        _numbered(con, 0, None)
    for first, last, count in parts:
        _numbered(con, done, None if len(parts) == 1 else (first, last))
        done += count
    columns = ", ".join(f'"{c}"' for c in TABLE_BY_NAME["facts"].names[1:])
    con.execute(
        f'INSERT INTO facts SELECT event, {columns} FROM settled WHERE is_fact ORDER BY file, line, "offset", sub, definition'
    )


def _numbered(con: duckdb.DuckDBPyConnection, done: int, span: tuple[str, str] | None) -> None:
    """The events of the files of `span` (of all without one), numbered from `done` + 1."""
    named = con.execute("SELECT EXISTS (FROM hca_names)").fetchone()
    hca = bool(named and named[0])
    entity = ", ".join(
        "CASE WHEN s.event = 'nccl.qp' AND n.file IS NOT NULL THEN n.dev ELSE s.dev END"
        if hca and c.name == "dev"
        else f's."{c.name}"'
        for c in ENTITY
    )
    place = 's.file, s.line, s."offset", s.sub, s.definition, s.event'
    con.execute(
        f"""
        INSERT INTO events
        SELECT s.ts, s.ts_kind, s.host, s.source, s.event, s.severity, s.file, s.line, s."offset", s.message, {entity},
               s.ts, s.ts, s.ts, {done} + row_number() OVER (ORDER BY {place}), s.text
        FROM settled s {'LEFT JOIN hca_names n ON n.file = s.file AND n.line = s.line AND n."offset" = s."offset"' if hca else ""}
        WHERE NOT s.is_fact {"AND s.file BETWEEN ? AND ?" if span else f"ORDER BY {place}"}""",
        span or (),
    )
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE numbered AS
        SELECT {done} + row_number() OVER (ORDER BY file, line, "offset", sub, definition, event) AS event_id, ts, clock_host, class, used_zone_s AS zone_s,
          CASE WHEN date_us IS NULL AND anchor_rank = 1 THEN 'uptime' ELSE zone_basis END AS zone_basis,
          max(coalesce(CASE WHEN date_us IS NULL THEN 1000000 END, stamp_res_us, 1000000)) OVER place AS res_us, bool_or(from_neighbour) OVER place AS is_borrowed,
          row_number() OVER (PARTITION BY file, line, "offset" ORDER BY sub, definition, event) AS nth
        FROM settled WHERE NOT is_fact {"AND file BETWEEN ? AND ?" if span else ""} WINDOW place AS (PARTITION BY file, line, "offset")""",
        span or (),
    )
    con.execute(
        "INSERT INTO row_clock SELECT event_id, clock, res_us, is_borrowed, (nth = 1)::INTEGER FROM numbered JOIN clock_key USING (clock_host, class, zone_s, zone_basis) WHERE ts IS NOT NULL"
    )
    # Rows whose time is that of the line above: at least that late, no more is known.
    con.execute("INSERT INTO borrowed SELECT event_id FROM numbered WHERE is_borrowed")


def _files(con: duckdb.DuckDBPyConnection, problems: list[Problem]) -> None:
    con.execute(
        "INSERT INTO files SELECT f.file, f.kind, f.bytes, h.host, h.basis, f.note FROM raw_files f LEFT JOIN file_host h USING (file) ORDER BY f.file"
    )
    con.execute("INSERT INTO odd_lines SELECT file, line, why, text FROM raw_odd ORDER BY file, line, why")
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
