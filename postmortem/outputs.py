"""Where outputs may go: never over an existing file unless told so, and whole or not at all."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from postmortem.errors import UsageError


def explicit(path: Path, force: bool) -> Path:
    """`path`, checked: UsageError when it exists without force, is a folder, or its folder is missing."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist: create it first")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is a device or a pipe: give the name of a file")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: give another name or --force to replace it")
    return path


def folder(path: Path, names: list[str], force: bool) -> Path:
    """`path` as a folder for files of these names, checked like `explicit`; it is made when only its parent is there."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no folder: give the name of one")
    if not path.is_dir() and not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist: create it first")
    if not force and (there := next((name for name in names if (path / name).exists()), None)):
        raise UsageError(f"{path / there} exists: give another folder or --force to replace it")
    return path


def default(stem: str, suffix: str) -> Path:
    """A name in the working directory that does not exist yet: `stem.suffix`, else `stem-2.suffix`, …"""
    for number in itertools.count(1):
        path = Path(f"{stem}{'' if number == 1 else f'-{number}'}{suffix}")
        if not path.exists():
            return path
    raise AssertionError("unreachable")


@contextmanager
def partial(target: Path) -> Iterator[Path]:
    """A name beside `target` to write to; moved into place when the block ends well, removed when it does not.

    What a link leads to is replaced, not the link. Raises UsageError when the file system refuses (full, read-only, no right).
    """
    place = target.resolve() if target.is_symlink() else target
    path = place.with_name(f".{place.name}.partial")
    try:
        yield path
        path.replace(place)
    except BaseException as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
        raise


def replace_file(source: Path, target: Path) -> None:
    """Put a copy of a finished file into place; the target is whole or as it was."""
    with partial(target) as path:
        shutil.copyfile(source, path)


def write_text(target: Path, text: str) -> None:
    """Write a whole file at once; a failure leaves what was there."""
    with partial(target) as path:
        path.write_text(text, encoding="utf-8", errors="replace")
