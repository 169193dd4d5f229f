"""Text stored as UTF-16 (what PowerShell writes after `>`): handed on as UTF-8."""

from __future__ import annotations

import codecs
from typing import Final

from postmortem.bundle.streams import Source

SAMPLE: Final = 128
"""Bytes of a file that decide."""


def wide_encoding(head: bytes) -> str | None:
    """`utf-16-le` or `utf-16-be` when a file that begins with `head` is such text, with a mark or without; else None."""
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        # The same two bytes and two zeros begin UTF-32, which nothing writes.
        if head.startswith(mark) and len(head) > 2 and not head.startswith(codecs.BOM_UTF32_LE):
            return name
    sample = head[: min(SAMPLE, len(head) & ~1)]
    if len(sample) >= 16:
        for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            if not any(sample[offset::2]) and all(32 <= b < 127 or b in b"\t\r\n" for b in sample[1 - offset :: 2]):
                return name
    return None


class WideSource:
    """`source` as UTF-8, without the mark; what is no UTF-16 becomes U+FFFD."""

    def __init__(self, source: Source, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""
        self._has_begun = False
        self._has_ended = False

    def read(self, count: int, /) -> bytes:
        while not self._ready and not self._has_ended:
            data = self._source.read(count)
            self._has_ended = not data
            text = self._decoder.decode(data, final=not data)
            if text and not self._has_begun:
                text, self._has_begun = text.removeprefix("\ufeff"), True
            # Half of a pair of surrogates is no character.
            self._ready = text.encode("utf-8", "replace")
        data, self._ready = self._ready[:count], self._ready[count:]
        return data
