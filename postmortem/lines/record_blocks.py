"""Records of a document, collected into blocks: what the readers of `postmortem.lines.documents` fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from postmortem.lines.blocks import Block

CHUNK: Final = 1 << 20
"""Bytes that are read at once."""

MAX_RECORD: Final = 1 << 20
"""Bytes of one record; a longer one is skipped and reported as odd."""

MAX_SHOWN: Final = 4096
DAMAGED: Final = "a record that is damaged or too long"


@dataclass(slots=True)
class RecordBlocks:
    """Records that wait for their block."""

    shown: list[str] = field(default_factory=list)
    framed: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    odd: list[tuple[int, str, str]] = field(default_factory=list)
    odd_count: int = 0
    seen_lines: int = 0
    seen_bytes: int = 0

    def put(self, line: int, offset: int, shown: str, framed: str) -> None:
        self.shown.append(shown[:MAX_SHOWN].strip("\r\n"))
        self.framed.append(framed)
        self.numbers.append(line)
        self.offsets.append(offset)

    def damaged(self, line: int, why: str, text: str) -> None:
        self.odd_count += 1
        if len(self.odd) < 20:
            self.odd.append((line, why, text[:120]))

    def block(self) -> Block:
        made = Block(
            pl.Series("text", self.shown, dtype=pl.String),
            np.array(self.offsets, dtype=np.int64),
            1,
            self.seen_bytes,
            tuple(self.odd),
            self.odd_count,
            np.array(self.numbers, dtype=np.int64),
            pl.Series("framed", self.framed, dtype=pl.String),
            self.seen_lines,
        )
        self.shown, self.framed, self.numbers, self.offsets, self.odd = [], [], [], [], []
        self.odd_count = self.seen_lines = self.seen_bytes = 0
        return made
