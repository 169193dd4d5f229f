"""Zones as users give them."""

from __future__ import annotations

import pytest

from postmortem.errors import UsageError
from postmortem.zone import seconds_east


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("+08:00", 28_800), ("-0330", -12_600), ("UTC", 0), ("z", 0), ("+00:00", 0), ("+14:00", 50_400), ("-12:00", -43_200), ("+05:45", 20_700)],
)  # fmt: skip
def test_offsets(text: str, seconds: int) -> None:
    assert seconds_east(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "8", "+8", "08:00", "+08:07", "+15:00", "-13:00", "+07:75", "CST", "Asia/Shanghai", "+08:00 "]
)
def test_what_is_no_zone(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as \+08:00"):
        seconds_east(text)
