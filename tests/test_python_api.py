"""Incidents in Python: what they give, what they refuse, threads, and the examples of docs/python.md."""

from __future__ import annotations

import doctest
import gc
import html.parser
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import postmortem
from postmortem.analysis.model import Analysis, Evidence
from postmortem.analysis.stored import from_json, to_json
from postmortem.errors import DefinitionError, NothingReadableError, PostmortemError, UsageError
from postmortem.schema import SOURCES, TABLES

ROOT = Path(__file__).resolve().parent.parent
XID = "2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "kern.log"
    path.write_text(XID * 3)
    return path


@pytest.fixture(scope="module")
def incident(log: Path) -> postmortem.Incident:
    return postmortem.analyze(log, workers=1)


def test_the_answer(incident: postmortem.Incident) -> None:
    assert (incident.verdict.cause, incident.verdict.culprit.host) == ("pcie_drop", "node-7")
    assert incident.findings[0].evidence[0].text == XID.strip()
    assert incident.verdict.onset == datetime(2026, 2, 3, 14, 2, 11, 318000)
    assert incident.coverage.events == 3
    assert incident.document["tool"] == "postmortem"
    assert incident.version == postmortem.__version__
    assert repr(incident).startswith("<postmortem.Incident: GPU 0000:9d:00.0 of node-7 left the PCIe bus")
    assert (incident.job, incident.loss) == (incident.analysis.job, incident.analysis.loss)
    assert (incident.survived, incident.clocks) == (incident.analysis.survived, incident.analysis.clocks)


def test_tables_are_frames(incident: postmortem.Incident) -> None:
    assert set(incident.tables) == {table.name for table in TABLES} | set(SOURCES)
    for table in TABLES:
        assert incident.table(table.name).columns == table.names
    events = incident.table("events")
    assert isinstance(events, pl.DataFrame)
    assert events["xid"].to_list() == [79, 79, 79]
    assert events.schema["ts"] == pl.Datetime("us")
    assert incident.table("kernel").height == 3
    assert incident.table("answer").select("cause", "outcome").rows() == [("pcie_drop", incident.job.outcome)]
    with pytest.raises(UsageError, match="no table event"):
        incident.table("event")
    with pytest.raises(UsageError, match="no table"):
        incident.table('events" WHERE 1=1; --')


def test_sql(incident: postmortem.Incident) -> None:
    assert incident.sql("SELECT count(*) AS n FROM events WHERE host = ?", ["node-7"]).rows() == [(3,)]
    assert incident.sql("SELECT $a + 1 AS n", {"a": 4}).rows() == [(5,)]
    assert incident.sql("SELECT 1 AS x WHERE false").columns == ["x"]


@pytest.mark.parametrize(
    "sql",
    [
        "", "SELEC 1", "SELECT * FROM nothing", "DROP TABLE events", "INSERT INTO losses BY NAME SELECT 'x' AS bin", "COPY events TO 'x.csv'",
        "SELECT * FROM read_csv('/etc/passwd')", "ATTACH 'x.db'", "SELECT 1 / 'a'", "SET memory_limit = '1TB'", "SELECT * FROM incident", "SELECT ?",
        "INSTALL httpfs", "LOAD httpfs",
    ],
)  # fmt: skip
def test_refused_sql(incident: postmortem.Incident, sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        incident.sql(sql)
    assert len(str(caught.value).splitlines()) == 1
    assert incident.sql("SELECT count(*) AS n FROM events").rows() == [(3,)]


def test_files(incident: postmortem.Incident, tmp_path: Path) -> None:
    page, twin, trace = tmp_path / "r.html", tmp_path / "r.md", tmp_path / "t.pftrace"
    assert incident.report(page) == page
    assert page.read_text().startswith("<!doctype html>")
    incident.report(str(twin))
    assert twin.read_text() == incident.markdown()
    assert "## Root cause" in incident.markdown()
    incident.perfetto(trace)
    assert b"gpu.xid 79" in trace.read_bytes()
    incident.save(tmp_path / "i.duckdb")
    for write, target in (
        (incident.report, page),
        (incident.report, twin),
        (incident.perfetto, trace),
        (incident.save, tmp_path / "i.duckdb"),
    ):
        before = target.read_bytes()
        with pytest.raises(UsageError, match="exists"):
            write(target)
        write(target, force=True)
        assert target.read_bytes() == before, "the same incident gives the same bytes"
        with pytest.raises(UsageError, match="does not exist"):
            write(tmp_path / "absent" / "x")


def test_a_saved_incident_is_whole(incident: postmortem.Incident, tmp_path: Path) -> None:
    path = incident.save(tmp_path / "i.duckdb")
    before = path.read_bytes()
    with postmortem.open_incident(path) as again, postmortem.open_incident(str(path)) as third:
        assert again.analysis == incident.analysis == third.analysis
        assert again.markdown() == incident.markdown()
        assert again.report(tmp_path / "a.html").read_bytes() == incident.report(tmp_path / "b.html").read_bytes()
        for table in TABLES:
            assert again.table(table.name).equals(incident.table(table.name))
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.html", "b.html", "i.duckdb"]


def test_what_can_not_be_opened(log: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        postmortem.open_incident(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"postmortem\.analyze"):
        postmortem.open_incident(log)
    (tmp_path / "broken.duckdb").write_bytes(b"12345678DUCK" + bytes(100))
    with pytest.raises(UsageError, match="can't be opened"):
        postmortem.open_incident(tmp_path / "broken.duckdb")
    with duckdb.connect(str(tmp_path / "other.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 7 AS x")
    with pytest.raises(UsageError, match="no answer"):
        postmortem.open_incident(tmp_path / "other.duckdb")
    for text in ("{", "[]", "7", "null", '{"bundle": 7}', '{"bundle": "b", "job": [], "verdict": {}}', "[" * 100_000):
        path = tmp_path / "odd.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE answer AS SELECT ? AS analysis, '1' AS version", [text])
        with pytest.raises(UsageError, match="can't be read"):
            postmortem.open_incident(path)


def test_what_can_not_be_analysed(tmp_path: Path, log: Path) -> None:
    with pytest.raises(UsageError, match="absent"):
        postmortem.analyze(tmp_path / "absent")
    with pytest.raises(UsageError, match="no bundle"):
        postmortem.analyze()
    with pytest.raises(UsageError, match="no memory_limit"):
        postmortem.analyze(log, workers=1, memory_limit="many")
    (tmp_path / "prose.txt").write_text("nothing of interest\n")
    with pytest.raises(NothingReadableError):
        postmortem.analyze(tmp_path / "prose.txt")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.toml").write_text("source = 7")
    with pytest.raises(DefinitionError):
        postmortem.analyze(log, parsers=[tmp_path / "mine"])
    assert issubclass(postmortem.PostmortemError, Exception)
    assert {UsageError, NothingReadableError, DefinitionError} <= set(PostmortemError.__subclasses__())


def test_the_options_of_the_command_line(log: Path, tmp_path: Path) -> None:
    with postmortem.analyze(
        ROOT / "sample_logs" / "gpu-off-the-bus" / "bundle",
        workers=1,
        gpu_hour_price=2.5,
        mtbf_hours=30,
        gpu_watts=600,
        pue=1.2,
        redact=True,
        limits={"depth": 8, "size": "500G"},
    ) as masked:
        loss = masked.loss
        assert loss.cost is not None
        assert loss.gpu_hours is not None
        assert loss.energy_kwh is not None
        assert loss.advice is not None
        assert loss.cost.best == pytest.approx(2.5 * loss.gpu_hours.best)
        assert loss.advice.mtbf_s.best == 30 * 3600
        assert loss.energy_kwh.hi <= loss.gpu_hours.hi * 0.6 * 1.2 + 1e-9
        assert masked.verdict.cause == "pcie_drop"
        host = masked.verdict.culprit.host
        assert host is not None
        assert host.startswith("host-")
        for text in (masked.markdown(), str(masked.document), masked.report(tmp_path / "r.html").read_text()):
            assert "node-12" not in text
            assert host in text
        assert "node-12" not in str(masked.table("events").rows())


@pytest.mark.parametrize(
    "options",
    [
        {"gpu_hour_price": -1}, {"gpu_hour_price": float("nan")}, {"mtbf_hours": 0}, {"gpu_watts": 0}, {"pue": 0.9}, {"workers": 0},
        {"zone": "CST"}, {"zone": "+08:07"}, {"zone": "+15:00"}, {"limits": {"sizes": 1}}, {"limits": {"depth": "many"}},
        {"switch_names": {"(leaf": "x"}}, {"switch_names": {"leaf": "$1"}},
    ],
)  # fmt: skip
def test_wrong_options_are_one_sentence(log: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        postmortem.analyze(log, **{"workers": 1, **options})
    assert len(str(caught.value).splitlines()) == 1


def test_nothing_is_left_behind(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with postmortem.analyze(log, workers=1) as incident:
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
    assert incident.is_closed
    incident.close()
    forgotten = postmortem.analyze(log, workers=1)
    assert list(tmp_path.iterdir())
    del forgotten
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "prose.txt").write_text("nothing\n")
    with pytest.raises(NothingReadableError):
        postmortem.analyze(tmp_path / "x")
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_closed_incident_keeps_its_answer(log: Path) -> None:
    incident = postmortem.analyze(log, workers=1)
    incident.close()
    assert incident.verdict.cause == "pcie_drop"
    assert "pcie" in incident._repr_html_().lower()
    for read in (
        lambda: incident.tables,
        lambda: incident.sql("SELECT 1"),
        incident.markdown,
        lambda: incident.table("events"),
    ):
        with pytest.raises(UsageError, match="closed"):
            read()


def test_many_threads_read_at_once(incident: postmortem.Incident, tmp_path: Path) -> None:
    def read(number: int) -> tuple[int, int, int]:
        own = incident.sql("SELECT ? + count(*) AS n FROM events, range(2000)", [number])["n"][0]
        incident.perfetto(tmp_path / f"{number}.pftrace")
        return own, incident.table("events").height, len(incident.markdown())

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(read, range(24)))
    assert [own - 6000 for own, _, _ in results] == list(range(24))
    assert {rest for _, *others in results for rest in [tuple(others)]} == {(3, len(incident.markdown()))}
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_closing_while_others_read_is_an_error_of_ours(log: Path) -> None:
    incident = postmortem.analyze(log, workers=1)
    begun = threading.Event()
    odd: list[BaseException] = []

    def read() -> None:
        try:
            while True:
                incident.sql("SELECT count(*) FROM events, range(1000)")
                begun.set()
        except UsageError:
            begun.set()
        except BaseException as error:
            odd.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    incident.close()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert odd == []


class _Tags(html.parser.HTMLParser):
    """Names of the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attrs)


def test_notebooks_show_escaped_text(log: Path) -> None:
    incident = postmortem.analyze(log, workers=1)
    bad = '<script>alert(1)</script><img src=x onerror="x">\x1b\u202e'
    line = Evidence(bad, 1, bad, "cause")
    finding = replace(
        incident.findings[0], summary=bad, evidence=(line,), culprit=replace(incident.verdict.culprit, host=bad)
    )
    incident.analysis = replace(incident.analysis, findings=(finding,), job=replace(incident.job, name=bad))
    page = incident._repr_html_()
    reader = _Tags()
    reader.feed(page)
    assert reader.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "code", "br", "small"}
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page


def test_every_field_of_the_answer_is_kept(incident: postmortem.Incident) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    try:
        from report_samples import crash, quiet, unknown
    finally:
        sys.path.pop(0)
    for made in (incident.analysis, crash(), quiet(), unknown()):
        assert from_json(to_json(made)) == made
    lone = replace(crash(), bundle="\udc80")
    assert from_json(to_json(lone)) == lone
    assert {field.name for field in fields(Analysis)} == set(__import__("json").loads(to_json(crash())))


def test_import_is_cheap_and_names_are_there() -> None:
    program = "import sys, postmortem; print([m for m in ('polars', 'duckdb', 'pyarrow', 'jinja2', 'numpy', 'click') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
    assert all(hasattr(postmortem, name) for name in postmortem.__all__)
    assert not hasattr(postmortem, "nothing")
    assert (ROOT / "postmortem" / "py.typed").exists()


def test_the_examples_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(page, {}, "docs/python.md", "docs/python.md", 0)
    assert len(test.examples) > 10
    out: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=out.append)
    assert result.failed == 0, "".join(out)
