"""A database from a path: an incident's DuckDB file is opened, a bundle is analysed first."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postmortem.errors import NothingReadableError, UsageError

if TYPE_CHECKING:
    import duckdb

ALLOW_FILES: Final = "Let SQL read and write other files and the network; the database stays read-only."


@contextmanager
def connection(path: Path, allow_files: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a database; see `tables.store.read_only`."""
    from postmortem.tables.store import read_only

    with (
        tempfile.TemporaryDirectory(prefix="postmortem-") as work,
        read_only(path, Path(work), allow_files=allow_files) as con,
    ):
        yield con


@contextmanager
def database(path: Path | str, parsers: tuple[Path, ...]) -> Iterator[Path]:
    """Path of a database with the incident's tables; a bundle's lives in a temporary folder until the block ends.

    A bundle is analysed with `parsers` and what environment and config file say. Raises UsageError for a path that does not exist, NothingReadableError for a bundle without a known line.
    """
    if isinstance(path, Path) and not path.exists():
        raise UsageError(f"{path} does not exist: give a bundle or the file that analyze --db wrote")
    from postmortem.tables.store import is_database

    if isinstance(path, Path) and is_database(path):
        yield path
        return
    from postmortem.bundle.remote import shown
    from postmortem.cli.settings import outside, standing
    from postmortem.incident import open_incident

    outside([path])
    options = replace(standing(), parsers=parsers).options(context=False)
    with tempfile.TemporaryDirectory(prefix="postmortem-") as folder:
        target = Path(folder) / "incident.duckdb"
        with open_incident([path], options, with_file=True) as incident:
            if not incident.is_readable:
                raise NothingReadableError(
                    f"nothing recognised in {shown(str(path))}: no line of it is of a known format"
                )
            incident.con.close()
            assert incident.db_path is not None
            shutil.move(incident.db_path, target)
            if incident.masks is not None:
                from postmortem.redaction import check_database

                check_database(target, incident.masks)
        yield target
