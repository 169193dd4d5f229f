"""Blocks of many small files as one: a query over a few lines costs as much as one over thousands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.blocks import PAD, Block
from postmortem.lines.donors import NO_TIME

MOST_BYTES: Final = 256 << 10
"""Bytes of a block up to which it is put together with others."""

JOINED_BYTES: Final = 2 << 20
JOINED_BLOCKS: Final = 1_000
"""How much comes together before it is read."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Joined:
    """Lines of several blocks of plain ASCII: `block` holds their bytes; per line the number and offset in its file, per block its file and first line."""

    block: Block
    files: pl.Series
    begins: Ints
    numbers: Ints
    offsets: Ints

    @classmethod
    def of(cls, parts: list[tuple[str, Block]]) -> Joined:
        """Blocks by file name; each must have `raw` and `ends`."""
        raws, ends, lengths, size = [], [], [], 0
        for _, block in parts:
            assert block.raw is not None
            assert block.ends is not None
            raws.append(block.raw[: block.byte_count])
            ends.append(block.ends + size)
            lengths.append(len(block.ends))
            size += len(raws[-1])
        every = np.concatenate(ends)
        starts = np.concatenate(([0], every[:-1] + 1))
        whole = Block(None, starts, 1, size, (), 0, raw=b"".join((*raws, PAD)), ends=every)
        begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        files = pl.Series("file", [name for name, _ in parts], dtype=pl.String)
        numbers = np.concatenate([block.numbers for _, block in parts])
        return cls(whole, files, begins, numbers, np.concatenate([block.offsets for _, block in parts]))

    def part(self, where: Ints) -> Ints:
        """The block that each of these lines is of."""
        return np.searchsorted(self.begins, where, side="right") - 1

    def lines(self, where: Ints) -> pl.DataFrame:
        """File, line, offset and text of some lines."""
        return pl.DataFrame(
            {
                "file": self.files.gather(self.part(where)),
                "line": self.numbers[where],
                "offset": self.offsets[where],
                "text": self.block.pick(where),
            }
        )

    def donors(self, untimed: Ints) -> pl.DataFrame:
        """The nearest line with a time above each of the lines `untimed`, in its own file: file, line, text (`postmortem.lines.donors`)."""
        timed = self.block.text.str.contains(NO_TIME).arg_true().to_numpy().astype(np.int64)
        where = np.searchsorted(timed, untimed) - 1
        above, untimed = timed[where[where >= 0]], untimed[where >= 0]
        return self.lines(np.unique(above[self.part(above) == self.part(untimed)])).select("file", "line", "text")
