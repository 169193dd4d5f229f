"""Guards never refuse what a pattern takes, and say what they can."""

from __future__ import annotations

import re

import pytest

from postmortem.lines.guards import OPEN, guard
from postmortem.lines.headers import HEADERS
from postmortem.lines.peel import guards


def _lets(pattern: str, text: str) -> bool:
    test = guard(pattern)
    first = text.encode()[0] if text else 0
    return bool(test.first[first]) and all(t in text for t in test.literals)


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        (r"^\[rank(?P<rank>[0-9]+)\]: (?P<rest>.*)$", "[rank3]: x", "rank3: x"),
        (r"^(?:Jan|Feb) +[0-9]+ .*: x", "Feb  3 a: x", "Mar  3 a: x"),
        (r"^(?P<mon>[^\W\d_]{3}) kernel: ", "für kernel: ", "123 kernel: "),
        (r"^(?:a|)b", "b", "c"),
        (r"^[^:]+:[0-9]+ NCCL ", "h:1 NCCL ", "h:1 RCCL "),
    ],
)
def test_a_guard_knows_the_first_byte_and_what_must_be_there(pattern: str, taken: str, refused: str) -> None:
    assert re.search(pattern, taken)
    assert _lets(pattern, taken)
    assert not _lets(pattern, refused)


@pytest.mark.parametrize("pattern", [r"(?i)^abc", r"abc", r"^(?:", r"^x*"])
def test_what_cannot_be_told_is_open(pattern: str) -> None:
    test = guard(pattern)
    assert all(test.first)
    if pattern != r"^x*":
        assert test == OPEN


def test_optional_parts_are_not_demanded() -> None:
    assert guard(r"^a(?:bcd)?e[0-9]*$").literals in {(), ("a", "e"), ("a",), ("e",)}
    assert "bcd" not in guard(r"^a(?:bcd)?e").literals
    assert "bcd" not in guard(r"^(?:abcd|efg)h").literals


def test_every_header_has_its_guard() -> None:
    assert len(guards()) == len(HEADERS)
    assert sum(g == OPEN for g in guards()) < len(HEADERS) // 10
