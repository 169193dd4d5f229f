"""Printed times in microseconds, as far as one line tells."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from postmortem.lines.stamps import DEFAULT_YEAR, STAMP_COLUMNS, parse_stamps

NAMES = ("y", "mo", "mon", "d", "hms", "frac", "zone", "md", "epoch")


def stamp(**parts: str) -> dict[str, Any]:
    frame = pl.DataFrame({n: [parts[n]] for n in parts}, schema=dict.fromkeys(parts, pl.String))
    rows = parse_stamps(frame)
    assert rows.columns == list(STAMP_COLUMNS)
    return rows.to_dicts()[0]


def micros(*parts: int) -> int:
    year, month, day, hour, minute, second, us = (*parts, 0, 0, 0)[:7]
    when = datetime(year, month, day, hour, minute, second, us, tzinfo=UTC)
    return int(when.timestamp()) * 1_000_000 + when.microsecond


def test_a_full_date() -> None:
    found = stamp(y="2026", mo="2", d="3", hms="14:02:11", frac="318", zone="Z")
    assert found == {
        "stamp_us": micros(2026, 2, 3, 14, 2, 11, 318_000),
        "stamp_has_year": True,
        "stamp_zone_s": 0,
        "stamp_res_us": 1000,
    }


def test_29_february_without_a_year_is_a_date() -> None:
    found = stamp(mon="Feb", d="29", hms="23:59:59")
    assert found["stamp_us"] == micros(DEFAULT_YEAR, 2, 29, 23, 59, 59)
    assert found["stamp_has_year"] is False


@pytest.mark.parametrize("year", ["2023", "1900"])
def test_29_february_of_a_year_that_has_none(year: str) -> None:
    assert stamp(y=year, mo="2", d="29", hms="00:00:00")["stamp_us"] is None


@pytest.mark.parametrize(
    "parts", [{"mo": "13"}, {"mo": "0"}, {"mon": "Foo"}, {"d": "32"}, {"d": "0"}, {"hms": "25:00:00"}]
)
def test_what_is_no_time(parts: dict[str, str]) -> None:
    base = {"y": "2026", "mo": "2", "d": "3", "hms": "14:02:11"}
    if "mon" in parts:
        del base["mo"]
    assert stamp(**{**base, **parts})["stamp_us"] is None


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [
        ("Z", 0),
        ("UTC", 0),
        ("+02:00", 7200),
        ("-0530", -19_800),
        ("+0545", 20_700),
        ("CEST", 7200),
        ("PDT", -25_200),
        ("MDT", -21_600),
        ("utc", 0),
        ("UTC+1", 3600),
        ("UTC+07:30", 27_000),
        ("-3", -10_800),
        ("IST", None),
        ("CST", None),
        ("XYZ", None),
    ],
)
def test_zones(zone: str, seconds: int | None) -> None:
    assert stamp(y="2026", mo="2", d="3", hms="14:02:11", zone=zone)["stamp_zone_s"] == seconds


@pytest.mark.parametrize(
    ("frac", "us", "resolution"),
    [
        (None, 0, 1_000_000),
        ("5", 500_000, 100_000),
        ("123456", 123_456, 1),
        ("123456789", 123_456, 1),
        ("9999999", 999_999, 1),
    ],
)
def test_fractions_are_cut_to_microseconds(frac: str | None, us: int, resolution: int) -> None:
    parts = {"y": "2026", "mo": "2", "d": "3", "hms": "14:02:11"} | ({"frac": frac} if frac else {})
    found = stamp(**parts)
    assert (found["stamp_us"] % 1_000_000, found["stamp_res_us"]) == (us, resolution)


@pytest.mark.parametrize(("md", "month", "day"), [("1130", 11, 30), ("203", 2, 3), ("0203", 2, 3)])
def test_month_and_day_of_glog(md: str, month: int, day: int) -> None:
    assert stamp(md=md, hms="14:02:11")["stamp_us"] == micros(DEFAULT_YEAR, month, day, 14, 2, 11)


@pytest.mark.parametrize(
    ("mon", "month"), [("Feb", 2), ("FEB", 2), ("mai", 5), ("okt", 10), ("dez", 12), ("Sept", 9), ("3月", 3)]
)
def test_months_in_words(mon: str, month: int) -> None:
    assert stamp(mon=mon, d="3", hms="14:02")["stamp_us"] == micros(DEFAULT_YEAR, month, 3, 14, 2)


def test_an_epoch_is_utc() -> None:
    found = stamp(epoch="1791367204")
    assert (found["stamp_us"], found["stamp_zone_s"], found["stamp_has_year"]) == (1_791_367_204_000_000, 0, True)
