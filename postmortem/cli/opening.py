"""A database from a path: an incident's DuckDB file is opened, a bundle is analysed first."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postmortem.errors import NothingReadableError, UsageError

MAGIC = b"DUCK"


def is_database(path: Path) -> bool:
    """The file is a DuckDB database (its magic stands at byte 8)."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == MAGIC


@contextmanager
def database(path: Path, parsers: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Path of a database with the incident's tables; a bundle's lives in a temporary folder until the block ends.

    Raises UsageError for a path that does not exist, NothingReadableError for a bundle without a known line.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist: give a bundle or the file that analyze --db wrote")
    if is_database(path):
        yield path
        return
    from postmortem.incident import Options, open_incident

    with tempfile.TemporaryDirectory(prefix="postmortem-") as folder:
        target = Path(folder) / "incident.duckdb"
        with open_incident([path], Options(parsers=parsers, context=False), with_file=True) as incident:
            if not incident.is_readable:
                raise NothingReadableError(f"nothing recognised in {path}: no line of it is of a known format")
            incident.con.close()
            assert incident.db_path is not None
            shutil.move(incident.db_path, target)
        yield target
