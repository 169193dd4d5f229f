"""Segments → fields of their headers and the message that is left.

Headers stack (a collector's stamp, a launcher's rank, a program's own header), so they are taken
off one after the other, at most MAX_DEPTH deep, each pass one column operation per header kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines import guards
from postmortem.lines.guards import DEPTH, guard
from postmortem.lines.headers import HEADERS
from postmortem.lines.stamps import STAMP_COLUMNS, parse_stamps
from postmortem.prepared import prepared

MAX_DEPTH: Final = 8
MAX_UPTIME_S: Final = 3e9
"""A century; larger numbers are no uptime, and would not fit where microseconds are counted."""
NO_HOST: Final = frozenset({"kernel", "-", "localhost", "unknown", "last", "message"})
"""Words that stand where a host is expected and are none."""

MANY: Final = 4000
"""Texts from which on finding the matches first is cheaper than capturing in all of them."""

_NOWHERE: Final = np.empty(0, dtype=np.intp)
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


def _uptime(seconds: pl.Expr) -> pl.Expr:
    """Seconds since boot; null for what no machine has been up."""
    return pl.when(seconds.is_between(0, MAX_UPTIME_S)).then(seconds).alias("uptime_s")


def _fields(kind: str, groups: pl.DataFrame) -> pl.DataFrame:
    """What one header says, as columns of HEADER_SCHEMA (without stamp2)."""
    have = set(groups.columns)
    out: list[pl.Expr] = [pl.col("rest"), pl.lit(kind).alias("headers")]
    out += [pl.col(g).cast(pl.Int64, strict=False).alias(name) for g, name in _INTS.items() if g in have]
    out += [pl.col(g) for g in _TEXTS if g in have]
    if "pgrank" in have:
        out.append(pl.col("pgrank").cast(pl.Int64, strict=False).alias("rank"))
    if "pid5" in have:
        out.append(pl.col("pid5").cast(pl.Int64, strict=False).alias("pid"))
    if "up" in have:
        out.append(_uptime(pl.col("up").cast(pl.Float64, strict=False)))
    elif "upus" in have:
        out.append(_uptime(pl.col("upus").cast(pl.Float64, strict=False) / 1e6))
    frame = groups.select(out)
    if have.intersection(_TIME):
        frame = frame.hstack(parse_stamps(groups))
    return frame


def captures(texts: pl.Series, pattern: str) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
    """Positions of the texts that `pattern` matches, and its groups (named and numbered, as text) for these."""
    index: npt.NDArray[np.intp] | None = None
    if texts.len() > MANY:
        index = texts.str.contains(pattern).arg_true().to_numpy().astype(np.intp)
        if not len(index):
            return _NOWHERE, pl.DataFrame()
        texts = texts.gather(index)
    # One outer group tells a match of no groups from none, and spares compiling the pattern twice.
    groups = texts.str.extract_groups(f"(?P<whole>{pattern})").struct.unnest()
    hit = groups["whole"].is_not_null()
    if not hit.any():
        return _NOWHERE, pl.DataFrame()
    where = hit.arg_true().to_numpy().astype(np.intp)
    return where if index is None else index[where], groups.filter(hit).drop("whole")


class _Texts:
    """Texts of one pass, to ask for those that a guard lets through."""

    def __init__(self, texts: pl.Series) -> None:
        self.texts = texts
        begin = (pl.col("t") + "\0" * DEPTH).cast(pl.Binary).bin.head(DEPTH).bin.reinterpret(dtype=pl.UInt64)
        words, self._word = np.unique(texts.to_frame("t").select(begin).to_series().to_numpy(), return_inverse=True)
        places = words.astype("<u8").view(np.uint8).reshape(-1, DEPTH)
        flags = _guards().flags
        # For each different begin of a text one bit per guard, eight guards a byte.
        self._bits = np.bitwise_and.reduce([flags[k][places[:, k]] for k in range(DEPTH)])
        self._some = (
            np.bitwise_or.reduce(self._bits, axis=0) if len(words) else np.zeros(flags.shape[2], dtype=np.uint8)
        )
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}
        self.left = np.ones(texts.len(), dtype=bool)

    def allowed(self, number: int, literals: tuple[str, ...]) -> npt.NDArray[np.intp]:
        """Positions of the texts that are left and that the guard of that number lets through."""
        byte, bit = number >> 3, np.uint8(128 >> (number & 7))
        if not self._some[byte] & bit:
            return _NOWHERE
        index = np.flatnonzero(self.left & ((self._bits[:, byte] & bit) != 0)[self._word])
        # Compiling a pattern takes longer than looking for the texts that it must hold.
        for literal in literals:
            if not len(index):
                break
            index = index[self._holds(index, literal)]
        return index

    def _holds(self, index: npt.NDArray[np.intp], literal: str) -> npt.NDArray[np.bool_]:
        """Which of the texts at these positions hold the literal."""
        if literal not in self._masks:
            if len(index) * 8 < self.texts.len():
                return self.texts.gather(index).str.contains(literal, literal=True).to_numpy()
            self._masks[literal] = self.texts.str.contains(literal, literal=True).to_numpy()
        return self._masks[literal][index]


def _one_pass(active: pl.DataFrame) -> pl.DataFrame:
    """Rows of `active` (`i`, `rest`) that lost one header: their `i` and what the header said."""
    texts = _Texts(active["rest"])
    numbers = active["i"]
    found: list[pl.DataFrame] = []
    for number, (header, literals) in enumerate(zip(HEADERS, _guards().literals, strict=True)):
        index = texts.allowed(number, literals)
        if not len(index):
            continue
        all_of_them = len(index) == texts.texts.len()
        where, groups = captures(texts.texts if all_of_them else texts.texts.gather(index), header.pattern)
        if not len(where):
            continue
        index = index[where]
        fields = _fields(header.kind, groups).with_columns(i=numbers.gather(index))
        if "stamp_us" in fields.columns:
            is_good = fields["stamp_us"].is_not_null()
            if not is_good.all():
                fields = fields.filter(is_good)
                index = index[is_good.to_numpy()]
        if not len(index):
            continue
        found.append(fields)
        texts.left[index] = False
        if not texts.left.any():
            break
    return pl.concat(found, how="diagonal") if found else pl.DataFrame()


@dataclass(frozen=True, slots=True)
class _Guards:
    """The guards of HEADERS: for each place and byte the ones that allow it (a bit each, eight guards a byte), and the texts of each."""

    flags: npt.NDArray[np.uint8]
    literals: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1)
def _guards() -> _Guards:
    patterns = [header.pattern for header in HEADERS]

    def make() -> tuple[str, list[list[str]]]:
        made = [guard(p) for p in patterns]
        flags = np.array([[np.frombuffer(f, dtype=np.uint8) for f in g.starts] for g in made])
        packed = np.packbits(flags, axis=0).transpose(1, 2, 0)
        return packed.tobytes().hex(), [list(g.literals) for g in made]

    code = Path(guards.__file__).read_bytes()
    packed, literals = prepared("guards", b"\0".join((code, *(p.encode() for p in patterns))), make)
    flags = np.frombuffer(bytes.fromhex(packed), dtype=np.uint8).reshape(DEPTH, 256, -1)
    return _Guards(flags, tuple(map(tuple, literals)))


def _merge(state: pl.DataFrame, step: pl.DataFrame) -> pl.DataFrame:
    """`state` with the fields of one more, inner header: the inner one wins, stamps shift outward."""
    joined = state.join(step, on="i", how="left", suffix="_new", maintain_order="left")
    took = pl.col("headers_new").is_not_null()
    out = [pl.col("i"), pl.coalesce("rest_new", "rest").alias("rest")]
    out.append(
        pl.when(took)
        .then(pl.col("headers") + pl.col("headers_new") + "|")
        .otherwise(pl.col("headers"))
        .alias("headers")
    )
    for name in HEADER_SCHEMA:
        if name in {"rest", "headers", "stamp2_us", "stamp2_zone_s"} or name in STAMP_COLUMNS:
            continue
        new = f"{name}_new"
        if new in joined.columns:
            value = pl.col(new)
            if name == "host":
                value = pl.when(~value.str.to_lowercase().is_in(NO_HOST)).then(value)
            elif name == "rank":
                # The rank within a process group is no match for the global rank of an outer header.
                value = pl.when((pl.col("headers_new") != "pg") | pl.col("rank").is_null()).then(value)
            out.append(pl.coalesce(value, pl.col(name)).alias(name))
        else:
            out.append(pl.col(name))
    if "stamp_us_new" in joined.columns:
        timed = pl.col("stamp_us_new").is_not_null()
        for name in STAMP_COLUMNS:
            out.append(pl.when(timed).then(pl.col(f"{name}_new")).otherwise(pl.col(name)).alias(name))
        first = timed & pl.col("stamp_us").is_not_null() & pl.col("stamp2_us").is_null()
        out.append(pl.when(first).then(pl.col("stamp_us")).otherwise(pl.col("stamp2_us")).alias("stamp2_us"))
        out.append(
            pl.when(first).then(pl.col("stamp_zone_s")).otherwise(pl.col("stamp2_zone_s")).alias("stamp2_zone_s")
        )
    else:
        out += [pl.col(n) for n in (*STAMP_COLUMNS, "stamp2_us", "stamp2_zone_s")]
    return joined.select(out)


def peel(texts: pl.Series) -> pl.DataFrame:
    """Columns of HEADER_SCHEMA for each text, in order; `rest` is the message, `headers` `|a|b|`.

    Of two printed times `stamp_*` is the inner (the program's), `stamp2_*` the outer.
    """
    state = pl.DataFrame({"i": pl.int_range(texts.len(), eager=True), "rest": texts.str.strip_chars_start(" \t")})
    state = state.with_columns(headers=pl.lit("|"))
    state = state.with_columns(
        pl.lit(None, dtype=t).alias(n) for n, t in HEADER_SCHEMA.items() if n not in {"rest", "headers"}
    ).select("i", *HEADER_SCHEMA)
    active = state.select("i", "rest")
    for _ in range(MAX_DEPTH):
        step = _one_pass(active)
        if not step.height:
            break
        state = _merge(state, step)
        active = step.select("i", "rest")
    return _indents(state.drop("i"), texts)


def _indents(state: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """`state` with the pseudo-header `indent` where blanks stood before the message, which loses them."""
    bare = pl.col("headers") == "|"
    blank = pl.when(bare).then(texts.str.contains(r"^[ \t]")).otherwise(pl.col("rest").str.contains(r"^[ \t]"))
    return state.with_columns(
        rest=pl.col("rest").str.strip_chars_start(" \t"),
        headers=pl.when(blank.fill_null(False)).then(pl.col("headers") + "indent|").otherwise(pl.col("headers")),
    )
