"""Exports that wrap log lines in a document: records → blocks, each record as one line of JSON.

Journal export (`journalctl -o export`), JSON whose records are the elements of an array or objects over several lines
(Elasticsearch, Splunk, CloudWatch, Cloud Logging, Datadog, `dmesg --json`), Loki's streams, CSV of `_raw` or `message`. Each record becomes the
one-line JSON object that `postmortem.lines.envelope` opens (`Block.framed`); the line, its number and offset are those of
the physical line where the record's text stands. Memory is bounded by the size of a record.

Python loops over records: what a record is depends on nesting, quotes or lengths in bytes, which no column operation follows.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import Any, Final

import numpy as np
import polars as pl

from postmortem.lines.blocks import Block, Readable

CHUNK: Final = 1 << 20
MAX_RECORD: Final = 1 << 20
"""Bytes of one record; a longer one is skipped and reported as odd."""

BLOCK_RECORDS: Final = 20_000
MAX_SHOWN: Final = 4096

_TEXT_KEY: Final = re.compile(
    r'"(?:MESSAGE|message|msg|log|content|line|_raw|text|textPayload|@message|Message|body|short_message)"\s*:'
)
_LISTS: Final = "hits|events|items|results?|dmesg|entries|logs|data|records|messages|value|rows|Events|Records"
_LIST: Final = re.compile(rf'"(?:{_LISTS})"\s*:\s*\[\s*(?=\{{)')
_LOKI: Final = re.compile(r'"(?:resultType"\s*:\s*"streams"|streams"\s*:\s*\[|result"\s*:\s*\[\s*\{\s*"stream"\s*:)')
_LOKI_PART: Final = re.compile(r'"stream"\s*:\s*(?=\{)|"values"\s*:\s*\[')
_JOURNAL: Final = re.compile(rb"(?:__CURSOR=|__REALTIME_TIMESTAMP=)[^\n]*\n(?:[A-Z_0-9]+[=\n])")
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
_DECODER: Final = json.JSONDecoder()
_NEXT_OBJECT: Final = re.compile(r"\n\s*(?=\{)")
DAMAGED: Final = "a record that is damaged or too long"
_BETWEEN: Final = re.compile(r"[\s,]*")


def document_shape(head: bytes) -> str | None:
    """`journal`, `loki`, `list`, `objects` or `csv` by a file's first bytes; None for lines, also for one JSON object per line."""
    if _JOURNAL.match(head):
        return "journal"
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
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
    if _LOKI.search(text[:2000]) and _LOKI_PART.search(text):
        return "loki"
    found = _LIST.search(text)
    if found and text.count("[", 0, found.end()) <= 2:
        return "list"
    return "objects" if first[0].strip() == "{" and _TEXT_KEY.search(text) else None


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
    out = _Out()
    read: dict[str, Callable[[Readable, _Out], Iterator[None]]] = {
        "journal": _journal,
        "loki": _loki,
        "list": _list,
        "objects": _objects,
        "csv": _csv,
    }
    for _ in read[shape](stream, out):
        if len(out.framed) >= BLOCK_RECORDS:
            yield out.block()
    yield out.block()


@dataclass(slots=True)
class _Out:
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


class _Text:
    """A stream as text with a position that knows its line and byte offset; what lies behind it is forgotten."""

    def __init__(self, stream: Readable, out: _Out) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._out = out
        self.text = ""
        self.at = 0
        self.line = 1
        self.offset = 0
        self.is_done = False

    def more(self) -> bool:
        """Read on, forgetting what was passed; False at the end."""
        if self.is_done:
            return False
        data = self._stream.read(CHUNK)
        self._out.seen_bytes += len(data)
        self._out.seen_lines += data.count(b"\n")
        self.is_done = not data
        self.text = self.text[self.at :] + self._decode.decode(data, final=self.is_done)
        self.at = 0
        return True

    def move(self, to: int) -> None:
        """Set the position to index `to` of the text."""
        passed = self.text[self.at : to]
        self.line += passed.count("\n")
        self.offset += len(passed) if passed.isascii() else len(passed.encode("utf-8", "replace"))
        self.at = to

    def seek(self, pattern: re.Pattern[str], keep: int = 256) -> re.Match[str] | None:
        """Move behind the next match of `pattern`, which is at most `keep` characters long; None at the end."""
        while (found := pattern.search(self.text, self.at)) is None or (
            found.end() == len(self.text) and not self.is_done
        ):
            if found is None:
                self.move(max(self.at, len(self.text) - keep))
            if not self.more():
                if found is None:
                    self.move(len(self.text))
                    return None
                break
        self.move(found.end())
        return found

    def skip_blanks(self) -> str:
        """Move behind blanks and commas; the character that follows, empty at the end."""
        while True:
            found = _BETWEEN.match(self.text, self.at)
            assert found is not None
            self.move(found.end())
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def value(self) -> tuple[Any, str] | None:
        """The JSON value at the position with its text, moving behind it; None when it is damaged or too long."""
        while True:
            try:
                found, end = _DECODER.raw_decode(self.text, self.at)
            except JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self.text) - 16
                if is_cut and len(self.text) - self.at < MAX_RECORD and self.more():
                    continue
                return None
            except RecursionError:
                return None
            if end == len(self.text) and not self.is_done and self.more():
                continue
            return found, self.text[self.at : end]

    def shown(self, raw: str, at: int) -> tuple[int, int, str]:
        """Line, offset and text of the physical line in which index `at` of `raw` stands, which begins at the position."""
        start = raw.rfind("\n", 0, at) + 1
        stop = raw.find("\n", start)
        before = raw[:start]
        offset = self.offset + len(before.encode("utf-8", "replace"))
        return self.line + before.count("\n"), offset, raw[start : stop if stop >= 0 else len(raw)]

    def pass_value(self, text: str) -> None:
        """Move behind `text`, which begins at the position."""
        self.move(self.at + len(text))


def _records(source: _Text, out: _Out, close: str) -> Iterator[None]:
    """Put the JSON objects from the position on, up to `close` or the end; of damaged ones between two whole ones the first is counted."""
    is_damaged = False
    while source.skip_blanks() not in {"", close}:
        found = source.value()
        if found is None:
            if not is_damaged:
                out.damaged(source.line, DAMAGED, source.text[source.at : source.at + 120])
            is_damaged = True
            source.move(min(source.at + 1, len(source.text)))
            if source.seek(_NEXT_OBJECT) is None:
                return
            continue
        value, raw = found
        key = _TEXT_KEY.search(raw) if isinstance(value, dict) else None
        if key:
            is_damaged = False
            framed = raw if "\n" not in raw and "\r" not in raw else raw.replace("\n", " ").replace("\r", " ")
            out.put(*source.shown(raw, key.start()), framed)
        source.pass_value(raw)
        yield


def _list(stream: Readable, out: _Out) -> Iterator[None]:
    source = _Text(stream, out)
    if source.skip_blanks() == "[":
        source.move(source.at + 1)
    elif source.seek(_LIST) is None:
        return
    yield from _records(source, out, "]")


def _objects(stream: Readable, out: _Out) -> Iterator[None]:
    yield from _records(_Text(stream, out), out, "")


def _loki(stream: Readable, out: _Out) -> Iterator[None]:
    source = _Text(stream, out)
    labels: dict[str, Any] = {}
    while (part := source.seek(_LOKI_PART)) is not None:
        if part[0].startswith('"stream"'):
            found = source.value()
            if found is None:
                continue
            labels = found[0] if isinstance(found[0], dict) else {}
            source.pass_value(found[1])
            continue
        while source.skip_blanks() not in {"", "]"}:
            found = source.value()
            if found is None:
                out.damaged(source.line, DAMAGED, source.text[source.at : source.at + 120])
                break
            pair, raw = found
            if isinstance(pair, list) and len(pair) >= 2 and isinstance(pair[1], str):
                framed = json.dumps({"timestamp": pair[0], "labels": labels, "line": pair[1]}, ensure_ascii=False)
                out.put(*source.shown(raw, raw.index('"', raw.index(",") + 1)), framed)
            source.pass_value(raw)
            yield


def _csv(stream: Readable, out: _Out) -> Iterator[None]:
    """Rows of a CSV export. A quoted text may span lines; its first line is the one that is shown."""
    lines = _Lines(stream, out)
    csv.field_size_limit(MAX_RECORD)
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

    def __init__(self, stream: Readable, out: _Out) -> None:
        self._pieces = self._split(stream, out)
        self.count = 0
        self.offset = 0
        self.first = ""

    @staticmethod
    def _split(stream: Readable, out: _Out) -> Iterator[bytes]:
        rest = b""
        while data := stream.read(CHUNK):
            out.seen_bytes += len(data)
            out.seen_lines += data.count(b"\n")
            *whole, rest = (rest + data).split(b"\n")
            yield from (line + b"\n" for line in whole)
            while len(rest) > MAX_RECORD:
                yield rest[:MAX_RECORD]
                rest = rest[MAX_RECORD:]
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


def _journal(stream: Readable, out: _Out) -> Iterator[None]:
    """Records of the export format: `KEY=value` lines, or KEY, the value's length as eight bytes and the value; a blank line ends one."""
    buffer = b""
    line, offset = 1, 0
    fields: dict[str, str] = {}
    where: tuple[int, int, str] | None = None

    def more() -> bool:
        nonlocal buffer
        data = stream.read(CHUNK)
        out.seen_bytes += len(data)
        out.seen_lines += data.count(b"\n")
        buffer += data
        return bool(data)

    at = 0
    while True:
        end = buffer.find(b"\n", at)
        if end < 0:
            buffer, at = buffer[at:], 0
            if len(buffer) < MAX_RECORD and more():
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
            while size is not None and size <= MAX_RECORD and len(buffer) < end + 9 + size + 1 and more():
                pass
            if size is None or size > MAX_RECORD:
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
        if at > CHUNK:
            buffer, at = buffer[at:], 0
    if where and fields:
        out.put(*where, json.dumps(fields, ensure_ascii=False))
        yield


def _size(buffer: bytes, at: int) -> int | None:
    """The little-endian length at `at`; None when it is not all there."""
    return int.from_bytes(buffer[at : at + 8], "little") if len(buffer) >= at + 8 else None
