"""Records over several lines: fields of other lines move to the row that began the record."""

from __future__ import annotations

from typing import Final

import polars as pl

from postmortem.catalogue.values import ENTITY_TYPES
from postmortem.schema import RAW_TIME

_STAMPS = [c.name for c in RAW_TIME]

MAX_MESSAGE: Final = 4096
"""Characters kept of the lines of one record."""


def merge_records(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` (ROW_SCHEMA) without its continuation rows, their fields filled into their beginnings.

    A continuation belongs to the nearest earlier row of the same file whose definition begins that
    record, at most `within` lines above (`precedes`: the nearest later row, as far below). What the
    beginning states itself is kept, its time too; of several that state a field the one nearest to the
    beginning wins. Continuations without a beginning are dropped, so are beginnings that need parts and
    have none, and rows that a more telling line below replaces (`unless`). A beginning that needs parts
    says nothing alone, so the lines of its parts follow its own in `message`.
    """
    is_part = pl.col("continues").is_not_null() | pl.col("precedes").is_not_null()
    parts = rows.filter(is_part)
    keep = rows.filter(~is_part).with_row_index("_id").with_columns(pl.col("_id").cast(pl.Int64))
    keep = _fill(keep, parts) if parts.height else keep.filter(~pl.col("needs_parts").fill_null(False))
    return _drop_replaced(keep).select(rows.columns)


def _owners(keep: pl.DataFrame, parts: pl.DataFrame, key: str) -> pl.DataFrame:
    """`parts` with `_id` of the row that each belongs to; those that belong to none are left out."""
    begins = keep.filter(pl.col("record").is_not_null()).select(
        "_id", "file", pl.col("record").alias(key), "line", _begin="line"
    )
    upward = key == "continues"
    joined = (
        parts.filter(pl.col(key).is_not_null())
        .sort("line")
        .join_asof(
            begins.sort("line"),
            on="line",
            by=["file", key],
            strategy="backward" if upward else "forward",
            check_sortedness=False,
        )
    )
    return joined.filter(pl.col("_id").is_not_null() & ((pl.col("line") - pl.col("_begin")).abs() <= pl.col("within")))


def _fill(keep: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    joined = pl.concat([_owners(keep, parts, "continues"), _owners(keep, parts, "precedes")])
    names = [*ENTITY_TYPES, "host"]
    below = pl.col("continues").is_not_null()
    merged = (
        joined.with_columns(
            _away=(pl.col("line") - pl.col("_begin")).abs(),
            _back=pl.when(below).then(0).otherwise(-pl.col("offset")),
        )
        .sort("_id", "_away", "_back", maintain_order=True)
        .group_by("_id", maintain_order=True)
        .agg(
            *(pl.col(n).drop_nulls().first() for n in names),
            *(pl.col(n).filter(pl.col("stamp_us").is_not_null() & below).first() for n in _STAMPS),
            # As printed (a header may have taken the time), once each: a line may give several rows.
            _said=pl.col("text").filter(below).str.strip_chars().unique(maintain_order=True).str.join("\n"),
            _parts=below.sum(),
        )
    )
    filled = keep.join(merged, on="_id", how="left", suffix="_part", maintain_order="left")
    untimed = pl.col("stamp_us").is_null()
    filled = filled.with_columns(
        *(pl.coalesce(n, f"{n}_part").alias(n) for n in names),
        *(pl.when(untimed).then(f"{n}_part").otherwise(n).alias(n) for n in _STAMPS),
    )
    needy = pl.col("needs_parts").fill_null(False)
    whole = pl.concat_str("message", "_said", separator="\n").str.slice(0, MAX_MESSAGE)
    return filled.filter(~needy | (pl.col("_parts").fill_null(0) > 0)).with_columns(
        message=pl.when(needy).then(whole).otherwise("message")
    )


def _drop_replaced(rows: pl.DataFrame) -> pl.DataFrame:
    """Without rows whose `unless` names a header kind, or an event, that a row at most `within` lines below shows."""
    weak = rows.filter(pl.col("unless").is_not_null())
    if not weak.height:
        return rows
    replaced: list[pl.DataFrame] = []
    for kind in weak["unless"].unique():
        shows = pl.col("event") == kind if "." in kind else pl.col("headers").str.contains(f"|{kind}|", literal=True)
        telling = rows.filter(pl.col("unless").is_null() & shows)
        below = (
            weak.filter(pl.col("unless") == kind)
            .select("_id", "file", "line", "within")
            .sort("line")
            .join_asof(
                telling.select("file", "line", _line="line").sort("line"),
                on="line",
                by="file",
                strategy="forward",
                allow_exact_matches=False,
                check_sortedness=False,
            )
        )
        replaced.append(below.filter(pl.col("_line") - pl.col("line") <= pl.col("within")).select("_id"))
    return rows.join(pl.concat(replaced), on="_id", how="anti", maintain_order="left")
