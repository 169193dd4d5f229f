"""Scales and labels that the drawings share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from postmortem.report.figures import visible

NICE_SECONDS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
    7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000,
)  # fmt: skip
CHARACTER = 6.1
"""Width of a character of the drawings' labels, in their units (11 px sans serif)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotted rectangle inside a drawing."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Maps time to x; times outside the window lie outside the frame."""

    lo: datetime
    hi: datetime
    frame: Frame

    @property
    def seconds(self) -> float:
        return max((self.hi - self.lo).total_seconds(), 1e-3)

    def x(self, moment: datetime) -> float:
        return self.frame.left + self.frame.width * ((moment - self.lo).total_seconds() / self.seconds)

    def holds(self, moment: datetime | None) -> bool:
        return moment is not None and self.lo <= moment <= self.hi

    def ticks(self, wanted: int) -> Iterator[tuple[float, str]]:
        """At most `wanted` round times with their labels; the date where it changes or days are long."""
        step = next((nice for nice in NICE_SECONDS if self.seconds / nice <= wanted), NICE_SECONDS[-1])
        midnight = datetime(self.lo.year, self.lo.month, self.lo.day)
        first = math.ceil((self.lo - midnight).total_seconds() / step)
        for number in range(first, first + wanted + 1):
            if number * step > (self.hi - midnight).total_seconds():
                return
            moment = midnight + timedelta(seconds=number * step)
            yield self.x(moment), _tick_label(moment, step)


def _tick_label(moment: datetime, step: float) -> str:
    if step >= 86400:
        return moment.date().isoformat()
    if step < 1:
        return moment.time().isoformat("milliseconds")
    if moment.hour == moment.minute == moment.second == 0:
        return f"{moment.date().isoformat()} 00:00"
    return moment.time().isoformat("minutes" if step >= 60 else "seconds")


def nice_step(span: float, wanted: int) -> float:
    """A round step (1, 2 or 5 times a power of ten) that gives at most `wanted` parts of `span`."""
    if not 1e-9 < span < 1e15:
        return 1.0
    rough = span / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def text(x: float, y: float, words: str, css: str = "lbl", anchor: str = "start") -> str:
    """One SVG text element; the words may be hostile."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(visible(words))}</text>'


def tick(x: float, y: float, words: str, frame: Frame) -> str:
    """Label of a tick: centred below it, except at the right edge, which would cut it off."""
    if x + CHARACTER * len(words) / 2 > frame.right + 10:
        return text(frame.right + 10, y, words, anchor="end")
    return text(x, y, words, anchor="middle")


def shorten(words: str, limit: int) -> str:
    """`words` in at most `limit` characters: the middle goes, for names differ at their ends."""
    words = visible(words)
    if len(words) <= limit:
        return words
    tail = (limit - 1) // 2
    return f"{words[: limit - 1 - tail]}…{words[-tail:]}"
