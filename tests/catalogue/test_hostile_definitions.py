"""Definitions of users that are broken on purpose: one sentence, no traceback, no waiting."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from postmortem.catalogue.definition import MAX_FILE_BYTES, load_folders
from postmortem.errors import DefinitionError


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_FILE_BYTES + 1)


HOSTILE = {
    "deep": content(b"a=" + b"[" * 100_000),
    "binary": content(b"\xff\xfe\x00"),
    "digits": content(b"source=" + b"9" * 10_000),
    "date": content(b"source=2026-13-45T99:99:99Z"),
    "empty": content(b""),
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "folder": Path.mkdir,
    "huge": sparse,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_of_definitions_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x.toml")
    with pytest.raises(DefinitionError, match=r"x\.toml: "):
        load_folders([tmp_path])
