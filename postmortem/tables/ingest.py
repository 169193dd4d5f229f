"""One batch of a bundle's members → Parquet files of rows: what worker processes run.

Rows keep the time as it was printed; `postmortem.tables.settle` puts it into UTC once the whole
bundle is known. Memory is bounded: hits are recognised and written whenever FLUSH_ROWS have come
together, whatever the size of the members.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from postmortem.bundle import Member, Problem, Unit, open_units, rank_hint
from postmortem.bundle.hosts import host_hint
from postmortem.bundle.model import Span
from postmortem.catalogue.compiled import load_compiled
from postmortem.catalogue.matcher import HIT_SCHEMA, ROW_SCHEMA, Matcher
from postmortem.catalogue.records import merge_records
from postmortem.catalogue.values import polars_schema
from postmortem.decoders import DECODERS, decode, sniff
from postmortem.lines.blocks import Block, read_blocks
from postmortem.lines.documents import document_shape, read_document
from postmortem.lines.donors import NO_TIME, donors, inherit
from postmortem.lines.types import POLARS_TYPES
from postmortem.resources import data_folder
from postmortem.schema import TABLE_BY_NAME
from postmortem.tables import repeats, small
from postmortem.tables.batches import Batch, BatchResult
from postmortem.tables.look import Look, decoded
from postmortem.tables.narrow import settle_repeats
from postmortem.tables.ranges import open_range
from postmortem.tables.repeats import DisagreementError, FileState, Repeats
from postmortem.tables.sections import Sections, holds_sections
from postmortem.tables.small import Joined
from postmortem.tables.spool import discard, write_rows

FLUSH_ROWS: Final = 40_000
FLUSH_REPEATS: Final = 2_000_000
HEAD_BYTES: Final = 64 << 10
MAX_ODD: Final = 20
"""Odd lines kept as examples per member; all are counted."""

_CONTROL: Final = bytes((*range(1, 7), *range(14, 27), 28, 29, 30, 31, 127))


FILE_SCHEMA: Final = {
    **polars_schema(TABLE_BY_NAME["files"].columns),
    "rank": pl.Int64,
    "lines": pl.Int64,
    "odd": pl.Int64,
    "mtime": pl.Float64,
}
_FRAMED_SCHEMA: Final = {**HIT_SCHEMA, "framed": pl.String}
ODD_SCHEMA: Final = polars_schema(TABLE_BY_NAME["odd_lines"].columns)


@dataclass(slots=True)
class _Work:
    """Rows of a batch that are not written yet."""

    batch: Batch
    matcher: Matcher
    look: Look
    hits: list[pl.DataFrame] = field(default_factory=list)
    donors: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    small: list[tuple[str, Block]] = field(default_factory=list)
    small_bytes: int = 0
    tables: dict[str, list[pl.DataFrame]] = field(default_factory=lambda: defaultdict(list))
    files: list[dict[str, object]] = field(default_factory=list)
    odd: list[tuple[str, int, str, str]] = field(default_factory=list)
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    """Part of the files' names: a batch that is read again, since its worker died, must not meet what is left of the first time."""
    written: list[str] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)
    state: FileState | None = None
    part: int = 0
    """Counts flushes: templates are numbered anew in each."""


@lru_cache(maxsize=2)
def matcher_for(parsers: tuple[str, ...]) -> Matcher:
    """The compiled catalogue of these folders; made once per process."""
    return Matcher(load_compiled([Path(p) if p else data_folder("parsers") for p in parsers]))


def parse_batch(batch: Batch) -> BatchResult:
    """Parse all members of `batch`, writing `<spool>/<table>/<batch>-<attempt>-<count>.parquet`. Raises OSError when the spool refuses."""
    matcher = matcher_for(batch.parsers)
    work = _Work(batch, matcher, Look(matcher.prefilter))
    try:
        return _parse(batch, work)
    except DisagreementError:
        # Definitions of the user's may claim lines that have a shape of ours: then the catalogue reads every line.
        discard(batch.spool, work.written)
        return _parse(batch, _Work(batch, matcher, work.look, repeats=Repeats(use_shapes=False)))


def _parse(batch: Batch, work: _Work) -> BatchResult:
    problems: list[Problem] = []
    total = 0
    for member in open_units([unit for unit in batch.units if unit.span is None], batch.limits, problems):
        total += _member(member, work)
    for unit in batch.units:
        if unit.span is not None:
            total += _range(unit, unit.span, work, problems)
    _flush(work)
    _write(work, "files", pl.DataFrame(work.files, schema=FILE_SCHEMA, orient="row"))
    _write(work, "odd_lines", pl.DataFrame(work.odd, schema=ODD_SCHEMA, orient="row"))
    return BatchResult(batch.number, len(work.files), total, tuple(problems), tuple(work.written))


def is_plain(name: str, head: bytes) -> bool:
    """A file that begins with `head` is read line by line, and any part of it can be read without the rest."""
    return not (sniff(name, head) or document_shape(head) or holds_sections(head) or _looks_binary(head))


def _range(unit: Unit, span: Span, work: _Work, problems: list[Problem]) -> int:
    """Read one range of a plain file; its bytes."""
    hint = host_hint(unit.name)
    lines = odd = size = 0
    try:
        opened = open_range(unit)
    except OSError as error:
        problems.append(Problem(unit.name, f"cannot be opened: {error.strerror}"))
        return 0
    with opened:
        if span.donor is not None:
            row = {"file": unit.name, "line": span.donor[0], "text": span.donor[1]}
            work.donors.append(pl.DataFrame([row], schema={n: HIT_SCHEMA[n] for n in row}))
        work.state = FileState(unit.name)
        for block in read_blocks(opened, offset=span.begin, line=span.line):
            lines += block.lines
            size += block.byte_count
            odd += block.odd_count
            work.odd.extend((unit.name, n, why, text) for n, why, text in block.odd[:MAX_ODD])
            _take(unit.name, block, work)
        _keep_last(work)
        work.state = None
        work.odd += [(unit.name, 0, note, "") for note in opened.notes]
        about = {"host": hint.host if hint else None, "host_basis": hint.basis if hint else None, "mtime": opened.mtime}
        note = "; ".join(opened.notes) or None
    counted = {"bytes": size, "lines": lines, "odd": odd, "note": note, "rank": rank_hint(unit.name)}
    work.files.append({"file": unit.name, "kind": "text", **about, **counted})
    return size


def _looks_binary(head: bytes) -> bool:
    """No text: many bytes that no log holds. Logs after a crash may hold runs of NUL, so those alone are weighed less."""
    if not head:
        return False
    control = len(head) - len(head.translate(None, _CONTROL))
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
    elif kind is None:
        kind = "text"
        rank = rank_hint(member.name)
        sections = Sections(member.name, member.host_hint, rank) if not shape and holds_sections(head) else None
        work.state = FileState(member.name)
        for block in read_document(shape, member.stream) if shape else read_blocks(member.stream):
            lines += block.lines
            if sections:
                sections.feed(block)
            size += block.byte_count
            odd += block.odd_count
            work.odd.extend((member.name, n, why, text) for n, why, text in block.odd[:MAX_ODD])
            _take(member.name, block, work)
        _keep_last(work)
        work.state = None
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
    state = work.state
    is_plain = block.framed is None and block.raw is not None and not _is_listed(block)
    may_repeat = is_plain and state is not None and repeats.fits(block, state)
    if is_plain and not may_repeat and block.byte_count <= small.MOST_BYTES:
        work.small.append((name, block))
        work.small_bytes += block.byte_count
        if work.small_bytes >= small.JOINED_BYTES or len(work.small) >= small.JOINED_BLOCKS:
            _take_small(work)
            _flush_full(work)
        return
    framed = block.framed if block.framed is not None or is_plain else decoded(block.text)
    where = None
    if may_repeat and state is not None:
        where = repeats.take(block, state, work.repeats, work.part, work.look)
        if where is not None and not len(where):
            return _flush_full(work)
    is_read_whole = where is None
    if where is None:
        where = np.flatnonzero(work.look.hits(block.text if framed is None else framed))
    if len(where):
        texts = block.pick(where) if len(where) * 4 < len(block.offsets) else block.text.gather(where)
        frame = pl.DataFrame(
            {"line": block.numbers[where], "offset": block.offsets[where], "text": texts}
        ).with_columns(
            pl.lit(name).alias("file"),
            framed=pl.lit(None, dtype=pl.String) if framed is None else framed.gather(where),
        )
        work.hits.append(frame.select(pl.col(n).cast(t) for n, t in _FRAMED_SCHEMA.items()))
        work.rows += frame.height
        # A block that was looked at for repetitions shows no time, so nothing in it can lend one.
        untimed = ~frame["text"].str.contains(NO_TIME)
        if is_read_whole and block.framed is None and untimed.any():
            work.donors.append(donors(name, block, pl.Series(where).filter(untimed)))
    _flush_full(work)


def _take_small(work: _Work) -> None:
    """Keep the lines of the small blocks that have come together, as `_take` does those of one block."""
    if not work.small:
        return
    joined = Joined.of(work.small)
    work.small, work.small_bytes = [], 0
    where = np.flatnonzero(work.look.hits(joined.block.text))
    if not len(where):
        return
    frame = joined.lines(where).with_columns(framed=pl.lit(None, dtype=pl.String))
    work.hits.append(frame.select(pl.col(n).cast(t) for n, t in _FRAMED_SCHEMA.items()))
    work.rows += frame.height
    untimed = where[~frame["text"].str.contains(NO_TIME).to_numpy()]
    if len(untimed):
        work.donors.append(joined.donors(untimed))


def _flush_full(work: _Work) -> None:
    """Flush when much has come together."""
    if work.rows >= FLUSH_ROWS or work.repeats.lines >= FLUSH_REPEATS:
        _flush(work)


def _is_listed(block: Block) -> bool:
    """The block may hold texts of journald that are lists of bytes, which only stand in lines of JSON."""
    if block.raw is None:
        return False
    begins = np.frombuffer(block.raw, dtype=np.uint8)[block.offsets - block.offsets[0]]
    return bool((begins == ord("{")).any()) and b'"MESSAGE"' in block.raw


def _keep_last(work: _Work) -> None:
    """Put the last calls of the file that is being read with what is to be written."""
    if work.state:
        repeats.keep_last(work.state, work.repeats)


def _flush(work: _Work) -> None:
    """Recognise and write what has come together."""
    _take_small(work)
    _keep_last(work)
    if work.hits:
        rows = work.matcher.recognise(pl.concat(work.hits))
        base = (work.batch.number << 40) + (work.part << 24)
        rows, templates, narrow = settle_repeats(rows, work.repeats, base, work.matcher.telling)
        rows = merge_records(rows)
        rows = inherit(rows, pl.concat(work.donors) if work.donors else None)
        _write(work, "events", rows.filter(~pl.col("is_fact")))
        _write(work, "facts", rows.filter(pl.col("is_fact")))
        _write(work, "templates", templates)
        _write(work, "repeats", narrow)
    for table, frames in work.tables.items():
        frame = pl.concat(frames, how="diagonal_relaxed")
        _write(work, table, _conform_rows(frame) if table in {"events", "facts"} else _conform(table, frame))
    work.hits, work.donors, work.rows = [], [], 0
    work.repeats.clear()
    work.part += 1
    work.tables.clear()


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
    name = f"{work.batch.number:06d}-{work.attempt}-{len(work.written):06d}"
    work.written.append(write_rows(work.batch.spool, table, name, frame))
