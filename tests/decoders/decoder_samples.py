"""Members in memory, and what tests of decoders share."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postmortem.decoders import Decoded, decode, sniff

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"


@dataclass
class Member:
    """A bundle member whose bytes are given."""

    name: str
    content: bytes
    stream: io.BytesIO = field(init=False)

    def __post_init__(self) -> None:
        self.stream = io.BytesIO(self.content)


def run(decoder: str, name: str, content: str | bytes, *, host: str | None = None, rank: int | None = None) -> Decoded:
    """What `decoder` makes of `content`."""
    raw = content.encode() if isinstance(content, str) else content
    return decode(decoder, Member(name, raw), host_hint=host, rank_hint=rank)


def sniffed(name: str, content: str | bytes, *, host: str | None = None, rank: int | None = None) -> Decoded:
    """What the decoder that recognises `content` makes of it."""
    raw = content.encode() if isinstance(content, str) else content
    decoder = sniff(name, raw[: 64 << 10])
    assert decoder is not None
    return run(decoder, name, raw, host=host, rank=rank)


def rows(decoded: Decoded, table: str) -> list[dict[str, Any]]:
    """Rows of a table; none when the decoder gave none."""
    frame = decoded.tables.get(table)
    return [] if frame is None else frame.to_dicts()


def pick(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Some columns of rows."""
    return [tuple(row.get(name) for name in names) for row in found]
