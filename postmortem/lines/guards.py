"""What a text must begin with and hold before a pattern can match: cheap tests that spare most patterns.

Read off the parsed pattern (Python's parser; Rust's dialect is near enough), so a guard never refuses what the pattern takes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

DEPTH: Final = 8
"""Bytes at the begin of a text that are looked at."""

MOST: Final = 4
"""Texts that are looked for, the longest."""

LEAST: Final = 3
"""Characters of a text that all branches have in common."""

_ALL: Final = frozenset(range(256))
_HIGH: Final = frozenset(range(128, 256))
"""Bytes of all characters beyond ASCII; these are never told apart."""

_LONGEST: Final = 4
"""Bytes of such a character in UTF-8, at most; two at least."""

_CLASS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_RUST: Final = re.compile(r"\\[<>]|\\[bB]\{|&&|--|~~")
"""What means something else in Rust: begins and ends of words, sets made of sets."""

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
    """Bytes that may stand at each of the first DEPTH places of a matching text (256 flags each), and texts it must hold.

    Byte 0 stands for the end of the text.
    """

    starts: tuple[bytes, ...]
    literals: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Nothing can be said without the pattern itself."""
        return all(all(flags) for flags in self.starts) and not self.literals


OPEN: Final = Guard((bytes([1]) * 256,) * DEPTH, ())


def guard(pattern: str) -> Guard:
    """The guard of an anchored pattern (`^…`); `OPEN` for one that is not anchored or can't be read."""
    tree = _parsed(pattern) if pattern.startswith("^") else None
    if tree is None:
        return OPEN
    begin = _Begin()
    ends = begin.sequence(list(tree), frozenset({0}))
    begin.anything(ends)
    # A text may end after any byte, but it holds at least what a match needs.
    starts = [
        bytes(byte in allowed or (byte == 0 and k > 0) for byte in range(256))
        for k, allowed in enumerate(begin.allowed)
    ]
    return Guard(tuple(starts), tuple(_longest(tree)[:MOST]))


@lru_cache(maxsize=4096)
def needed(pattern: str) -> tuple[str, ...]:
    """Texts that all matches of a pattern hold, the longest first; none where none is known."""
    tree = _parsed(pattern)
    return tuple(text for text in _longest(tree)[:MOST] if len(text) >= LEAST) if tree else ()


def _longest(tree: Any) -> list[str]:
    return sorted({t for t in _literals(list(tree)) if t.isascii()}, key=lambda t: (-len(t), t))


def _parsed(pattern: str) -> Any:
    """The pattern as Python reads it; None where that would be something else than what Rust reads, or where case makes no difference."""
    classes = (re.sub(r"\\.", "", found[0])[1:] for found in _CLASS.finditer(pattern) if found[0].startswith("["))
    if _RUST.search(pattern) or any("[" in text for text in classes):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(re.sub(r"\\x\{[0-9A-Fa-f]+\}", "\u00ff", pattern).replace(r"\z", r"\Z"))
    except (re.error, RecursionError, OverflowError):
        return None
    return None if tree.state.flags & (re.IGNORECASE | re.VERBOSE) else tree


class _Begin:
    """Collects in `allowed` the bytes at each place while a pattern is walked. Methods take the places (of bytes, from 0) where a part
    may begin and give those where it may end; places from DEPTH on are not told apart."""

    def __init__(self) -> None:
        self.allowed: list[set[int]] = [set() for _ in range(DEPTH)]

    def anything(self, starts: frozenset[int]) -> frozenset[int]:
        """A part of which nothing is known, of any length."""
        least = min(starts)
        for k in range(least, DEPTH):
            self.allowed[k] |= _ALL
        return frozenset(range(least, DEPTH + 1))

    def sequence(self, nodes: list[tuple[Any, Any]], starts: frozenset[int]) -> frozenset[int]:
        """One part after the other."""
        for op, value in nodes:
            if min(starts) >= DEPTH:
                break
            starts = self.part(op, value, starts)
        return starts

    def part(self, op: Any, value: Any, starts: frozenset[int]) -> frozenset[int]:
        """One node of the parsed pattern."""
        if op is sre.LITERAL:
            return self._text(chr(value).encode("utf-8", "replace"), starts)
        if op in (sre.NOT_LITERAL, sre.ANY, sre.IN, sre.CATEGORY):
            return self._one_of(_class([(op, value)] if op is not sre.IN else value), starts)
        if op is sre.AT:
            return starts
        if op is sre.SUBPATTERN and not value[1] & re.IGNORECASE:
            return self.sequence(list(value[3]), starts)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return self._repeated(value, starts)
        if op is sre.BRANCH:
            return frozenset().union(*(self.sequence(list(branch), starts) for branch in value[1]))
        return self.anything(starts)

    def _text(self, text: bytes, starts: frozenset[int]) -> frozenset[int]:
        for start in starts:
            for k, byte in enumerate(text[: max(DEPTH - start, 0)], start):
                self.allowed[k] |= _HIGH if byte > 127 else {byte}
        return _capped(start + len(text) for start in starts)

    def _one_of(self, bytes_: frozenset[int], starts: frozenset[int]) -> frozenset[int]:
        ends: set[int] = set()
        for start in starts:
            if start < DEPTH:
                self.allowed[start] |= bytes_
            if bytes_ - _HIGH:
                ends.add(start + 1)
            if bytes_ & _HIGH:
                for k in range(start + 1, min(start + _LONGEST, DEPTH)):
                    self.allowed[k] |= _HIGH
                ends.update(range(start + 2, start + _LONGEST + 1))
        return _capped(ends)

    def _repeated(self, value: Any, starts: frozenset[int]) -> frozenset[int]:
        least, most, nodes = value
        for _ in range(min(least, DEPTH + 1)):
            starts = self.sequence(list(nodes), starts)
        found = now = starts
        for _ in range(min(most - least, DEPTH + 1)):
            now = self.sequence(list(nodes), now)
            if now <= found:
                break
            found |= now
        return found


def _capped(places: Iterable[int]) -> frozenset[int]:
    return frozenset(min(place, DEPTH) for place in places)


def _class(items: list[tuple[Any, Any]]) -> frozenset[int]:
    """First bytes of a bracket expression; a negated one takes all beyond ASCII."""
    negated = bool(items) and items[0][0] is sre.NEGATE
    found: set[int] = set()
    for op, value in items:
        if op is sre.LITERAL:
            found |= {value} if value < 128 else _HIGH
        elif op is sre.NOT_LITERAL:
            found |= _ALL - ({value} if value < 128 else set())
        elif op is sre.RANGE:
            found |= set(range(value[0], min(value[1], 127) + 1)) | (_HIGH if value[1] > 127 else set())
        elif op is sre.CATEGORY:
            found |= _category(value)
        elif op is sre.ANY:
            found |= _ALL
    return frozenset((set(range(128)) - found) | _HIGH) if negated else frozenset(found)


def _category(value: Any) -> frozenset[int]:
    known = _CATEGORIES.get(value)
    return _ALL if known is None else frozenset(b for b in range(128) if known.match(chr(b))) | _HIGH


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
        elif op is sre.BRANCH:
            runs += _common([_literals(list(branch)) for branch in value[1]])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[0] > 0:
            runs += _literals(list(value[2]))
        runs.append("")
    return [r for r in runs if r]


def _common(branches: list[list[str]]) -> list[str]:
    """The longest text, of three characters at least, that texts of all branches hold."""
    parts = {text[a:b] for text in branches[0] for a in range(len(text)) for b in range(a + LEAST, len(text) + 1)}
    held = [p for p in parts if all(any(p in text for text in texts) for texts in branches[1:])]
    return [max(held, key=lambda p: (len(p), p))] if held else []
