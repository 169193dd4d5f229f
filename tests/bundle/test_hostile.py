"""Bundles made to break the reader: what is good in them is read, what is odd is counted, nothing is run, opened or written."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import socket
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_samples import read_all, tar_bytes, write, zip_bytes

from postmortem.bundle import Limits, Problem, Unit, open_unit
from postmortem.bundle.limits import amount, raised
from postmortem.errors import UsageError
from postmortem.incident import Options, open_incident
from postmortem.report import document, terminal
from postmortem.report.html import render

GOOD = b"Jan  2 03:04:05 node-1 kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
HOSTILE_TEXT = "\x1b[31m\x1b]0;x\x07\x9b\u202e<script>alert(1)</script>"


class Runs:
    """Would make a file when unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.target),)


def entities(count: int) -> str:
    """An XML document type whose last entity would be 10 ** `count` times as long as the first."""
    chain = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, count + 1))
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "a">{chain}<!ENTITY f SYSTEM "file:///etc/passwd">]>'


def hostile_files(folder: Path) -> dict[str, bytes]:
    """Name → content; `folder` is where a pickle that is run would leave its mark."""
    log = GOOD.decode()
    loop: list[object] = []
    loop.append(loop)
    many = b"".join(b'{"log":' for _ in range(4000))
    return {
        "nul.log": bytes(5000) + GOOD + bytes(50_000) + GOOD,
        "invalid.log": GOOD.replace(b"fallen", b"\xff\xfd\xc3\x28 fallen") + b"\xed\xa0\x80\n" + GOOD,
        "wide.log": log.encode("utf-16"),
        "wide-be.log": log.encode("utf-16-be"),
        "mark.log": b"\xef\xbb\xbf" + GOOD,
        "no-end.log": GOOD.rstrip(),
        "mixed.log": GOOD + GOOD.replace(b"\n", b"\r\n"),
        "long.log": b"a" * 9_000_000 + GOOD + GOOD,
        "escapes.log": GOOD.replace(b"fallen", f"fallen {HOSTILE_TEXT}".encode()),
        f"{HOSTILE_TEXT.replace('/', '')}.log": GOOD,
        "o'; DROP TABLE events; --.log": GOOD,
        "{{7*7}}{% raw %}.log": GOOD,
        "nccl_trace_rank_0": pickle.dumps({"entries": [Runs(folder)], "pg_config": {}, "version": "2.4"}, 2),
        "nccl_trace_rank_1": pickle.dumps({"entries": loop, "pg_config": {}, "version": "2.4"}, 2),
        "nccl_trace_rank_2": b"\x80\x02}q\x00(X\x07\x00\x00\x00entries]r\xff\xff\xff\x7f.",
        "nccl_trace_rank_3": b"\x80\x02X\x07\x00\x00\x00entries" + b"\x85" * 50_000 + b".",
        "deep.json": b"[" * 100_000,
        "deep-events.json": b'{"apiVersion":"v1","kind":"List","items":' + b"[" * 50_000,
        "deep-lines.log": (many + b"\n") * 3,
        "digits.json": b'{"entries":[{"record_id":' + b"9" * 100_000 + b"}]}",
        "huge.json": b'{"a":"' + b"b" * 5_000_000 + b'"}',
        "entities.xml": (entities(12) + '<system version="1"><cpu numaid="&e12;" host="&f;"><pci busid="0000:01:00.0"/></cpu></system>').encode(),
        "deep.xml": b'<system version="1">' + b'<pci busid="0000:01:00.0">' * 30_000,
        "x.parquet": b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7f" + b"PAR1",
        "numbers.log": b"[99999999999999.999999] NVRM: Xid (PCI:0000:01:00): 99999999999999999999, x\n9999-12-31T23:59:59-23:59 node-1 kernel: " + GOOD,
        "inner.tar": tar_bytes({"../../outside": GOOD, "/absolute": GOOD, "kept": GOOD}),
        "cut.log.gz": gzip.compress(GOOD * 500)[:-30],
        "no.gz": GOOD,
        "really.log": gzip.compress(GOOD),
    }  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    bundle = tmp_path_factory.mktemp("hostile") / "bundle"
    for name, content in hostile_files(bundle.parent / "made-by-a-pickle").items():
        write(bundle / "node-1" / name, content)
    os.mkfifo(bundle / "pipe")
    (bundle / "loop").symlink_to("loop")
    (bundle / "self").symlink_to(".")
    (bundle / "out").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(bundle)  # the path of a socket is short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    return bundle


def test_a_bundle_of_everything_hostile(hostile: Path) -> None:
    with open_incident([hostile], Options(workers=1)) as incident:
        page = render(incident.analysis, incident.con, "test")
        text = document.to_json(incident.analysis, "test")
        shown = terminal.summary(incident.analysis, colour=False, width=100)
        rows = dict(incident.con.execute("SELECT file, count(*) FROM events WHERE xid = 79 GROUP BY file").fetchall())
        notes = dict(incident.con.execute("SELECT file, note FROM files WHERE note IS NOT NULL").fetchall())
    # Nothing was run, and every good line was found.
    assert not (hostile.parent / "made-by-a-pickle").exists()
    good = (
        "nul",
        "invalid",
        "wide",
        "wide-be",
        "mark",
        "no-end",
        "mixed",
        "escapes",
        "{{7*7}}{% raw %}",
        "o'; DROP TABLE events; --",
    )
    assert [name for name in good if f"node-1/{name}.log" not in rows] == []
    assert [
        name
        for name in ("no.gz", "really.log", "cut.log.gz", "inner.tar!/kept", "inner.tar!/_/_/outside")
        if f"node-1/{name}" not in rows
    ] == []
    assert rows["node-1/long.log"] == 1
    # What is odd is told.
    odd = ("cut.log.gz", "inner.tar", "nccl_trace_rank_0", "nccl_trace_rank_2", "deep.xml", "x.parquet", "wide.log")
    assert [name for name in odd if not notes.get(f"node-1/{name}")] == []
    assert notes["pipe"] == "a pipe: not read"
    assert notes["socket"] == "a socket: not read"
    assert "out of the bundle" in notes["out"]
    # No character drives a terminal or a browser.
    assert json.loads(text)["coverage"]["files"] >= 30
    for output in (page, text, shown):
        assert not set(output) & {"\x1b", "\x07", "\x9b", "\u202e", "\0", "\r"}
    assert "<script>alert" not in page
    assert "{{7*7}}" in page or "{{7*7}}" in shown or "node-1/{{7*7}}{% raw %}.log" in rows


def test_names_that_lead_out_and_repeat_are_counted(tmp_path: Path) -> None:
    data = tar_bytes({"../../x": GOOD, "/x": GOOD, "C:\\x": GOOD, "fine": GOOD})
    read = read_all(write(tmp_path / "x.tar", data))
    assert [p.what for p in read.problems] == [
        "3 names lead out of the archive: read as if they did not",
    ]
    assert list(read.data) == ["_/_/x", "x", "C:/x", "fine"]


def test_two_entries_of_one_name_are_both_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for content in (b"1", b"2"):
            info = tarfile.TarInfo("same")
            info.size = 1
            archive.addfile(info, io.BytesIO(content))
    read = read_all(write(tmp_path / "x.tar", buffer.getvalue()))
    assert read.data == {"same": b"1", "same (2)": b"2"}
    assert [p.what for p in read.problems] == ["1 names are given more than once: told apart by a number"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_of_two_bytes_a_character(tmp_path: Path, encoding: str) -> None:
    text = "Zeile 1: größer\r\nline 2 𝄞\r\n" if encoding == "utf-16" else "line 1: plain text\r\nline 2\r\n"
    read = read_all(write(tmp_path / "x.log", text.encode(encoding)))
    assert read.data["x.log"].decode() == text
    assert "UTF-16" in read.notes["x.log"][0]
    cut = read_all(write(tmp_path / "y.log", text.encode(encoding)[:-1]))
    assert cut.data["y.log"].decode().startswith(text[:-1])


@pytest.mark.parametrize(
    "content",
    [b"\0\0\0\0" * 10, b"\xff\xfe\0\0" + b"x\0\0\0" * 9, b"a\0", b"plain text, one byte each\n", b"\0a\1\0" * 9],
)
def test_other_bytes_are_not_taken_for_utf_16(tmp_path: Path, content: bytes) -> None:
    assert read_all(write(tmp_path / "x.log", content)).data == {"x.log": content}


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.log")
    problems: list[Problem] = []
    assert list(open_unit(Unit(str(tmp_path / "x.log"), "x.log", 5, False), problems=problems)) == []
    assert "cannot be opened" in problems[0].what


def test_a_file_that_shrinks_or_vanishes_while_it_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tar", tar_bytes({"a": GOOD * 9000, "b": GOOD}))
    problems: list[Problem] = []
    members = open_unit(Unit(str(file), "x.tar", file.stat().st_size, True), problems=problems)
    first = next(members)
    assert first.stream.read(10) == GOOD[:10]
    os.truncate(file, 1000)
    assert len(first.stream.read()) < 9000 * len(GOOD)
    assert list(members) == []
    assert problems
    file.unlink()
    assert list(open_unit(Unit(str(file), "x.tar", 5, True), problems=problems)) == []
    assert "cannot be opened" in problems[-1].what


def test_a_bound_that_is_reached_names_the_option_that_raises_it(tmp_path: Path) -> None:
    deep = zip_bytes({"x": GOOD})
    for _ in range(4):
        deep = zip_bytes({"x.zip": deep})
    write(tmp_path / "deep.zip", deep)
    write(tmp_path / "many.tar", tar_bytes({str(n): b"" for n in range(5)}))
    write(tmp_path / "bomb.gz", gzip.compress(bytes(3_000_000)))
    read = read_all(
        tmp_path, limits=raised(Limits(ratio_floor_bytes=1_000_000), ["depth=2", "members=3", "ratio=10", "size=1G"])
    )
    told = " ".join([p.what for p in read.problems] + [note for notes in read.notes.values() for note in notes])
    assert all(f"--limit {name}=" in told for name in ("depth", "members", "ratio"))
    assert read_all(tmp_path / "deep.zip", limits=raised(Limits(), ["depth=9"])).data == {
        "x.zip!/x.zip!/x.zip!/x.zip!/x": GOOD
    }


def test_limits_are_read_with_units() -> None:
    limits = raised(Limits(), ["size=300G", "zip=1k", "members=7"])
    assert (limits.total_bytes, limits.spool_bytes, limits.members, limits.ratio) == (300 * 10**9, 1000, 7, 1000)
    assert [amount(n) for n in (999, 1000, 1500, 200 * 10**9)] == ["999", "1K", "1500", "200G"]


@pytest.mark.parametrize(
    "setting",
    ["size", "size=", "size=x", "size=-1", "size=0", "size=5P", "bytes=5", "=5", "depth=1e3", "size=" + "9" * 50],
)
def test_wrong_limits_are_refused(setting: str) -> None:
    with pytest.raises(UsageError, match="--limit"):
        raised(Limits(), [setting])


def test_a_zip_of_zips_that_multiplies_ends_at_the_depth(tmp_path: Path) -> None:
    data = b"x"
    for _ in range(9):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.zip", data)
            archive.writestr("b.zip", data)
        data = buffer.getvalue()
    read = read_all(write(tmp_path / "x.zip", data))
    assert len(read.data) == 2**6
    assert all("nested more than" in notes[0] for notes in read.notes.values())
