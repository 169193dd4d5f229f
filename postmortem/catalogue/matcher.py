"""The compiled catalogue: lines that hold a literal of any definition → rows of events and facts.

One alternation of all literals finds the lines (`Matcher.prefilter`), headers come off, one more
pass tells which literals a segment holds, and only then patterns run, each on its own hits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from postmortem.catalogue.definition import Message
from postmortem.catalogue.values import ENTITY_TYPES, convert
from postmortem.errors import DefinitionError
from postmortem.lines.captures import captures
from postmortem.lines.envelope import unwrap
from postmortem.lines.peel import peel
from postmortem.lines.segments import segment
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import ENTITY, RAW_TIME

MAX_TEXT: Final = 4096
"""Characters kept of a physical line as evidence."""

HIT_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "file": pl.String,
    "line": pl.Int64,
    "offset": pl.Int64,
    "text": pl.String,
}
ROW_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    **HIT_SCHEMA,
    "host": pl.String,
    "source": pl.String,
    "event": pl.String,
    "severity": pl.String,
    "message": pl.String,
    **{c.name: POLARS_TYPES[c.type] for c in ENTITY},
    **{c.name: POLARS_TYPES[c.type] for c in RAW_TIME},
    "tag": pl.String,
    "headers": pl.String,
    "sub": pl.Int64,
    "is_fact": pl.Boolean,
    "definition": pl.Int64,
    "record": pl.String,
    "continues": pl.String,
    "precedes": pl.String,
    "needs_parts": pl.Boolean,
    "unless": pl.String,
    "within": pl.Int64,
}
"""Columns of what `Matcher.recognise` gives: events and facts before their time is settled."""

_FROM_HEADER: Final = ("host", "pid", "tid", "rank", "local_rank", "gpu", "src", "pod", "pg")


@dataclass(frozen=True, slots=True)
class _Candidates:
    definition: int
    rows: list[int]


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
        self._users: Final = pl.DataFrame(
            {
                "literal": [lit for lit in self._literals for _ in users[lit]],
                "definition": [n for lit in self._literals for n in users[lit]],
            },
            schema={"literal": pl.String, "definition": pl.Int64},
        )

    @cached_property
    def _about(self) -> pl.DataFrame:
        """What `_winners` needs to know of each definition."""
        return pl.DataFrame(
            {
                "definition": list(range(len(self.messages))),
                "event": [m.event for m in self.messages],
                "source": [m.source for m in self.messages],
                "is_fact": [m.is_fact for m in self.messages],
                "priority": [m.priority for m in self.messages],
                "weight": [max(len(c) for c in m.contains) for m in self.messages],
                "also": [m.also for m in self.messages],
                "record": [m.record for m in self.messages],
                "continues": [m.continues for m in self.messages],
                "precedes": [m.precedes for m in self.messages],
                "needs_parts": [m.needs_parts for m in self.messages],
                "unless": [m.unless for m in self.messages],
                "within": [m.within for m in self.messages],
                "text_host": [m.host_from == "text" for m in self.messages],
            },
            schema_overrides={
                "definition": pl.Int64,
                "record": pl.String,
                "continues": pl.String,
                "precedes": pl.String,
                "unless": pl.String,
            },
        )

    @cached_property
    def telling(self) -> frozenset[str]:
        """Header kinds whose rows make weaker rows above void (`unless`)."""
        return frozenset(m.unless for m in self.messages if m.unless)

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
        found: list[pl.DataFrame] = []
        for candidates in self._candidates(segments):
            message = self.messages[candidates.definition]
            try:
                rows = self._match(message, candidates, segments)
            except pl.exceptions.ComputeError as error:
                raise refused(message, "pattern", error) from error
            if rows is not None:
                found.append(rows)
        if not found:
            return pl.DataFrame(schema=ROW_SCHEMA)
        return _winners(pl.concat(found, how="diagonal"), self._about, segments)

    def _frame(self, hits: pl.DataFrame) -> pl.DataFrame:
        segments = segment(hits)
        if not segments.height:
            return segments.with_row_index("seg_id")
        segments = segments.with_columns(text=pl.col("text").str.slice(0, MAX_TEXT))
        headers = peel(segments["seg"])
        segments = segments.hstack(headers.rename({"rest": "message"}))
        return unwrap(segments, peel).with_row_index("seg_id").with_columns(pl.col("seg_id").cast(pl.Int64))

    def _candidates(self, segments: pl.DataFrame) -> list[_Candidates]:
        hay = (
            pl.col("seg") + pl.lit("\n") + pl.when(pl.col("is_unwrapped")).then(pl.col("message")).otherwise(pl.lit(""))
        )
        pairs = (
            segments.select("seg_id", literal=hay.str.extract_many(self._literals, overlapping=True))
            .explode("literal")
            .drop_nulls()
            .unique()
            .join(self._users, on="literal")
            .select("seg_id", "definition")
            .unique()
            .sort("definition", "seg_id")
        )
        return [
            _Candidates(int(key[0]), part["seg_id"].to_list())
            for key, part in pairs.group_by("definition", maintain_order=True)
        ]

    def _match(self, message: Message, candidates: _Candidates, segments: pl.DataFrame) -> pl.DataFrame | None:
        rows = segments[candidates.rows]
        for kind in message.forbids:
            rows = rows.filter(~pl.col("headers").str.contains(f"|{kind}|", literal=True))
        if message.requires:
            rows = rows.filter(
                pl.any_horizontal(pl.col("headers").str.contains(f"|{k}|", literal=True) for k in message.requires)
            )
        column = "message" if message.on == "message" else "seg"
        parts: list[pl.DataFrame] = []
        for pattern in message.patterns:
            if not rows.height:
                break
            where, groups = captures(rows[column], pattern)
            if not len(where):
                continue
            matched = rows[where]
            rows = rows.filter(~pl.int_range(pl.len()).is_in(where)) if len(where) < rows.height else rows.clear()
            parts.append(_values(message, groups, matched))
        if not parts:
            return None
        frame = pl.concat(parts, how="diagonal").with_columns(definition=pl.lit(candidates.definition, dtype=pl.Int64))
        if message.each:
            return _copied(message, _expand(message.each, message, frame, segments))
        return _copied(message, frame.with_columns(sub=pl.lit(0, dtype=pl.Int64), shift=pl.lit(0, dtype=pl.Int64)))


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


def _values(message: Message, groups: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Typed columns of one definition's hits, with `seg_id`, `definition`, `severity`."""
    for name, mapping in message.maps.items():
        if name in groups.columns:
            groups = groups.with_columns(pl.col(name).replace({k: str(v) for k, v in mapping.items()}))
    severity: pl.Expr = pl.lit(message.severity)
    if message.severity_by and message.severity_by[0] in groups.columns:
        name, values = message.severity_by
        severity = pl.col(name).replace_strict(values, default=message.severity, return_dtype=pl.String)
    keep = [c for c in groups.columns if c in ENTITY_TYPES or c == "host"]
    # The row's number comes first: a pattern without groups leaves a frame without height.
    frame = matched.select("seg_id").hstack(groups.get_columns()).with_columns(severity=severity)
    frame = frame.select("seg_id", "severity", *(convert(c, message.types.get(c)) for c in keep))
    constants = [
        pl.lit(v).cast(ENTITY_TYPES.get(k, pl.String)).alias(k)
        for k, v in message.constants.items()
        if k in ENTITY_TYPES or k == "host"
    ]
    fresh = [c for c in constants if c.meta.output_name() not in frame.columns]
    filled = [
        pl.coalesce(pl.col(c.meta.output_name()), c).alias(c.meta.output_name())
        for c in constants
        if c.meta.output_name() in frame.columns
    ]
    frame = frame.with_columns([*fresh, *filled])
    texts = [c for c in frame.columns if frame.schema[c] == pl.String and c != "severity"]
    frame = frame.with_columns(pl.when(pl.col(c).str.len_bytes() > 0).then(pl.col(c)).alias(c) for c in texts)
    return frame


def _expand(pattern: str, message: Message, frame: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """One row per match of `each` in the message; `sub` counts them, `shift` is where they begin in it."""
    texts = segments["message"].gather(frame["seg_id"])
    many = frame.with_columns(_text=texts).with_columns(_part=pl.col("_text").str.extract_all(pattern))
    many = (
        many.filter(pl.col("_part").list.len() > 0)
        .with_columns(sub=pl.int_ranges(0, pl.col("_part").list.len()))
        .explode("_part", "sub")
    )
    if not many.height:
        return many.drop("_text", "_part").with_columns(shift=pl.lit(0, dtype=pl.Int64))
    groups = _groups(many["_part"], pattern)
    typed = groups.select(convert(c, message.types.get(c)) for c in groups.columns if c in ENTITY_TYPES)
    shift = many.select(pl.col("_text").str.find(pl.col("_part"), literal=True).cast(pl.Int64)).to_series()
    base = many.drop("_text", "_part", *[c for c in typed.columns if c in many.columns])
    return base.hstack(typed).with_columns(shift=shift, sub=pl.col("sub").cast(pl.Int64))


def _winners(rows: pl.DataFrame, about: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Of the definitions that claim a segment the strongest, and those marked `also`, as ROW_SCHEMA."""
    rows = rows.join(about, on="definition", how="left")
    best = pl.struct("priority", "weight", -pl.col("definition"))
    claims = rows.filter(~pl.col("also")).select("seg_id", "definition", best=best).unique()
    claims = claims.sort("seg_id", "best", descending=[False, True]).unique("seg_id", keep="first", maintain_order=True)
    won = rows.join(claims.select("seg_id", "definition"), on=["seg_id", "definition"], how="semi")
    rows = pl.concat([won, rows.filter(pl.col("also"))]).filter(pl.col("event") != "none")
    headers = segments.select(
        "seg_id",
        "file",
        "line",
        "text",
        "message",
        "tag",
        "headers",
        "repeats",
        pl.col("offset"),
        *(pl.col(c).alias(f"_{c}") for c in _FROM_HEADER),
        "uptime_s",
        *(c.name for c in RAW_TIME),
        lead=pl.col("seg").str.len_bytes().cast(pl.Int64) - pl.col("message").str.len_bytes().cast(pl.Int64),
    )
    if "uptime_s" in rows.columns:
        rows = rows.drop("uptime_s")
    rows = rows.join(headers, on="seg_id", how="left")
    for name in _FROM_HEADER:
        header = pl.when(~pl.col("text_host")).then(pl.col(f"_{name}")) if name == "host" else pl.col(f"_{name}")
        rows = rows.with_columns((pl.coalesce(pl.col(name), header) if name in rows.columns else header).alias(name))
    rows = rows.with_columns(
        offset=pl.col("offset") + pl.when(pl.col("shift") > 0).then(pl.col("lead") + pl.col("shift")).otherwise(0)
    )
    repeats = pl.col("repeats").cast(pl.String)
    rows = rows.with_columns(value=pl.coalesce("value", repeats) if "value" in rows.columns else repeats)
    missing = [pl.lit(None, dtype=t).alias(n) for n, t in ROW_SCHEMA.items() if n not in rows.columns]
    rows = rows.with_columns(missing).select(pl.col(n).cast(t) for n, t in ROW_SCHEMA.items())
    return rows.sort("file", "line", "offset", "sub", "definition", maintain_order=True)
