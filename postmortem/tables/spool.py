"""Where rows lie between parsing and DuckDB: a folder, or a place that machines share (a folder or a store of fsspec).

Workers write whole Parquet files under names of their own and say which; only those of a finished batch are collected,
so what a killed worker had written, or one that was taken for dead, never counts.
"""

from __future__ import annotations

import io
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postmortem.bundle.remote import StoreError, StoreErrors, is_url, locate
from postmortem.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

_PARQUET: Final = ".parquet"


def write_rows(spool: str, table: str, name: str, frame: pl.DataFrame) -> str:
    """Write `frame` as `<spool>/<table>/<name>.parquet`; its path below the spool. Raises OSError."""
    inner = f"{table}/{name}{_PARQUET}"
    if not is_url(spool):
        target = Path(spool, inner)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Read once, by the next step: writing has to be quick.
        frame.write_parquet(target, compression="lz4", statistics=False)
        return inner
    data = io.BytesIO()
    frame.write_parquet(data, compression="zstd", compression_level=1)
    _put(spool, inner, data.getvalue())
    return inner


def count_rows(folder: Path, tables: Sequence[str]) -> int:
    """Rows of some tables of a local spool."""
    import polars as pl

    files = [file for table in tables for file in (folder / table).glob(f"*{_PARQUET}")]
    return sum(int(pl.scan_parquet(file).select(pl.len()).collect().item()) for file in files)


def discard(spool: str, files: Sequence[str]) -> None:
    """Remove local `files` that do not count after all; those in a shared place are just not collected."""
    if not is_url(spool):
        for inner in files:
            Path(spool, inner).unlink(missing_ok=True)


def collect(spool: str, files: Sequence[str], folder: Path) -> None:
    """Make `files` of a shared spool readable below the local `folder`: linked, or fetched from a store. Raises OSError."""
    for inner in files:
        (folder / inner).parent.mkdir(parents=True, exist_ok=True)
    if is_url(spool):
        fs, base = locate(spool)
        with StoreErrors():
            if files:
                fs.get([f"{base}/{inner}" for inner in files], [str(folder / inner) for inner in files])
        return
    for inner in files:
        (folder / inner).symlink_to(Path(spool, inner))


@contextmanager
def shared_spool(place: str) -> Iterator[str]:
    """A new folder of this run below `place`, a path or URL that all workers see; removed with what it holds at the end.

    Raises UsageError when it cannot be written.
    """
    name = f"postmortem-{uuid.uuid4().hex[:12]}"
    if not is_url(place):
        spool = Path(place).resolve() / name
        try:
            spool.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"--spool {place} cannot be written: {error.strerror}") from None
        try:
            yield str(spool)
        finally:
            shutil.rmtree(spool, ignore_errors=True)
        return
    url = f"{place.rstrip('/')}/{name}"
    try:
        _put(url, "begin", b"")
    except OSError as error:
        raise UsageError(f"--spool {place} cannot be written: {error}") from None
    try:
        yield url
    finally:
        with suppress(StoreError):
            fs, base = locate(url)
            with StoreErrors():
                fs.invalidate_cache()
                fs.rm(base, recursive=True)


def probe(spool: str, name: str) -> None:
    """Write an empty file `name` into the spool. Raises OSError."""
    if is_url(spool):
        _put(spool, name, b"")
    else:
        # No parents: a folder that appears here is not the one that the others see.
        Path(spool, name).touch()


def probed(spool: str) -> set[str]:
    """Names of the files of `probe` in the spool. Raises OSError."""
    if not is_url(spool):
        return {p.name for p in Path(spool).iterdir()}
    fs, base = locate(spool)
    with StoreErrors():
        fs.invalidate_cache()
        return {str(path).rsplit("/", 1)[-1] for path in fs.ls(base, detail=False)}


def _put(spool: str, inner: str, data: bytes) -> None:
    """Write one object. Folders are made where a store has any; never a bucket, which would be somebody's bill."""
    fs, base = locate(spool)
    target = f"{base}/{inner}"
    with StoreErrors():
        try:
            fs.pipe_file(target, data)
        except FileNotFoundError:
            for folder in dict.fromkeys((base, target.rsplit("/", 1)[0])):
                with suppress(FileExistsError):
                    fs.mkdir(folder, create_parents=False)
            fs.pipe_file(target, data)
