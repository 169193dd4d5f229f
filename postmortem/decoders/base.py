"""What every decoder takes and gives, and how its rows become frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

import polars as pl

from postmortem.lines.blocks import Block
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import RAW_TIME, TABLE_BY_NAME

MAX_TEXT_BYTES: Final = 16 << 20
"""Tables that are read whole (topologies, schedulers' tables) are read up to this many bytes; the rest is noted."""

MAX_TEXT: Final = 4096
"""Characters kept of a line as evidence."""

MAX_SAMPLE_EVENTS: Final = 200
"""Timings of one file that also become events; a file with more of them fills its table of samples alone."""

EPOCH: Final = datetime(1970, 1, 1)

Row = dict[str, object]


class Stream(Protocol):
    """Decompressed bytes of a member; reads never raise for damaged data."""

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
    """Rows by public table name, with the columns that the decoder fills; what was odd; lines and bytes read.

    `events` and `facts` carry the columns of `RAW_TIME` instead of `ts`: zones are settled once the whole bundle is
    known. Of several rows of one line `sub` gives the order. `blocks` are lines that the line pass reads as if they stood in
    a log: logs and events inside a document.
    """

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0

    def put(self, table: str, rows: list[Row]) -> None:
        """Add `rows` as the frame of `table`; no rows, no frame."""
        if rows:
            self.tables[table] = frame(table, rows)

    def count(self, block: Block) -> None:
        """Count the lines and bytes of a block that was read."""
        self.lines += len(block.text)
        self.bytes += block.byte_count


@dataclass(frozen=True, slots=True)
class Head:
    """What a format is recognised by: the member's name, its first bytes (at most 64 KB) and the first 16 KB as text."""

    name: str
    raw: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Hints:
    """What the member's name and folders say: whose file it is."""

    host: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is no line: what it is, how it is known by its content, and who reads it.

    `about` says in a line what it is and what is read of it, `program` who prints it, with versions, `reference` where that is
    written. `looks` is asked of every file, so it is cheap and false for ordinary logs. Formats with `in_section` are also read
    where they are one command's output among others in a file.
    """

    name: str
    about: str
    program: str
    reference: str
    looks: Callable[[Head], bool]
    run: Callable[[MemberLike, Hints], Decoded]
    in_section: bool = False


def schema_of(table: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """polars types of the columns that a decoder may fill in `table`."""
    columns = {c.name: POLARS_TYPES[c.type] for c in TABLE_BY_NAME[table].columns}
    if table in {"events", "facts"}:
        columns |= {c.name: POLARS_TYPES[c.type] for c in RAW_TIME}
        columns |= {"sub": pl.Int64, "text": pl.String, "source": pl.String, "severity": pl.String}
    return columns


def frame(table: str, rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """`rows` as a frame of `table` with the columns that any of them has, in the schema's types.

    Numbers must fit their column: see `whole` and `real`.
    """
    listed = list(rows)
    known = schema_of(table)
    present = dict.fromkeys(name for row in listed for name in row)
    return pl.DataFrame(
        {n: pl.Series(n, [row.get(n) for row in listed], dtype=known[n], strict=False) for n in present}
    )


def read_text(member: MemberLike, decoded: Decoded, limit: int = MAX_TEXT_BYTES) -> str:
    """The member as text (damaged bytes replaced), at most `limit` bytes; counts lines and bytes in `decoded`."""
    raw, is_whole = read_bytes(member, limit)
    if not is_whole:
        decoded.notes.append(f"only the first {limit >> 20} MB were read")
    decoded.bytes = len(raw)
    decoded.lines = raw.count(b"\n") + (0 if raw.endswith(b"\n") or not raw else 1)
    return raw.decode("utf-8", "replace").replace("\0", "")


def read_bytes(member: MemberLike, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the member, and whether that is all of it."""
    parts: list[bytes] = []
    size = 0
    while size <= limit and (data := member.stream.read(min(4 << 20, limit + 1 - size))):
        parts.append(data)
        size += len(data)
    raw = b"".join(parts)
    return raw[:limit], len(raw) <= limit


def numbered(block: Block) -> pl.DataFrame:
    """Columns `line` (1-based) and `t` (text) of a block."""
    return pl.DataFrame({"t": block.text}).select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("line") + block.first_line, "t"
    )


def whole(value: object) -> int | None:
    """`value` as a 64-bit integer, also when it is printed text; null when it is none or does not fit."""
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 20):
            return None
        value = int(digits)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def real(value: object) -> float | None:
    """`value` as a finite number; null when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) < 1e300 else None


def stamp(when: datetime | None, resolution_us: int = 1_000_000) -> Row:
    """The columns of `RAW_TIME` for a printed time; its zone is null when the time carries none."""
    if when is None:
        return {"stamp_us": None, "stamp_has_year": None, "stamp_zone_s": None, "stamp_res_us": None}
    offset = when.utcoffset()
    return {
        "stamp_us": (when.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1),
        "stamp_has_year": True,
        "stamp_zone_s": None if offset is None else int(offset.total_seconds()),
        "stamp_res_us": resolution_us,
    }


def evidence(member: MemberLike, line: int, text: str, source: str) -> Row:
    """The columns that say where an event was read."""
    return {
        "file": member.name,
        "line": line,
        "offset": 0,
        "text": text[:MAX_TEXT],
        "message": text.strip()[:MAX_TEXT],
        "source": source,
    }


def same_stamp(us: pl.Expr, resolution_us: int = 1) -> list[pl.Expr]:
    """The columns of `RAW_TIME` for a column of microseconds since 1970, UTC."""
    known = us.is_not_null()
    return [
        us.alias("stamp_us"),
        pl.when(known).then(True).alias("stamp_has_year"),
        pl.when(known).then(pl.lit(0, dtype=pl.Int32)).alias("stamp_zone_s"),
        pl.when(known).then(pl.lit(resolution_us, dtype=pl.Int64)).alias("stamp_res_us"),
    ]
