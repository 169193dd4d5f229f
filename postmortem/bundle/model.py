"""What reading a bundle yields: units of work, their members, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from postmortem.bundle.streams import MemberStream


@dataclass(frozen=True, slots=True)
class Span:
    """A range of whole lines of a plain file: offsets of its bytes, the number of its first line, the last line with a time above it (number, text)."""

    begin: int
    end: int
    line: int
    donor: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One file on disk or of a store, which a worker reads from begin to end; `fs_path` is a path or a URL.

    `name` is the path inside the bundle with `/`; it is empty for an archive that is the whole bundle, whose members
    are then called by their inner paths alone.
    """

    fs_path: str
    name: str
    size: int
    is_archive: bool
    mtime: float | None = None
    """Seconds since 1970 UTC where a listing told it; of a file on disk it is read when the file is opened."""
    span: Span | None = None
    """Only this range of the file; null for all of it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something of the bundle that was not read, or not wholly: `name` is its path inside the bundle."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Units ordered by name, whatever order the file system lists them in."""

    units: tuple[Unit, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class Member:
    """One file of the bundle, with its decompressed bytes.

    `stream` is valid until the next member is asked for; its reads never raise for odd data: what can be had is
    returned, then end of file, and `notes` (complete only at the end of the stream) says in a sentence what was wrong.
    `size` is the decompressed size where it is known beforehand, `mtime` seconds since 1970 UTC. `host_basis` is "name"
    or "folder".
    """

    name: str
    size: int | None
    host_hint: str | None
    host_basis: str | None
    mtime: float | None
    stream: MemberStream
    notes: list[str] = field(default_factory=list)

    def head(self, count: int) -> bytes:
        """First bytes, at most `count`, which later reads return again; call it before reading."""
        return self.stream.peek(count)
