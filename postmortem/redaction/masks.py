"""Names and their masks, and their replacement in text and in columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from postmortem.redaction.names import KINDS, Names

_RUNS: Final = re.compile(r"[^\W_]+")
_NUMBERS: Final = re.compile(r"([0-9]+)")
_PIECES: Final = r"\S+|\s+"
CUTS: Final = (4096, 400)
"""Lengths at which texts are cut off elsewhere: the last word of such a text may be a part of a name."""


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key: `node-2` before `node-10`."""
    parts = _NUMBERS.split(name.lower())
    return [(int(part) if i % 2 and len(part) < 20 else 0, part) for i, part in enumerate(parts)]


@dataclass(slots=True)
class Masks:
    """Mask by name, names in lower case: two spellings that differ in case alone have one mask.

    Names are matched at whole runs of letters and digits, the longest first: `node-1` is found in `node-1-eth0` and in
    `/log/node-1.txt`, not in `node-11`.
    """

    by_name: Mapping[str, str]
    _lengths: dict[str, list[int]] = field(default_factory=dict)
    """First run of letters and digits of a name → the lengths of the names that begin with it, longest first."""

    def __post_init__(self) -> None:
        lengths: dict[str, set[int]] = {}
        for name in self.by_name:
            first = _RUNS.search(name)
            if first is not None and first.start() == 0:
                lengths.setdefault(first.group(), set()).add(len(name))
        self._lengths.update({first: sorted(found, reverse=True) for first, found in lengths.items()})

    @classmethod
    def of(cls, names: Names) -> Masks:
        """`kind-number` for each name, in the natural order of the names; a mask is never a name itself."""
        kinds: dict[str, str] = {}
        for kind in KINDS:
            for name in names.by_kind.get(kind, ()):
                kinds.setdefault(name.lower(), kind)
        out: dict[str, str] = {}
        counts = dict.fromkeys(KINDS, 0)
        for name in sorted(kinds, key=_natural):
            kind = kinds[name]
            while True:
                counts[kind] += 1
                mask = f"hosts[{counts[kind]}" if kind == "hosts" else f"{kind}-{counts[kind]}"
                if mask not in kinds:
                    break
            out[name] = mask if kind != "hosts" or name.count("[") > name.count("]") else f"{mask}]"
        for name in [n for n in out if not n.isascii()]:
            out.setdefault(json.dumps(name)[1:-1].lower(), out[name])  # as columns of JSON have it
        return cls(out)

    def text(self, text: str) -> str:
        """`text` with every name replaced."""
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose lower case is longer would shift all places
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        out: list[str] = []
        done = 0
        for run in _RUNS.finditer(lower):
            at = run.start()
            if at < done:
                continue
            for length in self._lengths.get(run.group(), ()):
                end = at + length
                mask = self.by_name.get(lower[at:end]) if end <= len(lower) else None
                if mask is not None and (end == len(lower) or not _RUNS.match(lower, end)):
                    out += (text[done:at], mask)
                    done = end
                    break
        return "".join((*out, text[done:]))

    def column(self, values: pl.Series, cuts: tuple[int, ...] = CUTS) -> pl.Series:
        """The column with every name replaced; work goes over distinct words, not over rows. `cuts`: see `CUTS`."""
        if not self.by_name or not len(values):
            return values
        cells = pl.DataFrame({"old": values.drop_nulls().unique()})
        cut = pl.col("old").str.len_chars().is_in(cuts)
        cells = cells.with_columns(
            new=pl.when(cut).then(pl.col("old").str.replace(r"\S{1,200}$", "…")).otherwise(pl.col("old"))
        )
        cells = cells.filter(self._holds(cells["new"]) | (cells["new"] != cells["old"]))
        if not cells.height:
            return values
        pieces = cells["new"].str.extract_all(_PIECES)
        words = pieces.explode().drop_nulls().unique()
        words = words.filter(self._holds(words))
        # A Python loop over distinct words that hold a name: longest match at borders of words is no column operation.
        masked = {word: self.text(word) for word in words.to_list()}
        new = pieces.list.eval(pl.element().replace(masked)).list.join("") if masked else cells["new"]
        return values.replace(cells["old"], new)

    def _holds(self, values: pl.Series) -> pl.Series:
        """Whether a text may hold a name; all may where looking costs more than replacing."""
        if int(values.str.len_bytes().sum() or 0) < sum(map(len, self.by_name)):
            return pl.repeat(value=True, n=len(values), eager=True)
        return values.str.to_lowercase().str.contains_any(list(self.by_name))

    def to_json(self) -> str:
        """The map for `--redact-map`: name → mask."""
        return (
            json.dumps(
                dict(sorted(self.by_name.items(), key=lambda pair: _natural(pair[1]))), ensure_ascii=False, indent=1
            )
            + "\n"
        )
