"""Zip archives: by their directory, or by the headers before each entry when the directory is missing.

`zipfile` reads the directory; entries are decompressed here, since zipfile drops the last piece of an entry whose
checksum is wrong, and knows no zstd before Python 3.14.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from postmortem.bundle.codecs import (
    MAX_MEMORY_BYTES,
    BlockDecoder,
    InflateDecoder,
    PushDecoder,
    PushSource,
    decompress,
)
from postmortem.bundle.limits import Meter
from postmortem.bundle.streams import READ_ERRORS, FileSource, Source, WindowSource, describe

_LOCAL = b"PK\x03\x04"
_EMPTY = b"PK\x05\x06"
_SPANNED = b"PK\x07\x08PK\x03\x04"
_DIRECTORY = b"PK\x01\x02"
_LOCAL_FIELDS = struct.Struct("<4s5H3L2H")
_LZMA_FIELDS = struct.Struct("<HHBL")
_UNIX_TIME = 0x5455
_ZIP64 = 0x0001
_ENCRYPTED = 0x1
_SIZES_FOLLOW = 0x8
_UTF8 = 0x800
_STORED, _DEFLATED, _BZIP2, _LZMA, _ZSTD = 0, 8, 12, 14, 93
_HEADER_ERRORS: tuple[type[Exception], ...] = (*READ_ERRORS, struct.error)
_DIRECTORY_ERRORS: tuple[type[Exception], ...] = (*_HEADER_ERRORS, zipfile.BadZipFile, IndexError, RuntimeError)


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A file of the archive; reading `source` raises at its end when the checksum is wrong."""

    name: str
    size: int | None
    mtime: float | None
    source: Source


@dataclass(frozen=True, slots=True)
class _Header:
    """An entry as a header describes it; sizes and checksum are None when the header does not know them."""

    name: str
    flags: int
    method: int
    crc: int | None
    packed_size: int | None
    size: int | None
    data_offset: int
    extra: bytes


def is_zip(head: bytes) -> bool:
    """Whether a file that begins with `head` is a zip archive."""
    return head.startswith((_LOCAL, _SPANNED)) or (head.startswith(_EMPTY) and head[4:20] == bytes(16))


@dataclass(slots=True)
class ZipWalk:
    """Walks over the seekable `file`; `troubles` is complete once the walk is over."""

    file: BinaryIO
    meter: Meter
    troubles: list[str] = field(default_factory=list)

    def entries(self) -> Iterator[ZipEntry]:
        """Files in the order of the directory; of an archive without one, as far as they are found."""
        try:
            with zipfile.ZipFile(self.file) as archive:
                infos = archive.infolist()
        except _DIRECTORY_ERRORS as error:
            self.troubles.append(f"the directory of the zip cannot be read ({describe(error)}): searched for its files")
            yield from self._searched_entries()
            return
        for info in infos:
            if not info.filename.endswith("/"):
                yield self._listed_entry(info)

    def _listed_entry(self, info: zipfile.ZipInfo) -> ZipEntry:
        mtime = _unix_time(info.extra)
        local = self._local_header(info.header_offset)
        if local is None:
            return ZipEntry(info.filename, None, mtime, _Refusal("the zip has no file where its directory says"))
        header = _Header(
            info.filename,
            info.flag_bits,
            info.compress_type,
            info.CRC,
            info.compress_size,
            info.file_size,
            local.data_offset,
            info.extra,
        )
        return ZipEntry(info.filename, info.file_size, mtime, self._source(header))

    def _searched_entries(self) -> Iterator[ZipEntry]:
        offset = self._find_header(0)
        while offset is not None:
            header = self._local_header(offset)
            if header is None:
                offset = self._find_header(offset + 4)
                continue
            if not header.name.endswith("/"):
                yield ZipEntry(header.name, header.size, _unix_time(header.extra), self._source(header))
            offset = self._find_header(header.data_offset + (header.packed_size or 0))

    def _local_header(self, offset: int) -> _Header | None:
        try:
            self.file.seek(offset)
            fixed = self.file.read(_LOCAL_FIELDS.size)
            magic, _, flags, method, _, _, crc, packed, size, name_size, extra_size = _LOCAL_FIELDS.unpack(fixed)
            name, extra = self.file.read(name_size), self.file.read(extra_size)
        except _HEADER_ERRORS:
            return None
        if magic != _LOCAL or len(extra) != extra_size:
            return None
        text = name.decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        data_offset = offset + _LOCAL_FIELDS.size + name_size + extra_size
        if flags & _SIZES_FOLLOW:
            return _Header(text, flags, method, None, None, None, data_offset, extra)
        if 0xFFFFFFFF in (packed, size):
            size, packed = _zip64_sizes(extra, size, packed)
        return _Header(text, flags, method, crc, packed, size, data_offset, extra)

    def _find_header(self, start: int) -> int | None:
        """Offset of the first local header at or after `start`; None when the directory or the end comes first."""
        position, kept = start, b""
        while True:
            try:
                self.file.seek(position)
                data = self.file.read(1 << 20)
            except READ_ERRORS:
                return None
            self.meter.read_bytes += len(data)
            window = kept + data
            found = window.find(_LOCAL)
            directory = window.find(_DIRECTORY)
            if directory >= 0 and (found < 0 or directory < found):
                return None
            if found >= 0:
                return position - len(kept) + found
            if not data:
                return None
            position += len(data)
            kept = window[-3:]

    def _source(self, header: _Header) -> Source:
        if header.flags & _ENCRYPTED:
            return _Refusal("encrypted: it can only be read with the password of the zip")
        packed: Source = _Positioned(self.file, header.data_offset, self.meter)
        if header.packed_size is not None:
            packed = WindowSource(packed, header.packed_size)
        elif header.method == _STORED:
            return _Refusal("stored without its size in a zip whose directory is missing")
        try:
            source = self._decoded(header, packed)
        except _HEADER_ERRORS as error:
            return _Refusal(describe(error))
        return _Checked(source, header.crc, header.size)

    def _decoded(self, header: _Header, packed: Source) -> Source:
        if header.method == _STORED:
            return packed
        if header.method == _DEFLATED:
            return PushSource(packed, lambda: InflateDecoder(-15), self.meter, next_magic=None)
        if header.method == _BZIP2:
            return decompress("bzip2", packed, self.meter)
        if header.method == _ZSTD:
            return decompress("zstd", packed, self.meter)
        if header.method == _LZMA:
            decoder = _lzma_decoder(packed)
            return PushSource(packed, lambda: decoder, self.meter, next_magic=None)
        return _Refusal(f"compressed with zip method {header.method}, which is not supported")


class _Refusal:
    """A source that says why nothing can be read."""

    def __init__(self, why: str) -> None:
        self._why = why

    def read(self, count: int, /) -> bytes:
        raise ValueError(self._why)


class _Positioned:
    """Bytes of a file from an offset on, whoever else moves the file's own position meanwhile."""

    def __init__(self, file: BinaryIO, offset: int, meter: Meter) -> None:
        self._source = FileSource(file, meter)
        self._offset = offset

    def read(self, count: int, /) -> bytes:
        self._source.seek(self._offset)
        data = self._source.read(count)
        self._offset += len(data)
        return data


class _Checked:
    """Hands bytes on, at most `size`, and raises at the end when their checksum differs from `crc`.

    The size ends the entry, since LZMA in a zip often has no end mark of its own.
    """

    def __init__(self, source: Source, crc: int | None, size: int | None) -> None:
        self._source = source
        self._expected = crc
        self._size = size
        self._crc = 0
        self._count = 0

    def read(self, count: int, /) -> bytes:
        if self._size is not None:
            count = min(count, self._size - self._count)
        data = self._source.read(count) if count > 0 else b""
        self._crc = zlib.crc32(data, self._crc)
        self._count += len(data)
        if not data and self._size is not None and self._count != self._size:
            raise ValueError(f"holds {self._count} bytes where the zip says {self._size}")
        if not data and self._expected is not None and self._crc != self._expected:
            raise ValueError("damaged: the checksum is wrong")
        return data


def _lzma_decoder(packed: Source) -> PushDecoder:
    """A decoder for LZMA in a zip: the entry begins with two bytes of version, the size and value of properties."""
    fields = packed.read(_LZMA_FIELDS.size)
    _, size, packing, dictionary_bytes = _LZMA_FIELDS.unpack(fields)
    if size != 5 or dictionary_bytes > MAX_MEMORY_BYTES or packing >= 9 * 5 * 5:
        raise ValueError("LZMA with properties that are wrong or ask for too much memory")
    filters = [
        {
            "id": lzma.FILTER_LZMA1,
            "dict_size": dictionary_bytes,
            "lc": packing % 9,
            "lp": packing // 9 % 5,
            "pb": packing // 45,
        }
    ]
    return BlockDecoder(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters))


def _extra_field(extra: bytes, wanted: int) -> bytes | None:
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == wanted:
            return extra[at + 4 : at + 4 + size]
        at += 4 + size
    return None


def _unix_time(extra: bytes) -> float | None:
    """Modification time of the extended-timestamp field. The DOS time beside it has no zone, so it is not used."""
    data = _extra_field(extra, _UNIX_TIME)
    if data is None or len(data) < 5 or not data[0] & 1:
        return None
    return float(int.from_bytes(data[1:5], "little", signed=True))


def _zip64_sizes(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    data = _extra_field(extra, _ZIP64) or b""
    values = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 8)]
    if size == 0xFFFFFFFF and values:
        size = values.pop(0)
    if packed == 0xFFFFFFFF and values:
        packed = values.pop(0)
    return size, packed
