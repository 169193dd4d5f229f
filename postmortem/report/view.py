"""The view model of the HTML report: everything the template prints, nothing it must work out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import duckdb
from markupsafe import Markup

from postmortem.analysis.model import Analysis
from postmortem.report import queries
from postmortem.report.document import to_document
from postmortem.report.figures import agrees, ascii_escaped, clock, duration, money, plural, significant, size, stamp
from postmortem.report.svg import lane_rows, swim_lanes
from postmortem.report.svg_steps import BINS, StepPlot, step_times
from postmortem.report.svg_steps import description as steps_in_words
from postmortem.report.timeline import build as build_timeline
from postmortem.report.view_findings import FindingView, distinct, finding_view
from postmortem.report.view_ranks import RanksView, ranks_view
from postmortem.report.view_rows import (
    LossView,
    TextTable,
    clock_facts,
    clock_table,
    coverage_table,
    lane_table,
    loss_view,
    odd_table,
    step_table,
    survived_table,
    words,
)
from postmortem.report.view_settings import glossary, settings_table, switch_names_table
from postmortem.report.view_slow import SlowView, slow_view
from postmortem.report.words import cause_title, headline, is_stated
from postmortem.schema import SOURCES

CARDS = 3
FINDINGS = 8
FILES, ODD = 200, 60
ZOOM_BINS = 2000
SAID_TEXTS, SAID_LIMIT = 500, 400
"""How many texts, and how much of each, the glossary looks into for its terms."""
DOCUMENT_LIMIT = 3_000_000
"""A larger JSON document is not embedded: the page must stay below 10 MB whatever the bundle holds."""


@dataclass(frozen=True, slots=True)
class KeyTime:
    """A time that matters: `note` relates it to another one, `date` is empty where it is that of the one before."""

    name: str
    date: str
    clock: str
    fraction: str
    note: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, its words and the same facts as a table; `svg` is None when there is nothing to draw."""

    svg: Markup | None
    table: TextTable | None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report."""

    bundle: str
    version: str
    tone: str
    badge: str
    headline: str
    summary: str
    job: tuple[str, ...]
    impact: tuple[tuple[str, str, str], ...]
    times: tuple[KeyTime, ...]
    is_established: bool
    is_quiet: bool
    findings: tuple[FindingView, ...]
    more_findings: int
    timeline: Figure
    gaps: tuple[str, ...]
    ranks: RanksView
    steps: Figure
    step_data: Markup | None
    loss: LossView
    survived: TextTable
    slow: SlowView
    clock_facts: str
    clocks: TextTable
    coverage: TextTable
    odd: TextTable
    settings: TextTable
    switch_names: TextTable
    glossary: tuple[tuple[str, str], ...]
    totals: str
    next_steps: tuple[str, ...]
    collect: tuple[str, ...]
    document: Markup | None

    @property
    def cards(self) -> tuple[FindingView, ...]:
        """The findings of the first screen."""
        return self.findings[:CARDS]


def build(analysis: Analysis, con: duckdb.DuckDBPyConnection, version: str) -> Page:
    """The report of `analysis`; `con` holds the public tables, any of which may be empty."""
    cause = analysis.verdict.cause
    findings = tuple(finding_view(number, one) for number, one in enumerate(analysis.findings[:FINDINGS], start=1))
    totals = queries.coverage_totals(con)
    steps = _steps(analysis, con)
    advisers = findings[: CARDS if cause == "unknown" else 1]
    return Page(
        bundle=words(analysis.bundle, 200),
        version=version,
        tone=_tone(analysis),
        badge=_badge(analysis),
        headline=words(headline(analysis), 600),
        summary=words(analysis.verdict.summary),
        job=tuple(_job(analysis)),
        impact=tuple(_impact(analysis)),
        times=tuple(_times(analysis)),
        is_established=cause not in ("unknown", "none"),
        is_quiet=cause == "none",
        findings=findings,
        more_findings=max(0, len(analysis.findings) - FINDINGS),
        timeline=_timeline(analysis, con),
        gaps=tuple(_gaps(analysis, totals)),
        ranks=ranks_view(analysis, con),
        steps=steps,
        step_data=step_data(con) if steps.svg else None,
        loss=loss_view(analysis.loss),
        survived=survived_table(analysis.survived),
        slow=slow_view(analysis, con),
        clock_facts=clock_facts(analysis.clocks),
        clocks=clock_table(analysis.clocks),
        coverage=coverage_table(queries.file_coverage(con, FILES), totals.files),
        odd=_odd(analysis, con, totals.odd),
        settings=settings_table(con),
        switch_names=switch_names_table(con),
        glossary=glossary(" ".join(text[:SAID_LIMIT] for text in islice(_said(analysis), SAID_TEXTS))),
        totals=_totals(analysis),
        next_steps=distinct(finding.next_steps for finding in advisers),
        collect=distinct(finding.collect for finding in advisers),
        document=embedded(analysis, version),
    )


def embedded(analysis: Analysis, version: str) -> Markup | None:
    """The JSON document for a script element; None when it is too large to embed.

    `<` and `>` are written as escapes, so that no string of the bundle can end the element or begin
    a comment in it.
    """
    if sum(len(line.text) for finding in analysis.findings for line in finding.evidence) > DOCUMENT_LIMIT:
        return None
    text = ascii_escaped(
        json.dumps(to_document(analysis, version), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text) if len(text.encode("utf-8")) <= DOCUMENT_LIMIT else None


def step_data(con: duckdb.DuckDBPyConnection) -> Markup | None:
    """Columns for the plot to zoom into: step, median, fastest and slowest seconds of at most 2,000 runs of steps; None below three."""
    bins = queries.step_bins(con, ZOOM_BINS)
    if len(bins) < 3:
        return None
    columns = (
        [part.first for part in bins],
        *([round(getattr(part, name) / 1000, 4) for part in bins] for name in ("typical", "fastest", "slowest")),
    )
    return Markup(json.dumps(columns, allow_nan=False, separators=(",", ":")))


def _said(analysis: Analysis) -> Iterator[str]:
    """What the report says in words: where the glossary looks for its terms."""
    yield headline(analysis)
    yield from (part.bin for part in analysis.loss.bins)
    for finding in analysis.findings[:FINDINGS]:
        yield cause_title(finding.cause)
        yield from (finding.summary, *finding.next_steps, *finding.collect)
        yield from (line.text for line in finding.evidence)
    yield "ETTR onset checkpoint rank" if analysis.loss.bins else ""


def _tone(analysis: Analysis) -> str:
    if analysis.verdict.cause == "none":
        return "good"
    return "bad" if analysis.verdict.word in ("almost certain", "likely") else "doubt"


def _badge(analysis: Analysis) -> str:
    verdict = analysis.verdict
    if verdict.cause == "none":
        return "nothing went wrong"
    if verdict.cause == "unknown":
        return "cause not established"
    return f"{cause_title(verdict.cause)}, {verdict.word}"


def _job(analysis: Analysis) -> list[str]:
    job, loss = analysis.job, analysis.loss
    found = [words(job.name, 120)] if job.name else []
    found += [plural(count, noun) for count, noun in ((job.hosts, "host"), (job.gpus, "GPU")) if count is not None]
    if job.world_size is not None:
        found.append(plural(job.world_size, "rank"))
    if job.framework:
        found.append(words(job.framework, 60))
    if job.last_step is not None:
        found.append(f"last step {job.last_step:,}")
    if loss.last_durable_step is not None:
        found.append(f"last durable step {loss.last_durable_step:,}")
    return found


def _impact(analysis: Analysis) -> list[tuple[str, str, str]]:
    """Name, figure and bounds of what was lost."""
    loss = analysis.loss
    found = []
    for name, span, write in (
        ("GPU-hours lost", loss.gpu_hours, significant),
        ("time lost", loss.lost_s, duration),
        ("cost", loss.cost, money),
    ):
        if span is not None and not is_stated(loss):
            found.append((name, "not known", ""))
        elif span is not None:
            bounds = "" if agrees(span) else f"{write(span.lo)} to {write(span.hi)}"
            found.append((name, write(span.best), bounds))
    return found


def _times(analysis: Analysis) -> list[KeyTime]:
    job, verdict = analysis.job, analysis.verdict
    moments = {"started": job.start, "last progress": analysis.last_progress}
    if verdict.cause != "none":
        moments |= {"onset": verdict.onset, "detected": analysis.detected}
    moments["ended"] = job.end
    rows = []
    before: tuple[str, datetime] | None = None
    for name, moment in moments.items():
        if moment is None:
            rows.append(KeyTime(name, "", "not known", "", _slow_since(analysis) if name == "onset" else ""))
            continue
        note = _since(moment, *before) if before else ""
        if name == "onset" and verdict.onset_lo and verdict.onset_hi and verdict.onset_lo != verdict.onset_hi:
            note = f"between {clock(verdict.onset_lo)} and {clock(verdict.onset_hi)}"
        if name == "last progress" and job.last_step is not None:
            note = f"step {job.last_step:,}"
        date = "" if before and before[1].date() == moment.date() else f"{moment.date().isoformat()} UTC"
        whole, dot, fraction = clock(moment).partition(".")
        rows.append(KeyTime(name, date, whole, f"{dot}{fraction}", note))
        before = (_NOUNS[name], moment)
    return rows


def _slow_since(analysis: Analysis) -> str:
    """What stands for an onset that has no time: the step from which the job was slow."""
    since = next((s.since_step for s in analysis.loss.savings if s.since_step is not None), None)
    return "" if since is None else f"steps are slow from step {since:,} on"


def _since(moment: datetime, name: str, other: datetime) -> str:
    gap = (moment - other).total_seconds()
    return f"{duration(abs(gap))} {'after' if gap >= 0 else 'before'} {name}"


_NOUNS = {
    "started": "the start",
    "last progress": "last progress",
    "onset": "onset",
    "detected": "detection",
    "ended": "the end",
}


def _timeline(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> Figure:
    timeline = build_timeline(analysis, con)
    if timeline is None:
        return Figure(None, None)
    drawing = Markup(swim_lanes(timeline))
    span = f"{stamp(timeline.lo)} to {stamp(timeline.hi)} UTC"
    return Figure(drawing, lane_table(lane_rows(timeline)), span)


def _steps(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> Figure:
    bins = tuple(queries.step_bins(con, BINS))
    if not bins:
        return Figure(None, None)
    saves = tuple(queries.checkpoints(con, bins[0].first, bins[-1].last))
    plot = StepPlot(bins, saves, analysis.loss.healthy_step_s, analysis.loss.last_durable_step)
    drawing = Markup(step_times(plot))
    return Figure(drawing, step_table(bins), steps_in_words(plot))


def _totals(analysis: Analysis) -> str:
    coverage = analysis.coverage
    return (
        f"{plural(coverage.files, 'file')}, {size(coverage.bytes)}, {plural(coverage.lines, 'line')}, "
        f"{plural(coverage.events, 'event')}"
    )


def _odd(analysis: Analysis, con: duckdb.DuckDBPyConnection, total: int) -> TextTable:
    examples = queries.odd_lines(con, ODD)
    if not examples:
        examples = [queries.OddLine(file, line, why, "") for file, line, why in analysis.coverage.odd[:ODD]]
        total = len(analysis.coverage.odd)
    return odd_table(examples, max(total, len(examples)))


def _gaps(analysis: Analysis, totals: queries.CoverageTotals) -> list[str]:
    """What the data did not cover, one clause each; empty when it covered everything."""
    coverage = analysis.coverage
    gaps = [
        f"no {source} lines" if source in SOURCES else words(source, 200) for source in coverage.missing_sources[:12]
    ]
    if len(coverage.missing_sources) > 12:
        gaps.append(f"{len(coverage.missing_sources) - 12:,} more sources")
    for count, noun, rest in (
        (totals.unreadable, "file", "could not be read"),
        (totals.binary, "binary file", "not read"),
        (totals.silent, "file", "without any line that was recognised"),
        (max(totals.odd, len(coverage.odd)), "odd place", "(damaged, too long or no text)"),
        (sum(one.offset_ms is None for one in analysis.clocks), "clock", "with an unknown offset"),
    ):
        if count:
            gaps.append(f"{plural(count, noun)} {rest}")
    gaps += [words(one, 300) for one in coverage.left_out]
    if analysis.last_progress is None:
        gaps.append("no sign of the training's progress")
    if analysis.job.end is None:
        gaps.append("no end of the job")
    return gaps
