"""Exports that wrap log lines in a document: records → blocks, each record as one line of JSON.

Journal export (`journalctl -o export`), JSON whose records are the elements of an array or objects over several lines
(Elasticsearch, Splunk, CloudWatch, Cloud Logging, Datadog, `dmesg --json`), Loki's streams, CSV of `_raw` or `message`. Each record becomes the
one-line JSON object that `postmortem.lines.envelope` opens (`Block.framed`); the line, its number and offset are those of
the physical line where the record's text stands. Memory is bounded by the size of a record.

Python loops over records: what a record is depends on nesting, quotes or lengths in bytes, which no column operation follows.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import Final

from postmortem.lines import record_blocks
from postmortem.lines.blocks import MAX_LINE, Block, Readable
from postmortem.lines.json_records import LIST, LOKI_PART, TEXT_KEY, read_list, read_loki, read_objects
from postmortem.lines.record_blocks import RecordBlocks
from postmortem.patterns import later

BLOCK_RECORDS: Final = 20_000

_LOKI: Final = later(r'"(?:resultType"\s*:\s*"streams"|streams"\s*:\s*\[|result"\s*:\s*\[\s*\{\s*"stream"\s*:)')
_CURSOR: Final = later(
    r"[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+ [^ ]+ \[s=[0-9a-f]+;(?:[a-z]=[0-9a-f]+;)*t=(?P<t>[0-9a-f]{1,14})(?:;[^\]]*)?\]"
)
_JOURNAL: Final = later(rb"(?:__CURSOR=|__REALTIME_TIMESTAMP=)[^\n]*\n(?:[A-Z_0-9]+[=\n])")
_JOURNAL_KEYS: Final = (
    b"MESSAGE", b"_HOSTNAME", b"__REALTIME_TIMESTAMP", b"_SOURCE_MONOTONIC_TIMESTAMP", b"_TRANSPORT", b"SYSLOG_IDENTIFIER",
    b"_PID", b"SYSLOG_PID", b"_BOOT_ID",
)  # fmt: skip
_CSV_TEXT: Final = ("_raw", "message", "@message", "log", "line", "msg", "textpayload", "content")
_CSV_TIME: Final = ("_time", "@timestamp", "timestamp", "time", "ts", "date", "eventtime")
_CSV_HOST: Final = (
    "host",
    "hostname",
    "host.name",
    "node",
    "kubernetes.host",
    "@logstream",
    "source_host",
    "agent.hostname",
)


def document_shape(head: bytes) -> str | None:
    """`journal`, `verbose`, `loki`, `list`, `objects` or `csv` by a file's first bytes; None for lines, also for one JSON object per line."""
    if _JOURNAL.match(head):
        return "journal"
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if _CURSOR.match(text.partition("\n")[2] if text.startswith("-- ") else text):
        return "verbose"
    if text[:1] in {"{", "["}:
        return _json_shape(text)
    return "csv" if _is_csv_export(text) else None


def _json_shape(text: str) -> str | None:
    first = text.split("\n", 1)
    if text[0] == "[":
        return "list" if re.match(r"\[\s*\{\s*\"", text) else None
    if not re.match(r"\{\s*(?:\"|\})", text):
        return None
    if len(first) == 2 and _is_object(first[0]) and first[1].lstrip()[:1] in {"{"}:
        return None
    if _LOKI.search(text[:2000]) and LOKI_PART.search(text):
        return "loki"
    found = LIST.search(text)
    if found and text.count("[", 0, found.end()) <= 2:
        return "list"
    return "objects" if first[0].strip() == "{" and TEXT_KEY.search(text) else None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_csv_export(text: str) -> bool:
    """A header of names with the log's text and its time among them; a table of numbers has no text."""
    line = text.split("\n", 1)[0].strip()
    if "," not in line or not re.fullmatch(r'"?[@_A-Za-z][^\x00-\x1f]*', line) or len(line) > 4096:
        return False
    names = [n.strip().strip('"').lower() for n in line.split(",")]
    return any(n in names for n in _CSV_TEXT) and any(n in names for n in _CSV_TIME)


def read_document(shape: str, stream: Readable) -> Iterator[Block]:
    """Blocks of records of a document of that `document_shape`; damaged or over-long records are counted as odd."""
    out = RecordBlocks()
    read: dict[str, Callable[[Readable, RecordBlocks], Iterator[None]]] = {
        "journal": _journal,
        "verbose": _verbose,
        "loki": read_loki,
        "list": read_list,
        "objects": read_objects,
        "csv": _csv,
    }
    for _ in read[shape](stream, out):
        if len(out.framed) >= BLOCK_RECORDS:
            yield out.block()
    yield out.block()


def _csv(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    """Rows of a CSV export. A quoted text may span lines; its first line is the one that is shown."""
    lines = _Lines(stream, out)
    csv.field_size_limit(record_blocks.MAX_RECORD)
    rows = csv.reader(lines)
    names: list[str] = []
    start, offset = 1, 0
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            out.damaged(lines.count, f"no row of this table: {error}"[:200], "")
            lines.first = ""
            start, offset = lines.count + 1, lines.offset
            continue
        if not names:
            names = [n.strip().strip('"\ufeff') for n in row]
        elif row:
            pairs = {n: v for n, v in zip(names, row, strict=False) if v}
            lower = {n.lower(): v for n, v in pairs.items()}
            framed = {
                "message": next((lower[n] for n in _CSV_TEXT if n in lower), ""),
                "timestamp": next((lower[n] for n in _CSV_TIME if n in lower), None),
                "host": next((lower[n] for n in _CSV_HOST if n in lower), None),
            }
            out.put(start, offset, lines.first, json.dumps(framed, ensure_ascii=False))
            yield
        lines.first = ""
        start, offset = lines.count + 1, lines.offset


class _Lines:
    """Lines of a stream as text, with their count, the byte offset behind the last, and the first since `first` was emptied."""

    def __init__(self, stream: Readable, out: RecordBlocks) -> None:
        self._pieces = self._split(stream, out)
        self.count = 0
        self.offset = 0
        self.first = ""

    @staticmethod
    def _split(stream: Readable, out: RecordBlocks) -> Iterator[bytes]:
        rest = b""
        while data := stream.read(record_blocks.CHUNK):
            out.seen_bytes += len(data)
            out.seen_lines += data.count(b"\n")
            *whole, rest = (rest + data).split(b"\n")
            yield from (line + b"\n" for line in whole)
            while len(rest) > record_blocks.MAX_RECORD:
                yield rest[: record_blocks.MAX_RECORD]
                rest = rest[record_blocks.MAX_RECORD :]
        if rest:
            yield rest

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._pieces)
        self.count += line.endswith(b"\n")
        self.offset += len(line)
        text = line.decode("utf-8", "replace").replace("\0", "")
        self.first = self.first or text
        return text


def _journal(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    """Records of the export format: `KEY=value` lines, or KEY, the value's length as eight bytes and the value; a blank line ends one."""
    buffer = b""
    line, offset = 1, 0
    fields: dict[str, str] = {}
    where: tuple[int, int, str] | None = None

    def more() -> bool:
        nonlocal buffer
        data = stream.read(record_blocks.CHUNK)
        out.seen_bytes += len(data)
        out.seen_lines += data.count(b"\n")
        buffer += data
        return bool(data)

    at = 0
    while True:
        end = buffer.find(b"\n", at)
        if end < 0:
            buffer, at = buffer[at:], 0
            if len(buffer) < record_blocks.MAX_RECORD and more():
                continue
            if not buffer:
                break
            end = len(buffer)
        raw = buffer[at:end]
        key, equals, value = raw.partition(b"=")
        taken = end + 1 - at
        if not equals and raw:
            while (size := _size(buffer, end + 1)) is None and more():
                pass
            while size is not None and size <= record_blocks.MAX_RECORD and len(buffer) < end + 9 + size + 1 and more():
                pass
            if size is None or size > record_blocks.MAX_RECORD:
                out.damaged(line, "a field of the journal that is damaged or too long", key.decode("utf-8", "replace"))
            else:
                value = buffer[end + 9 : end + 9 + size]
                taken = end + 9 + size + 1 - at
        if not raw:
            if where and fields:
                out.put(*where, json.dumps(fields, ensure_ascii=False))
                yield
            fields, where = {}, None
        elif key in _JOURNAL_KEYS:
            text = value.decode("utf-8", "replace")
            fields[key.decode()] = text
            if key == b"MESSAGE":
                where = (line, offset, raw.decode("utf-8", "replace") if equals else text)
        piece = buffer[at : at + taken]
        line += piece.count(b"\n")
        offset += len(piece)
        at = min(at + taken, len(buffer))
        if at > record_blocks.CHUNK:
            buffer, at = buffer[at:], 0
    if where and fields:
        out.put(*where, json.dumps(fields, ensure_ascii=False))
        yield


def _verbose(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    """Records of `journalctl -o verbose`: a line with the cursor, whose `t` is the time in hexadecimal microseconds, then indented `KEY=value` lines."""
    lines = _Lines(stream, out)
    fields: dict[str, str] = {}
    where: tuple[int, int, str] | None = None
    last = ""
    while True:
        number, offset = lines.count + 1, lines.offset
        text = next(lines, None)
        begins = _CURSOR.match(text) if text is not None else None
        if (begins or text is None) and where:
            out.put(*where, json.dumps(fields, ensure_ascii=False))
            yield
        if text is None:
            return
        if begins:
            fields, where, last = {"__REALTIME_TIMESTAMP": str(int(begins["t"], 16))}, None, ""
            continue
        key, equals, value = text.strip().partition("=")
        if text.startswith("     ") and last in fields:  # the next line of a value
            if len(fields[last]) < MAX_LINE:
                fields[last] += f"\n{text.strip()}"
            continue
        last = key
        if equals and key.encode() in _JOURNAL_KEYS and key not in fields:
            fields[key] = value
            if key == "MESSAGE":
                where = (number, offset, text.rstrip("\r\n"))


def _size(buffer: bytes, at: int) -> int | None:
    """The little-endian length at `at`; None when it is not all there."""
    return int.from_bytes(buffer[at : at + 8], "little") if len(buffer) >= at + 8 else None
