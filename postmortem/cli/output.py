"""Where outputs may go: never over an existing file without --force."""

from __future__ import annotations

import itertools
from pathlib import Path

from postmortem.errors import UsageError


def explicit(path: Path, force: bool) -> Path:
    """`path`, checked: UsageError when it exists without force, is a folder, or its folder is missing."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist: create it first")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: give another name or --force to replace it")
    return path


def default(stem: str, suffix: str) -> Path:
    """A name in the working directory that does not exist yet: `stem.suffix`, else `stem-2.suffix`, …"""
    for number in itertools.count(1):
        path = Path(f"{stem}{'' if number == 1 else f'-{number}'}{suffix}")
        if not path.exists():
            return path
    raise AssertionError("unreachable")


def replace_file(source: Path, target: Path) -> None:
    """Move a finished file into place; the target is whole or absent, never half written."""
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(source.read_bytes())
    partial.replace(target)


def write_text(target: Path, text: str) -> None:
    """Write a whole file at once; a failure leaves what was there."""
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text, encoding="utf-8", errors="replace")
    partial.replace(target)
