"""The compiled catalogue: lines that hold a literal of any definition → rows of events and facts.

One alternation of all literals finds the lines (`Matcher.prefilter`), headers come off, one more
pass tells which literals a segment holds, and only then patterns run, each on its own hits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.catalogue.assemble import HIT_SCHEMA, ROW_SCHEMA, Part, about, assemble
from postmortem.catalogue.definition import Message
from postmortem.catalogue.values import ENTITY_TYPES, convert, typed
from postmortem.errors import DefinitionError
from postmortem.lines.captures import captures
from postmortem.lines.envelope import unwrap
from postmortem.lines.peel import peel
from postmortem.lines.segments import segment

__all__ = ["HIT_SCHEMA", "MAX_TEXT", "ROW_SCHEMA", "Matcher", "refused"]

MAX_TEXT: Final = 4096
"""Characters kept of a physical line as evidence."""

KEPT_WITHIN: Final = 16
"""Definitions tried one after the other that leave a pattern of before them compiled."""

_ONE: Final = pl.DataFrame({"text": [""]})


class Matcher:
    """All definitions, compiled. Immutable; cheap to share, one per process."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages: Final = tuple(messages)
        if not self.messages:
            raise DefinitionError("the catalogue has no messages: is the folder parsers/ empty?")
        users: dict[str, list[int]] = defaultdict(list)
        for number, message in enumerate(self.messages):
            for literal in message.contains:
                users[literal].append(number)
        self._literals: Final = sorted(users)
        self._users: Final = dict(users)
        every = "".join(self._literals)
        self._between: Final = next(c for c in map(chr, range(1, 0xD800)) if c not in every)

    @cached_property
    def _about(self) -> pl.DataFrame:
        return about(self.messages)

    @cached_property
    def _strongest(self) -> list[int]:
        """Definitions in the order in which they may claim a segment: by priority, then by the longest of their literals, then as listed."""

        def strength(number: int) -> tuple[int, int, int]:
            message = self.messages[number]
            return (-message.priority, -max(len(c) for c in message.contains), number)

        return sorted(range(len(self.messages)), key=strength)

    @cached_property
    def telling(self) -> frozenset[str]:
        """Header kinds whose rows make weaker rows above void (`unless`)."""
        return frozenset(m.unless for m in self.messages if m.unless and "." not in m.unless)

    @cached_property
    def prefilter(self) -> str:
        """Alternation of all literals (Rust regex): a line it does not match gives no event."""
        # Longest first costs nothing and lets the engine's literal optimiser share prefixes.
        return "|".join(pl.escape_regex(lit) for lit in sorted(self._literals, key=lambda s: (-len(s), s)))

    def recognise(self, hits: pl.DataFrame) -> pl.DataFrame:
        """Rows of ROW_SCHEMA for `hits` (HIT_SCHEMA), ordered by file, line, offset, sub."""
        segments = self._frame(hits)
        if not segments.height:
            return pl.DataFrame(schema=ROW_SCHEMA)
        candidates = self._candidates(segments)
        headers = _Headers(segments["headers"])
        is_claimed = np.zeros(segments.height, dtype=bool)
        found: list[Part] = []
        for nth, number in enumerate(n for n in self._strongest if n in candidates):
            if nth % KEPT_WITHIN == 0:
                self._keep_prefilter()
            message, rows = self.messages[number], candidates[number]
            if not message.also:
                rows = rows[~is_claimed[rows]]
            if message.requires or message.forbids:
                rows = rows[headers.fit(message.requires, message.forbids)[rows]]
            if not len(rows):
                continue
            try:
                parts = _match(number, message, rows, segments)
            except pl.exceptions.ComputeError as error:
                raise refused(message, "pattern", error) from error
            found += parts
            if not message.also:
                for part in parts:
                    is_claimed[part.segments] = True
        # Of rows at the same place those of the definition that is listed first come first.
        return assemble(sorted(found, key=lambda part: part.definition), self._about, segments)

    def _keep_prefilter(self) -> None:
        """Polars keeps the patterns that were used last, some thirty; to compile this one anew takes as long as to read 4 MB of lines."""
        _ONE.select_seq(pl.col("text").str.contains(self.prefilter))

    def _frame(self, hits: pl.DataFrame) -> pl.DataFrame:
        segments = segment(hits)
        if not segments.height:
            return segments
        segments = segments.with_columns(text=pl.col("text").str.slice(0, MAX_TEXT))
        headers = peel(segments["seg"])
        segments = segments.hstack(headers.rename({"rest": "message"}))
        return unwrap(segments, peel)

    def _candidates(self, segments: pl.DataFrame) -> dict[int, npt.NDArray[np.intp]]:
        """Segments that hold a literal of each definition, by its number."""
        hay = pl.col("seg")
        if segments["is_unwrapped"].any():
            inner = pl.when(pl.col("is_unwrapped")).then(pl.col("message")).otherwise(pl.lit(""))
            hay = hay + pl.lit("\n") + inner
        held = segments.select(literals=hay.str.extract_many(self._literals, overlapping=True))
        # Many segments hold the same literals; a literal that comes twice makes no harm.
        alike = (
            held.select(pl.col("literals").list.join(self._between))
            .with_row_index("row")
            .group_by("literals")
            .agg("row")
        )
        rows: dict[int, list[npt.NDArray[np.intp]]] = defaultdict(list)
        for literals, index in zip(alike["literals"], alike["row"], strict=True):
            if literals:
                where = index.to_numpy().astype(np.intp)
                for number in {n for literal in literals.split(self._between) for n in self._users[literal]}:
                    rows[number].append(where)
        return {number: np.sort(np.concatenate(parts)) for number, parts in rows.items()}


class _Headers:
    """The kinds of headers that segments have, to ask which segments a definition takes."""

    def __init__(self, headers: pl.Series) -> None:
        alike = headers.to_frame("kinds").with_row_index("row").group_by("kinds").agg("row")
        self._kinds = alike["kinds"].to_list()
        self._number = np.empty(headers.len(), dtype=np.intp)
        for number, index in enumerate(alike["row"]):
            self._number[index.to_numpy()] = number
        self._known: dict[tuple[tuple[str, ...], ...], npt.NDArray[np.bool_]] = {}

    def fit(self, requires: tuple[str, ...], forbids: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """One flag per segment: it has one of the kinds that are required, if any are, and none of those that are forbidden."""
        key = (requires, forbids)
        if key not in self._known:
            fits = [
                (not requires or any(f"|{kind}|" in kinds for kind in requires))
                and not any(f"|{kind}|" in kinds for kind in forbids)
                for kinds in self._kinds
            ]
            self._known[key] = np.array(fits, dtype=bool)[self._number]
        return self._known[key]


def _match(number: int, message: Message, rows: npt.NDArray[np.intp], segments: pl.DataFrame) -> list[Part]:
    """What the patterns of one definition find in these segments: a part per pattern."""
    texts = segments["message" if message.on == "message" else "seg"]
    texts = texts[rows] if len(rows) < texts.len() else texts
    parts: list[Part] = []
    for pattern in message.patterns:
        if not len(rows):
            break
        where, groups = captures(texts, pattern)
        if not len(where):
            continue
        fields = typed(message, groups)
        index = rows[where] if len(where) < len(rows) else rows
        if len(where) < len(rows):
            left = np.ones(len(rows), dtype=bool)
            left[where] = False
            rows, texts = rows[left], texts.filter(pl.Series(left))
        else:
            rows = rows[:0]
        nowhere = np.zeros(len(index), dtype=np.int64)
        part = Part(number, index, nowhere, nowhere, fields)
        if message.each:
            part = _expand(message.each, message, part, segments)
        parts.append(replace(part, fields=_copied(message, part.fields)))
    return parts


def refused(message: Message, key: str, error: Exception) -> DefinitionError:
    """The sentence for a pattern that polars does not take."""
    why = " ".join(str(error).split())
    return DefinitionError(
        f"{message.file}: message {message.number}: `{key}` is no pattern that can be used: {why[:200]}"
    )


def _copied(message: Message, frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with the columns of `copy` where nothing was captured for them."""
    for target, origin in message.copies.items():
        if origin in frame.columns:
            value = pl.col(origin).cast(ENTITY_TYPES.get(target, pl.String), strict=False)
            frame = frame.with_columns((pl.coalesce(target, value) if target in frame.columns else value).alias(target))
    return frame


def _groups(texts: pl.Series, pattern: str) -> pl.DataFrame:
    """Named groups of `pattern` as text columns; unnamed ones are dropped."""
    frame = pl.DataFrame({"t": texts}).select(g=pl.col("t").str.extract_groups(pattern)).unnest("g")
    return frame.select(c for c in frame.columns if not c.isdigit())


def _expand(pattern: str, message: Message, part: Part, segments: pl.DataFrame) -> Part:
    """One row per match of `each` in the message; `sub` counts them, `shift` is where they begin in it."""
    frame = pl.DataFrame({"row": np.arange(len(part.segments)), "_text": segments["message"][part.segments]})
    many = frame.with_columns(_part=pl.col("_text").str.extract_all(pattern))
    many = (
        many.filter(pl.col("_part").list.len() > 0)
        .with_columns(sub=pl.int_ranges(0, pl.col("_part").list.len()))
        .explode("_part", "sub")
    )
    groups = _groups(many["_part"], pattern)
    each = groups.select(convert(c, message.types.get(c)) for c in groups.columns if c in ENTITY_TYPES)
    shift = many.select(pl.col("_text").str.find(pl.col("_part"), literal=True).cast(pl.Int64)).to_series()
    rows = many["row"].to_numpy()
    fields = part.fields[rows]
    fields = fields.drop([c for c in each.columns if c in fields.columns]).hstack(each.get_columns())
    return Part(part.definition, part.segments[rows], many["sub"].cast(pl.Int64).to_numpy(), shift.to_numpy(), fields)
