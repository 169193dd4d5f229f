"""One huge plain file as ranges of whole lines, so that all workers share it.

What a file is, is known by its first bytes, so only files of ordinary lines are cut: no codec, archive, format of a decoder, document or
collection of outputs. A range knows the number of its first line, for which the bytes before it are counted once, and the last line with a time
above it, which dates lines without one.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final, Protocol

import numpy as np

from postmortem.bundle import Unit, is_url
from postmortem.bundle.codecs import codec_of
from postmortem.bundle.joined import is_joined
from postmortem.bundle.model import Span
from postmortem.bundle.reading import open_file
from postmortem.bundle.streams import describe
from postmortem.bundle.wide import wide_encoding
from postmortem.lines.donors import NO_TIME
from postmortem.tables.batches import CUT_BYTES

_CHUNK: Final = 4 << 20
_LOOK: Final = 64 << 10
_TIMED: Final = re.compile(NO_TIME)


def cut(units: Sequence[Unit], size: int, is_plain: IsPlain) -> Iterator[Unit]:
    """`units`, with the ranges of about `size` bytes in place of each that can be cut. `is_plain` says of name and first bytes: ordinary lines."""
    for unit in units:
        if unit.is_archive or is_url(unit.fs_path) or unit.size < max(CUT_BYTES, size + size // 2):
            yield unit
            continue
        try:
            with open_file(unit.fs_path) as file:
                head = file.read(_LOOK)
                is_bare = (
                    codec_of(head) is None and wide_encoding(head) is None and not head.startswith(codecs.BOM_UTF8)
                )
                plain = is_bare and not is_joined(head) and is_plain(unit.name, head)
                spans = list(_spans(file, unit.size, size)) if plain else []
        except OSError:
            spans = []
        if len(spans) < 2:
            yield unit
        for span in spans if len(spans) > 1 else ():
            yield replace(unit, size=span.end - span.begin, span=span)


class IsPlain(Protocol):
    """Says of a name and the first bytes of a file whether its lines are ordinary ones."""

    def __call__(self, name: str, head: bytes, /) -> bool: ...


def _spans(file: BinaryIO, total: int, size: int) -> Iterator[Span]:
    begin, line = 0, 1
    donor: tuple[int, str] | None = None
    while begin < total:
        end = total if total - begin < size + size // 2 else _line_end(file, begin + size, total)
        yield Span(begin, end, line, donor)
        if end < total:
            line += _line_feeds(file, begin, end)
            donor = _timed_above(file, end, line) or donor
        begin = end


def _line_end(file: BinaryIO, at: int, total: int) -> int:
    """Where to cut behind `at`: before the next line with a time of its own, since the further lines of a record have none.

    Where none is near, at the end of the line that stands at `at`; at the end of the file where that line is too long to be looked for.
    """
    file.seek(at)
    data = file.read(_CHUNK)
    first = data.find(b"\n") + 1
    if not first:
        return total
    place = first
    for line in data[first : first + _LOOK].split(b"\n")[:-1]:  # a few kilobytes per cut
        if _TIMED.search(line.decode("utf-8", "replace")):
            return at + place
        place += len(line) + 1
    return at + first


def _line_feeds(file: BinaryIO, begin: int, end: int) -> int:
    file.seek(begin)
    count = 0
    while begin < end and (data := file.read(min(_CHUNK, end - begin))):
        count += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
        begin += len(data)
    return count


def _timed_above(file: BinaryIO, end: int, line: int) -> tuple[int, str] | None:
    """Number and text of the nearest line with a time that ends before `end`, where line `line` begins; None when none is near."""
    file.seek(max(end - _LOOK, 0))
    lines = file.read(min(_LOOK, end)).decode("utf-8", "replace").split("\n")[1:-1]
    for back, text in enumerate(reversed(lines), 1):
        if _TIMED.search(text):
            return line - back, text
    return None


def open_range(unit: Unit) -> Range:
    """The bytes of a unit that is a range. Raises OSError when it cannot be opened."""
    assert unit.span is not None
    file = open_file(unit.fs_path)
    file.seek(unit.span.begin)
    return Range(file, unit.span.end - unit.span.begin)


@dataclass(slots=True)
class Range:
    """So many bytes of a file; a context manager. A read that fails ends it, and says why in `notes`."""

    file: BinaryIO
    left: int
    notes: list[str] = field(default_factory=list)

    def __enter__(self) -> Range:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    @property
    def mtime(self) -> float:
        """Seconds since 1970 UTC."""
        return os.fstat(self.file.fileno()).st_mtime

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        try:
            data = self.file.read(self.left if size < 0 else min(size, self.left))
        except OSError as error:
            self.notes.append(f"cannot be read: {describe(error)}")
            data = b""
        self.left = self.left - len(data) if data else 0
        return data
