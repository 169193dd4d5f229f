"""Segments → fields of their headers and the message that is left.

Headers stack (a collector's stamp, a launcher's rank, a program's own header), so they are taken
off one after the other, at most MAX_DEPTH deep, each pass one column operation per header kind.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from postmortem.lines.headers import HEADERS
from postmortem.lines.stamps import STAMP_COLUMNS, parse_stamps

MAX_DEPTH: Final = 8
MAX_UPTIME_S: Final = 3e9
"""A century; larger numbers are no uptime, and would not fit where microseconds are counted."""
NO_HOST: Final = frozenset({"kernel", "-", "localhost", "unknown", "last", "message"})
"""Words that stand where a host is expected and are none."""

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


def _one_pass(active: pl.DataFrame) -> pl.DataFrame:
    """Rows of `active` (`i`, `rest`) that lost one header: their `i` and what the header said."""
    left = active
    found: list[pl.DataFrame] = []
    for header in HEADERS:
        if not left.height:
            break
        hit = left["rest"].str.contains(header.pattern)
        if not hit.any():
            continue
        rows = left.filter(hit)
        groups = rows.select(pl.col("rest").str.extract_groups(header.pattern).alias("g")).unnest("g")
        fields = _fields(header.kind, groups).with_columns(i=rows["i"])
        bad_time = fields["stamp_us"].is_null() if "stamp_us" in fields.columns else pl.Series([False] * fields.height)
        fields = fields.filter(~bad_time)
        if not fields.height:
            continue
        found.append(fields)
        left = left.join(fields.select("i"), on="i", how="anti", maintain_order="left")
    return pl.concat(found, how="diagonal") if found else pl.DataFrame()


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
