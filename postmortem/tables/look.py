"""Which lines may hold something: those with a literal of the catalogue, also where a collector has written it in another way."""

from __future__ import annotations

import json
import re
from typing import Final

import polars as pl

from postmortem.lines.donors import NO_TIME
from postmortem.patterns import later
from postmortem.tables import repeats

_ESCAPES: Final = {'\\"': '"', "\\/": "/", "\\\\": "\\", "\\t": "\t", "\\u003c": "<", "\\u003e": ">", "\\u0026": "&"}
"""What JSON writers put for characters that literals of definitions hold."""

_BYTE_LIST: Final = later(r'"MESSAGE" ?: ?\[((?: ?[0-9]{1,3} ?,)* ?[0-9]{1,3} ?)\]')


def decoded(text: pl.Series) -> pl.Series | None:
    """`text` with journald's texts that are lists of bytes as text; None when it has none.

    A Python loop over those lines alone: no column operation turns numbers in brackets into text.
    """
    of_bytes = text.str.starts_with("{") & text.str.contains(_BYTE_LIST.pattern)
    if not of_bytes.any():
        return None

    def as_text(found: re.Match[str]) -> str:
        raw = bytes(n for part in found[1].split(",") if (n := int(part)) < 256)
        return '"MESSAGE":' + json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=False)

    return text.clone().scatter(of_bytes.arg_true(), [_BYTE_LIST.sub(as_text, t) for t in text.filter(of_bytes)])


class Look:
    """Says of texts which hold a literal of the catalogue, and which a time. One query for all: to begin one costs more than a thousand texts."""

    def __init__(self, prefilter: str) -> None:
        text = pl.col("text")
        self._prefilter = prefilter
        self._hits = [
            text.str.contains(prefilter).alias("hit"),
            (text.str.starts_with("{") & text.str.contains("\\", literal=True)).alias("escaped"),
        ]
        self._timed = text.str.contains(NO_TIME).alias("timed")

    def __call__(self, texts: pl.Series) -> tuple[repeats.Flags, repeats.Flags]:
        """(which hold a literal, which show a time)."""
        found = texts.alias("text").to_frame().select_seq([*self._hits, self._timed])
        return self._with_escaped(texts, found), found["timed"].to_numpy()

    def times(self, texts: pl.Series) -> repeats.Flags:
        """Which show a time."""
        return texts.alias("text").to_frame().select_seq(self._timed)["timed"].to_numpy()

    def hits(self, texts: pl.Series) -> repeats.Flags:
        """Which hold a literal."""
        return self._with_escaped(texts, texts.alias("text").to_frame().select_seq(self._hits))

    def _with_escaped(self, texts: pl.Series, found: pl.DataFrame) -> repeats.Flags:
        hit, escaped = found["hit"].to_numpy(), found["escaped"]
        if escaped.any():
            # Lines of JSON that hold a literal once quotes and angle brackets are written as the program printed them.
            plain = texts.filter(escaped).str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))
            hit = hit.copy()
            hit[escaped.arg_true().to_numpy()] |= plain.str.contains(self._prefilter).to_numpy()
        return hit
