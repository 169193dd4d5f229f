"""What definitions found in segments → rows of ROW_SCHEMA, in the order of the lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.catalogue.definition import Message
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import ENTITY, RAW_TIME

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
_HEADER_ALONE: Final = ("file", "line", "text", "message", "tag", "headers", "uptime_s", *(c.name for c in RAW_TIME))

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one definition: the segments they stand in, where in the message they begin, `severity` and what was captured."""

    definition: int
    segments: npt.NDArray[np.intp]
    sub: Ints
    shift: Ints
    fields: pl.DataFrame


def about(messages: Iterable[Message]) -> pl.DataFrame:
    """What rows take from their definition, a row per definition."""
    listed = list(messages)
    return pl.DataFrame(
        {
            "event": [m.event for m in listed],
            "source": [m.source for m in listed],
            "is_fact": [m.is_fact for m in listed],
            "record": [m.record for m in listed],
            "continues": [m.continues for m in listed],
            "precedes": [m.precedes for m in listed],
            "needs_parts": [m.needs_parts for m in listed],
            "unless": [m.unless for m in listed],
            "within": [m.within for m in listed],
            "text_host": [m.host_from == "text" for m in listed],
        },
        schema_overrides={
            "record": pl.String,
            "continues": pl.String,
            "precedes": pl.String,
            "unless": pl.String,
            "within": pl.Int64,
        },
    )


def assemble(parts: list[Part], known: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """All rows of `parts` but those of events named `none`, as ROW_SCHEMA, sorted by file, line, offset, sub, definition.

    `known` is what `about` says of the definitions.
    """
    nothing = (known["event"] == "none").to_numpy()
    parts = [part for part in parts if len(part.segments) and not nothing[part.definition]]
    if not parts:
        return pl.DataFrame(schema=ROW_SCHEMA)
    where = np.concatenate([part.segments for part in parts])
    definition = np.repeat([part.definition for part in parts], [len(part.segments) for part in parts])
    sub = np.concatenate([part.sub for part in parts])
    offset = _offsets(segments, where, np.concatenate([part.shift for part in parts]))
    order = _order(segments, where, offset, sub, definition)
    where, definition = where[order], definition[order]
    fields = pl.concat([part.fields for part in parts], how="diagonal")[order]
    headers = segments[where]
    meant = known[definition]
    made = {
        **{c: fields[c] for c in fields.columns if c in ROW_SCHEMA},
        **{c: headers[c] for c in _HEADER_ALONE},
        **{c: meant[c] for c in meant.columns if c in ROW_SCHEMA},
        "offset": pl.Series(offset[order]),
        "sub": pl.Series(sub[order]),
        "definition": pl.Series(definition),
    }
    made |= {c.name: c for c in _of_both(fields, headers, meant["text_host"]).get_columns()}
    empty = {t: pl.Series([None], dtype=t).new_from_index(0, len(order)) for t in set(ROW_SCHEMA.values())}
    # A `rank` that a definition states as text, say, is cast like the rest.
    columns = (made.get(n, empty[t]) for n, t in ROW_SCHEMA.items())
    return pl.DataFrame(
        [(c if c.dtype == t else c.cast(t)).alias(n) for c, (n, t) in zip(columns, ROW_SCHEMA.items(), strict=True)]
    )


def _of_both(fields: pl.DataFrame, headers: pl.DataFrame, text_host: pl.Series) -> pl.DataFrame:
    """Columns that the message may state and else the header does."""
    both = {**{n: n for n in _FROM_HEADER}, "value": "repeats"}
    frame = pl.DataFrame([headers[theirs].alias(f"_{ours}") for ours, theirs in both.items()])
    frame = frame.with_columns(text_host, *(fields[n] for n in both if n in fields.columns))
    other = {n: pl.col(f"_{n}") for n in both}
    if text_host.any():
        other["host"] = pl.when(~pl.col("text_host")).then("_host")
    if headers["repeats"].null_count() == headers.height:
        other.pop("value")
    else:
        other["value"] = pl.col("_value").cast(pl.String)
    return frame.select(
        (pl.coalesce(n, value) if n in fields.columns else value).alias(n) for n, value in other.items()
    )


def _offsets(segments: pl.DataFrame, where: npt.NDArray[np.intp], shift: Ints) -> Ints:
    """Where rows begin: at their segment, or where their part of its message stands."""
    offset: Ints = segments["offset"].to_numpy()[where]
    moved = np.flatnonzero(shift > 0)
    if len(moved):
        sizes = segments.select(lead=pl.col("seg").str.len_bytes().cast(pl.Int64) - pl.col("message").str.len_bytes())
        offset[moved] += sizes["lead"].to_numpy()[where[moved]] + shift[moved]
    return offset


def _order(
    segments: pl.DataFrame, where: npt.NDArray[np.intp], offset: Ints, sub: Ints, definition: Ints
) -> npt.NDArray[np.intp]:
    """The order of rows by file, line, offset, sub, definition; equal ones as they come."""
    runs = segments["file"].rle().struct.unnest()
    ranks = {name: n for n, name in enumerate(sorted(set(runs["value"])))}
    file = np.repeat([ranks[name] for name in runs["value"]], runs["len"].to_numpy())[where]
    line = segments["line"].to_numpy()[where]
    # Lines mostly come in order: then segments need no more than to be counted up.
    order = np.argsort(where, kind="stable")
    ascends = np.zeros(len(order) - 1, dtype=bool)
    is_tied = np.ones(len(order) - 1, dtype=bool)
    for key in (file, line, offset, sub, definition):
        step = np.diff(key[order])
        ascends |= is_tied & (step > 0)
        is_tied &= step == 0
    return order if ascends.all() else np.lexsort((definition, sub, offset, line, file))
