"""Incidents in Python: the answer as typed records, the tables as polars frames, the reports as files.

    import postmortem
    with postmortem.analyze("bundle.tar.zst") as incident:
        print(incident.verdict.summary)

Everything that is raised on purpose is a PostmortemError. An incident can be read from several threads at once.
"""

from __future__ import annotations

import html
import math
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import duckdb

from postmortem import outputs
from postmortem.analysis.model import Analysis, Clock, Coverage, Finding, Job, Loss, Survived, Verdict
from postmortem.analysis.stored import load
from postmortem.bundle.limits import Limits, raised
from postmortem.errors import NothingReadableError, UsageError
from postmortem.incident import Options, asked
from postmortem.incident import open_incident as analyse_bundle
from postmortem.redaction import check_database
from postmortem.tables.store import attached, is_database
from postmortem.tables.switch_names import switch_names as rules
from postmortem.zone import seconds_east

if TYPE_CHECKING:
    import polars as pl

    from postmortem.report.html import Theme

Source = str | os.PathLike[str]
Progress = Callable[[int, int, int], None]
SHOWN = 5
TINY = math.ulp(0.0)
"""The least number above 0."""
MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B", re.IGNORECASE)


def analyze(
    *bundle: Source,
    parsers: Iterable[Source] = (),
    workers: int | None = None,
    scheduler: str | None = None,
    spool: str | None = None,
    zone: str | None = None,
    switch_names: Mapping[str, str] | None = None,
    gpu_hour_price: float | None = None,
    mtbf_hours: float | None = None,
    energy: bool = False,
    gpu_watts: float | None = None,
    pue: float = 1.0,
    redact: bool = False,
    limits: Mapping[str, int | str] | None = None,
    memory_limit: str = "1GB",
    progress: Progress | None = None,
) -> Incident:
    """Analyse a bundle: a folder, files or an archive; several are one bundle, a string may be a URL.

    `parsers`: folders of your own definitions. `workers`: processes that parse, one per processor by default (a bundle below some 50 MB is
    parsed in this one). `scheduler`: address of a Dask cluster that parses, `spool`: a folder or URL that its workers see. `zone`: offset
    from UTC of clocks that no line tells it of, such as `+08:00`. `switch_names`: for a
    printed name, or a pattern (Rust's dialect) of printed names as a whole, the name that a switch goes by. `mtbf_hours`: mean time
    between failures, for the advice on checkpoints; `energy`: state it, too, from readings or from `gpu_watts` (watts of a busy GPU, which asks for
    it) times `pue`. `redact`: names of hosts, users, addresses, paths and secrets are masked in all that the incident gives. `limits`: bounds on
    unpacking, such as `{"size": "500G", "depth": 8}`. `memory_limit` is that of the SQL part, such as `500MB`. `progress` is called with (bytes
    done, bytes in all, members done). The bundle is not changed; tables lie in a temporary folder until the incident is closed or forgotten.
    Neither config file nor environment is read.

    Raises UsageError (a path that does not exist, a wrong option, a cluster or store that does not answer), DefinitionError (a wrong definition of
    yours), RedactionError (a name was left after masking) and NothingReadableError (nothing of the bundle was recognised); odd data raises nothing.
    """
    if not bundle:
        raise UsageError("no bundle is named: give a folder, files or an archive")
    if not MEMORY.fullmatch(memory_limit):
        raise UsageError(f"{memory_limit!r} is no memory_limit: give a size such as 500MB or 2GB")
    paths = [_source(one) for one in bundle]
    for name, value, least in (
        ("gpu_hour_price", gpu_hour_price, 0),
        ("mtbf_hours", mtbf_hours, TINY),
        ("gpu_watts", gpu_watts, TINY),
        ("pue", pue, 1),
        ("workers", workers, 1),
    ):
        if value is not None and not least <= value < math.inf:
            raise UsageError(
                f"{value!r} is no {name}: give a number {'above 0' if least == TINY else f'from {least} on'}"
            )
    options = Options(
        parsers=tuple(Path(one) for one in parsers),
        workers=workers,
        price=gpu_hour_price,
        asked=asked(mtbf_hours, energy, gpu_watts, pue),
        memory_limit=memory_limit,
        scheduler=scheduler,
        spool=spool,
        limits=raised(Limits(), [f"{name}={value}" for name, value in (limits or {}).items()]),
        zone_s=None if zone is None else seconds_east(zone),
        switch_names=rules(switch_names or {}),
        redact=redact,
    )
    folder = Path(tempfile.mkdtemp(prefix="postmortem-"))
    try:
        try:
            with analyse_bundle(paths, options, with_file=True, progress=progress) as made:
                if not made.is_readable:
                    named = ", ".join(str(path) for path in bundle)
                    raise NothingReadableError(f"nothing recognised in {named}: no line of it is of a known format")
                made.con.close()
                assert made.db_path is not None
                target = folder / "incident.duckdb"
                shutil.move(made.db_path, target)
                if made.masks is not None:
                    check_database(target, made.masks)
        except BrokenProcessPool as error:
            raise UsageError(
                "a worker process ended: memory ran out, or the script has no `if __name__ == '__main__':` (give workers=1)"
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise UsageError(
                f"{memory_limit} of memory are too few for this bundle: give a larger memory_limit"
            ) from error
        return Incident(target, folder, memory_limit)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def open_incident(db: Source, *, memory_limit: str = "1GB") -> Incident:
    """Open a database that `analyze --db` or `Incident.save` wrote, with its answer; the file is not changed.

    Raises UsageError when it does not exist, is no such database or was written by a version that kept no answer.
    """
    path = Path(db)
    if not MEMORY.fullmatch(memory_limit):
        raise UsageError(f"{memory_limit!r} is no memory_limit: give a size such as 500MB or 2GB")
    if not path.exists():
        raise UsageError(f"{path} does not exist: give the file that analyze --db wrote")
    if not is_database(path):
        raise UsageError(
            f"{path} is no database: give the file that analyze --db wrote, or analyse a bundle with postmortem.analyze"
        )
    folder = Path(tempfile.mkdtemp(prefix="postmortem-"))
    try:
        return Incident(path, folder, memory_limit)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _source(one: Source) -> Path | str:
    text = os.fspath(one)
    return text if "://" in text and not Path(text).exists() else Path(text)


def _forget(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    with suppress(duckdb.Error):  # at the end of the program a thread may still be reading
        con.close()
    shutil.rmtree(folder, ignore_errors=True)


class Incident:
    """An analysed incident. Made by `analyze` and `open_incident`; a context manager; closed when it is forgotten.

    Times are naive datetimes in UTC.
    """

    analysis: Analysis
    """Everything that was found, as typed records."""
    version: str
    """Version of postmortem that analysed it."""

    def __init__(self, db: Path, folder: Path, memory_limit: str) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._readers = 0
        self._is_closed = False
        self._con = attached(db, folder, memory_limit)
        try:
            self.analysis, self.version = load(self._con)
        except BaseException:
            self._con.close()
            raise
        self._end = weakref.finalize(self, _forget, self._con, folder)

    @property
    def verdict(self) -> Verdict:
        """The answer: cause, confidence, culprit, onset, summary. The cause is `unknown` where none is established, `none` where nothing went wrong."""
        return self.analysis.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Possible causes with their evidence, best first."""
        return self.analysis.findings

    @property
    def job(self) -> Job:
        """The job: name, times, size, last step, outcome."""
        return self.analysis.job

    @property
    def loss(self) -> Loss:
        """What it cost."""
        return self.analysis.loss

    @property
    def survived(self) -> tuple[Survived, ...]:
        """Faults that the job lived through."""
        return self.analysis.survived

    @property
    def clocks(self) -> tuple[Clock, ...]:
        """How the hosts' clocks run."""
        return self.analysis.clocks

    @property
    def coverage(self) -> Coverage:
        """How much of the bundle was understood."""
        return self.analysis.coverage

    @property
    def document(self) -> dict[str, object]:
        """The document of `analyze --format json`."""
        from postmortem.report.document import to_document

        return to_document(self.analysis, self.version)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables, and of the views that hold the events of one source each."""
        with self._cursor() as con:
            rows = con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT internal"
                " UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal"
                " ORDER BY 1"
            ).fetchall()
        return tuple(row[0] for row in rows)

    def table(self, name: str) -> pl.DataFrame:
        """A whole table. Raises UsageError for a name that is not in `tables`."""
        names = self.tables
        if name not in names:
            raise UsageError(f"there is no table {name}: there are {', '.join(names)}")
        return self.sql(f'SELECT * FROM "{name}"')

    def sql(self, query: str, parameters: Sequence[object] | Mapping[str, object] | None = None) -> pl.DataFrame:
        """Rows of a SELECT; `?` or `$name` in it take `parameters`. Nothing can be changed and no other file read.

        Raises UsageError when the statement is refused or gives no rows.
        """
        with self._cursor() as con:
            try:
                relation = con.sql(query, params=parameters)
                if relation is None:
                    raise UsageError("the SQL gives no rows: give a SELECT")
                frame: pl.DataFrame = relation.pl()
                return frame
            except duckdb.Error as error:
                raise UsageError(f"the SQL was refused: {str(error).strip().splitlines()[0]}") from error

    def report(
        self, path: Source, *, force: bool = False, template: Source | None = None, theme: Theme = "auto"
    ) -> Path:
        """Write the report: Markdown where the name ends in `.md`, else HTML. An existing file is replaced only with `force`.

        Of HTML: `template` is a folder with a head and a style sheet of your own (`head.html`, `style.css`), `theme` the colours: `light`, `dark`, or
        `auto`, as the reader's system has them.
        """
        from postmortem.report.html import NO_BRAND, brand, render

        target = outputs.explicit(Path(path), force)
        if target.suffix == ".md":
            text = self.markdown()
        else:
            with self._cursor() as con:
                company = NO_BRAND if template is None else brand(Path(template))
                text = render(self.analysis, con, self.version, company, theme)
        outputs.write_text(target, text)
        return target

    def markdown(self) -> str:
        """The report as Markdown, to be pasted into a ticket."""
        from postmortem.report.markdown import render

        with self._cursor() as con:
            return render(self.analysis, self.version, con)

    def perfetto(self, path: Source, *, force: bool = False) -> Path:
        """Write a trace for ui.perfetto.dev; compressed where the name ends in `.gz`."""
        from postmortem.report.perfetto import write_file

        target = outputs.explicit(Path(path), force)
        with self._cursor() as con:
            write_file(con, target)
        return target

    def save(self, path: Source, *, force: bool = False) -> Path:
        """Write the database, for `open_incident`, `postmortem query` and `postmortem shell`."""
        target = outputs.explicit(Path(path), force)
        with self._cursor():
            outputs.replace_file(self._db, target)
        return target

    def close(self) -> None:
        """Give back what it holds, once what other threads are reading is read; what was read stays valid, reading more raises UsageError.

        May be called again.
        """
        with self._lock:
            self._is_closed = True
            if not self._readers:
                self._end()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own for one call: connections must not be shared by threads."""
        with self._lock:
            if self._is_closed:
                raise UsageError("the incident is closed: open it again")
            con = self._con.cursor()
            self._readers += 1
        try:
            with con:
                con.execute("USE incident")
                yield con
        finally:
            with self._lock:
                self._readers -= 1
                if self._is_closed and not self._readers:
                    self._end()

    def __enter__(self) -> Incident:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        from postmortem.report.words import sentence

        return f"<postmortem.Incident: {sentence(self.analysis)}>"

    def _repr_html_(self) -> str:
        """Headline, findings and the line that convinces, for notebooks; all text of the logs is escaped."""
        from postmortem.report.figures import shown
        from postmortem.report.words import cause_title, culprit_name, headline

        def text(value: str, limit: int = 500) -> str:
            return html.escape(shown(value, limit))

        rows = []
        for finding in self.findings[:SHOWN]:
            line = next((one for one in finding.evidence if one.role == "cause"), None)
            proof = (
                f"<code>{text(line.text, 200)}</code><br><small>{text(f'{line.file}:{line.line}')}</small>"
                if line
                else ""
            )
            cells = (
                text(cause_title(finding.cause)),
                f"{finding.confidence:.2f}",
                text(culprit_name(finding.culprit, finding.cause) or ""),
                proof,
            )
            rows.append("<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>")
        heads = "".join(
            f'<th style="text-align:left">{head}</th>' for head in ("cause", "confidence", "culprit", "line")
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
        return f"<div><p><b>{text(headline(self.analysis))}</b></p>{table}</div>"
