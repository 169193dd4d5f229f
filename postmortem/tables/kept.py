"""Rows of bundles that were parsed before, in the user's cache folder: the same bundle is not parsed twice.

    <folder>/<key>/manifest.json             what the batches said, and size and digest of every file
    <folder>/<key>/events/000000-….parquet   as in the spool

The key is a digest of all bytes of the bundle with the names and times of its files, of the definitions, the bounds on unpacking and the
program. An entry is written beside its place and renamed, so that it is whole or not there; one that is damaged is removed. Whatever
goes wrong here costs the time to parse, never the analysis.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from postmortem import __version__
from postmortem.bundle import Limits, Plan, Problem, is_url
from postmortem.bundle.reading import open_file
from postmortem.bundle.streams import CHUNK_BYTES
from postmortem.tables.workers import definitions_digest

MOST_BYTES: Final = 4 << 30
"""Bytes that all entries together may take; the ones not used for longest go first."""

_MANIFEST: Final = "manifest.json"
_FORM: Final = 1
_CODE: Final = ("bundle", "lines", "catalogue", "decoders", "tables")


@dataclass(frozen=True, slots=True)
class Kept:
    """What the batches of a bundle said besides their rows."""

    members: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A bundle as it was before it was parsed: its key, and size and time of change of each file."""

    key: str
    files: tuple[tuple[str, int, int], ...]

    def is_unchanged(self) -> bool:
        """No file has changed since."""
        try:
            return all(_status(path) == (size, changed) for path, size, changed in self.files)
        except OSError:
            return False


def _status(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 - may hold bytes that are no text
    return status.st_size, status.st_mtime_ns


def see(todo: Plan, parsers: Sequence[str], limits: Limits) -> Seen | None:
    """The key of a bundle; None when part of it is on a store or cannot be read. Reads all its bytes once."""
    digest = hashlib.sha256(repr((_FORM, __version__, pl.__version__, _code(), limits)).encode())
    digest.update(definitions_digest(parsers).encode())
    files: list[tuple[str, int, int]] = []
    try:
        for unit in todo.units:
            if is_url(unit.fs_path):
                return None
            size, changed = _status(unit.fs_path)
            files.append((unit.fs_path, size, changed))
            about = repr((unit.name, os.path.basename(unit.fs_path), unit.is_archive, size, changed))  # noqa: PTH119
            digest.update(about.encode("utf-8", "surrogateescape"))
            content = hashlib.sha256()
            with open_file(unit.fs_path) as file:
                while data := file.read(CHUNK_BYTES):
                    content.update(data)
            digest.update(content.digest())
    except OSError:
        return None
    return Seen(digest.hexdigest(), tuple(files))


def _code() -> list[tuple[str, int, int]]:
    """The modules that parse, by name, size and time: a checkout that is worked on has one version for many programs."""
    package = Path(__file__).parent.parent
    return [(p.name, *_status(str(p))) for folder in _CODE for p in sorted((package / folder).rglob("*.py"))]


def restore(folder: Path, key: str, spool: Path) -> Kept | None:
    """Put the rows of the entry `key` into `spool`; None when there is none that is whole."""
    entry = folder / key
    if not entry.is_dir():
        return None
    try:
        manifest = json.loads((entry / _MANIFEST).read_bytes())
        listed = [(str(name), int(size), str(digest)) for name, size, digest in manifest["files"]]
        kept = Kept(int(manifest["members"]), tuple(Problem(str(n), str(w)) for n, w in manifest["problems"]))
        for name, size, digest in listed:
            _fetch(entry, name, spool, size, digest)
        os.utime(entry)
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(entry, ignore_errors=True)
        for table in list(spool.iterdir()):
            shutil.rmtree(table, ignore_errors=True)
        return None
    return kept


def _fetch(entry: Path, name: str, spool: Path, size: int, digest: str) -> None:
    """Copy one file of an entry. Raises ValueError when it is not what was written, or lies elsewhere."""
    table, _, file = name.partition("/")
    if not file or "/" in file or table in {".", ".."} or file in {".", ".."}:
        raise ValueError(name)
    data = (entry / table / file).read_bytes()
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(name)
    (spool / table).mkdir(exist_ok=True)
    (spool / table / file).write_bytes(data)


def keep(folder: Path, seen: Seen, spool: Path, kept: Kept, most: int = MOST_BYTES) -> None:
    """Keep the rows of `spool` as an entry, and remove old ones beyond `most` bytes. Nothing is kept of a bundle that changed meanwhile."""
    entry, partial = folder / seen.key, folder / f".{uuid.uuid4().hex}"
    files = sorted(spool.glob("*/*.parquet"))
    if sum(f.stat().st_size for f in files) > most // 2 or not seen.is_unchanged():
        return
    try:
        # What logs say is nobody else's business.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.mkdir(mode=0o700)
        listed = [_stored(file, partial) for file in files]
        manifest: dict[str, Any] = {
            "files": listed,
            "members": kept.members,
            "problems": [(p.name, p.what) for p in kept.problems],
        }
        (partial / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        # Of two runs at once the first to come here has written the same rows.
        with suppress(OSError):
            partial.rename(entry)
        _shrink(folder, most, entry)
    except OSError:
        pass  # no room, or a folder that cannot be written: the next run parses again
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _stored(file: Path, partial: Path) -> tuple[str, int, str]:
    data = file.read_bytes()
    target = partial / file.parent.name
    target.mkdir(exist_ok=True)
    (target / file.name).write_bytes(data)
    return f"{file.parent.name}/{file.name}", len(data), hashlib.sha256(data).hexdigest()


def _shrink(folder: Path, most: int, newest: Path) -> None:
    """Remove the entries not used for longest until the others take at most `most` bytes, and what killed runs left."""
    entries = sorted(_entries(folder), key=lambda e: -e[1])
    total = 0
    for path, used, size in entries:
        is_left_over = path.name.startswith(".") and entries[0][1] - used > 86_400
        total += size
        if path != newest and (total > most or is_left_over):
            shutil.rmtree(path, ignore_errors=True)


def _entries(folder: Path) -> Iterator[tuple[Path, float, int]]:
    """(folder, last use, bytes) of each entry; one that another run removes meanwhile is left out."""
    for path in folder.iterdir():
        with suppress(OSError):
            yield path, path.stat().st_mtime, sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
