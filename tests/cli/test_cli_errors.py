"""Exit codes and messages: one sentence for every wrong use and every odd bundle, never a traceback."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest


class Result(Protocol):
    """What a run of the command line gave."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]
XID = "2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n"


def check(result: Result, code: int) -> None:
    assert "Traceback" not in result.stderr + result.stdout
    assert result.returncode == code, result.stderr


def test_a_missing_path(postmortem: Run, tmp_path: Path) -> None:
    result = postmortem("analyze", tmp_path / "absent")
    check(result, 2)
    assert "absent" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["analyze"], ["analyse", "x"], ["analyze", "x", "--format", "xml"], ["query", "x"]]
)
def test_wrong_arguments(postmortem: Run, arguments: list[str]) -> None:
    result = postmortem(*arguments)
    check(result, 2)
    assert "Usage:" in result.stderr


def test_a_wrong_folder_of_definitions(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(XID)
    result = postmortem("analyze", tmp_path / "kern.log", "--parsers", tmp_path / "absent")
    check(result, 2)
    assert "no such folder" in result.stderr


CONTENTS: dict[str, bytes] = {
    "empty.log": b"",
    "zeros.log": bytes(70_000),
    "binary.log": bytes(range(256)) * 300,
    "random.bin": bytes((i * 7919 + i // 251) % 256 for i in range(20_000)),
    "prose.txt": b"nothing in here is of any interest\n" * 50,
    "cut.log.gz": gzip.compress(os.urandom(3000))[:900],
    "no.gz": b"\x1f\x8b but not gzip at all",
    "no.zip": b"PK\x03\x04 but no zip",
    "no.tar": b"\0" * 257 + b"ustar\0" + b"\xff" * 1000,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_nothing_readable(postmortem: Run, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / name).write_bytes(CONTENTS[name])
    result = postmortem("analyze", bundle, "--format", "json")
    check(result, 3)
    document = json.loads(result.stdout)
    assert document["verdict"]["cause"] == "unknown"
    assert document["coverage"]["files"] == 1


def test_all_of_them_at_once_say_why(postmortem: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name, content in CONTENTS.items():
        (bundle / name).write_bytes(content)
    result = postmortem("analyze", bundle)
    check(result, 3)
    assert f"nothing recognised in {len(CONTENTS)} files" in result.stderr
    assert list((tmp_path / "cwd").iterdir()) == []


def test_an_empty_folder(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    result = postmortem("analyze", tmp_path / "bundle", "--format", "json")
    check(result, 3)
    assert json.loads(result.stdout)["coverage"]["files"] == 0


def test_a_cut_gzip_gives_what_can_be_had(postmortem: Run, tmp_path: Path) -> None:
    noise = "".join(
        f"2026-02-03T14:01:{n % 60:02}Z node-7 app[{n * 7919 % 65521}]: {n * 104729 % 999983}\n" for n in range(5000)
    )
    data = gzip.compress((XID + noise).encode())
    (tmp_path / "kern.log.gz").write_bytes(data[: len(data) // 2])
    result = postmortem("analyze", tmp_path / "kern.log.gz", "--format", "json")
    check(result, 0)
    document = json.loads(result.stdout)
    assert document["coverage"]["events"] == 1
    assert [o["file"] for o in document["coverage"]["odd"]]


def test_fail_on_unknown(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("node-7:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n")
    arguments = ["analyze", tmp_path / "x.log", "--format", "json"]
    check(postmortem(*arguments), 0)
    result = postmortem(*arguments, "--fail-on", "unknown")
    check(result, 1)
    assert json.loads(result.stdout)["verdict"]["cause"] == "unknown"


@pytest.mark.parametrize("option", ["-o", "--db"])
def test_outputs_are_never_replaced_unasked(postmortem: Run, tmp_path: Path, option: str) -> None:
    log, target = tmp_path / "kern.log", tmp_path / "out"
    log.write_text(XID)
    target.write_text("precious")
    result = postmortem("analyze", log, option, target)
    check(result, 2)
    assert "exists" in result.stderr
    assert target.read_text() == "precious"
    check(postmortem("analyze", log, option, target, "--force"), 0)
    assert target.read_bytes() != b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cwd", "kern.log", "out"]


@pytest.mark.parametrize("option", ["-o", "--db"])
def test_outputs_in_a_folder_that_is_missing(postmortem: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "kern.log").write_text(XID)
    result = postmortem("analyze", tmp_path / "kern.log", option, tmp_path / "absent" / "out")
    check(result, 2)
    assert "does not exist" in result.stderr


def test_the_default_report_takes_a_free_name(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(XID)
    place = tmp_path / "cwd"
    (place / "kern.log.html").write_text("precious")
    result = postmortem("analyze", tmp_path / "kern.log")
    check(result, 0)
    assert sorted(p.name for p in place.iterdir()) == ["kern.log-2.html", "kern.log.html"]
    assert (place / "kern.log.html").read_text() == "precious"
    assert "kern.log-2.html" in result.stdout


def test_json_writes_no_file(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(XID)
    check(postmortem("analyze", tmp_path / "kern.log", "--format", "json"), 0)
    assert list((tmp_path / "cwd").iterdir()) == []


def test_the_bundle_is_left_as_it_was(postmortem: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "kern.log").write_text(XID)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in bundle.iterdir()}
    check(postmortem("analyze", bundle, "--format", "json"), 0)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in bundle.iterdir()} == before
