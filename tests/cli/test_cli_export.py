"""`postmortem export` and the Markdown and template options of `analyze`: what they write, and what they refuse."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import duckdb
import polars as pl
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from postmortem.schema import TABLES


class Result(Protocol):
    """What a run of the command line gave."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]
XID = "2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n"
FILES = {table.name for table in TABLES}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An incident's file, made once; the log lies beside it."""
    from postmortem.incident import Options, open_incident

    folder = tmp_path_factory.mktemp("export")
    (folder / "kern.log").write_text(XID)
    with open_incident([folder / "kern.log"], Options(workers=1, context=False), with_file=True) as incident:
        incident.con.close()
        assert incident.db_path is not None
        (folder / "incident.duckdb").write_bytes(incident.db_path.read_bytes())
    return folder / "incident.duckdb"


def good(result: Result) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result: Result, code: int = 2) -> str:
    assert result.returncode == code, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


def instants(path: Path) -> list[str]:
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    return [packet.track_event.name for packet in trace.packet if packet.track_event.type == 3]


def test_all_forms_at_once(postmortem: Run, database: Path, tmp_path: Path) -> None:
    trace, parquet, text = tmp_path / "t.pftrace", tmp_path / "parquet", tmp_path / "csv"
    before = database.read_bytes()
    assert good(postmortem("export", database, "--perfetto", trace, "--parquet", parquet, "--csv", text)) == ""
    assert "gpu.xid 79" in instants(trace)
    assert {path.name for path in parquet.iterdir()} == {f"{name}.parquet" for name in FILES}
    assert {path.name for path in text.iterdir()} == {f"{name}.csv" for name in FILES}
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir() if path.suffix not in (".duckdb", ".log")] == []


def test_parquet_keeps_columns_types_and_rows(postmortem: Run, database: Path, tmp_path: Path) -> None:
    good(postmortem("export", database, "--parquet", tmp_path / "p"))
    with duckdb.connect(str(database), read_only=True) as con:
        for table in TABLES:
            frame = pl.read_parquet(tmp_path / "p" / f"{table.name}.parquet")
            assert frame.columns == table.names
            assert frame.height == con.sql(f"FROM {table.name}").pl().height
            assert frame.schema == con.sql(f"FROM {table.name}").pl().schema


def test_csv_is_plain(postmortem: Run, database: Path, tmp_path: Path) -> None:
    good(postmortem("export", database, "--csv", tmp_path / "c"))
    with (tmp_path / "c" / "events.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["ts"], row["event"], row["xid"], row["rank"]) == ("2026-02-03T14:02:11.318000Z", "gpu.xid", "79", "")
    assert row["text"] == XID.strip()
    empty = (tmp_path / "c" / "qp_samples.csv").read_text().splitlines()
    assert len(empty) == 1


def test_rows_come_in_the_order_of_their_keys(postmortem: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name in ("b.log", "a.log", "c.log"):
        (bundle / name).write_text(XID * 5)
    good(postmortem("export", bundle, "--parquet", tmp_path / "p"))
    frame = pl.read_parquet(tmp_path / "p" / "events.parquet")
    assert frame["event_id"].to_list() == sorted(frame["event_id"].to_list())
    assert pl.read_parquet(tmp_path / "p" / "files.parquet")["file"].to_list() == ["a.log", "b.log", "c.log"]


def test_a_bundle_is_analysed_first(postmortem: Run, database: Path, tmp_path: Path) -> None:
    good(postmortem("export", database.parent / "kern.log", "--perfetto", tmp_path / "t.pftrace"))
    assert "gpu.xid 79" in instants(tmp_path / "t.pftrace")


def test_outputs_are_kept_unless_forced(postmortem: Run, database: Path, tmp_path: Path) -> None:
    trace, folder = tmp_path / "t.pftrace", tmp_path / "p"
    trace.write_text("precious")
    folder.mkdir()
    (folder / "events.parquet").write_text("precious")
    (folder / "other.txt").write_text("mine")
    assert "--force" in refused(postmortem("export", database, "--perfetto", trace))
    assert "--force" in refused(postmortem("export", database, "--parquet", folder))
    assert (trace.read_text(), (folder / "events.parquet").read_text()) == ("precious", "precious")
    good(postmortem("export", database, "--perfetto", trace, "--parquet", folder, "--force"))
    assert pl.read_parquet(folder / "events.parquet").height == 1
    assert (folder / "other.txt").read_text() == "mine"
    assert not [path for path in folder.iterdir() if path.suffix == ".partial"]


def test_wrong_use(postmortem: Run, database: Path, tmp_path: Path) -> None:
    assert "--perfetto FILE" in refused(postmortem("export", database))
    assert "does not exist" in refused(postmortem("export", tmp_path / "absent", "--csv", tmp_path / "c"))
    assert "does not exist" in refused(postmortem("export", database, "--csv", tmp_path / "no" / "c"))
    assert "does not exist" in refused(postmortem("export", database, "--perfetto", tmp_path / "no" / "t"))
    assert "is no folder" in refused(postmortem("export", database, "--csv", database))
    assert "is a folder" in refused(postmortem("export", database, "--perfetto", tmp_path))
    (tmp_path / "prose.txt").write_text("nothing of interest\n")
    refused(postmortem("export", tmp_path / "prose.txt", "--csv", tmp_path / "c"), 3)
    assert not (tmp_path / "c").exists()


def test_databases_of_something_else(postmortem: Run, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "other.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 7 AS x; CREATE VIEW events AS SELECT * FROM read_text('/etc/hostname')")
    for option in ("--csv", "--parquet", "--perfetto"):
        assert "no incident" in refused(postmortem("export", tmp_path / "other.duckdb", option, tmp_path / "out"))
    (tmp_path / "broken.duckdb").write_bytes(b"12345678DUCK" + bytes(100))
    assert "can't be opened" in refused(postmortem("export", tmp_path / "broken.duckdb", "--csv", tmp_path / "out"))
    with duckdb.connect(str(tmp_path / "older.duckdb")) as con:
        con.execute(
            "CREATE TABLE findings (finding BIGINT, cause VARCHAR); INSERT INTO findings VALUES (1, 'pcie_drop')"
        )
    assert "can't be exported" in refused(postmortem("export", tmp_path / "older.duckdb", "--perfetto", tmp_path / "t"))
    good(postmortem("export", tmp_path / "older.duckdb", "--csv", tmp_path / "out"))
    assert (tmp_path / "out" / "findings.csv").read_text() == '"finding","cause"\n1,"pcie_drop"\n'


def test_analyze_writes_markdown(postmortem: Run, database: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.md"
    log = database.parent / "kern.log"
    result = postmortem("analyze", log, "--format", "json", "--markdown", target)
    assert good(result).startswith("{")
    assert "## Root cause" in target.read_text()
    assert "0000:9d:00" in target.read_text()
    assert list((tmp_path / "cwd").iterdir()) == []
    assert "--force" in refused(postmortem("analyze", log, "--format", "json", "--markdown", target))
    assert good(postmortem("analyze", log, "--markdown", target, "--force", "-o", tmp_path / "r.html")).endswith(
        f"report: {tmp_path / 'r.html'}, Markdown: {target}\n"
    )


def test_a_template_adds_head_and_style(postmortem: Run, database: Path, tmp_path: Path) -> None:
    folder, log = tmp_path / "brand", database.parent / "kern.log"
    folder.mkdir()
    assert "neither" in refused(postmortem("analyze", log, "--template", folder))
    (folder / "head.html").write_text(
        '<p class="acme">ACME {{ page.bundle }} <img src="data:image/png;base64,AA=="></p>'
    )
    (folder / "style.css").write_text(".acme > b { color: red }")
    good(postmortem("analyze", log, "-o", tmp_path / "r.html", "--template", folder))
    page = (tmp_path / "r.html").read_text()
    assert '<p class="acme">ACME {{ page.bundle }} <img' in page, "the head is no template"
    assert page.index(".acme > b { color: red }") > page.index("--paper")
    assert "img-src data:" in page
    good(postmortem("analyze", log, "-o", tmp_path / "plain.html", "--theme", "dark"))
    assert "img-src" not in (tmp_path / "plain.html").read_text()
    assert 'data-theme="dark"' in (tmp_path / "plain.html").read_text()
    assert "data-theme" not in page
    (folder / "style.css").write_text("</STYLE><script>")
    assert "style" in refused(postmortem("analyze", log, "-o", tmp_path / "x.html", "--template", folder))
    (folder / "style.css").write_bytes(b"\xff")
    assert "UTF-8" in refused(postmortem("analyze", log, "-o", tmp_path / "x.html", "--template", folder))
    assert "neither" in refused(postmortem("analyze", log, "--template", tmp_path / "absent"))
