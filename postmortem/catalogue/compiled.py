"""Definitions for matching, without their samples: read from TOML once, from prepared JSON after that."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from postmortem.catalogue.definition import COLUMNS, Message, definition_files, load_file
from postmortem.prepared import prepared
from postmortem.schema import EVENT_NAMES

_NAMES: Final = tuple(f.name for f in fields(Message) if f.name != "samples")
_TUPLES: Final = frozenset({"contains", "patterns", "requires", "forbids", "severity_by"})


def load_compiled(folders: Sequence[Path]) -> tuple[Message, ...]:
    """The messages of `load_folders`, but with no samples; DefinitionError for a wrong file.

    The prepared file is keyed by the content of all definition files and by the words they may use.
    """
    files = definition_files(folders)
    key = hashlib.sha256(repr((_NAMES, sorted(COLUMNS), sorted(EVENT_NAMES))).encode())
    for name, path in files.items():
        raw = path.read_bytes()
        key.update(f"\0{name}\0{len(raw)}\0".encode() + raw)

    def make() -> list[list[Any]]:
        return [[getattr(m, n) for n in _NAMES] for name, path in files.items() for m in load_file(path, name)]

    return tuple(_message(row) for row in prepared("catalogue", key.digest(), make))


def _message(row: Sequence[Any]) -> Message:
    values = dict(zip(_NAMES, row, strict=True))
    for name in _TUPLES:
        if values[name] is not None:
            values[name] = tuple(values[name])
    return Message(**values)
