"""Times of neighbours: lines without a stamp take that of the stamped line before them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
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
    dated = _dated(rows)
    if dated.all():
        return rows.with_columns(from_neighbour=pl.lit(False))
    own, bare = np.flatnonzero(dated), np.flatnonzero(~dated)
    names = ["file", "line", *STAMPS]
    every = rows.select(names)
    # Where a row and a given line are the same, the row comes first.
    if given is not None and given.height:
        lent = given.select("file", "line").hstack(peel(given["text"]).select(STAMPS))
        every = pl.concat([every, lent.filter(pl.Series(_dated(lent)))], how="vertical_relaxed")
        own = np.concatenate((own, np.arange(rows.height, every.height)))
    keys = _places(every)
    order = own[np.argsort(keys[own], kind="stable")]
    timed = keys[order]
    is_first = np.diff(timed, prepend=-1) > 0
    order, timed = order[is_first], timed[is_first]
    above = np.searchsorted(timed, keys[bare], side="right") - 1
    is_same_file = (above >= 0) & (timed[above] >> _LINE_BITS == keys[bare] >> _LINE_BITS) if len(timed) else above > 0
    source = np.arange(rows.height)
    source[bare[is_same_file]] = order[above[is_same_file]]
    took = source != np.arange(rows.height)
    return rows.with_columns(*every.select(STAMPS)[source].get_columns(), pl.Series("from_neighbour", took))


_LINE_BITS: Final = 40
"""More lines than any file has."""


def _dated(rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows have a time of their own."""
    return rows.select(pl.col("stamp_us").is_not_null() | pl.col("uptime_s").is_not_null()).to_series().to_numpy()


def _places(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """One number for file and line, in which lines of a file ascend."""
    runs = rows["file"].rle().struct.unnest()
    numbers: dict[str, int] = {}
    file = np.array([numbers.setdefault(name, len(numbers)) for name in runs["value"]], dtype=np.int64)
    places: npt.NDArray[np.int64] = (np.repeat(file, runs["len"].to_numpy()) << _LINE_BITS) + rows["line"].to_numpy()
    return places
