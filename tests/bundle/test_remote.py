"""Bundles on a store: a real S3 server and a real web server of this machine, one listing, streams, errors in sentences."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from archive_samples import tar_bytes, write

from postmortem.bundle import Plan, Problem, Unit, open_units, plan
from postmortem.bundle.remote import BLOCK_BYTES, SMALL_BYTES, base_name, is_url, open_url, shown, unreachable
from postmortem.errors import UsageError

fsspec = pytest.importorskip("fsspec", reason="the extra s3 is not installed")
pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytest.importorskip("moto", reason="the S3 server of the tests is not installed")

BIG = os.urandom(1 << 16) * (3 * BLOCK_BYTES // (1 << 16)) + b"the last line\n"
"""More than the blocks that are read ahead, and no multiple of one."""
ROOT = Path(__file__).resolve().parents[2]


def contents(planned: Plan) -> tuple[dict[str, bytes], list[Problem]]:
    """(bytes by member, problems); a note of a member counts as a problem."""
    problems: list[Problem] = []
    found = {}
    for member in open_units(planned.units, problems=problems):
        found[member.name] = member.stream.read()
        problems += [Problem(member.name, note) for note in member.notes]
    return found, problems


def test_a_folder_is_listed_once_and_read_as_it_is(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.log": b"one\n", "n/b::c #1?.log": b"two\n", "n/empty": b"", "big.bin": BIG}
    for name, data in files.items():
        s3.pipe_file(f"logs/job/{name}", data)
    s3.pipe_file("logs/job/n/", b"")
    s3.pipe_file("logs/job-2/other.log", b"not of this job\n")
    calls: list[str] = []
    call = type(s3)._call_s3

    async def counted(self: Any, method: str, *arguments: Any, **more: Any) -> Any:
        calls.append(method)
        return await call(self, method, *arguments, **more)

    monkeypatch.setattr(type(s3), "_call_s3", counted)
    planned = plan(["s3://logs/job"])
    assert [(u.name, u.size) for u in planned.units] == sorted((n, len(d)) for n, d in files.items())
    assert calls.count("head_object") <= 1
    assert "get_object" not in calls
    listings = len(calls)
    found, problems = contents(planned)
    assert (found, problems) == (files, [])
    read = calls[listings:]
    assert not [c for c in read if c.startswith("list_")]
    # The two small files cost one request each, without a question for their size.
    assert read.count("head_object") <= 2


def test_names_do_not_depend_on_the_slash_at_the_end(s3: Any) -> None:
    s3.pipe_file("logs/slash/a.log", b"x\n")
    assert plan(["s3://logs/slash/"]).units[0].name == plan(["s3://logs/slash"]).units[0].name == "a.log"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_on_a_store_is_unpacked(s3: Any, kind: str) -> None:
    if kind == "tar":
        data = tar_bytes({"in/a.log": b"x\n", "in/big.bin": BIG})
    else:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("in/a.log", b"x\n")
            archive.writestr("in/big.bin", BIG)
        data = buffer.getvalue()
    s3.pipe_file(f"logs/whole.{kind}", data)
    planned = plan([f"s3://logs/whole.{kind}"])
    assert [(u.name, u.is_archive) for u in planned.units] == [("", True)]
    assert contents(planned) == ({"in/a.log": b"x\n", "in/big.bin": BIG}, [])


def test_urls_and_paths_together_are_told_apart(s3: Any, tmp_path: Path) -> None:
    s3.pipe_file("logs/x/node1/dmesg", b"1\n")
    local = write(tmp_path / "node2" / "dmesg", b"2\n")
    planned = plan(["s3://logs/x/node1/dmesg", local, f"file://{tmp_path}/node2"])
    assert [u.name for u in planned.units] == ["node1/dmesg", "node2/dmesg"]


def test_an_object_that_went_away_is_a_problem_of_its_own(s3: Any) -> None:
    s3.pipe_file("logs/gone/a.log", b"x\n")
    s3.pipe_file("logs/gone/b.log", b"y\n")
    s3.pipe_file("logs/gone/big.bin", BIG)
    planned = plan(["s3://logs/gone"])
    s3.rm(["logs/gone/b.log", "logs/gone/big.bin"])
    found, problems = contents(planned)
    assert found == {"a.log": b"x\n"}
    assert [p.name for p in problems] == ["b.log", "big.bin"]
    assert all("no such file" in p.what for p in problems)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("s3://logs/nothing-here", "s3://logs/nothing-here: cannot be read: there is no such file or folder"),
        ("s3://no-such-bucket/x", "there is no such file or folder"),
        ("nonsense://x/y", "fsspec knows no protocol nonsense://"),
        ("simplecache::s3://logs/x", "URLs in URLs are not read"),
        ("http://127.0.0.1:9/x.tar?X-Amz-Signature=secret", "the server cannot be reached"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(s3: Any, url: str, what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)) as raised:
        plan([url])
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_store_without_credentials_is_one_sentence(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    type(s3).clear_instance_cache()
    try:
        why = unreachable("s3://logs/job")
    finally:
        type(s3).clear_instance_cache()
    assert why == "Unable to locate credentials"


@pytest.mark.parametrize(("module", "extra"), [("s3fs", "s3"), ("fsspec", "s3")])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(UsageError, match=re.escape(f"pip install 'postmortem-gpu[{extra}]'")):
        plan(["s3://logs/x"])


@dataclass
class Web:
    """A web server over a folder; `ranges`: it can send parts, `cut`: the byte of a file where it hangs up, `refusal`: its status."""

    folder: Path
    ranges: bool = True
    cut: int | None = None
    refusal: int | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""


class Handler(SimpleHTTPRequestHandler):
    """Python's server, which sends no parts, with those added."""

    def __init__(self, *arguments: Any, web: Web) -> None:
        self.web = web
        super().__init__(*arguments, directory=str(web.folder))

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.web.requests.append(("HEAD", self.path))
        if self.web.refusal:
            self.send_error(self.web.refusal)
            return
        super().do_HEAD()

    def do_GET(self) -> None:
        self.web.requests.append(("GET", self.path))
        if self.web.refusal:
            self.send_error(self.web.refusal)
            return
        asked = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if not path.is_file() or (not (asked and self.web.ranges) and self.web.cut is None):
            super().do_GET()
            return
        data = path.read_bytes()
        start, end = (int(asked[1]), min(int(asked[2]) + 1, len(data))) if asked else (0, len(data))
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if self.web.cut is not None and start < self.web.cut < end:
            self.wfile.write(data[start : self.web.cut])
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(data[start:end])


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path / "www")
    made.folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, web=made))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_folder_of_the_web_is_listed_once(web: Web) -> None:
    write(web.folder / "job" / "a.log", b"x\n")
    write(web.folder / "job" / "n 1" / "b.log", b"y\n")
    planned = plan([f"{web.url}/job/"])
    assert [(u.name, u.size) for u in planned.units] == [("a.log", 2), ("n 1/b.log", 2)]
    # Python's server answers a folder without its slash by a redirection.
    assert sorted(p for verb, p in web.requests if verb == "GET" and p.endswith("/")) == ["/job/", "/job/n%201/"]
    assert contents(planned) == ({"a.log": b"x\n", "n 1/b.log": b"y\n"}, [])


@pytest.mark.parametrize("ranges", [True, False], ids=["parts", "whole"])
def test_a_large_file_of_the_web_is_read_with_and_without_parts(web: Web, ranges: bool) -> None:
    web.ranges = ranges
    write(web.folder / "big.bin", BIG)
    planned = plan([f"{web.url}/big.bin?X-Amz-Signature=secret"])
    assert [u.name for u in planned.units] == ["big.bin"]
    assert contents(planned) == ({"big.bin": BIG}, [])
    assert all("secret" in path for _, path in web.requests)


def test_a_server_that_hangs_up_leaves_what_came_and_a_note(web: Web) -> None:
    write(web.folder / "big.bin", BIG)
    planned = plan([f"{web.url}/big.bin?X-Amz-Signature=secret"])
    web.cut = 2 * BLOCK_BYTES + 1000
    found, problems = contents(planned)
    assert BIG.startswith(found["big.bin"])
    assert len(found["big.bin"]) >= BLOCK_BYTES
    assert [p.name for p in problems] == ["big.bin"]
    assert "secret" not in problems[0].what


@pytest.mark.parametrize(
    ("refusal", "what"),
    [(403, "the server answers 403"), (503, "the server answers 503"), (404, "there is no such file or folder")],
)
def test_a_refusal_is_told_by_its_number(web: Web, refusal: int, what: str) -> None:
    web.refusal = refusal
    with pytest.raises(UsageError) as raised:
        plan([f"{web.url}/job/logs.tar?sig=secret"])
    assert str(raised.value) == f"{web.url}/job/logs.tar: cannot be read: {what}"


def test_a_read_ahead_file_seeks(web: Web) -> None:
    write(web.folder / "big.bin", BIG)
    with open_url(f"{web.url}/big.bin") as file:
        assert file.size == len(BIG) > SMALL_BYTES
        assert file.seekable()
        file.seek(-14, io.SEEK_END)
        assert file.read(100) == b"the last line\n"
        file.seek(3)
        assert file.read(5) == BIG[3:8]


@pytest.mark.parametrize(
    ("text", "is_one", "name", "printed"),
    [
        ("s3://bucket/job/logs.tar.gz", True, "logs.tar.gz", "s3://bucket/job/logs.tar.gz"),
        ("s3://bucket", True, "bucket", "s3://bucket"),
        ("https://u:pw@host/a%20b.zip?sig=1", True, "a b.zip", "https://host/a%20b.zip"),
        ("sftp://root:pw@node-1/var/log/", True, "log", "sftp://node-1/var/log/"),
        ("/var/log/a::b://c", False, "", ""),
        ("job/s3://x", False, "", ""),
        ("a b://c", False, "", ""),
    ],
)
def test_what_a_url_is_and_how_it_is_printed(text: str, is_one: bool, name: str, printed: str) -> None:
    assert is_url(text) is is_one
    if is_one:
        assert (base_name(text), shown(text)) == (name, printed)


def test_a_unit_on_disk_is_not_fetched(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"x\n")
    assert contents(Plan((Unit(str(path), "a.log", 2, is_archive=False),), ())) == ({"a.log": b"x\n"}, [])


def test_analyze_reads_a_url_like_a_folder(s3: Any, postmortem: Any, tmp_path: Path) -> None:
    bundle = ROOT / "sample_logs" / "link-flap" / "bundle"
    s3.put(str(bundle), "logs/samples/bundle", recursive=True)
    here = postmortem("analyze", bundle, "--format", "json")
    there = postmortem("analyze", "s3://logs/samples/bundle", "--format", "json")
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout)
    gone = postmortem("analyze", "s3://logs/samples/nothing")
    assert gone.returncode == 2
    assert gone.stderr == "postmortem: s3://logs/samples/nothing: cannot be read: there is no such file or folder\n"
