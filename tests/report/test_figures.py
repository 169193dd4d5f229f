"""Rounding, durations and the taming of foreign text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.analysis.model import Span
from postmortem.report.axis import nice_step, shorten
from postmortem.report.figures import INVISIBLE, agrees, duration, money, shown, significant, size, storable, visible


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (302.13, "302"),
        (0, "0"),
        (12_345, "12,300"),
        (0.012345, "0.0123"),
        (9.996, "10.0"),
        (99.96, "100"),
        (-4.5678, "-4.57"),
        (1.0, "1.00"),
        (float("nan"), "not known"),
    ],
)
def test_gpu_hours_have_three_significant_digits(value: float, expected: str) -> None:
    assert significant(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(755.33, "755"), (100, "100"), (99.5, "99.50"), (1e6, "1,000,000")])
def test_money_is_whole_from_a_hundred_on(value: float, expected: str) -> None:
    assert money(value) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (1e-7, "0 s"),
        (3599.7, "1 h"),
        (4.5, "4.5 s"),
        (59.99, "1 min"),
        (577.9, "9 min 38 s"),
        (26_094.6, "7 h 15 min"),
        (3600, "1 h"),
        (90_000, "1 d 01 h"),
        (-75, "-1 min 15 s"),
        (None, "not known"),
        (float("inf"), "not known"),
    ],
)
def test_durations_use_the_units_that_fit(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected


def test_bounds_that_agree_to_one_percent_are_one_number() -> None:
    assert agrees(Span(99.6, 100, 100.4))
    assert not agrees(Span(99, 100, 101))
    assert agrees(Span(0, 0, 0))


def test_sizes_are_decimal() -> None:
    assert [size(0), size(999), size(1_440_000), size(10**13)] == ["0 B", "999 B", "1.44 MB", "10.0 TB"]


def test_control_and_bidi_characters_become_visible() -> None:
    assert visible("a\x00b\x1b[31m\u202ec\r\n\x7f\u200b") == "a␀b␛[31m⟨U+202E⟩c␍␊␡⟨U+200B⟩"


@given(st.text(st.characters(), max_size=60))
def test_no_text_keeps_an_invisible_character(text: str) -> None:
    assert not INVISIBLE.search(visible(text))
    visible(text).encode("utf-8")
    storable(text).encode("utf-8")


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_number_is_too_odd_to_print(value: float) -> None:
    assert significant(value)
    assert duration(value)
    assert money(value)
    assert nice_step(value, 5) > 0


def test_cut_text_says_how_much_is_missing() -> None:
    assert shown("abc", 3) == "abc"
    assert shown("abcdef", 3) == "abc… (3 more characters)"
    assert shown("\u202e" * 9, 4) == "⟨U+202E⟩…… (5 more characters)"
    assert shorten("a-very-long-host-name.example", 11) == "a-ver…ample" or len(shorten("a" * 40, 11)) == 11
