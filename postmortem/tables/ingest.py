"""One batch of a bundle's members → Parquet files of rows: what worker processes run.

Rows keep the time as it was printed; `postmortem.tables.settle` puts it into UTC once the whole
bundle is known. Memory is bounded: hits are recognised and written whenever FLUSH_ROWS have come
together, whatever the size of the members.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import polars as pl

from postmortem.bundle import Member, Problem, Unit, open_unit, rank_hint
from postmortem.catalogue.definition import load_folders
from postmortem.catalogue.matcher import HIT_SCHEMA, ROW_SCHEMA, Matcher
from postmortem.catalogue.records import merge_records
from postmortem.catalogue.values import polars_schema
from postmortem.decoders import DECODERS, decode, sniff
from postmortem.lines.blocks import Block, read_blocks
from postmortem.lines.documents import document_shape, read_document
from postmortem.lines.donors import NO_TIME, donors, inherit
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import TABLE_BY_NAME
from postmortem.tables.sections import Sections, holds_sections

FLUSH_ROWS: Final = 100_000
HEAD_BYTES: Final = 64 << 10
MAX_ODD: Final = 20
"""Odd lines kept as examples per member; all are counted."""

_ESCAPES: Final = {'\\"': '"', "\\/": "/", "\\\\": "\\", "\\t": "\t", "\\u003c": "<", "\\u003e": ">", "\\u0026": "&"}
"""What JSON writers put for characters that literals of definitions hold."""

_BYTE_LIST: Final = re.compile(r'"MESSAGE" ?: ?\[((?: ?[0-9]{1,3} ?,)* ?[0-9]{1,3} ?)\]')

FILE_SCHEMA: Final = {
    **polars_schema(TABLE_BY_NAME["files"].columns),
    "rank": pl.Int64,
    "lines": pl.Int64,
    "odd": pl.Int64,
    "mtime": pl.Float64,
}
_FRAMED_SCHEMA: Final = {**HIT_SCHEMA, "framed": pl.String}
ODD_SCHEMA: Final = polars_schema(TABLE_BY_NAME["odd_lines"].columns)


@dataclass(frozen=True, slots=True)
class Batch:
    """Picklable work for one call of `parse_batch`: units, where rows go, which definitions are used."""

    number: int
    units: tuple[Unit, ...]
    spool: str
    parsers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did; the rows are in the spool folder."""

    number: int
    members: int
    bytes: int
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Work:
    """Rows of a batch that are not written yet."""

    batch: Batch
    matcher: Matcher
    part: int = 0
    hits: list[pl.DataFrame] = field(default_factory=list)
    donors: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    tables: dict[str, list[pl.DataFrame]] = field(default_factory=lambda: defaultdict(list))
    files: list[dict[str, object]] = field(default_factory=list)
    odd: list[tuple[str, int, str, str]] = field(default_factory=list)


@lru_cache(maxsize=2)
def matcher_for(parsers: tuple[str, ...]) -> Matcher:
    """The compiled catalogue of these folders; made once per process."""
    return Matcher(load_folders([Path(p) for p in parsers]))


def batches(units: Sequence[Unit], spool: Path, parsers: Sequence[Path], batch_bytes: int = 32 << 20) -> list[Batch]:
    """Units in their order, small ones together: a batch costs a fraction of a second by itself."""
    out: list[Batch] = []
    group: list[Unit] = []
    size = 0
    folders = tuple(str(p) for p in parsers)
    for unit in units:
        if group and size + unit.size > batch_bytes:
            out.append(Batch(len(out), tuple(group), str(spool), folders))
            group, size = [], 0
        group.append(unit)
        size += unit.size
    if group:
        out.append(Batch(len(out), tuple(group), str(spool), folders))
    return out


def parse_batch(batch: Batch) -> BatchResult:
    """Parse all members of `batch`, writing `<spool>/<table>/<batch>-<part>.parquet`."""
    work = _Work(batch, matcher_for(batch.parsers))
    problems: list[Problem] = []
    total = 0
    for unit in batch.units:
        for member in open_unit(unit, problems=problems):
            total += _member(member, work)
    _flush(work)
    _write(work, "files", pl.DataFrame(work.files, schema=FILE_SCHEMA, orient="row"))
    _write(work, "odd_lines", pl.DataFrame(work.odd, schema=ODD_SCHEMA, orient="row"))
    return BatchResult(batch.number, len(work.files), total, tuple(problems))


def _looks_binary(head: bytes) -> bool:
    """No text: many bytes that no log holds. Logs after a crash may hold runs of NUL, so those alone are weighed less."""
    if not head:
        return False
    control = sum(head.count(b) for b in (*range(1, 7), *range(14, 27), 28, 29, 30, 31, 127))
    nul = head.count(0)
    return control > len(head) * 0.02 or (nul > len(head) * 0.3 and b"\n" not in head) or nul == len(head)


def _member(member: Member, work: _Work) -> int:
    """Read one member; its bytes."""
    head = member.head(HEAD_BYTES)
    kind = sniff(member.name, head) if head else "empty"
    if kind in DECODERS and DECODERS[kind].in_section and holds_sections(head, 2):
        kind = None  # one output of several: the rest of the file has to be read, too
    shape = document_shape(head) if kind is None else None
    lines = odd = size = 0
    if kind is not None and kind != "empty":
        decoded = decode(kind, member, host_hint=member.host_hint, rank_hint=rank_hint(member.name))
        lines, size = decoded.lines, decoded.bytes
        member.notes.extend(decoded.notes)
        for table, frame in decoded.tables.items():
            work.tables[table].append(frame)
        for block in decoded.blocks:
            _take(member.name, block, work)
    elif kind is None and not shape and _looks_binary(head):
        kind = "binary"
        member.notes.append("no text and no known format")
        size = member.size or len(head)
        odd = 1
        work.odd.append((member.name, 0, "no text and no known format", ""))
    elif kind is None:
        kind = "text"
        rank = rank_hint(member.name)
        sections = Sections(member.name, member.host_hint, rank) if not shape and holds_sections(head) else None
        for block in read_document(shape, member.stream) if shape else read_blocks(member.stream):
            lines += block.lines
            if sections:
                sections.feed(block)
            size += block.byte_count
            odd += block.odd_count
            work.odd.extend((member.name, n, why, text) for n, why, text in block.odd[:MAX_ODD])
            _take(member.name, block, work)
        if sections:
            sections.finish()
            for decoded in sections.found:
                for table, frame in decoded.tables.items():
                    work.tables[table].append(frame)
    for note in member.notes:
        work.odd.append((member.name, 0, note, ""))
    work.files.append(
        {
            "file": member.name,
            "kind": kind,
            "bytes": size,
            "host": member.host_hint,
            "host_basis": member.host_basis,
            "note": "; ".join(member.notes) or None,
            "rank": rank_hint(member.name),
            "lines": lines,
            "odd": odd,
            "mtime": member.mtime,
        }
    )
    return size


def _take(name: str, block: Block, work: _Work) -> None:
    """Keep the lines of `block` that hold a literal, and those that date them."""
    framed = block.framed if block.framed is not None else _decoded(block.text)
    shown = block.text if framed is None else framed
    mask = shown.str.contains(work.matcher.prefilter) | _hidden(shown, work.matcher.prefilter)
    index = mask.arg_true()
    if not len(index):
        return
    where = index.to_numpy()
    frame = pl.DataFrame(
        {"line": block.numbers[where], "offset": block.offsets[where], "text": block.text.gather(index)}
    ).with_columns(
        pl.lit(name).alias("file"),
        framed=pl.lit(None, dtype=pl.String) if framed is None else framed.gather(index),
    )
    work.hits.append(frame.select(pl.col(n).cast(t) for n, t in _FRAMED_SCHEMA.items()))
    work.rows += frame.height
    untimed = ~frame["text"].str.contains(NO_TIME)
    if block.framed is None and untimed.any():
        work.donors.append(donors(name, block, index.filter(untimed)))
    if work.rows >= FLUSH_ROWS:
        _flush(work)


def _decoded(text: pl.Series) -> pl.Series | None:
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


def _hidden(shown: pl.Series, prefilter: str) -> pl.Series:
    """Lines of JSON that hold a literal once quotes and angle brackets are written as the program printed them."""
    escaped = shown.str.starts_with("{") & shown.str.contains("\\", literal=True)
    if not escaped.any():
        return escaped
    plain = shown.filter(escaped).str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))
    return escaped.scatter(escaped.arg_true(), plain.str.contains(prefilter))


def _flush(work: _Work) -> None:
    """Recognise and write what has come together."""
    if work.hits:
        rows = merge_records(work.matcher.recognise(pl.concat(work.hits)))
        rows = inherit(rows, pl.concat(work.donors) if work.donors else None)
        _write(work, "events", rows.filter(~pl.col("is_fact")))
        _write(work, "facts", rows.filter(pl.col("is_fact")))
    for table, frames in work.tables.items():
        frame = pl.concat(frames, how="diagonal_relaxed")
        _write(work, table, _conform_rows(frame) if table in {"events", "facts"} else _conform(table, frame))
    work.hits, work.donors, work.rows = [], [], 0
    work.tables.clear()
    work.part += 1


def _conform_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a decoder in the layout of the line pass."""
    schema = {**ROW_SCHEMA, "from_neighbour": pl.Boolean}
    defaults = {"sub": 0, "is_fact": False, "definition": -1, "within": 0, "from_neighbour": False}
    frame = frame.rename({"fact": "event"}) if "fact" in frame.columns and "event" not in frame.columns else frame
    columns = [
        (pl.col(n) if n in frame.columns else pl.lit(defaults.get(n))).cast(t, strict=False).alias(n)
        for n, t in schema.items()
    ]
    return frame.select(columns)


def _conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """All columns of a public table, in order; those that the decoder left out are null."""
    columns = TABLE_BY_NAME[table].columns
    return frame.select(
        (pl.col(c.name) if c.name in frame.columns else pl.lit(None))
        .cast(POLARS_TYPES[c.type], strict=False)
        .alias(c.name)
        for c in columns
    )


def _write(work: _Work, table: str, frame: pl.DataFrame) -> None:
    if not frame.height:
        return
    folder = Path(work.batch.spool) / table
    folder.mkdir(parents=True, exist_ok=True)
    extra = len(list(folder.glob(f"{work.batch.number:06d}-{work.part:06d}-*.parquet")))
    frame.write_parquet(
        folder / f"{work.batch.number:06d}-{work.part:06d}-{extra}.parquet", compression="zstd", compression_level=1
    )
