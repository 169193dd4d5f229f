"""Latencies of queue pairs as inline SVG: a strip per host on one logarithmic axis, the slow pairs named below their host's strip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from postmortem.report.axis import CHARACTER, Frame, shorten, text
from postmortem.report.figures import plural, significant, visible

WIDTH = 1120
LABEL = 168
STRIP, ROW = 34, 28
HOSTS, NAMED = 16, 12
LIMIT_US = 100.0
"""Beyond it, and ten times the usual tail, a queue pair is slow (rule I8)."""

BINS_PER_DECADE = 20
SLOW_WINDOWS = 3


@dataclass(frozen=True, slots=True)
class Tail:
    """A queue pair: usual median and 99th percentile over its windows, its longest request and worst window, microseconds."""

    host: str
    dev: str
    qpn: int
    p50_us: float
    p99_us: float
    max_us: float
    slow_windows: int
    windows: int
    worst_us: float
    rank: int | None
    file: str
    label: str = ""

    @property
    def is_slow(self) -> bool:
        return self.slow_windows >= SLOW_WINDOWS


@dataclass(frozen=True, slots=True)
class Strips:
    """What is drawn: requests per (host, bin of latency), queue pairs; hosts beyond `HOSTS` are counted in `more`."""

    requests: dict[str, dict[int, int]]
    tails: tuple[Tail, ...]
    more: int = 0

    @property
    def low(self) -> float:
        return 10.0 ** math.floor(min(b for bins in self.requests.values() for b in bins) / BINS_PER_DECADE)

    @property
    def high(self) -> float:
        top = max(b + 1 for bins in self.requests.values() for b in bins)
        return max(10.0 ** math.ceil(top / BINS_PER_DECADE), 10 * self.low)


def strips(picture: Strips) -> str:
    """The drawing; `picture.requests` must not be empty."""
    lanes = _lanes(picture)
    height = sum(STRIP + ROW * len(slow) for _, slow in lanes)
    frame = Frame(LABEL, 22, WIDTH - LABEL - 12, height)
    parts = [
        f'<svg class="plot qps" viewBox="0 0 {WIDTH} {frame.bottom + 40:.0f}" role="img" aria-labelledby="qp-t qp-d">',
        '<title id="qp-t">How long requests of queue pairs took, by host</title>',
        f'<desc id="qp-d">{escape(visible(description(picture)))}</desc>',
    ]
    y = frame.top
    for number, (_, slow) in enumerate(lanes):
        tall = STRIP + ROW * len(slow)
        if number % 2 == 0:
            parts.append(f'<rect class="stripe" x="0" y="{y:.0f}" width="{WIDTH}" height="{tall}"/>')
        y += tall
    parts += _axis(picture, frame)
    y = frame.top
    for host, slow in lanes:
        parts += _strip(picture, frame, host, y)
        for row, tail in enumerate(slow):
            parts.append(_slow(picture, frame, tail, y + STRIP + ROW * row + ROW - 10))
        y += STRIP + ROW * len(slow)
    return "".join([*parts, "</svg>"])


def description(picture: Strips) -> str:
    """The drawing in words."""
    slow = [t for t in picture.tails if t.is_slow]
    who = "; ".join(
        f"{_name(t)}: 99th percentile {significant(t.p99_us)} µs as a rule, {significant(t.worst_us)} µs in its worst window"
        for t in slow[:6]
    )
    requests = sum(sum(bins.values()) for bins in picture.requests.values())
    return (
        f"{plural(requests, 'timed request')} on {plural(len(picture.requests) + picture.more, 'host')}. "
        + (f"{plural(len(slow), 'slow queue pair')}: {who}. " if slow else "No slow queue pair. ")
        + "Times are as for the commonest size of a message. The table below gives the same in figures."
    )


def _name(tail: Tail) -> str:
    return tail.label or f"queue pair {tail.qpn} of {tail.dev or 'an unnamed NIC'}"


def _lanes(picture: Strips) -> list[tuple[str, list[Tail]]]:
    """Hosts with their slow queue pairs, those with slow ones first; at most `NAMED` pairs in all."""
    slow = [t for t in picture.tails if t.is_slow and t.host in picture.requests][:NAMED]
    order = sorted(picture.requests, key=lambda h: (-sum(t.host == h for t in slow), h))
    return [(h, [t for t in slow if t.host == h]) for h in order]


def _x(picture: Strips, frame: Frame, us: float) -> float:
    span = math.log10(picture.high / picture.low)
    share = math.log10(max(us, picture.low) / picture.low) / span
    return frame.left + frame.width * min(1.0, share)


def _axis(picture: Strips, frame: Frame) -> list[str]:
    parts = []
    power = picture.low
    while power <= picture.high * 1.0001:
        for factor in (1, 2, 5):
            us = factor * power
            if us > picture.high * 1.0001:
                break
            x = _x(picture, frame, us)
            parts.append(f'<path class="grid" d="M{x:.1f} {frame.top:.0f}V{frame.bottom:.0f}"/>')
            anchor = "end" if x > frame.right - 14 else "middle"
            parts.append(text(min(x, frame.right + 10), frame.bottom + 16, _microseconds(us), anchor=anchor))
        power *= 10
    parts.append(text(frame.right + 10, frame.bottom + 34, "time of a request, logarithmic", anchor="end"))
    if picture.low < LIMIT_US < picture.high:
        x = _x(picture, frame, LIMIT_US)
        parts.append(f'<path class="mark detected" d="M{x:.1f} {frame.top - 4:.0f}V{frame.bottom:.0f}"/>')
        parts.append(text(x, 13, "slow beyond 100 µs", "note", "middle"))
    return parts


def _microseconds(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:g} s"
    return f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} µs"


def _strip(picture: Strips, frame: Frame, host: str, y: float) -> list[str]:
    """Density of a host's requests (square root, so that a few stay visible beside thousands) and a tick per queue pair's usual tail."""
    bins = picture.requests[host]
    most = max(bins.values())
    floor = y + STRIP - 8
    bars = []
    for number, count in sorted(bins.items()):
        left = _x(picture, frame, 10 ** (number / BINS_PER_DECADE))
        right = _x(picture, frame, 10 ** ((number + 1) / BINS_PER_DECADE))
        tall = max(1.5, (STRIP - 12) * (count / most) ** 0.5)
        bars.append(
            f"M{left:.1f} {floor:.1f}h{max(1.0, right - left - 1):.1f}v-{tall:.1f}h-{max(1.0, right - left - 1):.1f}z"
        )
    ticks = "".join(
        f"M{_x(picture, frame, t.p99_us):.1f} {floor + 1:.1f}v5"
        for t in picture.tails
        if t.host == host and not t.is_slow
    )
    name = text(LABEL - 12, y + STRIP / 2 + 5, shorten(host, 24), "lane-name", "end")
    return [name, f'<path class="density" d="{"".join(bars)}"/>', f'<path class="mark" d="{ticks}"/>' if ticks else ""]


def _slow(picture: Strips, frame: Frame, tail: Tail, y: float) -> str:
    """A slow queue pair: line from its median to its longest request, a diamond at its worst window's 99th percentile, its name."""
    left, right, at = (_x(picture, frame, us) for us in (tail.p50_us, tail.max_us, tail.worst_us))
    words = _name(tail)
    room = CHARACTER * len(words)
    name = text(min(left, frame.right - room), y - 7, words, "note")
    return (
        f'<g class="sev-error"><path class="reach" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
        f'<path d="M{at:.1f} {y - 5:.1f}l5 5-5 5-5-5Z"><title>{escape(visible(words))}</title></path></g>{name}'
    )
