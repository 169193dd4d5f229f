"""Times of neighbours: lines without a stamp take that of the stamped line before them."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from postmortem.lines.blocks import Block
from postmortem.lines.peel import peel

NO_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}|^\s*\[ *[0-9]+\.[0-9]+\]|\"(?:time|ts|timestamp|__REALTIME_TIMESTAMP)\""
"""What a line with a time of its own shows; a line without it needs a neighbour's."""

STAMPS: Final = ("stamp_us", "stamp_has_year", "stamp_zone_s", "stamp_res_us", "stamp2_us", "stamp2_zone_s", "uptime_s")


def donors(name: str, block: Block, untimed: pl.Series) -> pl.DataFrame:
    """The nearest line with a time above each of the block's lines `untimed` (indices): file, line, text."""
    timed = block.text.str.contains(NO_TIME).arg_true().to_numpy()
    where = np.searchsorted(timed, untimed.to_numpy()) - 1
    index = np.unique(timed[where[where >= 0]]) if len(timed) else np.empty(0, dtype=np.int64)
    frame = pl.DataFrame({"line": block.numbers[index], "text": block.text.gather(index)})
    return frame.select(pl.lit(name).alias("file"), "line", "text")


def inherit(rows: pl.DataFrame, given: pl.DataFrame | None) -> pl.DataFrame:
    """`rows` with stamps for those that print none, and the flag `from_neighbour` for these.

    The stamp is that of the nearest line above in the same file that has one; nothing is taken from
    below, since a file's first stamp may be hours after its first line.
    """
    own = rows.filter(pl.col("stamp_us").is_not_null() | pl.col("uptime_s").is_not_null()).select(
        "file", "line", *STAMPS
    )
    sources = [own]
    if given is not None and given.height:
        headers = peel(given["text"]).select(*STAMPS)
        dated = given.select("file", "line").hstack(headers)
        sources.append(dated.filter(pl.col("stamp_us").is_not_null() | pl.col("uptime_s").is_not_null()))
    has_own = pl.col("stamp_us").is_not_null() | pl.col("uptime_s").is_not_null()
    if rows.filter(~has_own).is_empty():
        return rows.with_columns(from_neighbour=pl.lit(False))
    pool = (
        pl.concat(sources, how="vertical_relaxed")
        .unique(["file", "line"], keep="first", maintain_order=True)
        .sort("line")
    )
    bare = rows.with_row_index("_i").filter(~has_own).sort("line")
    found = (
        bare.select("_i", "file", "line")
        .join_asof(pool, on="line", by="file", strategy="backward", check_sortedness=False)
        .drop("file", "line")
    )
    merged = rows.with_row_index("_i").join(found, on="_i", how="left", suffix="_n", maintain_order="left")
    took = ~has_own & (pl.col("stamp_us_n").is_not_null() | pl.col("uptime_s_n").is_not_null())
    filled = merged.with_columns(
        *(pl.when(took).then(pl.col(f"{n}_n")).otherwise(pl.col(n)).alias(n) for n in STAMPS),
        from_neighbour=took.fill_null(False),
    )
    return filled.select(*rows.columns, "from_neighbour")
