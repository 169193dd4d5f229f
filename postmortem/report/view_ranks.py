"""Which rank ended how and in what order: a matrix of hosts and local ranks, and the same as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final

import duckdb
from markupsafe import Markup

from postmortem.analysis.model import Analysis
from postmortem.report.axis import shorten, text
from postmortem.report.figures import clock, plural, visible
from postmortem.report.queries import rank_ends
from postmortem.report.view_rows import TextTable, words

KINDS: Final = {
    "own": ("own error", "an exception, a signal, its GPU or its host"),
    "network": ("connection error", "its transport reported an error"),
    "waited": ("gave up waiting", "a watchdog, a store or a closed connection: somebody else was late or gone"),
    "ended": ("ended by others", "told to end, or its launcher saw it die"),
    "other": ("other error", "an error of no such kind"),
    "silent": ("no error line", "nothing of it is in the bundle, or it kept silent"),
}
"""Kinds of ends: how they are called, and what that means."""
MAX_HOSTS: Final = 48
"""Above, one cell is a host."""
MAX_CELLS: Final = 4096
PER_ROW: Final = 64
CELL: Final = 20
WIDTH: Final = 1120
LABEL: Final = 168
ROWS: Final = 40
BEFORE: Final = timedelta(minutes=15)
"""How long before the onset an error of a rank may lie and count as its end."""


@dataclass(frozen=True, slots=True)
class RankEnd:
    """The end of one rank; `order` 1 is the first rank that printed an error, None for one without a time."""

    rank: int
    node: str
    local_rank: int | None
    kind: str
    event: str
    moment: datetime | None
    where: str
    order: int | None


@dataclass(frozen=True, slots=True)
class RanksView:
    """The drawing, the first ends as a table, and what the drawing says in words; `svg` is None without ranks."""

    svg: Markup | None
    table: TextTable
    words: str
    kinds: tuple[tuple[str, str, str], ...]


def ranks_view(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> RanksView:
    """How the ranks of the job ended."""
    verdict = analysis.verdict
    onset = verdict.onset_lo or verdict.onset
    since = None if onset is None else onset - BEFORE
    ends = _ends(con, since)
    if len(ends) < 2 or verdict.cause == "none":
        return RanksView(None, _table([], 0), "", ())
    guilty = frozenset(verdict.culprit.ranks or (() if verdict.culprit.rank is None else (verdict.culprit.rank,)))
    hosts: dict[str, list[RankEnd]] = {}
    for end in ends:
        hosts.setdefault(end.node, []).append(end)
    drawing = _by_rank(hosts, guilty) if len(hosts) <= MAX_HOSTS and len(ends) <= MAX_CELLS else _by_host(hosts, guilty)
    ordered = sorted((e for e in ends if e.order is not None), key=lambda e: (e.order or 0, e.rank))
    present = Counter(e.kind for e in ends)
    legend = tuple((kind, f"{KINDS[kind][0]}: {present[kind]:,}", KINDS[kind][1]) for kind in KINDS if present[kind])
    if guilty & {end.rank for end in ends}:
        legend = (*legend, ("guilty", "the culprit's", "framed in the drawing"))
    return RanksView(
        Markup(drawing), _table(ordered[:ROWS], max(0, len(ordered) - ROWS)), _in_words(ends, hosts), legend
    )


def _ends(con: duckdb.DuckDBPyConnection, since: datetime | None) -> list[RankEnd]:
    rows = rank_ends(con, since)
    times = sorted({row[5] for row in rows if row[5] is not None})
    order = {moment: number for number, moment in enumerate(times, start=1)}
    return [
        RankEnd(rank, node, local, kind, event or "", moment, f"{file}:{line}" if file else "", order.get(moment))
        for rank, node, local, kind, event, moment, file, line in rows
    ]


def _in_words(ends: list[RankEnd], hosts: dict[str, list[RankEnd]]) -> str:
    counts = Counter(end.kind for end in ends)
    first = min((e for e in ends if e.moment is not None), key=lambda e: (e.order or 0, e.rank), default=None)
    known = sum(bool(host) for host in hosts)
    said = f"{plural(len(ends), 'rank')} on {plural(known, 'host') if known else 'hosts that no line names'}"
    if first is None or first.moment is None:
        return f"{said}; {'no error has a time' if set(counts) - {'silent'} else 'no rank printed an error'}."
    rest = ", ".join(f"{counts[kind]:,} {KINDS[kind][0]}" for kind in KINDS if counts[kind])
    return f"{said}; rank {first.rank} printed the first error, at {clock(first.moment)}. {rest[0].upper()}{rest[1:]}."


def _table(ends: list[RankEnd], more: int) -> TextTable:
    rows = tuple(
        (
            str(end.order),
            str(end.rank),
            words(end.node, 80),
            clock(end.moment) if end.moment else "",
            KINDS[end.kind][0],
            words(end.event, 60),
            words(end.where, 300),
        )
        for end in ends
    )
    heads = ("order", "rank", "host", "first error, UTC", "kind", "event", "line")
    return TextTable("Ranks in the order of their first error", heads, frozenset({0, 1}), rows, more)


def _open(height: float, title: str, desc: str) -> list[str]:
    return [
        f'<svg class="plot ranks" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="rk-t rk-d">',
        f'<title id="rk-t">{escape(title)}</title>',
        f'<desc id="rk-d">{escape(desc)}</desc>',
    ]


def _cell(x: float, y: float, kind: str, mark: str, said: str, is_guilty: bool) -> str:
    """One square: its kind by colour and by a mark (order of the error, or a sign), its facts as a tooltip."""
    ring = (
        f'<rect class="guilty" x="{x - 1.5:.1f}" y="{y - 1.5:.1f}" width="{CELL}" height="{CELL}" rx="3"/>'
        if is_guilty
        else ""
    )
    sign = text(x + (CELL - 3) / 2, y + 12.5, mark, "rank-mark", "middle") if mark else ""
    size = CELL - 3
    return (
        f'<g class="end-{kind}"><title>{escape(visible(said))}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size}" height="{size}" rx="2"/>{ring}{sign}</g>'
    )


def _by_rank(hosts: dict[str, list[RankEnd]], guilty: frozenset[int]) -> str:
    """Hosts from top to bottom, their ranks from left to right; wide hosts take several lines."""
    across = (WIDTH - LABEL - 12) // CELL
    parts: list[str] = []
    y = 4.0
    for node, ends in hosts.items():
        parts.append(text(LABEL - 12, y + 13, shorten(node or "no host", 24), "lane-name", "end"))
        for number, end in enumerate(ends):
            if number and number % across == 0:
                y += CELL
            said = f"rank {end.rank} on {end.node or 'unknown host'}: {KINDS[end.kind][0]}"
            if end.event:
                said += f", {end.event}" + (f" at {clock(end.moment)}" if end.moment else "") + f" ({end.where})"
            mark = str(end.order) if end.order is not None and end.order < 100 else ""
            parts.append(_cell(LABEL + CELL * (number % across), y, end.kind, mark, said, end.rank in guilty))
        y += CELL
    desc = (
        "One row per host, one square per rank; numbers give the order of first errors. The table below says the same."
    )
    return "".join([*_open(y + 6, "How each rank ended", desc), *parts, "</svg>"])


def _by_host(hosts: dict[str, list[RankEnd]], guilty: frozenset[int]) -> str:
    """One square per host (or run of hosts): its worst kind of end, in the order of KINDS."""
    names = list(hosts)
    run = -(-len(names) // MAX_CELLS)
    step = (WIDTH - LABEL - 12) / PER_ROW
    parts: list[str] = []
    rows = 0
    for number, start in enumerate(range(0, len(names), run)):
        group = names[start : start + run]
        ends = [end for name in group for end in hosts[name]]
        worst = min((end.kind for end in ends), key=list(KINDS).index)
        counts = Counter(end.kind for end in ends)
        name = group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}"
        x, y = LABEL + step * (number % PER_ROW), 4 + CELL * (number // PER_ROW)
        if number % PER_ROW == 0:
            parts.append(text(LABEL - 12, y + 13, shorten(group[0], 24), "lane-name", "end"))
            rows += 1
        said = f"{name}: " + ", ".join(f"{counts[kind]:,} {KINDS[kind][0]}" for kind in KINDS if counts[kind])
        first = min((end.order for end in ends if end.order is not None), default=None)
        mark = str(first) if first is not None and first < 100 else ""
        parts.append(_cell(x, y, worst, mark, said, any(end.rank in guilty for end in ends)))
    desc = (
        f"One square per {'host' if run == 1 else f'{run} hosts'}, {PER_ROW} in a row, with its worst kind of end; "
        "a tooltip counts its ranks. The table below lists the first errors."
    )
    return "".join([*_open(rows * CELL + 10, "How the ranks of each host ended", desc), *parts, "</svg>"])
