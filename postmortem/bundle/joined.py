"""Several files' text put together in one: `tail -n +1 *`, `grep -r`, and commands run on many hosts.

What stands between the texts names a file or a host, which tells who wrote what follows, so each text becomes a member of its own:

    ==> node-3/dmesg.log <==           tail, head
    node-3/dmesg.log:[  12.3] …        grep -r, rg; a line number may follow
    ---------------- / node-3 / ----   dshbak -c, clush -b
    node-3 | CHANGED | rc=0 >>         ansible
    ===== node-3 =====                 loops over ssh
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from postmortem.bundle.host_shape import Shape, shape_of
from postmortem.bundle.streams import CHUNK_BYTES, Source
from postmortem.patterns import later

LOOK: Final = 4096
"""First bytes that say whether a file is put together."""

MOST_PARTS: Final = 20_000
"""Parts after which the rest stays in the last one: lines of several files that were sorted by time, say."""

_MOST_HELD: Final = 1 << 20
"""Bytes of one line that are held back to see whether it is a mark."""

_END: Final = rb"[ \t]*\r?\n"
_HOST: Final = rb"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{1,250})"
_KINDS: Final = (
    rb"\.(?:log|txt|out|err|stdout|stderr)(?:\.[0-9]{1,3})?|\b(?:messages|syslog|dmesg|kern|secure|stdout|stderr)"
)
_GREP: Final = later(rb"^(?P<path>[\w./@+,=%-]{0,300}?(?:" + _KINDS + rb")):(?:[0-9]+:)?", re.MULTILINE)
_HEADS: Final = (
    (later(rb"^==> (?!/(?:sys|proc)/)(?P<path>[^\s=][^\r\n]{0,300}) <==" + _END, re.MULTILINE), Shape.NONE),
    (later(rb"^-{8,}" + _END + _HOST + rb"(?: \([0-9]+\))?" + _END + rb"-{8,}" + _END, re.MULTILINE), Shape.LOOSE),
    (
        later(rb"^" + _HOST + rb" \| (?:CHANGED|SUCCESS|FAILED!?|UNREACHABLE!?)[^\r\n]{0,40}>>" + _END, re.MULTILINE),
        Shape.WORD,
    ),
)
_LOOP: Final = later(
    rb"(?P<before>[=#*+>-]{2,90} ?(?P<said>(?i:host|hostname|node|server)[:= ] ?)?|(?P<label>(?i:host|hostname|node|server) ?[:=] ?))"
    + _HOST
    + rb"(?P<after> ?[=#*+:<-]{0,90})"
    + _END
)
"""What a loop over hosts prints before each; what it begins with once, it begins with each time."""


class _Text(Protocol):
    """A stream that can be looked into."""

    def peek(self, count: int, /) -> bytes: ...
    def read(self, count: int = -1, /) -> bytes: ...


def is_joined(head: bytes) -> bool:
    """Whether a text that begins with `head` (LOOK bytes are enough) is put together of others."""
    return _mark_of(head[:LOOK]) is not None


def parts(stream: _Text) -> Iterator[tuple[str, Source]]:
    """(name, bytes) of each text that `stream` is put together of, in order; what was not read of one is skipped when the next is asked for.

    Nothing when it is not put together.
    """
    found = _mark_of(stream.peek(LOOK))
    if found is None:
        return
    splitter = _Splitter(stream, *found)
    while (name := splitter.next()) is not None:
        yield name, _Section(splitter)


def _mark_of(head: bytes) -> tuple[re.Pattern[bytes], Shape] | None:
    """What tells the parts of a text apart, and how much a host must look like one."""
    bare = head.lstrip(b"\r\n \t")
    for mark, least in _HEADS:
        found = mark.match(bare)
        if found and _name_of(found, least):
            return mark, least
    loop = _LOOP.match(bare)
    # A word with a number alone may as well be a model: `=== resnet50 ===`.
    least = Shape.NUMBERED if loop and (loop["said"] or loop["label"]) else Shape.NAMED
    if loop and _name_of(loop, least):
        same = re.compile(b"^" + re.escape(loop["before"]) + _HOST + re.escape(loop["after"]) + _END, re.MULTILINE)
        return same, least
    lines = bare.split(b"\n")[:-1] if len(head) >= LOOK else bare.rstrip(b"\n").split(b"\n")
    # A program may print the place of a warning in this way, but not on each line.
    if len(lines) > 2 and all(line == b"--" or _GREP.match(line) for line in lines) and _GREP.match(bare):
        return _GREP, Shape.NONE
    return None


def _name_of(found: re.Match[bytes], least: Shape) -> str | None:
    """The name of the part that begins with this mark; None where it names no file and no machine."""
    groups = found.groupdict()
    if "path" in groups:
        return str(groups["path"].decode("utf-8", "replace"))
    host = groups["host"].decode("ascii")
    is_address = re.fullmatch(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", host) is not None
    return f"hosts/{host}/output.txt" if is_address or shape_of(host) >= least else None


@dataclass(slots=True)
class _Splitter:
    """Goes through a stream once; `take` gives bytes of the section that `next` went to."""

    stream: _Text
    mark: re.Pattern[bytes]
    least: Shape
    count: int = 0
    held: bytes = b""
    """Read, and not given to anybody yet; begins at the begin of a line, unless the line is very long."""
    is_over: bool = False
    waiting: str | None = None
    _strip: re.Pattern[bytes] | None = None
    _other: re.Pattern[bytes] | None = None

    def next(self) -> str | None:
        """Skip what is left of this section; the name of the next one, None at the end."""
        while self.waiting is None and self.take():
            pass
        name, self.waiting = self.waiting, None
        self.count += name is not None
        return name

    def take(self) -> bytes:
        """Some bytes of the section; empty at its end."""
        while self.waiting is None:
            self._fill()
            whole = len(self.held) if self.is_over else self.held.rfind(b"\n") + 1
            if not self.held:
                return b""
            if not whole and len(self.held) < _MOST_HELD:
                continue
            whole = whole or len(self.held)
            if self.count >= MOST_PARTS:
                given, self.held = self.held, b""
            else:
                given = self._grep(whole) if self.mark is _GREP else self._heads(whole)
            if given:
                return given
        return b""

    def _fill(self) -> None:
        while not self.is_over and (len(self.held) < CHUNK_BYTES or b"\n" not in self.held):
            data = self.stream.read(CHUNK_BYTES)
            self.is_over = not data
            self.held += data
            if len(self.held) >= _MOST_HELD:
                return

    def _heads(self, whole: int) -> bytes:
        at = 0
        while found := self.mark.search(self.held, at, whole):
            name = _name_of(found, self.least)
            if name is not None:
                before, self.held = self.held[: found.start()], self.held[found.end() :]
                self.waiting = name
                return _without_blank(before)
            at = found.end()
        if not self.is_over:
            # A mark of several lines, or the empty line before one, may not be whole yet.
            for _ in range(3):
                whole = self.held.rfind(b"\n", 0, max(whole - 1, 0)) + 1 or whole
        given, self.held = self.held[:whole], self.held[whole:]
        return given

    def _grep(self, whole: int) -> bytes:
        end = whole if self._other is not None else 0
        if self._other is not None and self._strip is not None:
            at = 0
            while found := self._other.search(self.held, at, whole):
                if _GREP.match(self.held, found.start()):
                    end = found.start()
                    break
                at = found.end() + 1
            if end:
                given, self.held = self._strip.sub(b"", self.held[:end]), self.held[end:]
                return given
        new = _GREP.match(self.held)
        assert new is not None
        quoted = re.escape(new["path"])
        self._strip = re.compile(rb"^" + quoted + rb":(?:[0-9]+:)?", re.MULTILINE)
        self._other = re.compile(rb"^(?!" + quoted + rb":|\Z)", re.MULTILINE)
        self.waiting = new["path"].decode("utf-8", "replace")
        return b""


def _without_blank(text: bytes) -> bytes:
    """`text` without the empty line that tail puts before a head."""
    for end in (b"\r\n\r\n", b"\n\n"):
        if text.endswith(end):
            return text[: -len(end) // 2]
    return b"" if text in (b"\n", b"\r\n") else text


@dataclass(slots=True)
class _Section:
    """The bytes of one part."""

    splitter: _Splitter
    ahead: bytes = b""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes; empty at the end."""
        if not self.ahead:
            self.ahead = self.splitter.take()
        data, self.ahead = self.ahead[:count], self.ahead[count:]
        return data
