"""Which texts may begin with which header: cheap tests that spare most texts most patterns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines import guards
from postmortem.lines.captures import MANY, NOWHERE, SOME
from postmortem.lines.guards import DEPTH, guard
from postmortem.lines.headers import HEADERS
from postmortem.lines.headers.grammar import any_of, is_small
from postmortem.prepared import prepared

SHARE: Final = 64
"""A header that guards let through for one in so many texts is let through often."""

LEAST_RUN: Final = 4
"""Headers for which looking once is cheaper than one by one."""


@dataclass(slots=True)
class _Run:
    """Numbers of headers that few texts have, one after the other, and the texts that may have one of them once they are known."""

    headers: list[int] = field(default_factory=list)
    index: npt.NDArray[np.intp] | None = None


class Sieve:
    """Texts of one pass, to ask for those that a guard lets through."""

    def __init__(self, texts: pl.Series) -> None:
        self._texts = texts
        start = pl.col("t").cast(pl.Binary).bin.head(DEPTH) + pl.lit(b"\0" * DEPTH)
        start = start.bin.head(DEPTH).bin.reinterpret(dtype=pl.UInt64)
        words, self._word = np.unique(texts.to_frame("t").select(start).to_series().to_numpy(), return_inverse=True)
        places = words.astype("<u8").view(np.uint8).reshape(-1, DEPTH)
        flags = guards_of_headers().flags
        # For each different begin of a text one bit per guard, eight guards a byte.
        self._bits = np.bitwise_and.reduce([flags[k][places[:, k]] for k in range(DEPTH)])
        self._some = (
            np.bitwise_or.reduce(self._bits, axis=0) if len(words) else np.zeros(flags.shape[2], dtype=np.uint8)
        )
        self._masks = _held(texts) if texts.len() <= MANY else {}
        self._runs: dict[int, _Run] = {}
        self._usual: set[int] = set()
        self._is_left = np.ones(texts.len(), dtype=bool)
        self.left: npt.NDArray[np.intp] = np.arange(texts.len())

    def take(self, index: npt.NDArray[np.intp]) -> None:
        """Texts at these positions are done with."""
        self._is_left[index] = False
        self.left = self.left[self._is_left[self.left]]

    def group(self, usual: set[int], most: int = len(HEADERS)) -> None:
        """Look for headers together, for at most so many of them, where guards let them through often and they are not `usual`.

        The usual ones, which most of the texts have, come between: few texts are left for those behind them.
        """
        self._usual, self._runs = usual, {}
        often = self._often()
        run = _Run()
        for number, header in enumerate(HEADERS):
            if number in usual:
                run = _Run()
            elif number in often and is_small(header.pattern):
                if len(run.headers) == most:
                    run = _Run()
                run.headers.append(number)
                self._runs[number] = run

    def _often(self) -> set[int]:
        """Numbers of the headers that guards let through often, of a few texts for any of them."""
        if self._texts.len() <= MANY:
            literals = guards_of_headers().literals
            return {k for k in range(len(HEADERS)) if len(self.allowed(k, literals[k]))}
        some = np.unpackbits(self._bits[self._word[:: len(self._word) // SOME]], axis=1)
        return {int(k) for k in np.flatnonzero(some.sum(axis=0) * SHARE > len(some))}

    def most_may_have(self) -> bool:
        """Whether most of the texts may have one of the headers that are looked for together."""
        run = next(iter(self._runs.values()), None)
        return run is not None and len(self._of_run(run)) * 2 > len(self._word)

    def allowed(self, number: int, literals: tuple[str, ...]) -> npt.NDArray[np.intp]:
        """Positions of the texts that are left and that the guard of that number lets through."""
        byte, bit = number >> 3, np.uint8(128 >> (number & 7))
        if not self._some[byte] & bit:
            return NOWHERE
        index: npt.NDArray[np.intp] = self._of_run(self._runs[number]) if number in self._runs else self.left
        if not len(index):
            return NOWHERE
        is_let = (self._bits[:, byte] & bit) != 0
        index = index[is_let[self._word if len(index) == len(self._word) else self._word[index]]]
        # Compiling a pattern takes longer than looking for the texts that it must hold.
        for literal in literals if number not in self._usual else ():
            if not len(index):
                break
            index = index[self._holds(index, literal)]
        return index

    def _of_run(self, run: _Run) -> npt.NDArray[np.intp]:
        """The texts that are left and may have one of the headers of a run."""
        if run.index is None:
            run.index = self.left
            if len(run.headers) >= LEAST_RUN and len(run.index):
                pattern = any_of(HEADERS[k].pattern for k in run.headers)
                run.index = run.index[self._some_of(run.index).str.contains(pattern).to_numpy()]
        elif len(run.index):
            run.index = run.index[self._is_left[run.index]]
        return run.index

    def _some_of(self, index: npt.NDArray[np.intp]) -> pl.Series:
        return self._texts if len(index) == self._texts.len() else self._texts[index]

    def _holds(self, index: npt.NDArray[np.intp], literal: str) -> npt.NDArray[np.bool_]:
        """Which of the texts at these positions hold the literal."""
        if literal not in self._masks:
            if len(index) * 8 < self._texts.len():
                held: npt.NDArray[np.bool_] = self._texts[index].str.contains(literal, literal=True).to_numpy()
                return held
            self._masks[literal] = self._texts.str.contains(literal, literal=True).to_numpy()
        return self._masks[literal][index]


def _held(texts: pl.Series) -> dict[str, npt.NDArray[np.bool_]]:
    """Which of a few texts hold each of the literals of all guards."""
    literals = guards_of_headers().every
    found = (
        texts.to_frame("t")
        .lazy()
        .with_row_index("row")
        .select("row", pl.col("t").str.extract_many(literals, overlapping=True))
        .explode("t")
        .drop_nulls()
        .select("row", pl.col("t").cast(pl.Enum(literals)).to_physical())
        .collect()
    )
    masks = np.zeros((len(literals), texts.len()), dtype=bool)
    masks[found["t"].to_numpy(), found["row"].to_numpy()] = True
    return dict(zip(literals, masks, strict=True))


@dataclass(frozen=True, slots=True)
class _Guards:
    """The guards of HEADERS: for each place and byte the ones that allow it (a bit each, eight guards a byte), and the texts of each."""

    flags: npt.NDArray[np.uint8]
    literals: tuple[tuple[str, ...], ...]
    every: list[str]
    """Each of these texts once."""


@lru_cache(maxsize=1)
def guards_of_headers() -> _Guards:
    """Worked out once, and kept as long as the headers stay the same."""
    patterns = [header.pattern for header in HEADERS]

    def make() -> tuple[str, list[list[str]]]:
        made = [guard(p) for p in patterns]
        flags = np.array([[np.frombuffer(f, dtype=np.uint8) for f in g.starts] for g in made])
        packed = np.packbits(flags, axis=0).transpose(1, 2, 0)
        return packed.tobytes().hex(), [list(g.literals) for g in made]

    code = Path(guards.__file__).read_bytes()
    packed, literals = prepared("guards", b"\0".join((code, *(p.encode() for p in patterns))), make)
    flags = np.frombuffer(bytes.fromhex(packed), dtype=np.uint8).reshape(DEPTH, 256, -1)
    return _Guards(flags, tuple(map(tuple, literals)), sorted({text for texts in literals for text in texts}))
