"""What every decoder takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import polars as pl

MAX_TEXT_BYTES: Final = 64 << 20
"""Formats that are read whole (tables, topologies) are read up to this many bytes; the rest is noted."""


class Stream(Protocol):
    """Decompressed bytes of a member."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        ...


class MemberLike(Protocol):
    """The part of a bundle member that decoders use."""

    @property
    def name(self) -> str:
        """Path inside the bundle."""
        ...

    @property
    def stream(self) -> Stream:
        """Its bytes."""
        ...


@dataclass(slots=True)
class Decoded:
    """Rows by public table name, with the columns that the decoder fills; what was odd; lines and bytes read."""

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0


def read_text(member: MemberLike, decoded: Decoded, limit: int = MAX_TEXT_BYTES) -> str:
    """The member as text (damaged bytes replaced), at most `limit` bytes; counts lines and bytes in `decoded`."""
    parts: list[bytes] = []
    size = 0
    while size <= limit and (data := member.stream.read(min(4 << 20, limit + 1 - size))):
        parts.append(data)
        size += len(data)
    raw = b"".join(parts)
    if len(raw) > limit:
        decoded.notes.append(f"read up to {limit >> 20} MB only")
        raw = raw[:limit]
    decoded.bytes = len(raw)
    decoded.lines = raw.count(b"\n") + (0 if raw.endswith(b"\n") or not raw else 1)
    return raw.decode("utf-8", "replace")


def event_frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Rows of events or facts as a frame whatever keys they have."""
    return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame()
