"""Byte sources (which may raise) and the stream handed to readers (which does not)."""

from __future__ import annotations

import io
import lzma
import zlib
from typing import TYPE_CHECKING, BinaryIO, Protocol

import zstandard

from postmortem.bundle.limits import Meter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK_BYTES = 1 << 18

READ_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
)
"""What the decompressors and the file system raise for data that is damaged, cut off or gone."""


class Source(Protocol):
    """Where bytes come from. `read` gives at most `count` bytes, fewer at will, none only at the end."""

    def read(self, count: int, /) -> bytes: ...


class FileSource:
    """An open file of the disk whose reads are counted by the meter of its unit."""

    def __init__(self, file: BinaryIO, meter: Meter) -> None:
        self._file = file
        self._meter = meter

    def read(self, count: int, /) -> bytes:
        data = self._file.read(count)
        self._meter.read_bytes += len(data)
        return data

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the begin of `buffer`; the number of bytes, 0 at the end."""
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._meter.read_bytes += count
        return int(count)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


class WindowSource:
    """The next `size` bytes of another source: a member of an archive. Raises EOFError when there are fewer."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._size = size
        self.left = size

    def read(self, count: int, /) -> bytes:
        if self.left <= 0:
            return b""
        data = self._source.read(min(count, self.left))
        if not data:
            raise EOFError(f"cut off after {self._size - self.left} of {self._size} bytes")
        self.left -= len(data)
        return data


class MemberStream(io.RawIOBase):
    """Decompressed bytes that can be peeked at; damage becomes a note and end of file.

    `read` and `readinto` return short only at the end. After the next member was asked for the stream is closed, and a
    read raises ValueError, since that is an error of the caller.
    """

    def __init__(self, source: Source, notes: list[str]) -> None:
        super().__init__()
        self._source = source
        self._notes = notes
        self._ahead = b""
        self._ended = False
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        """Decompressed bytes handed out so far."""
        return self._position

    def peek(self, count: int, /) -> bytes:
        """The next bytes, at most `count`, without consuming them."""
        self._check_open()
        if len(self._ahead) < count:
            parts = [self._ahead]
            missing = count - len(self._ahead)
            while missing > 0 and (data := self._pull(missing)):
                parts.append(data)
                missing -= len(data)
            self._ahead = b"".join(parts)
        return self._ahead[:count]

    def read(self, count: int | None = -1, /) -> bytes:
        """At most `count` bytes; all that is left for None or a negative count."""
        self._check_open()
        parts: list[bytes] = []
        missing = -1 if count is None or count < 0 else count
        while missing != 0:
            data = self._next(CHUNK_BYTES if missing < 0 else missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data) if missing > 0 else 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            if not self._ahead and isinstance(self._source, FileSource):
                # Straight to where it belongs: large files are most of a bundle.
                count = self._pull_into(self._source, view[filled:])
            else:
                data = self._next(len(view) - filled)
                count = len(data)
                view[filled : filled + count] = data
            if not count:
                break
            filled += count
        return filled

    def skip(self) -> None:
        """Read to the end and forget it: what follows in an archive begins there."""
        while self._next(CHUNK_BYTES):
            pass

    def _next(self, count: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:count], self._ahead[count:]
        else:
            data = self._pull(count)
        self._position += len(data)
        return data

    def _pull_into(self, source: FileSource, view: memoryview) -> int:
        if self._ended:
            return 0
        try:
            count = source.readinto(view)
        except READ_ERRORS as error:
            self._notes.append(describe(error))
            count = 0
        self._ended = not count
        self._position += count
        return count

    def _pull(self, count: int) -> bytes:
        if self._ended:
            return b""
        try:
            data = self._source.read(min(count, CHUNK_BYTES))
        except READ_ERRORS as error:
            self._notes.append(describe(error))
            data = b""
        self._ended = not data
        return data

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("this member was left behind: its stream ended when the next one was asked for")


def describe(error: Exception) -> str:
    """The sentence of a note about `error`, without paths of this machine."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip() or type(error).__name__
