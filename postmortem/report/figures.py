"""How numbers, times and foreign text are printed, the same in every output.

Text out of a bundle is hostile until `visible` has made its invisible characters visible.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from postmortem.analysis.model import Span

UNKNOWN = "not known"
AGREE = 0.01
"""Bounds closer than this share of the best estimate are not printed (lost_compute.md section 9)."""
UNIT_LIMITS = {"min": 60, "h": 24, "d": math.inf}
"""From how many of a unit on the next larger one is used."""

# C0 and C1 controls, zero-width and bidirectional marks, line separators, lone surrogates: they
# hide text, reorder a line on the screen or drive a terminal.
INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def mark(character: str) -> str:
    """Visible stand-in of one invisible character: a control picture, else its code point."""
    code = ord(character)
    if character == "\t":
        return "    "
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def visible(text: str) -> str:
    """`text` on one line, with every invisible character replaced by its stand-in."""
    return INVISIBLE.sub(lambda found: mark(found.group()), text)


def ascii_escaped(document: str) -> str:
    """A JSON text with every invisible character but the line feed as `\\u202e`: the same document, which no terminal obeys."""
    return INVISIBLE.sub(
        lambda found: found.group() if found.group() == "\n" else f"\\u{ord(found.group()):04x}", document
    )


def storable(text: str) -> str:
    """`text` with lone surrogates written as `\\udc80`, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(text: str, limit: int) -> str:
    """The first `limit` characters made visible, at most as many again of stand-ins, and how many are missing."""
    # Cut before the search for invisible characters: a line may be megabytes long.
    head = visible(text[:limit])
    if len(head) > 2 * limit:
        head = f"{head[: 2 * limit]}…"
    return head if len(text) <= limit else f"{head}… ({len(text) - limit:,} more characters)"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Count and noun, such as `1 file` or `2,000 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def significant(value: float) -> str:
    """Three significant digits with thousands separators; in exponent form from 10^15 on."""
    if not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 1e-9:
        return "0"
    if abs(value) >= 1e15:
        return f"{value:.2e}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    # Rounding up may add a digit (9.996 becomes 10.0): the places follow the rounded number.
    places = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def money(value: float) -> str:
    """Whole units from 100 on, else two places."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def agrees(span: Span) -> bool:
    """Whether the bounds agree to one percent, so that one number says it all."""
    return abs(span.hi - span.lo) <= AGREE * abs(span.best)


def percent(share: float | None) -> str:
    """A share as percent with one place."""
    return UNKNOWN if share is None or not math.isfinite(share) else f"{100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that fit: `4.5 s`, `9 min 38 s`, `7 h 05 min`, `3 d 02 h`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    sign, value = ("-" if seconds < 0 else ""), abs(seconds)
    if value < 59.95:
        return f"{sign}{value:.2g} s" if 0.001 <= value < 1 else f"{sign}{value:.1f} s".replace(".0 s", " s")
    # The smaller unit is rounded, which may carry into the larger one: 59 min 59.7 s is 1 h.
    rows = ((1, 60, "min", "s"), (60, 60, "h", "min"), (3600, 24, "d", "h"))
    split = [(*divmod(round(value / small), per), unit, name) for small, per, unit, name in rows]
    big, rest, unit, name = next(part for part in split if part[0] < UNIT_LIMITS[part[2]])
    return f"{sign}{big:,} {unit} {rest:02d} {name}" if rest else f"{sign}{big:,} {unit}"


def size(count: int) -> str:
    """Bytes in decimal units with three significant digits."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{count} B" if unit == "B" else f"{significant(value)} {unit}"
        value /= 1000
    return f"{significant(value)} TB"


def iso(moment: datetime | None) -> str | None:
    """UTC with microseconds and Z, as the JSON document has it."""
    return None if moment is None else moment.isoformat(timespec="microseconds") + "Z"


def clock(moment: datetime | None) -> str:
    """Time of day; milliseconds only where there are any."""
    if moment is None:
        return UNKNOWN
    return moment.time().isoformat("milliseconds" if moment.microsecond >= 1000 else "seconds")


def stamp(moment: datetime | None) -> str:
    """Date and time of day, UTC (the caller says so)."""
    return UNKNOWN if moment is None else f"{moment.date().isoformat()} {clock(moment)}"
