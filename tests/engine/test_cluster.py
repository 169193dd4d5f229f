"""A bundle parsed by a real Dask scheduler with two worker processes, also where a worker is killed or a unit can't be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from postmortem.engine import cluster as cluster_module
from postmortem.incident import Incident, Options, open_incident
from postmortem.schema import TABLES
from postmortem.tables import parse as parse_module
from postmortem.tables.batches import batches

fsspec = pytest.importorskip("fsspec", reason="the extra cluster is not installed")
pytest.importorskip("distributed", reason="the extra cluster is not installed")
pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytest.importorskip("moto", reason="the S3 server of the tests is not installed")

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_logs" / "link-flap" / "bundle"
LINE = "Jun 11 09:41:20 node-07 kernel: [788937.717000] mlx5_core 0000:bc:00.0 enp188s0np0: Link down\n"
STARTS_S = 120


@dataclass
class Machines:
    """The scheduler, its workers and an S3 server; `place` is where the workers leave signs for the test."""

    place: Path
    scheduler_file: Path
    s3: Any = None
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(json.loads(self.scheduler_file.read_text())["address"])

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.place / f"{arguments[0].rsplit('.', 1)[-1]}-{len(self.workers)}.log").open("wb")
        with log:
            environment = {**os.environ, "POSTMORTEM_TEST_PLACE": str(self.place), "POLARS_MAX_THREADS": "1"}
            command = [sys.executable, "-m", *arguments, "--scheduler-file", str(self.scheduler_file), "--no-dashboard"]
            return subprocess.Popen([*command, "--host", "127.0.0.1"], stderr=log, stdout=log, env=environment)

    def two_workers(self) -> None:
        """Start as many workers as it takes for two to run."""
        self.workers = [w for w in self.workers if w.poll() is None]
        preload = str(Path(__file__).with_name("worker_preload.py"))
        while len(self.workers) < 2:
            words = ("distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--preload", preload)
            self.workers.append(self.start(*words))
        from distributed import Client

        with Client(scheduler_file=str(self.scheduler_file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=STARTS_S)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, s3: Any) -> Iterator[Machines]:
    place = tmp_path_factory.mktemp("cluster")
    made = Machines(place, place / "scheduler.json")
    made.s3 = s3
    made.scheduler = made.start("distributed.cli.dask_scheduler", "--port", "0")
    deadline = time.monotonic() + STARTS_S
    while not made.scheduler_file.exists() and time.monotonic() < deadline:
        assert made.scheduler.poll() is None, "the scheduler ended"
        time.sleep(0.05)
    made.two_workers()
    yield made
    for process in (*made.workers, made.scheduler):
        process.kill()
        process.wait()


@pytest.fixture
def each_unit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unit is a batch."""
    monkeypatch.setattr(parse_module, "batches", lambda units, spool, parsers, *_: batches(units, spool, parsers, 1))


def tables(incident: Incident) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all public tables in one order."""
    return {t.name: incident.con.execute(f"SELECT * FROM {t.name} ORDER BY ALL").fetchall() for t in TABLES}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample and a file with the name that kills the first worker that reads it."""
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    shutil.copytree(SAMPLE, folder)
    (folder / "deadly.log").write_text(LINE)
    return folder


@pytest.fixture(scope="module")
def local(bundle: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The tables of a run in this process."""
    with open_incident([bundle], Options(workers=1, context=False)) as incident:
        return tables(incident)


@pytest.mark.usefixtures("each_unit_alone")
def test_tables_are_those_of_a_local_run_though_a_worker_is_killed(
    machines: Machines, bundle: Path, local: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    machines.two_workers()
    (machines.place / "killed").unlink(missing_ok=True)
    options = Options(context=False, scheduler=machines.address, spool=str(tmp_path))
    with open_incident([bundle], options) as incident:
        found = tables(incident)
        written = {p.name for p in tmp_path.glob("postmortem-*/*/*.parquet")}
        read = {p.name for p in Path(incident.work.name).glob("spool/*/*.parquet")}
    killed = int((machines.place / "killed").read_text())
    assert [w.wait(STARTS_S) for w in machines.workers if w.pid == killed] == [-signal.SIGKILL]
    # What the killed worker had written is in the spool and was left out.
    assert read < written
    assert local["events"]
    assert found == local
    assert list(tmp_path.iterdir()) == []


def test_a_unit_that_fails_on_every_try_costs_no_other(machines: Machines, tmp_path: Path) -> None:
    machines.two_workers()
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("a.log", "z.log"):
        (folder / name).write_text(LINE)
    with open_incident([folder], Options(workers=1, context=False)) as incident:
        without = tables(incident)
    (folder / "poison.log").write_text(LINE)
    spool = tmp_path / "spool"
    with open_incident([folder], Options(context=False, scheduler=machines.address, spool=str(spool))) as incident:
        found = tables(incident)
    assert found["events"] == without["events"] != []
    (unread,) = [row for row in found["files"] if row not in without["files"]]
    assert unread[:2] == ("poison.log", "unreadable")
    assert unread[-1] == "not read, since reading it failed on every try: RuntimeError: no way to read this"
    # Twice with the others, twice alone.
    assert len(list(machines.place.glob("poison-*"))) == 2 + 2


def test_bundle_and_spool_on_a_store(machines: Machines, postmortem: Any) -> None:
    machines.two_workers()
    machines.s3.put(str(SAMPLE), "logs/bundle", recursive=True)
    here = postmortem("analyze", SAMPLE, "--format", "json")
    words = ("--scheduler", machines.scheduler_file, "--spool", "s3://logs/spool", "--format", "json")
    there = postmortem("analyze", "s3://logs/bundle", *words)
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
    machines.s3.invalidate_cache()
    assert machines.s3.find("logs/spool") == []


def test_a_local_pool_goes_through_a_shared_spool_too(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LINE)
    options = Options(workers=1, context=False, spool=str(tmp_path / "spool"))
    with open_incident([tmp_path / "kern.log"], options) as incident:
        assert len(list(tmp_path.glob("spool/postmortem-*/events/*.parquet"))) == 1
        assert incident.analysis.coverage.events == 1
    assert list((tmp_path / "spool").iterdir()) == []


def test_no_scheduler_is_one_sentence(postmortem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECT_S", 0.3)
    done = postmortem("analyze", SAMPLE, "--scheduler", "tcp://127.0.0.1:9", "--format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("postmortem: no scheduler answers at tcp://127.0.0.1:9: ")
    assert done.stderr.count("\n") == 1


def test_a_missing_package_names_the_extra(postmortem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = postmortem("analyze", SAMPLE, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr == "postmortem: --scheduler needs dask.distributed: pip install 'postmortem-gpu[cluster]'\n"
