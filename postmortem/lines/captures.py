"""Patterns over columns of texts: which texts match, and what the groups hold."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.guards import needed

MANY: Final = 4000
"""Texts from which on finding the matches first is cheaper than capturing in all of them, unless most match."""

SOME: Final = 200
"""Texts that are tried to know whether most match."""

WHOLE: Final = "whole"
"""Name of the group that is the match."""

NOWHERE: Final = np.empty(0, dtype=np.intp)


def captures(texts: pl.Series, pattern: str) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
    """Positions of the texts that `pattern` matches, and its groups (named and numbered, as text) for these; WHOLE is the match itself.

    This outer group tells a match of no groups from none, and spares compiling the pattern twice.
    """
    index: npt.NDArray[np.intp] | None = None
    if texts.len() > MANY:
        some = texts.gather_every(texts.len() // SOME)
        # Where most match looking for the matches first is a waste.
        if int(some.str.contains(pattern).sum()) * 2 <= some.len():
            index = _matches(texts, pattern, some)
            if not len(index):
                return NOWHERE, pl.DataFrame()
            texts = texts[index]
    groups = texts.to_frame("t").select(_groups(pattern)).to_series().struct.unnest()
    missing = groups[WHOLE].null_count()
    if missing == groups.height:
        return NOWHERE, pl.DataFrame()
    if not missing:
        return np.arange(groups.height) if index is None else index, groups
    where = groups.select(pl.col(WHOLE).is_not_null().arg_true()).to_series().to_numpy().astype(np.intp)
    return where if index is None else index[where], groups[where]


@lru_cache(maxsize=4096)
def _groups(pattern: str) -> pl.Expr:
    """Made once, since polars compiles a pattern already to know the names of its groups."""
    return pl.col("t").str.extract_groups(f"(?P<{WHOLE}>{pattern})")


def _matches(texts: pl.Series, pattern: str, some: pl.Series) -> npt.NDArray[np.intp]:
    """Positions of the texts that match; `some` of them tell which of the texts that a match must hold is the rarest."""
    frame, match = texts.to_frame("t").with_row_index("row"), pl.col("t").str.contains(pattern)
    literals = needed(pattern)
    if literals:
        # Looking for a text takes a tenth of the time that a pattern takes.
        held = some.to_frame("t").select(pl.col("t").str.contains(x, literal=True).sum().alias(x) for x in literals)
        rarest = min(literals, key=held.row(0, named=True).__getitem__)
        frame = frame.filter(pl.col("t").str.contains(rarest, literal=True))
    return frame.filter(match)["row"].to_numpy().astype(np.intp)
