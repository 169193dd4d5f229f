"""What the readers of counters share: rows of the table `counters`, whose port a text speaks of, when it was read.

A reader takes one line after the other and says whether the line is of its format. The same reader recognises a file (most of
the first lines are its own) and reads it. Python loops: what a line counts depends on the headers and commands above it, and
these outputs have some thousand lines at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, Protocol

import polars as pl

from postmortem.decoders.base import MAX_TEXT, Decoded, Head, Hints, MemberLike, Row, read_text, schema_of, stamp
from postmortem.patterns import later

MAX_COUNTERS: Final = 200_000
"""Readings kept of one file; the rest is noted."""

MAX_VALUE: Final = 1e300
_HEAD_LINES: Final = 400
_MAX_LINE: Final = 2000

HCA: Final = r"(?:mlx[45]_(?:bond_)?[0-9]+|bnxt_re[0-9]+|irdma[0-9]+|hfi1_[0-9]+|efa_[0-9]+|rdmap[0-9a-z]+|roce[pPo][0-9A-Za-z]+|ibp[0-9]+s[0-9a-z]+|smi[0-9]+)"
INTERFACE: Final = r"(?:en[opsxP][A-Za-z0-9]+|eth[0-9]+|ib[0-9]+|ib[ps][0-9][A-Za-z0-9]*|bond[0-9]+|swp[0-9]+(?:s[0-9]+)?|rdma[0-9]+|p[0-9]+p[0-9]+|em[0-9]+|ens[0-9][A-Za-z0-9]*)"
_NAMED_HCA: Final = later(rf"(?<![A-Za-z0-9])({HCA})(?![A-Za-z0-9])")
_NAMED_INTERFACE: Final = later(rf"(?<![A-Za-z0-9])({INTERFACE})(?![A-Za-z0-9])")
_PROMPT_HOST: Final = later(r"^\[?[A-Za-z0-9_.-]+@([A-Za-z0-9][A-Za-z0-9.-]*)[^#$>]{0,80}[#$>]\s")
_ANSI: Final = later(r"\x1b\[[0-9;]*m")

_CTIME: Final = later(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:([A-Z][a-z]{2}) +([0-9]{1,2})|([0-9]{1,2}) ([A-Z][a-z]{2}) (20[0-9]{2}))"
    r" ([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?: ([AP]M))? ([A-Z]{3,4}|[+-][0-9]{4})(?: (20[0-9]{2}))?\b"
)
_ISO: Final = later(
    r"(?<![0-9])(20[0-9]{2}-[01][0-9]-[0-3][0-9])[T ]([0-2][0-9]:[0-5][0-9]:[0-5][0-9])([.,][0-9]{1,9})? ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})(?![0-9])"
)
_EPOCH: Final = later(
    r"^\W{0,12}(?:timestamp|time|epoch|date)?[:= ]{0,3}(1[0-9]{9})(?:\.[0-9]+)?\W{0,12}$", re.IGNORECASE
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ZONES: Final = {
    "UTC": 0, "GMT": 0, "CET": 3600, "CEST": 7200, "MSK": 10800, "JST": 32400, "AEST": 36000, "EST": -18000,
    "EDT": -14400, "MST": -25200, "PST": -28800, "PDT": -25200, "CDT": -18000,
}  # fmt: skip
"""Seconds east of UTC of names of zones that mean one thing (CST is three)."""


def stated_time(line: str) -> datetime | None:
    """UTC without zone, of a line that states a time with its zone: `date`, ISO 8601, seconds since 1970; else None."""
    line = line[:300]
    found = _EPOCH.match(line)
    try:
        if found:
            return datetime.fromtimestamp(int(found[1]), UTC).replace(tzinfo=None)
        if found := _ISO.search(line):
            zone = found[4].replace("UTC", "Z")
            when = datetime.fromisoformat(f"{found[1]}T{found[2]}{(found[3] or '').replace(',', '.')[:7]}{zone}")
            return when.astimezone(UTC).replace(tzinfo=None)
        if found := _CTIME.search(line):
            return _of_date(found)
    except (ValueError, OverflowError):
        return None
    return None


def _of_date(found: re.Match[str]) -> datetime | None:
    month, day, year = found[1] or found[4], found[2] or found[3], found[5] or found[11]
    zone = found[10]
    if zone[0] in "+-":
        offset: int | None = (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    else:
        offset = ZONES.get(zone)
    if offset is None or year is None or month not in _MONTHS:
        return None
    hour = int(found[6]) % 12 + (12 if found[9] == "PM" else 0) if found[9] else int(found[6])
    local = datetime(int(year), _MONTHS.index(month) + 1, int(day), hour, int(found[7]), int(found[8]))
    return local - timedelta(seconds=offset)


def named_hca(text: str) -> str | None:
    """The HCA that a command line or the last part of a path names; None for none and for several."""
    found = set(_NAMED_HCA.findall(text))
    return found.pop() if len(found) == 1 else None


def named_interface(text: str) -> str | None:
    """The network interface that a command line or the last part of a path names; None for none and for several."""
    found = set(_NAMED_INTERFACE.findall(text))
    return found.pop() if len(found) == 1 else None


def base_name(name: str) -> str:
    """The last part of a member's path, archives' separators taken for folders."""
    return name.replace("!", "/").rsplit("/", 1)[-1]


def prompt_host(line: str) -> str | None:
    """The host in a shell's prompt in front of a command."""
    found = _PROMPT_HOST.match(line)
    return found[1].split(".")[0] if found else None


class Sheet:
    """Readings of one file, column by column; `ts`, `host`, `dev`, `port` and `ifname` are those of the rows to come."""

    def __init__(self, program: str, name: str, host: str | None = None) -> None:
        self.program = program
        self.name = name
        self.host = host
        self.ts: datetime | None = None
        self.dev: str | None = None
        self.port: str | None = None
        self.ifname: str | None = None
        self.events: list[Row] = []
        self.left_out = 0
        self._rows: list[tuple[object, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        counter: str,
        value: float,
        line: int,
        *,
        dev: str | None = None,
        port: str | None = None,
        ifname: str | None = None,
    ) -> None:
        """One reading; what is not given is what the sheet says."""
        if len(self._rows) >= MAX_COUNTERS or abs(value) > MAX_VALUE:
            self.left_out += 1
            return
        self._rows.append(
            (self.ts, self.host, dev or self.dev, port or self.port, ifname or self.ifname, counter[:200], float(value), line)
        )  # fmt: skip

    def event(self, name: str, line: int, text: str, reason: str) -> None:
        """What the program itself calls bad, of the port that the sheet is at; times are UTC."""
        when = None if self.ts is None else self.ts.replace(tzinfo=UTC)
        self.events.append(
            {
                "event": name,
                "severity": "warning",
                "source": "host",
                "host": self.host,
                "dev": self.dev,
                "port": self.port,
                "ifname": self.ifname,
                "reason": reason[:200],
                "file": self.name,
                "line": line,
                "offset": 0,
                "text": text[:MAX_TEXT],
                "message": text.strip()[:MAX_TEXT],
                **stamp(when),
            }
        )

    def put(self, decoded: Decoded) -> None:
        """Hand the readings over."""
        if self.left_out:
            decoded.notes.append(f"{self.left_out} counters beyond the first {MAX_COUNTERS} were left out")
        decoded.put("events", self.events[:1000])
        if not self._rows:
            return
        known = schema_of("counters")
        names = ("ts", "host", "dev", "port", "ifname", "counter", "value", "line")
        frame = pl.DataFrame(
            {n: pl.Series(n, [row[i] for row in self._rows], dtype=known[n], strict=False) for i, n in enumerate(names)}
        )
        decoded.tables["counters"] = frame.with_columns(
            program=pl.lit(self.program), file=pl.lit(self.name), delta=pl.lit(None, dtype=pl.Float64)
        )


class Reader(Protocol):
    """Reads a format line by line."""

    def feed(self, number: int, line: str) -> bool:
        """Take a line; whether it is one of the format (blank lines are)."""
        ...


MakeReader = Callable[[Sheet], Reader]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        yield number, (_ANSI.sub("", line) if "\x1b" in line else line)[:_MAX_LINE].rstrip()


def looks_like(head: Head, make: MakeReader, least: int = 2, share: float = 0.8) -> bool:
    """Whether a reader understands at least `share` of the first lines and finds `least` readings in them."""
    text = head.text
    if len(text) > 8000:
        text = text[:8000].rsplit("\n", 1)[0]
    sheet = Sheet("", head.name)
    reader = make(sheet)
    lines = list(islice(_lines(text), _HEAD_LINES))
    seen = sum(1 for _, line in lines if line.strip())
    unknown = 0
    for number, line in lines:
        if not reader.feed(number, line) and line.strip():
            unknown += 1
            if seen - unknown < share * seen:
                return False
    return len(sheet) >= least or bool(sheet.events)


def read(member: MemberLike, hints: Hints, program: str, make: MakeReader) -> Decoded:
    """All readings of a member by a reader; lines that are not of the format only move the time."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet(program, member.name, hints.host)
    reader = make(sheet)
    unread = 0
    for number, line in _lines(text):
        if reader.feed(number, line) or not line.strip():
            continue
        when = stated_time(line)
        if when is not None:
            sheet.ts = when
        else:
            unread += 1
    if unread:
        decoded.notes.append(f"{unread} lines that are no counters")
    sheet.put(decoded)
    return decoded


class Framed:
    """Base of readers: times, prompts and rules between outputs are of every format."""

    command: re.Pattern[str] | None = None

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    def feed(self, number: int, line: str) -> bool:
        """A command that may name what is read, then the format's own lines, then a time or a rule."""
        if not line.strip():
            self.on_blank()
            return True
        found = self.command.search(line[:400]) if self.command else None
        if found:
            self.sheet.host = prompt_host(line) or self.sheet.host
            self.on_command(line, found)
            return True
        if self.on_line(number, line):
            return True
        when = stated_time(line)
        if when is not None:
            self.sheet.ts = when
            return True
        return re.fullmatch(r"[-=*#+ ]{3,}", line) is not None

    def on_blank(self) -> None:
        """A blank line."""

    def on_command(self, line: str, found: re.Match[str]) -> None:
        """The command whose output follows."""

    def on_line(self, number: int, line: str) -> bool:
        """Any other line."""
        raise NotImplementedError
