"""Archives built in memory, and the reading of a path in one call."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from postmortem.bundle import Limits, Problem, open_unit, plan

LINES = b"".join(b"line %d of a log that goes on for a while\n" % number for number in range(2000))

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}


@dataclass(frozen=True)
class Read:
    """All of a bundle: text, notes and hints per member, and problems."""

    data: dict[str, bytes]
    notes: dict[str, list[str]]
    hosts: dict[str, str | None]
    problems: list[Problem]


def read_all(*paths: Path, limits: Limits | None = None) -> Read:
    planned = plan(paths)
    read = Read({}, {}, {}, list(planned.problems))
    for unit in planned.units:
        for member in open_unit(unit, limits or Limits(), read.problems):
            assert member.name not in read.data
            read.data[member.name] = member.stream.read()
            read.notes[member.name] = member.notes
            read.hosts[member.name] = member.host_hint
    return read


def tar_bytes(files: Mapping[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = 1_750_000_000
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zip_bytes(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
