"""The swim-lane timeline as inline SVG.

Binned to cells of the drawing: its size follows the lanes, not the events. Severity has a shape of
its own besides its colour, which the page's style sheet gives.
"""

from __future__ import annotations

from html import escape

from postmortem.report.axis import CHARACTER, Frame, TimeScale, shorten, text, tick
from postmortem.report.figures import clock, plural, stamp
from postmortem.report.queries import Lane, LaneBin
from postmortem.report.timeline import BINS, NO_PLACE, Marker, Timeline

WIDTH = 1120
LABEL = 168
LANE = 22
MARKER_ROW = 15
SEVERITIES = ("info", "warning", "error", "fatal")
SHAPES = (
    '<symbol id="s1" viewBox="0 0 12 12"><path d="M6 1.5 11 10.5H1Z"/></symbol>'
    '<symbol id="s2" viewBox="0 0 12 12"><path d="M6 .8 11.2 6 6 11.2.8 6Z"/></symbol>'
    '<symbol id="s3" viewBox="0 0 12 12"><path d="M1.3 1.3h9.4v9.4H1.3Z"/>'
    '<path class="cut" d="M3.6 3.6 8.4 8.4M8.4 3.6 3.6 8.4"/></symbol>'
)


def swim_lanes(timeline: Timeline) -> str:
    """The drawing: lanes from the culprit down, markers across, time below."""
    rows = _rows(timeline)
    labels = _marker_rows(timeline)
    top = MARKER_ROW * (max((row for _, row in labels), default=-1) + 1) + 8
    frame = Frame(LABEL, top, WIDTH - LABEL - 12, LANE * len(rows))
    scale = TimeScale(timeline.lo, timeline.hi, frame)
    parts = [
        f'<svg class="plot lanes" viewBox="0 0 {WIDTH} {frame.bottom + 26:.0f}" role="img" aria-labelledby="tl-t tl-d"'
        ">",
        '<title id="tl-t">Events by place around the end of the job</title>',
        f'<desc id="tl-d">{escape(description(timeline))}</desc>',
        f"<defs>{SHAPES}</defs>",
    ]
    parts += _grid(scale, len(rows))
    parts += [part for mark in timeline.markers for part in _band(mark, scale)]
    for number, (place, name, css) in enumerate(rows):
        parts += _lane(timeline, scale, number, place, name, css)
    # All lines before all names: a name stays readable where an earlier time's line crosses it.
    parts += [_marker_line(mark, row, scale) for mark, row in labels]
    parts += [_marker_name(mark, row, scale) for mark, row in labels]
    return "".join([*parts, "</svg>"])


def description(timeline: Timeline) -> str:
    """The drawing in words."""
    shown = plural(len(timeline.lanes), "lane")
    rest = f" and one for {plural(timeline.rest_places, 'more place')}" if timeline.rest else ""
    marks = "; ".join(f"{mark.name} {clock(mark.at)}" for mark in timeline.markers)
    return (
        f"{shown}{rest} from {stamp(timeline.lo)} to {stamp(timeline.hi)} UTC. "
        f"{marks + '. ' if marks else ''}The table below gives the same counts."
    )


def lane_title(name: str) -> str:
    """What a lane is called; lines that name no place belong to the job."""
    return "job (no place named)" if name == NO_PLACE else name


def _rows(timeline: Timeline) -> list[tuple[int, str, str]]:
    """Place, title and class of each lane from top to bottom."""
    rows = [
        (place, lane_title(lane.name), "culprit" if lane.name in timeline.culprits else "")
        for place, lane in enumerate(timeline.lanes, start=1)
    ]
    if timeline.rest is not None:
        rows.append((0, f"{plural(timeline.rest_places, 'more place')}", "rest"))
    return rows or [(0, "no events", "rest")]


def _grid(scale: TimeScale, lanes: int) -> list[str]:
    frame = scale.frame
    parts = [
        f'<rect class="stripe" x="0" y="{frame.top + LANE * number:.0f}" width="{WIDTH}" height="{LANE}"/>'
        for number in range(0, lanes, 2)
    ]
    for x, label in scale.ticks(8):
        parts.append(f'<path class="grid" d="M{x:.1f} {frame.top:.0f}V{frame.bottom:.0f}"/>')
        parts.append(tick(x, frame.bottom + 16, label, frame))
    parts.append(text(LABEL - 12, frame.bottom + 16, "UTC", anchor="end"))
    return parts


def _lane(timeline: Timeline, scale: TimeScale, number: int, place: int, name: str, css: str) -> list[str]:
    frame = scale.frame
    middle = frame.top + LANE * number + LANE / 2
    parts = [f'<g class="lane {css}">', text(LABEL - 12, middle + 4, shorten(name, 24), "lane-name", "end")]
    if css == "culprit":
        parts.append(f'<path class="here" d="M2 {middle - 5:.1f}l8 5-8 5Z"/>')
    cells = [cell for cell in timeline.bins if cell.place == place]
    if cells:
        parts.append(_density(cells, frame, middle))
    parts += [_sign(cell, timeline, frame, middle) for cell in cells if cell.worst]
    return [*parts, "</g>"]


def _density(cells: list[LaneBin], frame: Frame, middle: float) -> str:
    """How many events each cell holds; by the square root, so that one stays visible beside thousands."""
    most = max(cell.events for cell in cells)
    step = frame.width / BINS
    floor = middle + (LANE - 8) / 2
    bars = []
    for cell in cells:
        tall = max(1.5, (LANE - 10) * (cell.events / most) ** 0.5)
        bars.append(f"M{frame.left + cell.bin * step:.1f} {floor:.1f}h{step - 1:.1f}v-{tall:.1f}h-{step - 1:.1f}z")
    return f'<path class="density" d="{"".join(bars)}"/>'


def _sign(cell: LaneBin, timeline: Timeline, frame: Frame, middle: float) -> str:
    severity = SEVERITIES[cell.worst]
    x = frame.left + (cell.bin + 0.5) * frame.width / BINS
    at = timeline.lo + (timeline.hi - timeline.lo) * (cell.bin / BINS)
    more = f", with {plural(cell.bad - 1, 'other warning or worse', 'other warnings or worse')}" if cell.bad > 1 else ""
    return (
        f'<use href="#s{cell.worst}" class="sev-{severity}" x="{x - 6:.1f}" y="{middle - 6:.1f}" width="12"'
        f' height="12">'
        f"<title>{escape(f'from {clock(at)}: {shorten(cell.event, 60)} ({severity}{more})')}</title></use>"
    )


def _label(mark: Marker) -> str:
    return f"{mark.name} {clock(mark.at)}"


def _marker_rows(timeline: Timeline) -> list[tuple[Marker, int]]:
    """Each marker with the row of its label, such that no two labels touch."""
    frame = Frame(LABEL, 0, WIDTH - LABEL - 12, 0)
    scale = TimeScale(timeline.lo, timeline.hi, frame)
    ends: list[float] = []
    placed = []
    for mark in sorted(timeline.markers, key=lambda mark: (mark.at, mark.name)):
        start = _label_start(mark, scale)
        row = next((row for row, end in enumerate(ends) if end <= start), len(ends))
        if row == len(ends):
            ends.append(0)
        ends[row] = start + CHARACTER * len(_label(mark)) + 10
        placed.append((mark, row))
    return placed


def _label_start(mark: Marker, scale: TimeScale) -> float:
    """Where the label begins: right of its line, or left of it at the edge of the drawing."""
    x, width = scale.x(mark.at), CHARACTER * len(_label(mark)) + 10
    return x if x + width <= WIDTH else x - width


def _marker_line(mark: Marker, row: int, scale: TimeScale) -> str:
    x = scale.x(mark.at)
    return f'<path class="mark {_css(mark)}" d="M{x:.1f} {MARKER_ROW * row + 4:.1f}V{scale.frame.bottom:.0f}"/>'


def _css(mark: Marker) -> str:
    return mark.name.replace(" ", "-")


def _band(mark: Marker, scale: TimeScale) -> list[str]:
    lo, hi = max(mark.lo, scale.lo), min(mark.hi, scale.hi)
    if hi <= lo:
        return []
    left, right = scale.x(lo), scale.x(hi)
    top, height = scale.frame.top, scale.frame.height
    return [
        f'<rect class="band" x="{left:.1f}" y="{top:.0f}" width="{max(1.0, right - left):.1f}" height="{height:.0f}">'
        f"<title>{escape(mark.name)} lies between {clock(mark.lo)} and {clock(mark.hi)}</title></rect>"
    ]


def _marker_name(mark: Marker, row: int, scale: TimeScale) -> str:
    x = scale.x(mark.at)
    y = MARKER_ROW * row + 13
    is_left = _label_start(mark, scale) < x
    beside = x - 5 if is_left else x + 5
    return text(beside, y, _label(mark), f"mark-name {_css(mark)}", "end" if is_left else "start")


def lane_rows(timeline: Timeline) -> list[Lane]:
    """The lanes of the drawing as table rows, the rest last."""
    return [*timeline.lanes, *([timeline.rest] if timeline.rest else [])]
