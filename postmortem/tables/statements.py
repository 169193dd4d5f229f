"""SQL files of named statements, run in order; a statement whose input is empty is not even planned.

Planning is what a small incident's SQL costs: a statement over empty tables takes as long as one over a thousand rows. In a file, a
statement begins with `-- name: x`. Below it, `-- needs: a | b, c` says that it has no rows (no effect) unless a or b, and c, have rows:
a word is a table, with a dot in it an event or fact, after `=` a source of events. A table that such a statement would have made is
made empty, with the columns that layouts.json beside the file keeps for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import duckdb

_MADE: Final = re.compile(r"CREATE (?:OR REPLACE )?TEMP TABLE (\w+)|INSERT INTO (\w+)")
LAYOUTS: Final = "layouts.json"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without its comments. `makes`: the table it creates, `fills`: the one it creates or inserts into."""

    name: str
    sql: str
    needs: tuple[tuple[str, ...], ...] = ()
    makes: str | None = None
    fills: str | None = None

    @property
    def digest(self) -> str:
        """Names this text of the statement in layouts.json."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:12]


@cache
def parsed(package: str, name: str) -> tuple[Statement, ...]:
    """The statements of the SQL file `name` of a package, in order."""
    text = files(package).joinpath("sql", name).read_text(encoding="utf-8")
    return tuple(_statement(part) for part in text.split("-- name: ")[1:])


def _statement(part: str) -> Statement:
    name, *lines = part.split("\n")
    needs: tuple[tuple[str, ...], ...] = ()
    for line in lines:
        if line.startswith("-- needs: "):
            groups = line.removeprefix("-- needs: ").split(",")
            needs = tuple(tuple(word.strip() for word in group.split("|")) for group in groups)
    sql = "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip()
    made = _MADE.match(sql)
    makes, into = made.groups() if made else (None, None)
    return Statement(name.strip(), sql, needs, makes, makes or into)


def statements(package: str, name: str) -> list[tuple[str, str]]:
    """(name, SQL) of each statement of a file, for queries that are run one by one."""
    return [(s.name, s.sql) for s in parsed(package, name)]


@cache
def layouts(package: str) -> dict[str, tuple[str, str]]:
    """Table → (digest of the statement that makes it, its columns), as layouts.json of the package says."""
    path = files(package).joinpath("sql", LAYOUTS)
    loaded: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {table: (digest, columns) for table, (digest, columns) in loaded.items()}


def columns_of(con: duckdb.DuckDBPyConnection, table: str) -> str:
    """The columns of a table as CREATE TABLE takes them."""
    rows = con.execute(f"DESCRIBE {table}").fetchall()
    return ", ".join(f'"{row[0]}" {row[1]}' for row in rows)


class _Filled:
    """Which tables have rows, and which events there are, while the statements of one file run."""

    def __init__(self, con: duckdb.DuckDBPyConnection, todo: tuple[Statement, ...]) -> None:
        self._con = con
        made = {s.makes for s in todo}
        words = {word for s in todo for group in s.needs for word in group}
        asked = sorted(w for w in words if w not in made and "." not in w and not w.startswith("="))
        self._rows: dict[str | None, bool] = {}
        if asked:
            listed = ", ".join(f"EXISTS (FROM {table})" for table in asked)
            found = con.execute(f"SELECT {listed}").fetchone() or ()
            self._rows = dict(zip(asked, found, strict=True))
        self._events: set[str] | None = None

    def note(self, table: str | None, count: int) -> None:
        """`count` rows went into `table`."""
        self._rows[table] = self._rows.get(table, False) or count > 0

    def has(self, word: str) -> bool:
        if "." not in word and not word.startswith("="):
            return self._rows[word]
        if self._events is None:
            self._events = {
                row[0]
                for row in self._con.execute(
                    "SELECT DISTINCT event FROM events UNION ALL SELECT DISTINCT '=' || source FROM events UNION ALL SELECT DISTINCT fact FROM facts"
                ).fetchall()
            }
        return word in self._events


def run(con: duckdb.DuckDBPyConnection, package: str, name: str) -> None:
    """Run the statements of a SQL file in order, but for those whose `needs` have no rows."""
    todo = parsed(package, name)
    filled = _Filled(con, todo)
    known = layouts(package)
    for s in todo:
        is_idle = not all(any(filled.has(word) for word in group) for group in s.needs)
        if is_idle and s.makes is None:
            continue
        digest, columns = known.get(s.makes or "", ("", ""))
        if is_idle and digest == s.digest:
            con.execute(f"CREATE TEMP TABLE {s.makes} ({columns})")
            filled.note(s.makes, 0)
            continue
        row = con.execute(s.sql).fetchone() if s.fills else con.execute(s.sql) and None
        filled.note(s.fills, int(row[0]) if row else 0)
