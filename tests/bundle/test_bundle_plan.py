"""What a walk finds, how it is called, and what it refuses to follow."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_samples import LINES, read_all, tar_bytes, write

from postmortem.bundle import Problem, Unit, open_unit, plan
from postmortem.errors import UsageError


def names(*paths: Path) -> list[str]:
    return [unit.name for unit in plan(paths).units]


def test_names_are_relative_to_the_one_folder(tmp_path: Path) -> None:
    write(tmp_path / "b" / "x.log", b"1")
    write(tmp_path / "a.log", b"1")
    assert names(tmp_path) == ["a.log", "b/x.log"]


def test_one_file_keeps_its_name(tmp_path: Path) -> None:
    assert names(write(tmp_path / "train.log", LINES)) == ["train.log"]


def test_several_paths_are_told_apart_by_as_little_as_it_takes(tmp_path: Path) -> None:
    write(tmp_path / "node1" / "logs" / "dmesg", b"1")
    write(tmp_path / "node2" / "logs" / "dmesg", b"2")
    write(tmp_path / "train.log", b"3")
    found = names(tmp_path / "node2" / "logs", tmp_path / "train.log", tmp_path / "node1" / "logs")
    assert found == ["node1/logs/dmesg", "node2/logs/dmesg", "train.log"]


def test_a_file_reached_twice_counts_once(tmp_path: Path) -> None:
    file = write(tmp_path / "bundle" / "train.log", b"1")
    assert len(plan([tmp_path / "bundle", file]).units) == 1
    assert names(file, file) == ["train.log"]


def test_order_of_creation_and_of_arguments_does_not_matter(tmp_path: Path) -> None:
    order = ["m", "z", "a", "k/b", "k-1", "k.d/c"]
    for name in order:
        write(tmp_path / "one" / name, b"1")
    for name in reversed(order):
        write(tmp_path / "two" / name, b"1")
    assert names(tmp_path / "one") == names(tmp_path / "two") == sorted(order)
    assert names(tmp_path / "one", tmp_path / "two") == names(tmp_path / "two", tmp_path / "one")


def test_an_empty_folder_is_an_empty_plan(tmp_path: Path) -> None:
    assert plan([tmp_path]).units == ()
    assert plan([tmp_path]).problems == ()


def test_a_missing_path_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        plan([tmp_path / "nowhere"])
    with pytest.raises(UsageError):
        plan([])


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret.txt", b"secret")
    bundle = tmp_path / "bundle"
    write(bundle / "real.log", LINES)
    (bundle / "inside.log").symlink_to("real.log")
    (bundle / "escape.log").symlink_to("../secret.txt")
    (bundle / "up").symlink_to("..")
    (bundle / "loop").symlink_to(".")
    (bundle / "self").symlink_to("self")
    read = read_all(bundle)
    assert read.data == {"real.log": LINES}
    assert sorted(problem.name for problem in read.problems) == ["escape.log", "self", "up"]


def test_a_folder_given_by_a_link_is_read(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.log", b"1")
    (tmp_path / "link").symlink_to("real")
    assert names(tmp_path / "link") == ["a.log"]


def test_pipes_and_sockets_are_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        planned = plan([tmp_path])
    assert planned.units == ()
    assert [(problem.name, problem.what) for problem in planned.problems] == [
        ("pipe", "a pipe: not read"),
        ("sock", "a socket: not read"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "closed" / "a.log", b"1")
    write(tmp_path / "b.log", b"1").chmod(0)
    (tmp_path / "closed").chmod(0)
    planned = plan([tmp_path])
    (tmp_path / "closed").chmod(0o700)
    assert planned.units == ()
    assert [problem.name for problem in planned.problems] == ["b.log", "closed"]


def test_a_folder_that_cannot_be_listed_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "closed" / "a.log", b"1")
    write(tmp_path / "open" / "b.log", b"1")
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    planned = plan([tmp_path])
    assert [unit.name for unit in planned.units] == ["open/b.log"]
    (problem,) = planned.problems
    assert (problem.name, problem.what) == ("closed", "the folder cannot be read: Permission denied")


def test_a_unit_that_vanished_is_a_problem(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", b"1")
    planned = plan([tmp_path])
    file.unlink()
    found: list[Problem] = []
    assert list(open_unit(planned.units[0], problems=found)) == []
    assert [problem.name for problem in found] == ["a.log"]


def test_names_that_are_no_text_stay_apart(tmp_path: Path) -> None:
    for raw in (b"a\xff.log", b"a\xfe.log"):
        (tmp_path / os.fsdecode(raw)).write_bytes(raw)
    read = read_all(tmp_path)
    assert sorted(read.data) == ["a\ufffd.log", "a\ufffd.log (2)"]
    for name in read.data:
        name.encode()


def test_a_unit_goes_through_pickle_and_knows_its_kind(tmp_path: Path) -> None:
    write(tmp_path / "x.bin", tar_bytes({"a": b"1"}))
    write(tmp_path / "y.tar.gz", b"no archive at all")
    units = plan([tmp_path]).units
    assert [unit.is_archive for unit in units] == [True, False]
    assert pickle.loads(pickle.dumps(units)) == units
    assert isinstance(units[0], Unit)
