"""Tar archives read from front to back, whatever is wrong with them.

`tarfile` decodes a header block; the walk over blocks is ours because tarfile's own ends silently at a damaged header,
reads long-name and pax records of any claimed size into memory, and keeps a record of every member.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from postmortem.bundle.streams import MemberStream, WindowSource

BLOCK = 512
_MAX_RECORD_BYTES = 1 << 20
_MAX_SEARCH_BYTES = 64 << 20
"""How far after a damaged header the next good one is looked for."""
_SPECIAL = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
_WITHOUT_DATA = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, b"V", *_SPECIAL)
"""`V` is a volume label; `D` below a folder's listing in an incremental archive."""
_NO_FILES = (*_WITHOUT_DATA, b"D")
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A regular file of the archive; `window` gives its bytes."""

    name: str
    size: int
    mtime: float
    window: WindowSource
    note: str | None


@dataclass(slots=True)
class _Overrides:
    """What records before a header say about the entry that follows."""

    name: str | None = None
    sparse_name: str | None = None
    size: int | None = None
    mtime: float | None = None
    is_sparse: bool = False
    has_map: bool = False


@dataclass(slots=True)
class TarWalk:
    """Walks over `stream`; `troubles` holds sentences on what was left out, complete once the walk is over."""

    stream: MemberStream
    troubles: list[str] = field(default_factory=list)
    _specials: int = 0
    _damages: int = 0
    _lost_bytes: int = 0

    def entries(self) -> Iterator[TarEntry]:
        """Regular files in their order. What of an entry was not read is skipped when the next is asked for."""
        overrides = _Overrides()
        while (header := self._next_header()) is not None:
            if header.type in _LONG or header.type in _PAX:
                self._read_record(header, overrides)
                continue
            size = header.size if overrides.size is None else overrides.size
            size = 0 if header.type in _WITHOUT_DATA else size
            window = WindowSource(self.stream, size)
            self._specials += header.type in _SPECIAL
            if header.type not in _NO_FILES:
                yield self._entry(header, overrides, window)
            if not (self._skip(window.left) and self._skip(-size % BLOCK)):
                self.troubles.append("the archive is cut off within a file")
                break
            overrides = _Overrides()
        self._sum_up()

    def _entry(self, header: tarfile.TarInfo, overrides: _Overrides, window: WindowSource) -> TarEntry:
        if header.type == tarfile.GNUTYPE_SPARSE:
            overrides.is_sparse = True
        note = None
        if overrides.is_sparse:
            note = "stored sparse: its holes are left out"
            if overrides.has_map:
                self._skip_sparse_map(window)
        mtime = float(header.mtime) if overrides.mtime is None else overrides.mtime
        name = overrides.sparse_name or overrides.name or header.name
        return TarEntry(name, window.left, mtime, window, note)

    def _next_header(self) -> tarfile.TarInfo | None:
        """The next good header, looked for beyond damaged ones; None at the end."""
        lost = 0
        while len(block := self.stream.read(BLOCK)) == BLOCK and lost <= _MAX_SEARCH_BYTES:
            header = parse_header(block)
            if header is not None:
                self._lost_bytes += lost
                self._damages += lost > 0
                if header.type == tarfile.GNUTYPE_SPARSE:
                    self._skip_sparse_extensions(block)
                return header
            # Zeros end an archive, but another may follow (`cat a.tar b.tar`); other bytes are damage.
            if lost or block.count(0) != BLOCK:
                lost += BLOCK
        if lost or block.count(0) != len(block):
            self._damages += 1
            self._lost_bytes += lost + len(block) % BLOCK
        return None

    def _skip_sparse_extensions(self, block: bytes) -> None:
        """Old GNU sparse headers go on in further blocks while a flag byte says so."""
        is_extended = bool(block[482])
        while is_extended and len(block := self.stream.read(BLOCK)) == BLOCK:
            is_extended = bool(block[504])

    @staticmethod
    def _skip_sparse_map(window: WindowSource) -> None:
        """Sparse format 1.0 puts a map before the data: a count, then two numbers a region, a line each, padded."""
        seen, lines, wanted = 0, 0, 1
        while lines < wanted and seen < _MAX_RECORD_BYTES:
            block = window.read(min(BLOCK, window.left))
            if not block:
                return
            if seen == 0:
                first = block.split(b"\n", 1)[0]
                wanted = 1 + 2 * int(first) if first.isdigit() else 0
            seen += len(block)
            lines += block.count(b"\n")

    def _read_record(self, header: tarfile.TarInfo, overrides: _Overrides) -> None:
        size = header.size
        data = self.stream.read(min(size, _MAX_RECORD_BYTES))
        self._skip(size - len(data) + -size % BLOCK)
        if header.type == tarfile.GNUTYPE_LONGNAME:
            overrides.name = data.split(b"\0", 1)[0].decode("utf-8", "replace")
        elif header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            _apply_pax(data, overrides)

    def _skip(self, count: int) -> bool:
        """Whether all of `count` bytes were there."""
        while count > 0:
            data = self.stream.read(min(count, 1 << 18))
            if not data:
                return False
            count -= len(data)
        return True

    def _sum_up(self) -> None:
        if self._damages:
            self.troubles.append(
                f"the archive is damaged in {self._damages} place(s): {self._lost_bytes} bytes were left out"
            )
        if self._specials:
            self.troubles.append(f"{self._specials} entries were left out: they are devices or pipes, no files")


def is_tar(head: bytes) -> bool:
    """Whether a file that begins with `head` (512 bytes of it, or more) is a tar archive, v7 without magic included."""
    return len(head) >= BLOCK and parse_header(head[:BLOCK]) is not None


def parse_header(block: bytes) -> tarfile.TarInfo | None:
    """The header in `block`, or None when its checksum or numbers are not those of one."""
    if block.count(0) == BLOCK:
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except (tarfile.HeaderError, ValueError, OverflowError):
        return None
    return header if header.size >= 0 and header.name else None


def _apply_pax(data: bytes, overrides: _Overrides) -> None:
    """Records `<length> <key>=<value>\\n`; what does not fit that form ends the reading of them."""
    at = 0
    while at < len(data):
        digits, space, _ = data[at : at + 12].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        if length <= len(digits) + 1:
            return
        key, _, value = data[at + len(digits) + 1 : at + length].rstrip(b"\n").partition(b"=")
        at += length
        text = value.decode("utf-8", "replace")
        if key == b"path":
            overrides.name = text
        elif key == b"GNU.sparse.name":
            # The path beside it is made up (./GNUSparseFile.12/name).
            overrides.sparse_name = text
        elif key == b"size" and text.isascii() and text.isdigit() and len(text) < 20:
            overrides.size = int(text)
        elif key == b"mtime":
            overrides.mtime = _seconds(text)
        overrides.is_sparse |= key.startswith(b"GNU.sparse.")
        overrides.has_map |= key == b"GNU.sparse.major" and text == "1"


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None
