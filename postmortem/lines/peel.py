"""Segments → fields of their headers and the message that is left.

Headers stack (a collector's stamp, a launcher's rank, a program's own header), so they are taken
off one after the other, at most MAX_DEPTH deep, each pass one column operation per header kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.captures import MANY, SOME, WHOLE, captures
from postmortem.lines.headers import HEADERS
from postmortem.lines.headers.grammar import begin
from postmortem.lines.sieve import Sieve, guards_of_headers
from postmortem.lines.stamps import STAMP_COLUMNS, stamps

MAX_DEPTH: Final = 8
MAX_UPTIME_S: Final = 3e9
"""A century; larger numbers are no uptime, and would not fit where microseconds are counted."""
NO_HOST: Final = frozenset({"kernel", "-", "localhost", "unknown", "last", "message"})
"""Words that stand where a host is expected and are none."""

FEW_HEADERS: Final = 8
"""Headers that are looked for together in a few texts that mostly have one."""

_INTS: Final = {"pid": "pid", "tid": "tid", "rank": "rank", "lrank": "local_rank", "gpu": "gpu", "times": "repeats"}
_TEXTS: Final = ("host", "tag", "src", "lvl", "pod", "ip", "pg")
_TIME: Final = ("y", "mo", "mon", "d", "hms", "frac", "zone", "md", "epoch")

HEADER_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "rest": pl.String,
    "headers": pl.String,
    "host": pl.String,
    "tag": pl.String,
    "src": pl.String,
    "lvl": pl.String,
    "pod": pl.String,
    "ip": pl.String,
    "pg": pl.String,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "rank": pl.Int64,
    "local_rank": pl.Int64,
    "gpu": pl.Int64,
    "repeats": pl.Int64,
    "uptime_s": pl.Float64,
    "stamp_us": pl.Int64,
    "stamp_has_year": pl.Boolean,
    "stamp_zone_s": pl.Int32,
    "stamp_res_us": pl.Int64,
    "stamp2_us": pl.Int64,
    "stamp2_zone_s": pl.Int32,
}


_IS_HOST: Final = (~pl.col("host").str.to_lowercase().is_in(NO_HOST)).fill_null(False)
_BEHIND: Final = (
    pl.col("t")
    .cast(pl.Binary)
    .bin.slice(pl.col(WHOLE).str.len_bytes() - pl.col("rest").str.len_bytes())
    .cast(pl.String)
    .alias("rest")
)
"""What is left of a text behind the begin of a header (`begin`) that it has."""


def _uptime(seconds: pl.Expr) -> pl.Expr:
    """Seconds since boot; null for what no machine has been up."""
    return pl.when(seconds.is_between(0, MAX_UPTIME_S)).then(seconds).alias("uptime_s")


@lru_cache(maxsize=256)
def _fields(groups: tuple[str, ...]) -> tuple[pl.Expr, ...]:
    """What a header with these groups says, as columns of HEADER_SCHEMA (without `rest`, `headers`, stamp2)."""
    have = set(groups)
    out: list[pl.Expr] = [pl.col(g).cast(pl.Int64, strict=False).alias(name) for g, name in _INTS.items() if g in have]
    out += [pl.col(g) for g in _TEXTS if g in have]
    if "pgrank" in have:
        out.append(pl.col("pgrank").cast(pl.Int64, strict=False).alias("rank"))
    if "pid5" in have:
        out.append(pl.col("pid5").cast(pl.Int64, strict=False).alias("pid"))
    if "up" in have:
        out.append(_uptime(pl.col("up").cast(pl.Float64, strict=False)))
    elif "upus" in have:
        out.append(_uptime(pl.col("upus").cast(pl.Float64, strict=False) / 1e6))
    if have.intersection(_TIME):
        out += stamps(have)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Part:
    """Texts (by their number) that lost one header: its number in HEADERS, what is left of them, what it said."""

    header: int
    index: npt.NDArray[np.intp]
    rest: pl.Series
    fields: pl.DataFrame


def _one_pass(rest: pl.Series, numbers: npt.NDArray[np.intp], are_lines: bool, is_first: bool) -> list[_Part]:
    """The texts of `rest` that lose one header; `numbers` are those of the texts. `are_lines`: none holds a line feed.

    At first each text has a header, mostly; once one came off, mostly no other follows.
    """
    texts = Sieve(rest)
    found: list[_Part] = []
    if are_lines and rest.len() <= MANY:
        texts.group(set(), FEW_HEADERS if is_first else len(HEADERS))
    elif are_lines:
        texts.group(set())
        if is_first or texts.most_may_have():
            step = rest.len() // SOME
            usual = {part.header for part in _one_pass(rest[::step], numbers[::step], are_lines, is_first)}
            texts.group(usual)
    for number, (header, literals) in enumerate(zip(HEADERS, guards_of_headers().literals, strict=True)):
        index = texts.allowed(number, literals)
        if not len(index):
            continue
        some = rest if len(index) == rest.len() else rest[index]
        pattern = (begin(header.pattern) if are_lines else None) or header.pattern
        where, groups = captures(some, pattern)
        if not len(where):
            continue
        if len(where) < some.len():
            some, index = some[where], index[where]
        rest_of = pl.col("rest") if pattern == header.pattern else _BEHIND
        fields = groups.hstack([some.alias("t")]).select(*_fields(tuple(groups.columns)), rest_of)
        left = fields.drop_in_place("rest")
        if "stamp_us" in fields.columns and fields["stamp_us"].null_count():
            is_good = fields["stamp_us"].is_not_null()
            fields, left, index = fields.filter(is_good), left.filter(is_good), index[is_good.to_numpy()]
            if not len(index):
                continue
        found.append(_Part(number, numbers[index], left, fields))
        texts.take(index)
        if not len(texts.left):
            break
    return found


class _Said:
    """Where the value of each column comes from, header by header from the outer to the inner one.

    A column is made once, of the texts' parts one after the other; `_sources` holds for each text the place in them, 0 for none.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._values: dict[str, list[pl.Series]] = {}
        self._sizes: dict[str, int] = {}
        self._sources: dict[str, npt.NDArray[np.int64]] = {}
        self._paths = np.zeros(count, dtype=np.int64)
        self._known: dict[str, int] = {"|": 0}

    def add(self, part: _Part) -> None:
        """The fields of one more, inner header: it wins, stamps shift outward."""
        self._put("rest", part.index, part.rest)
        self._name(part)
        fields = part.fields
        for name in fields.columns:
            if name in STAMP_COLUMNS:
                continue
            values, index = fields[name], part.index
            is_taken = None
            if name == "host":
                is_taken = fields.select(_IS_HOST).to_series()
            elif values.null_count():
                is_taken = values.is_not_null()
            if is_taken is not None and not is_taken.all():
                values, index = values.filter(is_taken), index[is_taken.to_numpy()]
            if name == "rank" and HEADERS[part.header].kind == "pg" and name in self._sources:
                # The rank within a process group is no match for the global rank of an outer header.
                is_new = self._sources[name][index] == 0
                values, index = values.filter(pl.Series(is_new)), index[is_new]
            self._put(name, index, values)
        if "stamp_us" in fields.columns:
            self._date(part)

    def _put(self, name: str, index: npt.NDArray[np.intp], values: pl.Series) -> None:
        if name not in self._sources:
            self._sources[name] = np.zeros(self._count, dtype=np.int64)
            self._values[name], self._sizes[name] = [], 1
        self._sources[name][index] = np.arange(self._sizes[name], self._sizes[name] + len(index))
        self._values[name].append(values)
        self._sizes[name] += len(index)

    def _date(self, part: _Part) -> None:
        if "stamp_us" in self._sources:
            now = self._sources["stamp_us"]
            outer = self._sources.setdefault("stamp2_us", np.zeros(self._count, dtype=np.int64))
            first = part.index[(now[part.index] > 0) & (outer[part.index] == 0)]
            outer[first] = now[first]
        for name in STAMP_COLUMNS:
            self._put(name, part.index, part.fields[name])

    def _name(self, part: _Part) -> None:
        """Put the header's kind behind those of the texts' outer ones."""
        kinds, inverse = np.unique(self._paths[part.index], return_inverse=True)
        names = list(self._known)
        longer = [
            self._known.setdefault(f"{names[kind]}{HEADERS[part.header].kind}|", len(self._known))
            for kind in kinds.tolist()
        ]
        self._paths[part.index] = np.array(longer, dtype=np.int64)[inverse]

    def _column(
        self, name: str, sources: npt.NDArray[np.int64] | None, dtype: pl.DataType | type[pl.DataType]
    ) -> pl.Series:
        if sources is None:
            return pl.Series([None], dtype=dtype).new_from_index(0, self._count)
        values = pl.concat(
            [pl.Series([None], dtype=dtype), *(v.cast(dtype) if v.dtype != dtype else v for v in self._values[name])]
        )
        return values[sources]

    def frame(self, texts: pl.Series) -> pl.DataFrame:
        """Columns of HEADER_SCHEMA; `texts` are what is left where nothing came off."""
        columns: list[pl.Series] = []
        for name, dtype in HEADER_SCHEMA.items():
            if name == "headers":
                column = pl.Series(list(self._known), dtype=pl.String)[self._paths]
            elif name == "rest" and name not in self._sources:
                column = texts
            elif name == "rest":
                self._values[name].insert(0, texts)
                sources = self._sources[name]
                column = pl.concat(self._values[name])[
                    np.where(sources > 0, sources + (self._count - 1), np.arange(self._count))
                ]
            elif name in {"stamp2_us", "stamp2_zone_s"}:
                column = self._column(name.replace("2", ""), self._sources.get("stamp2_us"), dtype)
            else:
                column = self._column(name, self._sources.get(name), dtype)
            columns.append(column.alias(name))
        return pl.DataFrame(columns)


def peel(texts: pl.Series) -> pl.DataFrame:
    """Columns of HEADER_SCHEMA for each text, in order; `rest` is the message, `headers` `|a|b|`.

    Of two printed times `stamp_*` is the inner (the program's), `stamp2_*` the outer.
    """
    frame = pl.DataFrame({"t": texts}).select(
        pl.col("t").str.strip_chars_start(" \t"), is_line=~pl.col("t").str.contains("\n", literal=True)
    )
    bare, are_lines = frame["t"], bool(frame["is_line"].all())
    said = _Said(texts.len())
    active, numbers = bare, np.arange(texts.len())
    for depth in range(MAX_DEPTH):
        parts = _one_pass(active, numbers, are_lines, depth == 0)
        if not parts:
            break
        for part in parts:
            said.add(part)
        active = pl.concat([part.rest for part in parts])
        numbers = np.concatenate([part.index for part in parts])
    return _indents(said.frame(bare), texts)


def _indents(state: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """`state` with the pseudo-header `indent` where blanks stood before the message, which loses them."""
    bare = pl.col("headers") == "|"
    before = pl.when(bare).then(pl.lit(texts)).otherwise("rest")
    blank = state.select((before.str.starts_with(" ") | before.str.starts_with("\t")).fill_null(False)).to_series()
    if not blank.any():
        return state
    return state.with_columns(
        rest=pl.col("rest").str.strip_chars_start(" \t"),
        headers=pl.when(blank).then(pl.col("headers") + "indent|").otherwise(pl.col("headers")),
    )
