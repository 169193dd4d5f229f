"""The partition of the job's time as inline SVG: one stacked bar, and below it what was lost with its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from postmortem.analysis.model import Bin, Loss, Span
from postmortem.report.axis import CHARACTER, NICE_SECONDS, Frame, text, tick
from postmortem.report.figures import agrees, duration, visible
from postmortem.report.words import bin_title

WIDTH, HEIGHT = 1120, 132
FRAME = Frame(64, 22, WIDTH - 64 - 12, 34)
LOST_TOP, LOST_HEIGHT = 70, 18
KINDS: dict[str, str] = {"productive": "kept", "queue": "queue", "other": "other"}
"""What a bin is drawn as where it is not lost; all else is overhead."""


def kind_of(part: Bin) -> str:
    """lost, kept, over, queue or other: the CSS class of a bin is `bin-` and this."""
    return "lost" if part.is_lost else KINDS.get(part.bin, "over")


def _size(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def shown_bins(loss: Loss) -> list[Bin]:
    """Bins that hold time, in the order of the partition."""
    return [part for part in loss.bins[:60] if _size(part.best_s) > 0]


def description(loss: Loss) -> str:
    """The drawing in words."""
    parts = ", ".join(f"{bin_title(part.bin)} {duration(part.best_s)}" for part in shown_bins(loss))
    return f"In order of time: {parts}."


def loss_bar(loss: Loss) -> str | None:
    """The drawing; None when no bin holds time."""
    bins = shown_bins(loss)
    total = sum(part.best_s for part in bins)
    if total <= 0:
        return None
    lost = loss.lost_s
    reach = max(total, _size(lost.hi) if lost is not None else 0.0)
    scale = FRAME.width / reach
    parts = [
        f'<svg class="plot loss-bar" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="lb-t lb-d">',
        '<title id="lb-t">Where the time went</title>',
        f'<desc id="lb-d">{escape(visible(description(loss)))}</desc>',
        text(FRAME.left - 8, FRAME.top + 22, "time", anchor="end"),
    ]
    parts += _segments(bins, scale)
    if lost is not None:
        parts += _lost(lost, scale)
    parts += _axis(reach, scale)
    return "".join([*parts, "</svg>"])


def _segments(bins: list[Bin], scale: float) -> Iterator[str]:
    x = FRAME.left
    free = FRAME.left
    for part in bins:
        width = part.best_s * scale
        # A sliver stays visible; a gap of one unit parts neighbours of the same kind.
        drawn = max(1.0, width - (1.0 if width > 3 else 0.0))
        title = escape(visible(f"{part.bin}: {duration(part.best_s)}, {part.basis}"))
        yield (
            f'<rect class="bin-{kind_of(part)}" x="{x:.1f}" y="{FRAME.top}" width="{drawn:.1f}" height="{FRAME.height}">'
            f"<title>{title}</title></rect>"
        )
        at, long = max(x + 1, free), CHARACTER * len(part.bin)
        if at + long <= x + width:
            yield text(at, FRAME.top - 7, part.bin)
            free = at + long + 8
        x += width


def _lost(lost: Span, scale: float) -> Iterator[str]:
    best, low, high = (FRAME.left + _size(value) * scale for value in (lost.best, lost.lo, lost.hi))
    middle = LOST_TOP + LOST_HEIGHT / 2
    yield text(FRAME.left - 8, middle + 4, "lost", anchor="end")
    yield (
        f'<rect class="bin-lost" x="{FRAME.left}" y="{LOST_TOP}" width="{max(1.0, best - FRAME.left):.1f}" '
        f'height="{LOST_HEIGHT}"/>'
    )
    words = duration(lost.best)
    if not agrees(lost) and high - low > 1:
        yield (
            f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} {middle - 5}v10"/>'
        )
        words = f"{words}, between {duration(lost.lo)} and {duration(lost.hi)}"
    right = max(best, high) + 8
    if right + CHARACTER * len(words) > WIDTH:
        yield text(FRAME.right, LOST_TOP + LOST_HEIGHT + 13, words, anchor="end")
    else:
        yield text(right, middle + 4, words)


def _axis(reach: float, scale: float) -> Iterator[str]:
    step = next((nice for nice in NICE_SECONDS if reach / nice <= 8), NICE_SECONDS[-1])
    base = HEIGHT - 22
    yield f'<path class="axis" d="M{FRAME.left} {base}H{FRAME.right:.1f}"/>'
    for number in range(int(reach / step) + 1):
        x = FRAME.left + number * step * scale
        yield f'<path class="axis" d="M{x:.1f} {base}v4"/>'
        yield tick(x, base + 17, "0" if number == 0 else duration(number * step), FRAME)
