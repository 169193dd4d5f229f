"""Decompression by content: gzip, bzip2, xz and zstd, several streams one after another included.

Each source gives out whatever could be decompressed before it raises one of `READ_ERRORS` for damage.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Protocol, cast

import zstandard

from postmortem.bundle.limits import Meter
from postmortem.bundle.streams import CHUNK_BYTES, Source
from postmortem.bundle.zstd_frames import FrameTracker

MAX_MEMORY_BYTES = 1 << 28
"""Window or dictionary a stream may ask for; `zstd --long=28` and every preset of xz stay within it."""
MAX_OUTPUT_BYTES = 1 << 20
MAGIC_BYTES = 18
"""Bytes at the begin of a file that decide whether it is compressed."""

GZIP_MAGIC = b"\x1f\x8b\x08"
_XZ = b"\xfd7zXZ\0"
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_UNSUPPORTED = (
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
    (b"\x04\x22\x4d\x18", "lz4 data"),
    (b"\x1f\x9d", "data of compress (.Z)"),
)


def codec_of(head: bytes) -> str | None:
    """`gzip`, `bzip2`, `xz` or `zstd` when a file that begins with `head` holds such data, else None."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(b"BZh") and head[3:4].isdigit() and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    if head.startswith(_XZ):
        return "xz"
    if head.startswith(_ZSTD) or (head[1:4] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    return None


def unsupported_format(head: bytes) -> str | None:
    """What a file is that begins with `head`, in words, when it is of a known format that is not unpacked."""
    return next((what for magic, what in _UNSUPPORTED if head.startswith(magic)), None)


def decompress(codec: str, source: Source, meter: Meter) -> Source:
    """Decompressed bytes of `source`, which holds data of `codec`."""
    if codec == "zstd":
        return ZstdSource(source, meter)
    makers: dict[str, tuple[Callable[[], PushDecoder], bytes]] = {
        "gzip": (lambda: InflateDecoder(31), GZIP_MAGIC[:2]),
        "bzip2": (lambda: BlockDecoder(bz2.BZ2Decompressor()), b"BZh"),
        "xz": (lambda: BlockDecoder(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY_BYTES)), _XZ),
    }
    make, magic = makers[codec]
    return PushSource(source, make, meter, next_magic=magic)


class PushDecoder(Protocol):
    """One compressed stream: takes pieces of input and gives bounded output."""

    @property
    def finished(self) -> bool: ...
    @property
    def left_over(self) -> bytes: ...
    @property
    def wants_input(self) -> bool: ...
    def decode(self, data: bytes, /) -> bytes: ...


class InflateDecoder:
    """zlib's decoder: `wbits` is 31 for gzip, -15 for the raw data of a zip. Every byte before damage is given out."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)
        self._has_more = False
        self._error: zlib.error | None = None

    @property
    def finished(self) -> bool:
        return self._inner.eof

    @property
    def left_over(self) -> bytes:
        return self._inner.unused_data

    @property
    def wants_input(self) -> bool:
        return not (self._has_more or self._inner.unconsumed_tail or self._error)

    def decode(self, data: bytes, /) -> bytes:
        if self._error is not None:
            raise self._error
        data = self._inner.unconsumed_tail + data
        before = self._inner.copy()
        parts: list[bytes] = []
        try:
            out = self._inner.decompress(data, MAX_OUTPUT_BYTES)
        except zlib.error as error:
            # zlib drops what the failing call had produced: make it again, byte by byte, up to the damage.
            self._error = error
            with contextlib.suppress(zlib.error):
                for at in range(len(data)):
                    parts.append(before.decompress(data[at : at + 1]))
            return b"".join(parts)
        self._has_more = len(out) == MAX_OUTPUT_BYTES
        return out


class BlockDecoder:
    """bzip2, xz or the raw LZMA of a zip: decoders that say themselves whether they need input."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    @property
    def finished(self) -> bool:
        return self._inner.eof

    @property
    def left_over(self) -> bytes:
        return self._inner.unused_data

    @property
    def wants_input(self) -> bool:
        return self._inner.needs_input

    def decode(self, data: bytes, /) -> bytes:
        return self._inner.decompress(data, MAX_OUTPUT_BYTES)


class PushSource:
    """Decompressed bytes of `source`: of the first stream in it, or of all that begin with `next_magic`."""

    def __init__(
        self, source: Source, make: Callable[[], PushDecoder], meter: Meter, *, next_magic: bytes | None
    ) -> None:
        self._source = source
        self._make = make
        self._meter = meter
        self._next_magic = next_magic
        self._decoder = make()
        self._input = b""
        self._output = b""
        self._at = 0

    def read(self, count: int, /) -> bytes:
        if self._at >= len(self._output):
            self._output, self._at = self._produce(), 0
        data = self._output[self._at : self._at + count]
        self._at += len(data)
        return data

    def _produce(self) -> bytes:
        """The next output; empty only at the end."""
        while True:
            if self._decoder.finished and not self._begin_next():
                return b""
            data = b""
            if self._decoder.wants_input:
                data, self._input = self._input or self._source.read(CHUNK_BYTES), b""
                if not data:
                    raise EOFError("the compressed data are cut off: their end is missing")
            out = self._decoder.decode(data)
            if out:
                self._meter.produced(len(out))
                return out

    def _begin_next(self) -> bool:
        """Make ready for the stream that follows; False at the end. Zeros after a stream are padding."""
        if self._next_magic is None:
            return False
        rest = self._decoder.left_over.lstrip(b"\0")
        while len(rest) < len(self._next_magic) and (more := self._source.read(CHUNK_BYTES)):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            return False
        if not rest.startswith(self._next_magic):
            raise ValueError("other bytes follow the end of the compressed data and were left out")
        self._decoder, self._input = self._make(), rest
        return True


class ZstdSource:
    """Decompressed bytes of all zstd frames in `source`."""

    def __init__(self, source: Source, meter: Meter) -> None:
        self._frames = FrameTracker(source)
        self._meter = meter
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY_BYTES)
        # The library asks for no more of a file than a `read`.
        file = cast(IO[bytes], self._frames)
        self._reader = decompressor.stream_reader(file, read_size=CHUNK_BYTES, read_across_frames=True)

    def read(self, count: int, /) -> bytes:
        # read1, since read() drops what it had collected when a later block turns out to be damaged.
        data = self._reader.read1(count)
        if data:
            self._meter.produced(len(data))
        elif self._frames.is_inside_frame:
            raise EOFError("the compressed data are cut off: their end is missing")
        return data
