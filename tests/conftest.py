"""Fixtures that several tests share."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# As the command line does it, and before polars is imported: see postmortem.cli.main.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ["POSTMORTEM_CONFIG"] = os.devnull

from postmortem.catalogue.definition import load_folders
from postmortem.catalogue.matcher import Matcher
from postmortem.cli.settings import BY_KEY

if TYPE_CHECKING:
    from postmortem.incident import Incident

# No settings of the machine that runs the tests.
for _name in {f"POSTMORTEM_{key.replace('-', '_').upper()}" for key in BY_KEY} & set(os.environ):
    del os.environ[_name]
# Nor does a test fill its cache, or meet what another has put there.
os.environ["POSTMORTEM_CACHE"] = "0"

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[..., "Result"]
Analyse = Callable[[Mapping[str, str | bytes]], "Incident"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared cases; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("POSTMORTEM_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def matcher() -> Matcher:
    """The whole catalogue, compiled once."""
    return Matcher(load_folders([ROOT / "parsers"]))


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of the command line gave."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def postmortem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in an empty folder, within this process: the catalogue is compiled once for all tests.

    An exception that is not meant for the user comes out of it and fails the test.
    """
    from postmortem.cli import main

    place = tmp_path / "cwd"
    place.mkdir()

    def run(*arguments: object, stdin: str = "") -> Result:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "argv", ["postmortem", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                return Result(end.code if isinstance(end.code, int) else 1, out.getvalue(), err.getvalue())
        raise AssertionError("the entry point ends by itself")

    return run


@pytest.fixture
def analyse(tmp_path: Path) -> Any:
    """Writes the given files as a bundle and analyses them in this process; the incident is closed after the test."""
    # Imported here: tests of the lower layers need nothing of the upper ones.
    from postmortem.incident import Options, open_incident

    opened: list[Incident] = []

    def run(files: Mapping[str, str | bytes]) -> Incident:
        bundle = tmp_path / f"bundle-{len(opened)}"
        for name, content in files.items():
            path = bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        incident = open_incident([bundle], Options(workers=1, context=False))
        opened.append(incident)
        return incident

    yield run
    for incident in opened:
        incident.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A file system on an S3 server of this machine (moto), empty for every module; other processes find it by the environment."""
    fsspec = pytest.importorskip("fsspec", reason="the extra s3 is not installed")
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    server_of = pytest.importorskip("moto.server", reason="the S3 server of the tests is not installed")
    from moto.moto_api._internal.models import moto_api_backend

    moto_api_backend.reset()  # the servers of one process share what they hold
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        files = fsspec.filesystem("s3")
        files.mkdir("logs")
        yield files
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()
