"""What a text must begin with and hold before a pattern can match: cheap tests that spare most patterns.

Read off the parsed pattern (Python's parser; Rust's dialect is near enough), so a guard never refuses what the pattern takes.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

ALL: Final = frozenset(range(256))
_HIGH: Final = frozenset(range(128, 256))
"""First bytes of all characters beyond ASCII; these are never told apart."""

_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: re.compile(r"\d"),
    sre.CATEGORY_SPACE: re.compile(r"\s"),
    sre.CATEGORY_WORD: re.compile(r"\w"),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


@dataclass(frozen=True, slots=True)
class Guard:
    """Bytes a matching text may begin with (256 flags), and texts it must hold."""

    first: bytes
    literals: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Nothing can be said without the pattern itself."""
        return all(self.first) and not self.literals


MOST: Final = 4
"""Texts that are looked for, the longest."""

OPEN: Final = Guard(bytes([1]) * 256, ())


def guard(pattern: str) -> Guard:
    """The guard of an anchored pattern (`^…`); `OPEN` for one that is not anchored or can't be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(re.sub(r"\\x\{[0-9A-Fa-f]+\}", "\u00ff", pattern).replace(r"\z", r"\Z"))
    except (re.error, RecursionError, OverflowError):
        return OPEN
    if tree.state.flags & re.IGNORECASE or not pattern.startswith("^"):
        return OPEN
    first, is_nullable = _first(list(tree))
    allowed = ALL if is_nullable else first
    literals = sorted({t for t in _literals(list(tree)) if t.isascii()}, key=lambda t: (-len(t), t))
    return Guard(bytes(b in allowed for b in range(256)), tuple(literals[:MOST]))


def _bytes_of(code: int) -> frozenset[int]:
    return frozenset({code}) if code < 128 else _HIGH


def _class(items: list[tuple[Any, Any]]) -> frozenset[int]:
    """First bytes of a bracket expression; a negated one takes all beyond ASCII."""
    negated = bool(items) and items[0][0] is sre.NEGATE
    found: set[int] = set()
    for op, value in items:
        if op is sre.LITERAL:
            found |= _bytes_of(value)
        elif op is sre.RANGE:
            found |= set(range(value[0], min(value[1], 127) + 1)) | (_HIGH if value[1] > 127 else set())
        elif op is sre.CATEGORY:
            found |= _category(value)
    return frozenset((set(range(128)) - found) | _HIGH) if negated else frozenset(found)


def _category(value: Any) -> frozenset[int]:
    known = _CATEGORIES.get(value)
    return ALL if known is None else frozenset(b for b in range(128) if known.match(chr(b))) | _HIGH


def _first(nodes: list[tuple[Any, Any]]) -> tuple[frozenset[int], bool]:
    """(bytes that a match of the sequence may begin with, whether it may be empty)."""
    found: frozenset[int] = frozenset()
    for op, value in nodes:
        step, is_nullable = _step(op, value)
        found |= step
        if not is_nullable:
            return found, False
    return found, True


def _step(op: Any, value: Any) -> tuple[frozenset[int], bool]:
    if op is sre.LITERAL:
        return _bytes_of(value), False
    if op is sre.NOT_LITERAL:
        return ALL - ({value} if value < 128 else set()), False
    if op is sre.ANY:
        return ALL, False
    if op is sre.IN:
        return _class(value), False
    if op is sre.CATEGORY:
        return _category(value), False
    if op is sre.AT:
        return frozenset(), True
    if op is sre.SUBPATTERN:
        return _first(list(value[3])) if not value[1] & re.IGNORECASE else (ALL, True)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        inner, is_nullable = _first(list(value[2]))
        return inner, is_nullable or value[0] == 0
    if op is sre.BRANCH:
        parts = [_first(list(branch)) for branch in value[1]]
        return frozenset().union(*(p for p, _ in parts)), any(n for _, n in parts)
    return ALL, True


def _literals(nodes: list[tuple[Any, Any]]) -> list[str]:
    """Texts that every match of the sequence holds."""
    runs = [""]
    for op, value in nodes:
        if op is sre.LITERAL:
            runs[-1] += chr(value)
            continue
        if op is sre.SUBPATTERN:
            if value[1] & re.IGNORECASE:
                runs.append("")
                continue
            inner = _literals(list(value[3]))
            # A group of plain letters goes on the run; anything else ends it.
            if all(o is sre.LITERAL for o, _ in value[3]):
                runs[-1] += "".join(chr(v) for _, v in value[3])
                continue
            runs += inner
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[0] > 0:
            runs += _literals(list(value[2]))
        runs.append("")
    return [r for r in runs if r]
