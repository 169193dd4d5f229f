"""SQL files of named statements, run in order; a statement whose input is empty is not even planned.

Planning is what a small incident's SQL costs: a statement over empty tables takes as long as one over a thousand rows. In a file, a
statement begins with `-- name: x`. Below it, `-- needs: a | b, c` says that it has no rows (no effect) unless a or b, and c, have rows:
a word is a table, with a dot in it an event or fact, after `=` a source of events. A table that such a statement would have made is
made empty, with the columns that layouts.json beside the file keeps for it. Lines within a statement between `-- part: a | b` and
`-- end` (a branch of a union with its UNION ALL) are left out on the same condition.
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


Needs = tuple[tuple[str, ...], ...]
"""Groups of words: of each group one at least has rows."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without its comments. `makes`: the table it creates, `fills`: the one it creates or inserts into, `parts`: its text in pieces, each with what it needs."""

    name: str
    sql: str
    needs: Needs = ()
    makes: str | None = None
    fills: str | None = None
    parts: tuple[tuple[Needs, str], ...] = ()

    @property
    def digest(self) -> str:
        """Names this text of the statement in layouts.json."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:12]


@cache
def parsed(package: str, name: str) -> tuple[Statement, ...]:
    """The statements of the SQL file `name` of a package, in order."""
    text = files(package).joinpath("sql", name).read_text(encoding="utf-8")
    return tuple(_statement(part) for part in text.split("-- name: ")[1:])


def _needs(words: str) -> Needs:
    return tuple(tuple(word.strip() for word in group.split("|")) for group in words.split(","))


def _statement(part: str) -> Statement:
    name, *lines = part.split("\n")
    needs: Needs = ()
    parts: list[tuple[Needs, list[str]]] = [((), [])]
    for line in lines:
        said = line.strip()
        if said.startswith("-- needs: "):
            needs = _needs(said.removeprefix("-- needs: "))
        elif said.startswith("-- part: "):
            parts.append((_needs(said.removeprefix("-- part: ")), []))
        elif said == "-- end":
            parts.append(((), []))
        elif not said.startswith("--"):
            parts[-1][1].append(line)
    pieces = tuple((need, "\n".join(text)) for need, text in parts)
    sql = "\n".join(text for _, text in pieces).strip()
    made = _MADE.match(sql)
    makes, into = made.groups() if made else (None, None)
    return Statement(name.strip(), sql, needs, makes, makes or into, pieces)


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

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._rows: dict[str, bool] = {}
        self._events: set[str] | None = None

    def note(self, s: Statement, count: int) -> None:
        """The statement made `count` rows."""
        if s.makes:
            self._rows[s.makes] = count > 0
        elif s.fills and count:
            self._rows[s.fills] = True

    def has(self, word: str) -> bool:
        if "." not in word and not word.startswith("="):
            if word not in self._rows:  # one by one: a statement that asks for many is planned as a join of all
                self._rows[word] = self._con.execute(f'SELECT 1 FROM "{word}" LIMIT 1').fetchone() is not None
            return self._rows[word]
        if self._events is None:
            self._events = {
                row[0]
                for row in self._con.execute(
                    "SELECT DISTINCT event FROM events UNION ALL SELECT DISTINCT '=' || source FROM events UNION ALL SELECT DISTINCT fact FROM facts"
                ).fetchall()
            }
        return word in self._events

    def meets(self, needs: Needs) -> bool:
        """Of each group one word at least has rows."""
        return all(any(self.has(word) for word in group) for group in needs)


def run(con: duckdb.DuckDBPyConnection, package: str, name: str) -> None:
    """Run the statements of a SQL file in order, but for those whose `needs` have no rows."""
    todo = parsed(package, name)
    filled = _Filled(con)
    known = layouts(package)
    for s in todo:
        is_idle = not filled.meets(s.needs)
        if is_idle and s.makes is None:
            continue
        digest, columns = known.get(s.makes or "", ("", ""))
        if is_idle and digest == s.digest:
            con.execute(f"CREATE TEMP TABLE {s.makes} ({columns})")
            filled.note(s, 0)
            continue
        sql = "\n".join(text for need, text in s.parts if filled.meets(need))
        row = con.execute(sql).fetchone() if s.fills else con.execute(sql) and None
        filled.note(s, int(row[0]) if row else 0)
