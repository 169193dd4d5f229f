"""Elements of a list inside a JSON document, with the place where each stands; shared by decoders of schedulers' documents.

Elements before a damaged one are kept, so a document that was cut still gives its beginning.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final

from postmortem.decoders.base import MAX_TEXT, MemberLike, Row, evidence
from postmortem.patterns import later

MAX_SAID: Final = 240
"""Characters of an object that `message` holds: one line of it alone seldom says anything."""

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = later(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class Element:
    """An object of a document and the part of the text that it covers."""

    value: dict[str, Any]
    start: int
    end: int


class Document:
    """A text with its line starts; `damage` says where reading stopped early, null when it did not."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.damage: str | None = None
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._is_ascii = text.isascii()
        self._seen = (0, 0)

    def value(self, at: int) -> tuple[Any, int] | None:
        """The JSON value at `at` and where it ends; None when it is damaged."""
        try:
            return _DECODER.raw_decode(self.text, at)
        except JSONDecodeError as error:
            self.damage = f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError) as error:
            self.damage = f"line {self.line(at)}: {type(error).__name__}"
        return None

    def elements(self, at: int) -> Iterator[Element]:
        """Objects of the list whose first element begins at `at`, until it ends or is damaged; other values are passed over."""
        at = self.skip(at)
        while at < len(self.text) and self.text[at] != "]":
            found = self.value(at)
            if found is None:
                return
            if isinstance(found[0], dict):
                yield Element(found[0], at, found[1])
            at = self.skip(found[1])

    def skip(self, at: int) -> int:
        """Where blanks and commas from `at` on end."""
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def line(self, at: int) -> int:
        """1-based line of a position."""
        return bisect_right(self._starts, at)

    def evidence(self, member: MemberLike, element: Element, pattern: re.Pattern[str] | None = None) -> Row:
        """Where `element` says what `pattern` matches, or begins; of a document on one line the text from there on."""
        found = pattern.search(self.text, element.start, element.end) if pattern else None
        at = found.start() if found else element.start
        line = self.line(at)
        begin = self._starts[line - 1]
        if at - begin > MAX_TEXT // 4:
            begin = at
        end = self.text.find("\n", at, begin + MAX_TEXT)
        text = self.text[begin : end if end >= 0 else begin + MAX_TEXT]
        said = " ".join(self.text[at : min(element.end, at + MAX_SAID)].split())
        return {**evidence(member, line, text.strip(), "scheduler"), "message": said, "offset": self.offset(begin)}

    def offset(self, at: int) -> int:
        """Bytes before `at`. Text that is not ASCII is measured from the position that was asked before, when that lies ahead."""
        if self._is_ascii:
            return at
        seen, size = self._seen if self._seen[0] <= at else (0, 0)
        size += len(self.text[seen:at].encode("utf-8", "replace"))
        self._seen = (at, size)
        return size


def number(value: object) -> int | None:
    """A whole number, also as Slurm prints it since 23.02: `{"set": true, "infinite": false, "number": 3}`; null when unset."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < 2**53 else None


def text_of(value: object) -> str:
    """`value` when it is text, else nothing."""
    return value if isinstance(value, str) else ""


def part(value: object, *keys: str) -> Any:
    """What lies below `keys`, one object deeper each; None when a level is missing or no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
