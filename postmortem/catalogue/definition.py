"""Definitions of parsers/**.toml: records, loading and validation.

A wrong file raises DefinitionError with one sentence: file, message number, key, what instead.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from postmortem.errors import DefinitionError
from postmortem.schema import ENTITY, EVENT_NAMES, SEVERITIES, SOURCES

TYPES: Final = (
    "text",
    "int",
    "hex",
    "float",
    "lower",
    "pci",
    "busid",
    "op",
    "seconds",
    "minutes",
    "per_second",
    "addr",
    "signal",
    "bool",
    "strip_dot",
)
MESSAGE_KEYS: Final = frozenset(
    {
        "event",
        "fact",
        "severity",
        "severity_by",
        "contains",
        "pattern",
        "patterns",
        "on",
        "types",
        "set",
        "copy",
        "map",
        "each",
        "priority",
        "also",
        "requires",
        "forbids",
        "record",
        "continues",
        "precedes",
        "needs_parts",
        "unless",
        "within",
        "reference",
        "versions",
        "sample",
        "host_from",
        "source",
    }
)
COLUMNS: Final = frozenset(c.name for c in ENTITY) | {"host"}
_KINDS: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(
        (
            "event",
            "fact",
            "severity",
            "on",
            "each",
            "record",
            "continues",
            "precedes",
            "unless",
            "reference",
            "versions",
            "host_from",
            "source",
        ),
        (str, "a text"),
    ),
    **dict.fromkeys(("priority", "within"), (int, "a whole number")),
    **dict.fromkeys(("also", "needs_parts"), (bool, "true or false")),
    **dict.fromkeys(("types", "set", "copy", "map", "severity_by"), (dict, "a table")),
    **dict.fromkeys(("contains", "pattern", "patterns", "requires", "forbids"), (list, "a text or a list of texts")),
    "sample": (list, "a list of tables: [[message.sample]]"),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Real text and the events it must give: name → fields, in order; none for noise."""

    line: str
    events: tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of one program; see docs/adding-a-format.md for what each key means."""

    id: str
    file: str
    number: int
    source: str
    event: str
    is_fact: bool
    severity: str
    contains: tuple[str, ...]
    patterns: tuple[str, ...]
    on: str = "message"
    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, dict[str, Any]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    severity_by: tuple[str, dict[str, str]] | None = None
    each: str | None = None
    priority: int = 50
    also: bool = False
    requires: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    record: str | None = None
    continues: str | None = None
    precedes: str | None = None
    needs_parts: bool = False
    unless: str | None = None
    within: int = 20
    host_from: str | None = None
    reference: str = ""
    program: str = ""
    versions: str = ""
    samples: tuple[Sample, ...] = ()

    @property
    def is_noise(self) -> bool:
        """A line that is known and gives no event; it keeps others from claiming it."""
        return self.event == "none"


def _fail(file: str, number: int, text: str) -> DefinitionError:
    return DefinitionError(f"{file}: message {number}: {text}")


def nearest(word: str, words: Iterable[str]) -> str:
    """The end of a sentence about an unknown `word`: the known one it may stand for."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f", did you mean {close[0]}?" if close else ""


def _check_kinds(raw: dict[str, Any], file: str, number: int) -> None:
    """Each key holds what it must, so that the code after this can rely on it."""
    for key, value in raw.items():
        kind, name = _KINDS[key]
        fits = isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
        if kind is list:
            item: type = dict if key == "sample" else str
            fits = (item is str and isinstance(value, str)) or (fits and all(isinstance(v, item) for v in value))
        if not fits:
            raise _fail(file, number, f"`{key}` must be {name}")
    for name, mapping in raw.get("map", {}).items():
        if not isinstance(mapping, dict):
            raise _fail(file, number, f"`map.{name}` must be a table")
    by = raw.get("severity_by")
    if by is not None and not (isinstance(by.get("column"), str) and isinstance(by.get("values"), dict)):
        raise _fail(file, number, "`severity_by` needs a `column` and a table of `values`")


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _sample(raw: dict[str, Any], event: str, file: str, number: int) -> Sample:
    if not isinstance(raw.get("line"), str):
        raise _fail(file, number, "a sample needs `line`, the text as printed")
    listed, fields = raw.get("events", []), raw.get("fields", {})
    if not isinstance(listed, list) or not all(isinstance(e, dict) and isinstance(e.get("event"), str) for e in listed):
        raise _fail(file, number, "`events` of a sample is a list of tables, each with its `event`")
    if not isinstance(fields, dict):
        raise _fail(file, number, "`fields` of a sample must be a table")
    if "events" in raw:
        events = tuple((str(e["event"]), {k: v for k, v in e.items() if k != "event"}) for e in listed)
    elif event == "none":
        events = ()
    else:
        events = ((event, dict(fields)),)
    return Sample(raw["line"], events)


def _check(message: Message) -> None:
    file, number = message.file, message.number
    if not message.is_fact and not message.is_noise and message.event not in EVENT_NAMES:
        raise _fail(file, number, f"unknown event {message.event}{nearest(message.event, EVENT_NAMES)}")
    if message.source not in SOURCES:
        raise _fail(file, number, f"unknown source {message.source}, one of {', '.join(SOURCES)}")
    if message.severity not in SEVERITIES:
        raise _fail(file, number, f"unknown severity {message.severity}, one of {', '.join(SEVERITIES)}")
    if not message.contains or any(len(c.strip()) < 2 for c in message.contains):
        raise _fail(file, number, "`contains` needs literals of at least two characters that every such line holds")
    if not message.patterns:
        raise _fail(file, number, "`pattern` or `patterns` is missing")
    if message.on not in {"message", "line"}:
        raise _fail(file, number, f"`on` is message or line, not {message.on}")
    if not message.samples:
        raise _fail(file, number, f"{message.event} has no sample: every message needs a real line and its fields")
    names = {*message.types, *message.constants, *message.maps, *message.copies, *message.copies.values()}
    for name in sorted(names - COLUMNS):
        if not name.startswith("_"):
            raise _fail(file, number, f"unknown column {name}{nearest(name, COLUMNS)}")
    for name, kind in message.types.items():
        if kind not in TYPES:
            raise _fail(file, number, f"types.{name}: unknown type {kind}{nearest(kind, TYPES)}")


def _message(raw: dict[str, Any], head: dict[str, Any], file: str, number: int) -> Message:
    unknown = sorted(set(raw) - MESSAGE_KEYS)
    if unknown:
        raise _fail(file, number, f"unknown key {unknown[0]}{nearest(unknown[0], MESSAGE_KEYS)}")
    _check_kinds(raw, file, number)
    event = raw.get("event", raw.get("fact"))
    if not isinstance(event, str):
        raise _fail(file, number, "`event` is missing")
    by = raw.get("severity_by")
    message = Message(
        id=f"{file}#{number}",
        file=file,
        number=number,
        source=raw.get("source", head["source"]),
        event=event,
        is_fact="fact" in raw,
        severity=raw.get("severity", "info"),
        contains=_texts(raw.get("contains")),
        patterns=_texts(raw.get("patterns", raw.get("pattern"))),
        on=raw.get("on", "message"),
        types=dict(raw.get("types", {})),
        constants=dict(raw.get("set", {})),
        maps={k: dict(v) for k, v in raw.get("map", {}).items()},
        copies={str(k): str(v) for k, v in raw.get("copy", {}).items()},
        severity_by=(str(by["column"]), {str(k): str(v) for k, v in by["values"].items()}) if by else None,
        each=raw.get("each"),
        priority=int(raw.get("priority", 50)),
        also=bool(raw.get("also", False)),
        requires=_texts(raw.get("requires", head.get("requires"))),
        forbids=_texts(raw.get("forbids", head.get("forbids"))),
        record=raw.get("record"),
        continues=raw.get("continues"),
        precedes=raw.get("precedes"),
        needs_parts=bool(raw.get("needs_parts", False)),
        unless=raw.get("unless"),
        within=int(raw.get("within", 20)),
        host_from=raw.get("host_from"),
        reference=str(raw.get("reference", "")),
        program=str(head.get("title", file)),
        versions=str(raw.get("versions", head.get("versions", ""))),
        samples=tuple(_sample(s, event, file, number) for s in raw.get("sample", [])),
    )
    _check(message)
    return message


MAX_FILE_BYTES: Final = 16 << 20


def load_file(path: Path, name: str | None = None) -> tuple[Message, ...]:
    """Messages of one TOML file in their order; DefinitionError when it is not valid."""
    label = name or path.name
    try:
        # A pipe would be waited for without end.
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            raise DefinitionError(f"{label}: no file, or one of more than {MAX_FILE_BYTES >> 20} MB")
        head = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DefinitionError(f"{label}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise DefinitionError(f"{label}: not valid TOML: it is nested too deep") from error
    except ValueError as error:
        # Wrong syntax, no UTF-8, or a number of thousands of digits.
        raise DefinitionError(f"{label}: not valid TOML: {error}") from error
    if "source" not in head:
        raise DefinitionError(f"{label}: `source` is missing, one of {', '.join(SOURCES)}")
    raws = head.get("message", [])
    if not raws or not isinstance(raws, list) or not all(isinstance(raw, dict) for raw in raws):
        raise DefinitionError(f"{label}: no [[message]] in it")
    return tuple(_message(raw, head, label, number) for number, raw in enumerate(raws, 1))


def definition_files(folders: Iterable[Path]) -> dict[str, Path]:
    """All TOML files below `folders` by their relative name, sorted; a later folder's file wins by its name."""
    files: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DefinitionError(f"{folder}: no such folder of definitions")
        for path in sorted(folder.rglob("*.toml")):
            files[path.relative_to(folder).as_posix()] = path
    return {name: files[name] for name in sorted(files)}


def load_folders(folders: Iterable[Path]) -> tuple[Message, ...]:
    """Messages of all TOML files below `folders` (`definition_files`)."""
    return tuple(message for name, path in definition_files(folders).items() for message in load_file(path, name))
