"""Holds a catalogue against its own samples: every sample gives its own events and no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from postmortem.catalogue.definition import COLUMNS, Message, Sample, nearest
from postmortem.catalogue.matcher import HIT_SCHEMA, Matcher, refused
from postmortem.catalogue.records import merge_records
from postmortem.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Complaint:
    """A sample that does not give what it must."""

    message: Message
    sample: int
    text: str

    def __str__(self) -> str:
        return f"{self.message.file}: message {self.message.number} ({self.message.event}): sample {self.sample}: {self.text}"


def hits_of(texts: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Lines of (name, text) pairs as input of `Matcher.recognise`, each name a file."""
    rows: list[tuple[str, int, int, str]] = []
    for name, text in texts:
        offset = 0
        for number, line in enumerate(text.split("\n"), 1):
            rows.append((name, number, offset, line.rstrip("\r").replace("\0", "")))
            offset += len(line.encode("utf-8", "replace")) + 1
    return pl.DataFrame(rows, schema=dict(HIT_SCHEMA), orient="row")


def recognise_texts(matcher: Matcher, texts: Sequence[tuple[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """Events and facts of each text, by name, in order."""
    hits = hits_of(texts)
    rows = merge_records(matcher.recognise(hits.filter(pl.col("text").str.contains(matcher.prefilter))))
    out: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in texts}
    for row in rows.to_dicts():
        out[row["file"]].append(row)
    return out


def agrees(want: Any, got: Any) -> bool:
    """Expected value of a sample against a column's: numbers to 1e-6, the rest as text."""
    if want is None or got is None:
        return want is None and got is None
    if isinstance(want, bool) or isinstance(got, bool):
        return bool(want) == bool(got)
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        return math.isclose(want, got, rel_tol=1e-6)
    return str(want) == str(got)


def _complaint(sample: Sample, got: list[dict[str, Any]]) -> str | None:
    want = sample.events
    names = [g["event"] for g in got]
    if [e for e, _ in want] != names:
        return f"gives {names or 'nothing'}, expected {[e for e, _ in want] or 'nothing'}"
    for (event, fields), row in zip(want, got, strict=True):
        for name, value in fields.items():
            if name not in row:
                return f"{event} has no column {name}"
            if not agrees(value, row[name]):
                return f"gives {name}={row[name]!r}, expected {value!r}"
    return None


def _check_patterns(messages: Sequence[Message]) -> None:
    """DefinitionError for a pattern that can't be compiled or captures what is no column.

    Only here: it compiles every pattern, which a run over a bundle does for those alone that it needs.
    """
    empty = pl.DataFrame({"t": [""]})
    for message in messages:
        for key, pattern in [
            *(("pattern", p) for p in message.patterns),
            *([("each", message.each)] if message.each else []),
        ]:
            try:
                groups = empty.select(pl.col("t").str.extract_groups(pattern).alias("g")).unnest("g").columns
            except pl.exceptions.ComputeError as error:
                raise refused(message, key, error) from error
            for name in groups:
                if not name.isdigit() and not name.startswith("_") and name not in COLUMNS:
                    raise DefinitionError(
                        f"{message.file}: message {message.number}: unknown column {name}{nearest(name, COLUMNS)}"
                    )


def lint(matcher: Matcher, only: Sequence[Message] | None = None) -> list[Complaint]:
    """Complaints about the samples of `only` (default: all) offered to the whole catalogue; DefinitionError for a bad pattern."""
    messages = matcher.messages if only is None else only
    _check_patterns(messages)
    texts = {f"{m.id}/{k}": (m, k, s) for m in messages for k, s in enumerate(m.samples, 1) if not m.continues}
    found = recognise_texts(matcher, [(key, s.line) for key, (_, _, s) in texts.items()])
    out = []
    for key, (message, k, sample) in texts.items():
        text = _complaint(sample, found[key])
        if text:
            out.append(Complaint(message, k, text))
    return out
