"""The summary of `analyze` for a terminal or a pipe: plain text, verdict first, one sentence last.

Plain strings rather than a layout library: the text goes into chats and tickets, where boxes and
cell padding break, and a command that prints twenty lines should not import a renderer.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator

from postmortem.analysis.model import Analysis, Evidence, Finding, Loss, Span
from postmortem.report.figures import (
    agrees,
    clock,
    duration,
    money,
    percent,
    plural,
    shown,
    significant,
    size,
    stamp,
    visible,
)
from postmortem.report.view_hops import chain, network_sentence, reach_sentence
from postmortem.report.words import cause_title, culprit_name, sentence, unsaid
from postmortem.report.words_loss import advice_words, energy_words, ratio_words, saving_words, throughput_words

EVIDENCE_LINES = 6
RIVALS = 5
OTHERS = 4
STEPS = 6
ODD = 3
LINE_LIMIT = 600
MIN_WIDTH, MAX_WIDTH = 40, 110
STYLES = {"bold": "1", "dim": "2", "bad": "1;31", "good": "1;32", "doubt": "1;33"}
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


class _Page:
    """Collects lines, wrapped at `width`, styled only when `colour`."""

    def __init__(self, *, colour: bool, width: int) -> None:
        self.colour = colour
        self.width = max(MIN_WIDTH, min(width, MAX_WIDTH))
        self.lines: list[str] = []

    def style(self, text: str, name: str) -> str:
        return f"\x1b[{STYLES[name]}m{text}\x1b[0m" if self.colour else text

    def heading(self, text: str) -> None:
        if self.lines:
            self.lines.append("")
        self.lines.append(self.style(text, "bold"))

    def text(self, text: str, indent: int = 2, hang: int = 0, style: str | None = None) -> None:
        """One paragraph; `hang` is the further indent of its second and later lines."""
        wrapped = textwrap.wrap(
            visible(text),
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_on_hyphens=False,
        )
        self.lines.extend(self.style(line, style) if style else line for line in wrapped or [""])

    def items(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.text(f"- {text}", hang=2)


def summary(analysis: Analysis, *, colour: bool, width: int) -> str:
    """The whole summary, without a newline at its end; the last line is one unwrapped sentence.

    Text of the bundle is printed with its control characters made visible, so that a log line
    cannot drive the terminal.
    """
    page = _Page(colour=colour, width=width)
    _verdict(page, analysis)
    _times(page, analysis)
    for number, finding in enumerate(analysis.findings[: OTHERS + 1]):
        if number == 0:
            _best(page, finding, is_established=analysis.verdict.cause not in ("unknown", "none"))
        else:
            _other(page, number, finding)
    _more(page, len(analysis.findings) - OTHERS - 1, "possible cause")
    _loss(page, analysis.loss)
    _what_next(page, analysis)
    _coverage(page, analysis)
    page.lines.extend(("", f"postmortem: {sentence(analysis)}"))
    return "\n".join(page.lines)


def plain(text: str) -> str:
    """`text` without colour."""
    return ESCAPE.sub("", text)


def _more(page: _Page, count: int, noun: str) -> None:
    if count > 0:
        page.text(f"and {count:,} more {noun if count == 1 else noun + 's'}; the report has all", style="dim")


def _verdict(page: _Page, analysis: Analysis) -> None:
    verdict = analysis.verdict
    title = cause_title(verdict.cause)
    match verdict.cause:
        case "none":
            page.lines.append(page.style(title, "good"))
        case "unknown":
            page.lines.append(page.style(title, "doubt"))
        case _:
            title = f"{title}: {verdict.word} ({verdict.confidence:.2f})"
            page.lines.append(page.style(title, "bad" if verdict.confidence >= 0.7 else "doubt"))
            named = culprit_name(verdict.culprit, verdict.cause)
            if named and named.lower() not in visible(verdict.summary).lower():
                page.text(named, style="bold")
    if verdict.summary:
        page.text(verdict.summary)


def _times(page: _Page, analysis: Analysis) -> None:
    job, verdict = analysis.job, analysis.verdict
    rows = [
        ("started", job.start, ""),
        ("last progress", analysis.last_progress, f"step {job.last_step:,}" if job.last_step is not None else ""),
        ("onset", verdict.onset, _bounds_of_onset(analysis)),
        ("detected", analysis.detected, ""),
        ("ended", job.end, job.outcome if job.outcome != "unknown" else ""),
    ]
    page.heading("Times (UTC)")
    known = [(name, moment, note) for name, moment, note in rows if moment is not None]
    for name, moment, note in known:
        page.text(f"{name:<14}{stamp(moment)}{f'   {note}' if note else ''}", hang=14)
    if not known:
        page.text("no time is known")


def _bounds_of_onset(analysis: Analysis) -> str:
    lo, hi = analysis.verdict.onset_lo, analysis.verdict.onset_hi
    if lo is None or hi is None or lo == hi:
        return ""
    return f"between {clock(lo)} and {clock(hi)}"


def _best(page: _Page, finding: Finding, *, is_established: bool) -> None:
    if not is_established:
        page.heading(f"Possible: {cause_title(finding.cause)} ({finding.confidence:.2f})")
        page.text(finding.summary)
    place = [text for text in (chain(finding), network_sentence(finding), reach_sentence(finding)) if text]
    if place:
        page.heading("Where it sits")
        for text in place:
            page.text(text, hang=2)
    page.heading("Evidence")
    for line in finding.evidence[:EVIDENCE_LINES]:
        _evidence(page, line)
    _more(page, len(finding.evidence) - EVIDENCE_LINES, "line")
    if not finding.evidence:
        page.text("no line of the bundle proves it")
    if finding.chosen_over:
        page.heading("Chosen over")
        page.items(f"{cause_title(rival.cause)}: {rival.why}" for rival in finding.chosen_over[:RIVALS])
        _more(page, len(finding.chosen_over) - RIVALS, "cause")


def _evidence(page: _Page, line: Evidence) -> None:
    page.text(f"{line.file}:{line.line}  [{line.role}]", style="dim")
    # Never wrapped: a line that is copied out of here must find itself in the log.
    page.lines.append(f"    {shown(line.text, LINE_LIMIT)}")


def _other(page: _Page, number: int, finding: Finding) -> None:
    if number == 1:
        page.heading("Also considered")
    named = unsaid(finding)
    where = f", {named}" if named else ""
    page.text(f"- {cause_title(finding.cause)} ({finding.confidence:.2f}){where}: {finding.summary}", hang=2)
    for line in finding.evidence[:1]:
        page.text(f"{line.file}:{line.line}", indent=4, style="dim")


def _loss(page: _Page, loss: Loss) -> None:
    cost = lost_total(loss)
    if not loss.bins and not cost:
        return
    page.heading("What it cost")
    page.lines.extend(_bin_rows(page, loss))
    page.items(cost)
    if loss.last_durable_step is not None:
        page.text(f"- last durable checkpoint: step {loss.last_durable_step:,}", hang=2)
    ratios = [f"{name} {share}" for name, share in ratio_words(loss)]
    if loss.throughput_loss:
        ratios.append(f"{throughput_words(loss)} {percent(loss.throughput_loss)}")
    if ratios:
        page.text(f"- {', '.join(ratios)}", hang=2)
    page.items(saving_words(saving, loss.advice) for saving in loss.savings)
    if loss.advice is not None:
        page.text(f"- {advice_words(loss.advice)}", hang=2)
        page.text(f"holds if: {' '.join(loss.advice.conditions)}", indent=2, style="dim")
    page.items(loss.notes)


def _bin_rows(page: _Page, loss: Loss) -> Iterator[str]:
    bins = [part for part in loss.bins if part.best_s or part.hi_s]
    if not bins:
        return
    yield page.style(f"  {'':<2}{'* is lost':<14}{'low':>12}{'best':>14}{'high':>14}  basis", "dim")
    for part in bins:
        spans = f"{duration(part.lo_s):>12}{duration(part.best_s):>14}{duration(part.hi_s):>14}"
        yield f"  {'* ' if part.is_lost else '  '}{part.bin:<14}{spans}  {part.basis}"
    if loss.lost_s is not None:
        total = f"{duration(loss.lost_s.lo):>12}{duration(loss.lost_s.best):>14}{duration(loss.lost_s.hi):>14}"
        yield page.style(f"  * {'lost':<14}{total}  {loss.basis or ''}".rstrip(), "bold")


def lost_total(loss: Loss) -> list[str]:
    """GPU-hours and money, with their bounds unless these agree."""
    found: list[str] = []
    if loss.gpu_hours is not None:
        gpus = f" on {loss.gpus:,} GPUs" if loss.gpus is not None else ""
        found.append(f"{_span(loss.gpu_hours, significant, 'GPU-hours lost')}{gpus}")
    if loss.cost is not None:
        found.append(f"cost {_span(loss.cost, money)}")
    energy = energy_words(loss)
    if energy is not None:
        found.append(f"energy {energy}")
    return found


def _span(span: Span, write: Callable[[float], str], unit: str = "") -> str:
    best = f"{write(span.best)} {unit}".rstrip()
    return best if agrees(span) else f"{best} ({write(span.lo)} to {write(span.hi)})"


def _what_next(page: _Page, analysis: Analysis) -> None:
    is_unknown = analysis.verdict.cause == "unknown"
    findings = analysis.findings[: 3 if is_unknown else 1]
    for title, texts in (
        ("Next steps", [text for finding in findings for text in finding.next_steps]),
        ("To collect", [text for finding in findings for text in finding.collect]),
    ):
        distinct = list(dict.fromkeys(texts))
        if distinct:
            page.heading(title)
            page.items(distinct[:STEPS])
            _more(page, len(distinct) - STEPS, "point")


def _coverage(page: _Page, analysis: Analysis) -> None:
    coverage = analysis.coverage
    page.heading("What the data covered")
    page.text(
        f"{plural(coverage.files, 'file')}, {size(coverage.bytes)}, {plural(coverage.lines, 'line')}, "
        f"{plural(coverage.events, 'event')}"
    )
    if coverage.missing_sources:
        page.text(f"missing: {', '.join(coverage.missing_sources)}")
    if coverage.odd:
        page.text(f"odd: {plural(len(coverage.odd), 'place')}")
        page.items(f"{file}:{line}: {why}" if line else f"{file}: {why}" for file, line, why in coverage.odd[:ODD])
        _more(page, len(coverage.odd) - ODD, "odd place")
    page.items(coverage.left_out)
    if analysis.survived:
        page.text(f"{plural(len(analysis.survived), 'fault')} survived, not the cause")
