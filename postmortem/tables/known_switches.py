"""Switches under the names that users know them by: worked out from what was parsed, and put in the place of the printed names.

Texts and messages stay as they were printed; the table `joins` (kind switch-name) says which name stands for which.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from postmortem.tables.switch_names import SwitchName, known_names

_SEEN: Final = """
    WITH parsed AS (
      {rows}
    ), cables AS (
      {cables}
    ), machines AS (
      SELECT host AS name FROM parsed WHERE host IS NOT NULL AND source IN ('nccl', 'torch', 'trainer', 'scheduler', 'kernel', 'host')
    ), own AS (
      SELECT host AS name, file, line FROM parsed WHERE source = 'switch' AND guid IS NULL AND NOT regexp_matches(headers, '\\|(opensm|ufm)\\|')
      UNION ALL SELECT switch, file, line FROM cables
    ), told AS (
      SELECT host AS name, file, line FROM parsed WHERE source = 'switch' UNION ALL SELECT host, file, line FROM cables
      UNION ALL SELECT peer, file, line FROM parsed WHERE source = 'switch'
      UNION ALL SELECT f.host, f.file, NULL FROM raw_files f WHERE f.file IN (SELECT file FROM parsed WHERE source = 'switch')
    )
    SELECT name, false AS is_guid, file, line FROM own UNION ALL SELECT name, false, file, line FROM told WHERE name NOT IN (FROM machines)
    UNION ALL SELECT guid, true, file, line FROM parsed WHERE source = 'switch' AND guid IS NOT NULL"""
"""One row per sight of a name that is a switch's: it prints a switch's messages or has ports in a list of cables; or a fabric manager, a far end
or a file's name says so and no rank, kernel or scheduler goes by it. GUIDs (of messages about the fabric) are names, too."""

_RENAMED: Final = {
    "ports": ("switch", "host"),
    "counters": ("host",),
    "stated_nics": ("host",),
    "stated_addresses": ("host",),
}


def _digits(guid: str) -> str:
    return guid.lower().removeprefix("0x")


def find_switches(
    con: duckdb.DuckDBPyConnection, spool: Path, rules: Sequence[SwitchName], kinds: Sequence[str]
) -> None:
    """Make the temporary table `switch_names` (printed, is_guid, name, file, line: where it is first printed), and put the names into `raw_files` and the
    views of the spool, `kinds` of events and facts. The table is empty without rules, or where none fits."""
    con.execute(
        "CREATE TEMP TABLE switch_names (printed VARCHAR, is_guid BOOLEAN, name VARCHAR, file VARCHAR, line BIGINT)"
    )
    if not rules:
        return
    columns = "host, peer, guid, source, headers, file, line"
    rows = " UNION ALL ".join(f"SELECT {columns} FROM spooled_{kind}" for kind in sorted({"events", *kinds}))
    cables = (
        "SELECT NULL::VARCHAR AS switch, NULL::VARCHAR AS host, NULL::VARCHAR AS file, NULL::BIGINT AS line LIMIT 0"
    )
    if any((spool / "ports").glob("*.parquet")):
        path = str(spool / "ports" / "*.parquet").replace("'", "''")
        cables = f"SELECT switch, host, file, line FROM read_parquet('{path}')"
    seen = con.execute(f"""
        SELECT name, is_guid, coalesce(min(file) FILTER (line > 0), min(file)), coalesce(arg_min(line, (file, line)), 0)
        FROM ({_SEEN.format(rows=rows, cables=cables)}) WHERE name <> '' GROUP BY ALL ORDER BY ALL""").fetchall()
    names = known_names((name for name, is_guid, _, _ in seen if not is_guid), rules)
    # Where they are printed GUIDs begin with 0x, in the tables most do not.
    guids = known_names((f"0x{_digits(name)}" for name, is_guid, _, _ in seen if is_guid), rules)
    found = [
        [name, is_guid, known, file, line]
        for name, is_guid, file, line in seen
        if (known := guids.get(f"0x{_digits(name)}") if is_guid else names.get(name))
    ]
    if found:
        con.executemany("INSERT INTO switch_names VALUES (?, ?, ?, ?, ?)", found)
        con.execute(
            "UPDATE raw_files SET host = n.name FROM switch_names n WHERE NOT n.is_guid AND n.printed = raw_files.host"
        )
        for kind in kinds:
            _rename_rows(con, kind)


def _rename_rows(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Put known names into the view `spooled_<kind>`: a GUID tells two switches of one description apart."""
    con.execute(f"ALTER VIEW spooled_{kind} RENAME TO printed_{kind}")
    con.execute(f"""
        CREATE TEMP VIEW spooled_{kind} AS
        SELECT r.* REPLACE (coalesce(g.name, h.name, r.host) AS host, coalesce(p.name, r.peer) AS peer) FROM printed_{kind} r
        LEFT JOIN switch_names g ON g.is_guid AND r.source = 'switch' AND g.printed = r.guid
        LEFT JOIN switch_names h ON NOT h.is_guid AND h.printed = r.host LEFT JOIN switch_names p ON NOT p.is_guid AND p.printed = r.peer""")


def rename_decoded(con: duckdb.DuckDBPyConnection) -> None:
    """The same for what decoders wrote."""
    if con.execute("FROM switch_names LIMIT 1").fetchone():
        for table, columns in _RENAMED.items():
            for column in columns:
                con.execute(
                    f"UPDATE {table} SET {column} = n.name FROM switch_names n WHERE NOT n.is_guid AND n.printed = {table}.{column}"
                )
