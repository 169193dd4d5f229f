"""From a unit to its members: archives in archives, streamed."""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import IO, BinaryIO, cast

from postmortem.bundle.codecs import codec_of, decompress, unsupported_format
from postmortem.bundle.fast_gzip import gzip_file_source
from postmortem.bundle.hosts import host_hint
from postmortem.bundle.joined import LOOK, is_joined, parts
from postmortem.bundle.limits import Limits, Meter, amount
from postmortem.bundle.margin import MARGIN_LOOK, without_margin
from postmortem.bundle.model import Member, Problem, Unit
from postmortem.bundle.names import UniqueNames, join_member, sanitise
from postmortem.bundle.remote import base_name, fetched, is_url, open_url
from postmortem.bundle.streams import CHUNK_BYTES, FileSource, MemberStream, describe
from postmortem.bundle.tars import BLOCK, TarWalk, is_tar
from postmortem.bundle.wide import WideSource, wide_encoding
from postmortem.bundle.zips import ZipWalk, is_zip

_DEFAULT_LIMITS = Limits()


def open_units(
    units: Sequence[Unit], limits: Limits = _DEFAULT_LIMITS, problems: list[Problem] | None = None
) -> Iterator[Member]:
    """Members of all `units`, one unit after another, as `open_unit` gives them; small remote files are fetched together."""
    for unit, content in fetched(units):
        yield from open_unit(unit, limits, problems, content)


def open_unit(
    unit: Unit,
    limits: Limits = _DEFAULT_LIMITS,
    problems: list[Problem] | None = None,
    content: bytes | OSError | None = None,
) -> Iterator[Member]:
    """Members of `unit` in the order in which they are stored.

    What is wrong with a member is among its notes; what is wrong with an archive (damaged, cut off, a bound reached),
    or a unit that cannot be opened, is appended to `problems`. Nothing is raised for odd data. `content` is what the
    unit holds, or why that cannot be had, where it was fetched before.
    """
    found = problems if problems is not None else []
    last = base_name(unit.fs_path) if is_url(unit.fs_path) else PurePath(unit.fs_path).name
    label = unit.name or sanitise(last)
    try:
        opened = _open(unit, content)
    except OSError as error:
        found.append(Problem(label, f"cannot be opened: {describe(error)}"))
        return
    meter = Meter(limits, size_bytes=unit.size if opened.size is None else max(unit.size, opened.size))
    with opened.file as file:
        notes: list[str] = []
        with closing(MemberStream(FileSource(file, meter), notes)) as stream:
            whole = file if opened.can_seek else None
            part = _Part(unit.name, label, stream, notes, opened.size, opened.mtime, 0, whole)
            yield from _Reading(meter, limits, found).members(part)
    if meter.stopped is not None:
        found.append(Problem(label, meter.stopped))


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open unit; `size` is None for a stream of unknown length."""

    file: BinaryIO
    size: int | None
    mtime: float | None
    can_seek: bool = True


def _open(unit: Unit, content: bytes | OSError | None) -> _Opened:
    """Raises OSError (StoreError for what lies on a store)."""
    if isinstance(content, OSError):
        raise content
    if content is not None:
        return _Opened(io.BytesIO(content), len(content), unit.mtime)
    if is_url(unit.fs_path):
        remote = open_url(unit.fs_path)
        return _Opened(cast(BinaryIO, remote), remote.size, unit.mtime, remote.seekable())
    file = open_file(unit.fs_path)
    status = os.fstat(file.fileno())
    return _Opened(file, status.st_size, status.st_mtime)


def open_file(path: str) -> BinaryIO:
    """A regular file. Raises OSError for anything else: what a listing called a file may have become a pipe, which would block."""
    # A path may hold bytes that pathlib would normalise, so no pathlib here.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no file any more")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def looks_like_archive(path: str) -> bool:
    """Whether the file or URL holds a tar or zip, compressed or not. Raises OSError when it cannot be read."""
    file = cast(BinaryIO, open_url(path)) if is_url(path) else open_file(path)
    with file:
        head = file.read(BLOCK)
        codec = codec_of(head)
        if codec is not None:
            # gzip gives bytes at once, the others a block at a time.
            start = io.BytesIO(head + file.read(1 << 14 if codec == "gzip" else 1 << 20))
            with closing(MemberStream(decompress(codec, start, Meter(_DEFAULT_LIMITS)), [])) as stream:
                head = stream.peek(BLOCK)
    return is_zip(head) or is_tar(head)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes that may be a member or an archive of members. `file` is set where the bytes are a whole file on disk."""

    name: str
    label: str
    stream: MemberStream
    notes: list[str]
    size: int | None
    mtime: float | None
    depth: int
    file: BinaryIO | None = None
    is_decoded: bool = False


@dataclass(slots=True)
class _OddNames:
    """Names of an archive's members that lead out of it; they are read under names made safe."""

    count: int = 0

    def saw(self, name: str) -> None:
        parts = name.replace("\\", "/").split("/")
        self.count += ".." in parts or parts[0] == "" or parts[0][1:] == ":"

    def sentences(self, names: UniqueNames) -> list[str]:
        """What is odd about the names, once all are seen."""
        out = [f"{self.count} names lead out of the archive: read as if they did not"] if self.count else []
        return (
            [*out, f"{names.renamed} names are given more than once: told apart by a number"] if names.renamed else out
        )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The state shared by all archives of one unit."""

    meter: Meter
    limits: Limits
    problems: list[Problem]

    def members(self, part: _Part) -> Iterator[Member]:
        """`part` itself, or what it is an archive of."""
        head = part.stream.peek(BLOCK)
        codec = codec_of(head)
        is_deeper = is_zip(head) or is_tar(head) or (codec is not None and part.is_decoded)
        if is_deeper and part.depth >= self.limits.depth:
            part.notes.append(
                f"not unpacked: archives are nested more than {self.limits.depth} deep (--limit depth=… raises it)"
            )
            yield from self._plain(part)
        elif is_zip(head):
            yield from self._zip_members(part)
        elif is_tar(head):
            yield from self._tar_members(part)
        elif codec is not None:
            # A tar.gz is one level; data compressed twice are two, else such data would have no bound.
            depth = part.depth + 1 if part.is_decoded else part.depth
            if codec == "gzip" and part.file is not None:
                source = gzip_file_source(FileSource(part.file, self.meter), self.meter)
            else:
                source = decompress(codec, part.stream, self.meter)
            with closing(MemberStream(source, part.notes)) as stream:
                yield from self.members(
                    replace(part, stream=stream, size=None, depth=depth, file=None, is_decoded=True)
                )
        else:
            unsupported = unsupported_format(head)
            if unsupported is not None:
                part.notes.append(f"{unsupported}: not supported, unpack it first")
            wide = wide_encoding(head)
            if wide is None:
                if head.startswith(codecs.BOM_UTF8):
                    # What stands before the first line is no part of it: its header would not be recognised.
                    part.stream.read(len(codecs.BOM_UTF8))
                yield from self._text(part)
                return
            part.notes.append(f"stored as {wide.upper()}: offsets count its text as UTF-8")
            with closing(MemberStream(WideSource(part.stream, wide), part.notes)) as stream:
                yield from self._text(replace(part, stream=stream, size=None))

    def _text(self, part: _Part) -> Iterator[Member]:
        """`part`, or the texts that were put together in it."""
        if part.stream.peek(1) in (b" ", b"\t", b">"):
            flush = without_margin(part.stream.peek(MARGIN_LOOK + 1))
            if flush is not None:
                part.notes.append("each line stands behind the same margin: offsets count its text without it")
                with closing(MemberStream(io.BytesIO(flush), part.notes)) as stream:
                    yield from self._text(replace(part, stream=stream, size=len(flush)))
                return
        if part.depth >= self.limits.depth or not is_joined(part.stream.peek(LOOK)):
            yield from self._plain(part)
            return
        names = UniqueNames()
        for inner, source in parts(part.stream):
            notes: list[str] = []
            with closing(MemberStream(source, notes)) as stream:
                yield from self._plain(self._child(part, names, inner, stream, notes, None, part.mtime))
        self.problems.extend(Problem(part.label, what) for what in dict.fromkeys(part.notes))

    def _plain(self, part: _Part) -> Iterator[Member]:
        hint = host_hint(part.name)
        host, basis = (hint.host, hint.basis) if hint is not None else (None, None)
        yield Member(part.name or part.label, part.size, host, basis, part.mtime, part.stream, part.notes)

    def _tar_members(self, part: _Part) -> Iterator[Member]:
        walk = TarWalk(part.stream)
        names = UniqueNames()
        odd = _OddNames()
        for count, entry in enumerate(walk.entries()):
            if self._is_over(part, count):
                break
            notes = [entry.note] if entry.note else []
            with closing(MemberStream(entry.window, notes)) as stream:
                odd.saw(entry.name)
                yield from self.members(self._child(part, names, entry.name, stream, notes, entry.size, entry.mtime))
        self._report(part, [*walk.troubles, *odd.sentences(names)])

    def _zip_members(self, part: _Part) -> Iterator[Member]:
        if part.file is not None:
            yield from self._zip_file_members(part, part.file)
            return
        with tempfile.SpooledTemporaryFile(max_size=self.limits.spool_memory_bytes) as spool:
            if self._fill(spool, part):
                yield from self._zip_file_members(part, cast(BinaryIO, spool))
            else:
                self._report(part, [])

    def _zip_file_members(self, part: _Part, file: BinaryIO) -> Iterator[Member]:
        walk = ZipWalk(file, self.meter)
        names = UniqueNames()
        odd = _OddNames()
        for count, entry in enumerate(walk.entries()):
            if self._is_over(part, count):
                break
            notes: list[str] = []
            with closing(MemberStream(entry.source, notes)) as stream:
                odd.saw(entry.name)
                yield from self.members(self._child(part, names, entry.name, stream, notes, entry.size, entry.mtime))
        self._report(part, [*walk.troubles, *odd.sentences(names)])

    @staticmethod
    def _child(
        part: _Part,
        names: UniqueNames,
        inner: str,
        stream: MemberStream,
        notes: list[str],
        size: int | None,
        mtime: float | None,
    ) -> _Part:
        name = join_member(part.name, names.unique(sanitise(inner)))
        return _Part(name, name, stream, notes, size, mtime, part.depth + 1)

    def _fill(self, spool: IO[bytes], part: _Part) -> bool:
        """Copy a zip that came in a stream; False when the disk refuses. What exceeds the bound is left out."""
        copied = 0
        try:
            while copied < self.limits.spool_bytes and (data := part.stream.read(CHUNK_BYTES)):
                spool.write(data)
                copied += len(data)
            spool.seek(0)
        except OSError as error:
            self.problems.append(Problem(part.label, f"no temporary space for this zip: {describe(error)}"))
            return False
        if part.stream.peek(1):
            what = f"a zip of more than {amount(self.limits.spool_bytes)} bytes within an archive: the rest was left out (--limit zip=… raises it)"
            self.problems.append(Problem(part.label, what))
        return True

    def _is_over(self, part: _Part, count: int) -> bool:
        if count >= self.limits.members:
            what = f"more than {self.limits.members} files in one archive: the rest was left out (--limit members=… raises it)"
            self.problems.append(Problem(part.label, what))
            return True
        return self.meter.stopped is not None

    def _report(self, part: _Part, troubles: list[str]) -> None:
        self.problems.extend(Problem(part.label, what) for what in dict.fromkeys([*part.notes, *troubles]))
