"""The zone of clocks that no line tells it of, as users give it."""

from __future__ import annotations

import re
from typing import Final

from postmortem.errors import UsageError

_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
QUARTER_S: Final = 900


def seconds_east(text: str) -> int:
    """Seconds east of UTC of an offset such as `+08:00`, `-0330` or `UTC`. Raises UsageError for anything else.

    Names of zones are not taken: their offset changes with the date, and a line that lacks the zone often lacks the year as well.
    """
    if text.upper() in {"UTC", "Z"}:
        return 0
    match = _OFFSET.fullmatch(text)
    if match is not None:
        seconds = (int(match[2]) * 60 + int(match[3])) * 60
        east = seconds if match[1] == "+" else -seconds
        if int(match[3]) < 60 and seconds % QUARTER_S == 0 and -43_200 <= east <= 50_400:
            return east
    raise UsageError(f"{text!r} is no zone: give the offset from UTC, such as +08:00, or UTC")
