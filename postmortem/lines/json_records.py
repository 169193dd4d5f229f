"""JSON documents whose parts are log records: elements of an array, objects over several lines, Loki's streams.

Python loops over records: what a record is depends on nesting and quotes, which no column operation follows. Memory is bounded by
the size of a record.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, Final

from postmortem.lines import record_blocks
from postmortem.lines.blocks import Readable
from postmortem.lines.record_blocks import RecordBlocks
from postmortem.patterns import later

TEXT_KEY: Final = later(
    r'"(?:MESSAGE|message|msg|log|content|line|_raw|text|textPayload|@message|Message|body|short_message)"\s*:\s*["[]'
)
_LISTS: Final = "hits|events|items|results?|dmesg|entries|logs|data|records|messages|value|rows|Events|Records|Members"
LIST: Final = later(rf'"(?:{_LISTS})"\s*:\s*\[\s*(?=\{{)')
LOKI_PART: Final = later(r'"stream"\s*:\s*(?=\{)|"values"\s*:\s*\[')
_NEXT_OBJECT: Final = later(r"\n\s*(?=\{)")
_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = later(r"[\s,]*")


class _Text:
    """A stream as text with a position that knows its line and byte offset; what lies behind it is forgotten."""

    def __init__(self, stream: Readable, out: RecordBlocks) -> None:
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
        data = self._stream.read(record_blocks.CHUNK)
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
                if is_cut and len(self.text) - self.at < record_blocks.MAX_RECORD and self.more():
                    continue
                return None
            except (ValueError, RecursionError):
                # A whole number of more than 4300 digits, or nesting beyond the parser's depth.
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


def _records(source: _Text, out: RecordBlocks, close: str) -> Iterator[None]:
    """Put the JSON objects from the position on, up to `close` or the end; of damaged ones between two whole ones the first is counted."""
    is_damaged = False
    while source.skip_blanks() not in {"", close}:
        found = source.value()
        if found is None:
            if not is_damaged:
                out.damaged(source.line, record_blocks.DAMAGED, source.text[source.at : source.at + 120])
            is_damaged = True
            source.move(min(source.at + 1, len(source.text)))
            if source.seek(_NEXT_OBJECT) is None:
                return
            continue
        value, raw = found
        key = TEXT_KEY.search(raw) if isinstance(value, dict) else None
        if key:
            is_damaged = False
            framed = raw if "\n" not in raw and "\r" not in raw else raw.replace("\n", " ").replace("\r", " ")
            out.put(*source.shown(raw, key.start()), framed)
        source.pass_value(raw)
        yield


def read_list(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    source = _Text(stream, out)
    if source.skip_blanks() == "[":
        source.move(source.at + 1)
    elif source.seek(LIST) is None:
        return
    yield from _records(source, out, "]")


def read_objects(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    yield from _records(_Text(stream, out), out, "")


def read_loki(stream: Readable, out: RecordBlocks) -> Iterator[None]:
    source = _Text(stream, out)
    labels: dict[str, Any] = {}
    while (part := source.seek(LOKI_PART)) is not None:
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
                out.damaged(source.line, record_blocks.DAMAGED, source.text[source.at : source.at + 120])
                break
            pair, raw = found
            if isinstance(pair, list) and len(pair) >= 2 and isinstance(pair[1], str):
                framed = json.dumps({"timestamp": pair[0], "labels": labels, "line": pair[1]}, ensure_ascii=False)
                out.put(*source.shown(raw, raw.index('"', raw.index(",") + 1)), framed)
            source.pass_value(raw)
            yield
