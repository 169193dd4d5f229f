"""The parts that line headers are made of, and the record that describes one header.

A header is an anchored pattern (Rust dialect) with named groups out of a fixed set; `rest` is what
is left of the line. Groups: `y mo mon d hms frac zone md epoch` (parts of a printed time), `up`
(uptime, seconds) or `upus` (microseconds), `host pid tid rank lrank gpu tag src lvl pod`, `times` (how often syslog saw the line).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HMS: Final = r"(?P<hms>[0-9]{2}:[0-9]{2}:[0-9]{2})"
FRAC: Final = r"(?:[.,:](?P<frac>[0-9]{1,9}))?"
ZONE: Final = r"(?: ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?"
DATE: Final = r"(?P<y>(?:19|20)[0-9]{2})[-/.](?P<mo>[0-9]{1,2})[-/.](?P<d>[0-9]{1,2})"
ISO: Final = DATE + r"[T _]" + HMS + r"(?:[.,](?P<frac>[0-9]{1,9}))?" + ZONE
MON: Final = r"(?P<mon>[^\W\d_]{3,4})\.?"
BSD: Final = MON + r" +(?P<d>[0-9]{1,2}) " + HMS + r"(?:\.(?P<frac>[0-9]{1,9}))?"
REST: Final = r"(?P<rest>.*)$"
HOST: Final = r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*)"
TAG: Final = r"(?P<tag>[A-Za-z_/(][A-Za-z0-9_./()#@-]*?)(?:\[(?P<pid>[0-9]+)\])?: ?"


@dataclass(frozen=True, slots=True)
class Header:
    """One header that can be taken off the front of a line.

    `kind` is what definitions may require; several headers may share a kind. `first` is a literal
    that every such line holds within its header, where there is one; it only saves time.
    """

    kind: str
    pattern: str
