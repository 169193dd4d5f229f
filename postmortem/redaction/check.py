"""Finished outputs read again: is a name left in them? By search for whole words, apart from how names were replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from postmortem.errors import RedactionError
from postmortem.redaction.masks import Masks
from postmortem.schema import TABLES

_GEOMETRY: Final = frozenset("d points transform viewbox style class x y cx cy x1 x2 y1 y2 width height rx r".split())


def check_html(page: str, masks: Masks, what: str) -> None:
    """Raises RedactionError when text, an attribute or embedded data of a page hold a name; our scripts and styles are not looked at."""
    parser = _Texts()
    parser.feed(page)
    parser.close()
    _check(parser.found, masks, what)


def check_text(text: str, masks: Masks, what: str) -> None:
    """Raises RedactionError when a line of the text holds a name."""
    _check(text.splitlines(), masks, what)


def check_json(document: str, masks: Masks, what: str) -> None:
    """Raises RedactionError when a value of the document holds a name."""
    _check(list(_values(json.loads(document))), masks, what)


def check_database(path: Path, masks: Masks) -> None:
    """Raises RedactionError when a text of any table of the file holds a name."""
    with duckdb.connect(str(path), read_only=True) as con:
        for table in TABLES:
            for column in table.columns:
                if column.type == "VARCHAR":
                    rows = con.execute(
                        f'SELECT DISTINCT "{column.name}" FROM {table.name} WHERE "{column.name}" IS NOT NULL'
                    ).fetchall()
                    values = [row[0] for row in rows]
                    if table.name == "answer" and column.name == "analysis":
                        values = [text for value in values for text in _values(json.loads(value))]
                    _check(values, masks, f"the database ({table.name}.{column.name})")


def _check(texts: list[str], masks: Masks, what: str) -> None:
    left = next(leftovers(texts, masks), None)
    if left is not None:
        mask = masks.by_name[left]
        # The name itself is not printed: what is on a terminal may be in a log of its own.
        raise RedactionError(
            f"{what} still holds a name that was to be {mask}: nothing was written; please report this"
        )


def leftovers(texts: Iterable[str], masks: Masks) -> Iterator[str]:
    """Names that stand in `texts` as whole words, in any case."""
    names = list(masks.by_name)
    if not names:
        return
    lower = pl.Series([text.encode("utf-8", "replace").decode().lower() for text in texts], dtype=pl.String).unique()
    suspicious = lower.filter(lower.str.contains_any(names))
    if not len(suspicious):
        return
    for text, found in zip(suspicious, suspicious.str.extract_many(names, overlapping=True), strict=True):
        for name in found.unique().sort():
            if re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text):
                yield str(name)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _values(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _values(one)


class _Texts(HTMLParser):
    """Texts and attributes of a page, and the values of JSON in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._inside: str | None = None
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in {"script", "style"} else None
        self._is_data = tag == "script" and any(name == "type" and value and "json" in value for name, value in attrs)
        self.found += [value for name, value in attrs if value and name not in _GEOMETRY]

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.found.append(data)
        elif self._is_data:
            try:
                self.found += _values(json.loads(data))
            except ValueError:
                self.found.append(data)
