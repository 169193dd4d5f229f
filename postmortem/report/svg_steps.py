"""The step-time plot as inline SVG: median and range of bins of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape

from postmortem.report.axis import Frame, nice_step, text, tick
from postmortem.report.figures import duration, plural
from postmortem.report.queries import Checkpoint, StepBin

WIDTH, HEIGHT = 1120, 260
BINS = 360
DEGRADED = 1.03
"""A run of steps is degraded from this multiple of the healthy median on (lost_compute.md section 4)."""
HEADROOM = 1.15
FRAME = Frame(64, 26, WIDTH - 64 - 12, HEIGHT - 26 - 44)


@dataclass(frozen=True)  # without slots: the end of the axis is worked out once for all points
class StepPlot:
    """What is drawn; durations of the bins in milliseconds, `healthy_s` in seconds."""

    bins: tuple[StepBin, ...]
    checkpoints: tuple[Checkpoint, ...]
    healthy_s: float | None
    last_durable_step: int | None

    @property
    def first(self) -> int:
        return self.bins[0].first

    @property
    def last(self) -> int:
        return self.bins[-1].last

    @cached_property
    def top_ms(self) -> float:
        """Upper end of the axis: one monstrous step must not flatten all others."""
        typical = sorted(part.typical for part in self.bins)
        high = sorted(part.slowest for part in self.bins)[int(0.98 * (len(self.bins) - 1))]
        return HEADROOM * max(min(high, 5 * typical[len(typical) // 2]), typical[len(typical) // 2], self.healthy_ms)

    @property
    def healthy_ms(self) -> float:
        return 1000 * (self.healthy_s or 0.0)

    def x(self, step: float) -> float:
        return FRAME.left + FRAME.width * (step - self.first + 0.5) / (self.last - self.first + 1)

    def y(self, ms: float) -> float:
        return FRAME.bottom - FRAME.height * min(1.0, max(0.0, ms / self.top_ms))


def degraded_runs(plot: StepPlot) -> list[tuple[int, int]]:
    """First and last step of each run of bins slower than healthy by 3 %; runs of at least 10 steps or 2 % of all."""
    if not plot.healthy_ms:
        return []
    runs: list[tuple[int, int]] = []
    was_slow = False
    for part in plot.bins:
        is_slow = part.typical >= DEGRADED * plot.healthy_ms
        if is_slow and was_slow:
            runs[-1] = (runs[-1][0], part.last)
        elif is_slow:
            runs.append((part.first, part.last))
        was_slow = is_slow
    least = max(10, 0.02 * (plot.last - plot.first + 1))
    return [(first, last) for first, last in runs if last - first + 1 >= least]


def step_times(plot: StepPlot) -> str:
    """The drawing; `plot.bins` must not be empty."""
    parts = [
        f'<svg class="plot steps" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="st-t st-d">',
        '<title id="st-t">Time per step</title>',
        f'<desc id="st-d">{escape(description(plot))}</desc>',
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<path class="hatch" d="M0 0V6"/></pattern></defs>',
    ]
    parts += _axes(plot)
    parts += _degraded(plot)
    parts += _curve(plot)
    parts += _overflow(plot)
    parts += _saves(plot)
    return "".join([*parts, "</svg>"])


def description(plot: StepPlot) -> str:
    """The drawing in words."""
    typical = sorted(part.typical for part in plot.bins)[len(plot.bins) // 2]
    healthy = f", healthy {duration(plot.healthy_s)}" if plot.healthy_s else ""
    runs = degraded_runs(plot)
    slow = "; ".join(f"steps {first:,} to {last:,} degraded" for first, last in runs) or "no degraded period"
    return (
        f"Steps {plot.first:,} to {plot.last:,}: typically {duration(typical / 1000)}{healthy}; {slow}; "
        f"{plural(len(plot.checkpoints), 'finished checkpoint')}. The table below gives the same in figures."
    )


def _axes(plot: StepPlot) -> list[str]:
    parts = []
    step_ms = nice_step(plot.top_ms, 5)
    for number in range(int(plot.top_ms / step_ms) + 1):
        y = plot.y(number * step_ms)
        parts.append(f'<path class="grid" d="M{FRAME.left:.0f} {y:.1f}H{FRAME.right:.0f}"/>')
        parts.append(text(FRAME.left - 8, y + 4, _seconds(number * step_ms), anchor="end"))
    every = max(1, round(nice_step(plot.last - plot.first + 1, 9)))
    for step in range(-(-plot.first // every) * every, plot.last + 1, every):
        parts.append(tick(plot.x(step), FRAME.bottom + 34, f"{step:,}", FRAME))
    parts.append(text(FRAME.left - 8, FRAME.bottom + 34, "step", anchor="end"))
    parts.append(text(FRAME.left - 8, FRAME.bottom + 18, "saves", anchor="end"))
    parts.append(text(2, 14, "time per step: line = median, band = fastest to slowest"))
    return parts


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.4g} s" if ms >= 100 or ms == 0 else f"{ms:,.3g} ms"


def _degraded(plot: StepPlot) -> list[str]:
    parts = []
    for first, last in degraded_runs(plot):
        left, right = plot.x(first - 0.5), plot.x(last + 0.5)
        parts.append(
            f'<rect class="slow" x="{left:.1f}" y="{FRAME.top}" width="{max(1.0, right - left):.1f}" '
            f'height="{FRAME.height}" fill="url(#hatch)"><title>degraded: steps {first:,} to {last:,}</title></rect>'
        )
        if right - left > 60:
            parts.append(text(right - 4, FRAME.bottom - 8, "degraded", "note", "end"))
    return parts


def _curve(plot: StepPlot) -> list[str]:
    parts = []
    middles = [(part, plot.x((part.first + part.last) / 2)) for part in plot.bins]
    if any(part.slowest > part.fastest for part in plot.bins):
        upper = [f"{x:.1f} {plot.y(part.slowest):.1f}" for part, x in middles]
        lower = [f"{x:.1f} {plot.y(part.fastest):.1f}" for part, x in reversed(middles)]
        parts.append(f'<path class="range" d="M{"L".join([*upper, *lower])}Z"/>')
    parts.append(f'<path class="line" d="M{"L".join(f"{x:.1f} {plot.y(part.typical):.1f}" for part, x in middles)}"/>')
    if plot.healthy_s:
        y = plot.y(plot.healthy_ms)
        parts.append(f'<path class="healthy" d="M{FRAME.left:.0f} {y:.1f}H{FRAME.right:.0f}"/>')
        parts.append(text(FRAME.left + 6, y + 16, f"healthy {duration(plot.healthy_s)}", "note"))
    return parts


def _overflow(plot: StepPlot) -> list[str]:
    above = [part for part in plot.bins if part.slowest > plot.top_ms]
    return [
        f'<path class="above" d="M{plot.x((part.first + part.last) / 2) - 4:.1f} {FRAME.top + 6}l4-6 4 6Z">'
        f"<title>up to {duration(part.slowest / 1000)} near step {part.first:,}</title></path>"
        for part in above[:60]
    ]


def _saves(plot: StepPlot) -> list[str]:
    parts = []
    y = FRAME.bottom + 8
    for save in plot.checkpoints:
        css = "save" if save.is_durable else "save soft"
        what = "finished checkpoint" if save.is_durable else "checkpoint that dies with its node"
        parts.append(
            f'<path class="{css}" d="M{plot.x(save.step):.1f} {y:.1f}l5 9h-10Z">'
            f"<title>{what}, step {save.step:,}</title></path>"
        )
    durable = plot.last_durable_step
    if durable is not None and plot.first <= durable <= plot.last:
        x = plot.x(durable)
        parts.append(f'<path class="durable" d="M{x:.1f} {FRAME.top}V{y:.1f}"/>')
        anchor, at = ("end", x - 5) if x > WIDTH / 2 else ("start", x + 5)
        parts.append(text(at, FRAME.top + 12, f"last durable: step {durable:,}", "note", anchor))
    return parts
