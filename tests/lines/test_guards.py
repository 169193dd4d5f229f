"""Guards never refuse what a pattern takes, and say what they can."""

from __future__ import annotations

import re

import polars as pl
import pytest

from postmortem.catalogue.matcher import Matcher
from postmortem.lines.guards import DEPTH, OPEN, guard, needed
from postmortem.lines.headers import HEADERS


def _lets(pattern: str, text: str) -> bool:
    test = guard(pattern)
    begin = text.encode()[:DEPTH].ljust(DEPTH, b"\0")
    return all(flags[b] for flags, b in zip(test.starts, begin, strict=True)) and all(t in text for t in test.literals)


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        (r"^\[rank(?P<rank>[0-9]+)\]: (?P<rest>.*)$", "[rank3]: x", "rank3: x"),
        (r"^(?:Jan|Feb) +[0-9]+ .*: x", "Feb  3 a: x", "Mar  3 a: x"),
        (r"^(?P<mon>[^\W\d_]{3}) kernel: ", "für kernel: ", "123 kernel: "),
        (r"^(?:a|)b", "b", "c"),
        (r"^[^:]+:[0-9]+ NCCL ", "h:1 NCCL ", "h:1 RCCL "),
        (r"^[A-Z][a-z]{2} +[0-9]", "Mar  3", "March 3"),
        (r"^(?:[a-z]{2,3}|é)=[0-9]{2}", "é=12", "1=12"),
        (r"^(?:[a-z]{2,3}|é)=[0-9]{2}", "abc=12", "abcd=12"),
        (r"^[^\W\d_]{3,4}[0-9]", "čšž7", "ab7"),
    ],
)
def test_a_guard_knows_the_first_bytes_and_what_must_be_there(pattern: str, taken: str, refused: str) -> None:
    assert re.search(pattern, taken)
    assert _lets(pattern, taken)
    assert not _lets(pattern, refused)


@pytest.mark.parametrize("pattern", [r"(?i)^abc", r"abc", r"^(?:", r"^x*"])
def test_what_cannot_be_told_is_open(pattern: str) -> None:
    test = guard(pattern)
    assert all(test.starts[0])
    if pattern != r"^x*":
        assert test == OPEN


def test_optional_parts_are_not_demanded() -> None:
    assert guard(r"^a(?:bcd)?e[0-9]*$").literals in {(), ("a", "e"), ("a",), ("e",)}
    assert "bcd" not in guard(r"^a(?:bcd)?e").literals
    assert "bcd" not in guard(r"^(?:abcd|efg)h").literals


def test_what_all_branches_hold_is_demanded() -> None:
    assert guard(r"^[a-z]+(?:NCCL INFO |[0-9]+ NCCL WARN )").literals == ("NCCL ",)
    assert guard(r"^[a-z]+(?:NCCL INFO|RCCL WARN)").literals == ("CCL ",)
    assert guard(r"^[a-z]+(?:NCCL INFO|)").literals == ()


def test_every_header_has_its_guard() -> None:
    assert sum(guard(h.pattern) == OPEN for h in HEADERS) < len(HEADERS) // 10


@pytest.mark.parametrize(
    "pattern",
    [
        r"abc\<def",
        r"\babc\b{start}d",
        r"[a[^b]]cdef]",
        r"[a-z&&[^b]]cdef",
        "(?i)abcdef",
        "(?x)abc def",
        r"(?:abc|def)",
        "a.*b",
    ],
)
def test_nothing_is_needed_where_it_is_not_sure(pattern: str) -> None:
    assert needed(pattern) == ()


def test_what_is_needed_is_in_all_that_the_catalogue_takes(matcher: Matcher) -> None:
    known = 0
    lines = {m.id: [line for s in m.samples for line in s.line.splitlines()] for m in matcher.messages}
    for message in matcher.messages:
        texts = pl.Series("t", lines[message.id], dtype=pl.String)
        for pattern in message.patterns:
            known += bool(needed(pattern))
            # A sample's whole line: patterns that begin with `^` are tried at every place.
            taken = texts.filter(texts.str.contains(pattern.removeprefix("^")))
            assert all(taken.str.contains(text, literal=True).all() for text in needed(pattern)), pattern
    assert known > sum(len(m.patterns) for m in matcher.messages) * 0.8
