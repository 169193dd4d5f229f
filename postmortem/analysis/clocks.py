"""One clock for the bundle: who stamped what, then zones (`zones.py`), then offsets (`offsets.py`), then their use.

Everything that compares times of different hosts reads `ts_aligned`, or what was made of it, with `ts_lo` and `ts_hi` as error bars.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import duckdb

from postmortem.analysis.offsets import UNKNOWN_US, find_spans
from postmortem.analysis.zones import zone_shifts
from postmortem.tables.statements import run

ZONE_BY_EVENTS: Final = "events shared with other clocks"
ZONE_BY_OTHERS: Final = "as most hosts of the bundle"
ZONE_GIVEN: Final = "as given"
ZONE_ASSUMED: Final = "assumed"


def align(con: duckdb.DuckDBPyConnection) -> None:
    """Put all events on one clock: corrects `ts` where a zone was guessed wrong, fills `ts_aligned`, `ts_lo`, `ts_hi`.

    Needs the tables of names.sql. Leaves `clock_spans` (node, span and offset) and `zone_found` (unit and shift) for `clocks`.
    """
    run(con, "postmortem.analysis", "clocks.sql")
    shifts = zone_shifts(con)
    con.execute("CREATE TEMP TABLE zone_found (unit VARCHAR, shift_s BIGINT)")
    if shifts:
        con.executemany(
            "INSERT INTO zone_found VALUES (?, ?)", [[u, s // 1_000_000] for u, s in sorted(shifts.items())]
        )
        _shift(con)
    spans = find_spans(con, shifts)
    con.execute(
        "CREATE TEMP TABLE clock_spans (node VARCHAR, valid_from TIMESTAMP, valid_to TIMESTAMP, offset_us BIGINT, uncertainty_us BIGINT, basis VARCHAR, twice_us BIGINT)"
    )
    if spans:
        con.executemany(
            "INSERT INTO clock_spans VALUES (?, ?, ?, ?, ?, ?, ?)",
            [[s.node, s.begin, s.end, s.offset_us, s.uncertainty_us, s.basis, s.twice_us] for s in spans],
        )
    _apply(con)


def _shift(con: duckdb.DuckDBPyConnection) -> None:
    """Take the shifts of `zone_found` from the times of events, facts, hosts and coverage."""
    con.execute("CREATE TEMP TABLE shifted AS SELECT event_id, shift_s FROM line_clock JOIN zone_found USING (unit)")
    sets = ", ".join(f"{c} = events.{c} - to_seconds(s.shift_s)" for c in ("ts", "ts_aligned", "ts_lo", "ts_hi"))
    con.execute(f"UPDATE events SET {sets} FROM shifted s WHERE s.event_id = events.event_id")
    con.execute("""
        UPDATE facts SET ts = facts.ts - to_seconds(s.shift_s) FROM (SELECT file, line, "offset", shift_s FROM fact_line_clock JOIN zone_found USING (unit)) s
        WHERE s.file = facts.file AND s.line = facts.line AND s."offset" = facts."offset" """)
    con.execute("""
        UPDATE hosts SET first_ts = s.first_ts, last_ts = s.last_ts FROM (
          SELECT host, min(ts) AS first_ts, max(ts) AS last_ts FROM (SELECT host, ts FROM events UNION ALL SELECT host, ts FROM facts) GROUP BY host
        ) s WHERE s.host = hosts.host""")
    con.execute("""
        UPDATE coverage SET first_ts = s.first_ts, last_ts = s.last_ts FROM (
          SELECT file, min(ts) AS first_ts, max(ts) AS last_ts FROM events WHERE file IN (
            SELECT file FROM events SEMI JOIN shifted USING (event_id) UNION ALL SELECT file FROM fact_line_clock SEMI JOIN zone_found USING (unit)) GROUP BY file
        ) s WHERE s.file = coverage.file""")
    con.execute("DROP TABLE shifted")


def _apply(con: duckdb.DuckDBPyConnection) -> None:
    """Fill `ts_aligned`, `ts_lo` and `ts_hi` of every event that has a time; a time that a stepped clock showed twice is twice as open."""
    con.execute(f"""
        UPDATE events SET ts_aligned = coalesce(events.ts_aligned, events.ts) - to_microseconds(s.offset_us),
          ts_lo = coalesce(events.ts_aligned, events.ts) - to_microseconds(s.offset_us + s.wide_us), ts_hi = coalesce(events.ts_aligned, events.ts) - to_microseconds(s.offset_us - s.wide_us)
        FROM (
          SELECT c.event_id, coalesce(any_value(p.offset_us), 0) AS offset_us, any_value(c.res_us) + coalesce(any_value(p.uncertainty_us), {UNKNOWN_US})
            + coalesce(any_value(CASE WHEN e.ts < p.valid_from + to_microseconds(p.twice_us) THEN p.twice_us END), 0) AS wide_us
          FROM line_clock c JOIN events e USING (event_id)
          LEFT JOIN clock_spans p ON p.node = c.node AND (p.valid_from IS NULL OR e.ts >= p.valid_from) AND (p.valid_to IS NULL OR e.ts < p.valid_to)
          GROUP BY c.event_id
        ) s WHERE s.event_id = events.event_id AND events.ts IS NOT NULL""")


def half_width(con: duckdb.DuckDBPyConnection, event_id: int) -> timedelta:
    """How far an event may lie from its `ts_aligned`, either way; at least a second, the resolution of most logs."""
    row = con.execute("SELECT epoch_us(ts_hi - ts_lo) // 2 FROM events WHERE event_id = ?", [event_id]).fetchone()
    return max(timedelta(seconds=1), timedelta(microseconds=int(row[0]) if row and row[0] else 0))


def fill_clocks(con: duckdb.DuckDBPyConnection) -> None:
    """Rows of `clocks`: per host and span its zone and offset, with what they rest on. A pod has its node's clock, and no row."""
    con.execute(f"""
        INSERT INTO clocks
        WITH shown AS (
          SELECT node, zone_s + coalesce(shift_s, 0) AS zone_s, CASE WHEN shift_s IS NOT NULL THEN '{ZONE_BY_EVENTS}' WHEN zone_basis = 'printed' THEN 'printed'
            WHEN zone_basis IN ('shown', 'machine') THEN 'stated by the host' WHEN zone_basis = 'others' THEN '{ZONE_BY_OTHERS}'
            WHEN zone_basis = 'given' THEN '{ZONE_GIVEN}' ELSE '{ZONE_ASSUMED}' END AS basis
          FROM clock_units LEFT JOIN zone_found USING (unit) WHERE zone_basis <> 'uptime'
          QUALIFY row_number() OVER (PARTITION BY node ORDER BY class IN ('system', 'switch') DESC, is_pinned DESC, class, lines DESC, unit) = 1
        )
        SELECT h.host, s.offset_us / 1000.0, coalesce(s.uncertainty_us, {UNKNOWN_US}) / 1000.0,
          format('{{}}{{:02d}}:{{:02d}}', CASE WHEN z.zone_s < 0 THEN '-' ELSE '+' END, abs(z.zone_s) // 3600, abs(z.zone_s) % 3600 // 60),
          'zone: ' || z.basis || '; offset: ' || coalesce(s.basis, 'not compared'), s.valid_from, s.valid_to
        FROM hosts h JOIN shown z ON z.node = h.host LEFT JOIN clock_spans s ON s.node = h.host
        ORDER BY h.host, s.valid_from NULLS FIRST""")
