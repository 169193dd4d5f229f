"""Workers of a traced job as inline SVG: a strip per pipeline stage, a dot per worker at its own work over that of its stage."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from postmortem.report.axis import CHARACTER, Frame, nice_step, text
from postmortem.report.figures import plural, visible

WIDTH = 1120
LABEL = 168
STRIP = 24
STAGES, NAMED = 32, 12


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a trace; `slowdown` only of a slow one."""

    trace: str
    rank: int
    stage: int
    ratio: float
    slowdown: float | None
    since_step: int | None
    kind: str


def rank_strips(workers: tuple[Worker, ...], number: int) -> str:
    """The drawing of one trace's workers, at least one; `number` keeps the ids of several drawings apart."""
    stages = sorted({w.stage for w in workers})[:STAGES]
    low = min(0.95, *(w.ratio for w in workers))
    high = max(1.1, *(w.ratio for w in workers))
    pad = 0.04 * (high - low)
    low, high = low - pad, high + pad
    frame = Frame(LABEL, 8, WIDTH - LABEL - 12, STRIP * len(stages))

    def x(ratio: float) -> float:
        return frame.left + frame.width * (ratio - low) / (high - low)

    parts = [
        f'<svg class="plot ranks" viewBox="0 0 {WIDTH} {frame.bottom + 38:.0f}" role="img" aria-labelledby="rk{number}-t rk{number}-d">',
        f'<title id="rk{number}-t">Work of each worker against its pipeline stage</title>',
        f'<desc id="rk{number}-d">{escape(visible(description(workers)))}</desc>',
    ]
    parts += [
        f'<rect class="stripe" x="0" y="{frame.top + STRIP * place:.0f}" width="{WIDTH}" height="{STRIP}"/>'
        for place in range(0, len(stages), 2)
    ]
    step = nice_step(high - low, 8)
    for n in range(int(low / step) - 1, int(high / step) + 2):
        if low <= n * step <= high:
            at = x(n * step)
            parts.append(f'<path class="grid" d="M{at:.1f} {frame.top:.0f}V{frame.bottom:.0f}"/>')
            parts.append(text(at, frame.bottom + 16, f"{n * step:.3g}", anchor="middle"))
    parts.append(text(frame.right + 10, frame.bottom + 33, "own work over the median of the stage", anchor="end"))
    named = {w.rank for w in sorted((w for w in workers if w.kind), key=lambda w: -w.ratio)[:NAMED]}
    for place, stage in enumerate(stages):
        middle = frame.top + STRIP * place + STRIP / 2
        parts.append(text(LABEL - 12, middle + 4, f"stage {stage}", "lane-name", "end"))
        own = [w for w in workers if w.stage == stage]
        dots = "".join(f"M{x(w.ratio) - 4:.1f} {middle:.1f}a4 4 0 1 0 8 0a4 4 0 1 0-8 0" for w in own if not w.kind)
        parts.append(f'<path class="dots" d="{dots}"/>' if dots else "")
        for w in own:
            if w.kind:
                parts.append(f'<path class="sev-error" d="M{x(w.ratio):.1f} {middle - 6:.1f}l6 6-6 6-6-6Z"/>')
            if w.rank in named:
                words = f"rank {w.rank}, {w.ratio:.2f} times"
                fits = x(w.ratio) + 12 + CHARACTER * len(words) < frame.right
                parts.append(
                    text(x(w.ratio) + (10 if fits else -10), middle + 4, words, "note", "start" if fits else "end")
                )
    return "".join([*parts, "</svg>"])


def description(workers: tuple[Worker, ...]) -> str:
    """The drawing in words."""
    slow = sorted((w for w in workers if w.kind), key=lambda w: -w.ratio)
    who = ", ".join(f"rank {w.rank} of stage {w.stage} ({w.ratio:.2f} times)" for w in slow[:NAMED])
    return f"{plural(len(workers), 'worker')} in {plural(len({w.stage for w in workers}), 'pipeline stage')}; " + (
        f"slow: {who}." if slow else "none is slow against its own stage."
    )
