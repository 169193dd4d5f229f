"""Rows of the report's tables, as text ready to print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from postmortem.analysis.clocks import ZONE_ASSUMED, ZONE_BY_EVENTS, ZONE_BY_OTHERS, ZONE_GIVEN
from postmortem.analysis.model import Bin, Clock, Loss, Span, Survived
from postmortem.report.figures import (
    UNKNOWN,
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
)
from postmortem.report.queries import FileCoverage, Lane, OddLine, StepBin
from postmortem.report.svg import lane_title
from postmortem.report.svg_loss import kind_of, loss_bar
from postmortem.report.words import bin_title
from postmortem.report.words_loss import advice_figures, advice_words, ratio_words, saving_words, throughput_words

WORDS_LIMIT = 1000
NAME_LIMIT = 240


@dataclass(frozen=True, slots=True)
class LossRow:
    """One bin of the partition; `bar` is its share of the longest bin, in percent."""

    name: str
    title: str
    low: str
    best: str
    high: str
    basis: str
    is_lost: bool
    bar: float
    kind: str
    """CSS class of its colour, as in the drawing."""
    low_bar: float
    high_bar: float
    """Its bounds on the scale of `bar`; equal where they agree."""


@dataclass(frozen=True, slots=True)
class AdviceView:
    """The advice on the checkpoint interval: a sentence, what it rests on, under which conditions it holds."""

    words: str
    figures: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TotalRow:
    """One total with its bounds; the bounds are empty where they agree to one percent."""

    name: str
    low: str
    best: str
    high: str
    basis: str


@dataclass(frozen=True, slots=True)
class LossView:
    """The table of what it cost."""

    rows: tuple[LossRow, ...]
    totals: tuple[TotalRow, ...]
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    svg: Markup | None
    savings: tuple[str, ...]
    advice: AdviceView | None


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table: heads with the columns that hold numbers, and rows of text; `more` rows are left out."""

    caption: str
    heads: tuple[str, ...]
    numeric: frozenset[int]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


def words(text: str, limit: int = WORDS_LIMIT) -> str:
    """Foreign prose or names, made visible and short enough to print."""
    return shown(text, limit)


def _name(value: str | None) -> str:
    return words(value, NAME_LIMIT) if value else UNKNOWN


def loss_view(loss: Loss) -> LossView:
    """The partition in its order, the totals, the ratios and the notes."""
    bins = loss.bins[:60]
    longest = max((part.hi_s if part.hi_s < 4 * part.best_s else part.best_s for part in bins), default=0.0)
    drawing = loss_bar(loss)
    return LossView(
        tuple(_loss_row(part, longest) for part in bins),
        tuple(_totals(loss)),
        tuple(_loss_facts(loss)),
        tuple(words(note) for note in loss.notes[:30]),
        Markup(drawing) if drawing is not None else None,
        tuple(words(saving_words(saving, loss.advice)) for saving in loss.savings[:10]),
        _advice(loss),
    )


def _advice(loss: Loss) -> AdviceView | None:
    advice = loss.advice
    if advice is None:
        return None
    conditions = tuple(words(condition) for condition in advice.conditions)
    return AdviceView(words(advice_words(advice)), tuple(advice_figures(advice)), conditions)


def _share(value: float, longest: float) -> float:
    """Percent of the longest, 0 to 100; 0 for what is no number."""
    share = 100 * max(0.0, value) / longest if longest > 0 else 0.0
    return min(100.0, share) if share == share else 0.0


def _loss_row(part: Bin, longest: float) -> LossRow:
    spread = Span(part.lo_s, part.best_s, part.hi_s)
    low, high = ("", "") if agrees(spread) else (duration(part.lo_s), duration(part.hi_s))
    title = bin_title(part.bin)
    bar, low_bar, high_bar = (_share(value, longest) for value in (part.best_s, part.lo_s, part.hi_s))
    if agrees(spread):
        low_bar = high_bar = bar
    return LossRow(
        part.bin,
        title,
        low,
        duration(part.best_s),
        high,
        part.basis,
        part.is_lost,
        bar,
        kind_of(part),
        low_bar,
        high_bar,
    )


def _totals(loss: Loss) -> list[TotalRow]:
    basis = loss.basis or ""
    rows = []
    if loss.lost_s is not None:
        rows.append(_total("time lost", loss.lost_s, basis, duration))
    if loss.gpu_hours is not None:
        rows.append(_total("GPU-hours lost", loss.gpu_hours, basis, significant))
    if loss.cost is not None:
        rows.append(_total("cost", loss.cost, basis, money))
    if loss.energy_kwh is not None:
        rows.append(_total("kWh", loss.energy_kwh, basis, significant))
    return rows


def _total(name: str, span: Span, basis: str, write: Callable[[float], str]) -> TotalRow:
    low, high = ("", "") if agrees(span) else (write(span.lo), write(span.hi))
    return TotalRow(name, low, write(span.best), high, basis)


def _loss_facts(loss: Loss) -> list[tuple[str, str]]:
    facts = [
        ("GPUs of the allocation", None if loss.gpus is None else f"{loss.gpus:,}"),
        ("last durable checkpoint", None if loss.last_durable_step is None else f"step {loss.last_durable_step:,}"),
        ("last step", None if loss.last_step is None else f"step {loss.last_step:,}"),
        ("healthy step", None if loss.healthy_step_s is None else duration(loss.healthy_step_s)),
        (throughput_words(loss), None if loss.throughput_loss is None else percent(loss.throughput_loss)),
        *ratio_words(loss),
        ("GPU-hours idle after onset", None if loss.idle_gpu_hours is None else significant(loss.idle_gpu_hours)),
        ("GPU-hours of excess in slow steps", None if not loss.tax_gpu_hours else significant(loss.tax_gpu_hours)),
        ("GPU-hours of waiting for saves", None if not loss.save_gpu_hours else significant(loss.save_gpu_hours)),
    ]
    return [(name, value) for name, value in facts if value is not None]


def survived_table(faults: tuple[Survived, ...], limit: int = 60) -> TextTable:
    """Faults that the job lived through."""
    rows = tuple(
        (
            words(fault.event, NAME_LIMIT),
            _name(fault.host),
            _name(fault.entity),
            stamp(fault.start),
            "" if fault.end is None else stamp(fault.end),
            words(fault.why),
        )
        for fault in faults[:limit]
    )
    heads = ("event", "host", "what", "first (UTC)", "last (UTC)", "why it is not the cause")
    return TextTable("The job went on after each of these", heads, frozenset(), rows, max(0, len(faults) - limit))


def clock_facts(clocks: tuple[Clock, ...]) -> str:
    """What was done about the clocks, one sentence per fact: compared, corrected, zones taken from others, not ordered."""
    known = [c for c in clocks if c.offset_ms is not None]
    facts = []
    if known:
        worst = max(known, key=lambda c: (abs(c.offset_ms or 0.0), c.host))
        hosts = len({c.host for c in known})
        facts.append(
            f"The clocks of {plural(hosts, 'host')} were compared by what several hosts saw at the same moment."
        )
        facts.append(
            f"The largest offset corrected is {abs(worst.offset_ms or 0.0) / 1000:,.3f} s, on {words(worst.host, NAME_LIMIT)}."
        )
    for phrase, told in (
        (ZONE_BY_EVENTS, "by events that they share with other clocks"),
        (ZONE_BY_OTHERS, "as that of most hosts of the bundle"),
        (ZONE_GIVEN, "as it was given"),
        (ZONE_ASSUMED, "to be UTC"),
    ):
        hosts = len({c.host for c in clocks if c.basis.startswith(f"zone: {phrase}")})
        if hosts:
            facts.append(f"The zone of {plural(hosts, 'host')} was taken {told}.")
    loose = len({c.host for c in clocks} - {c.host for c in known})
    if loose and len(clocks) > 1:
        facts.append(
            f"{plural(loose, 'clock')} could not be compared: what happened there within 5 s of other hosts' events is not ordered by time."
        )
    return " ".join(facts)


def clock_table(clocks: tuple[Clock, ...], limit: int = 100) -> TextTable:
    """How the hosts' clocks run, the worst known offset first."""
    order = sorted(clocks, key=lambda one: (one.offset_ms is None, -abs(one.offset_ms or 0.0), one.host))
    rows = tuple(
        (
            _name(one.host),
            "not known" if one.offset_ms is None else f"{one.offset_ms:+,.1f}",
            "not known" if one.uncertainty_ms is None else f"± {one.uncertainty_ms:,.1f}",
            _name(one.zone),
            words(one.basis, NAME_LIMIT),
        )
        for one in order[:limit]
    )
    heads = ("host", "offset, ms", "uncertainty, ms", "zone", "how it is known")
    return TextTable("Clocks against the bundle's common time", heads, frozenset({1, 2}), rows, len(clocks) - len(rows))


def lane_table(lanes: list[Lane]) -> TextTable:
    """The swim lanes in figures."""
    rows = tuple(
        (
            words(lane_title(one.name), NAME_LIMIT),
            f"{one.fatal:,}",
            f"{one.error:,}",
            f"{one.warning:,}",
            f"{one.info:,}",
            "" if one.bad_at is None else clock(one.bad_at),
            words(one.bad_event or "", NAME_LIMIT),
            words(f"{one.bad_file}:{one.bad_line}", NAME_LIMIT) if one.bad_file else "",
        )
        for one in lanes
    )
    heads = ("place", "fatal", "error", "warning", "other", "first trouble (UTC)", "event", "line")
    return TextTable("Events in the window of the timeline", heads, frozenset({1, 2, 3, 4, 5}), rows)


def step_table(bins: tuple[StepBin, ...], parts: int = 16) -> TextTable:
    """The step-time plot in figures: at most `parts` rows, each of many bins."""
    rows = []
    size_of_part = max(1, -(-len(bins) // parts))
    for start in range(0, len(bins), size_of_part):
        chunk = bins[start : start + size_of_part]
        typical = sorted(one.typical for one in chunk)[len(chunk) // 2]
        rows.append(
            (
                f"{chunk[0].first:,} to {chunk[-1].last:,}",
                f"{sum(one.steps for one in chunk):,}",
                duration(min(one.fastest for one in chunk) / 1000),
                duration(typical / 1000),
                duration(max(one.slowest for one in chunk) / 1000),
            )
        )
    heads = ("steps", "timed", "fastest", "median", "slowest")
    return TextTable("Time per step", heads, frozenset({0, 1, 2, 3, 4}), tuple(rows))


def coverage_table(files: list[FileCoverage], total: int) -> TextTable:
    """How much of each file was understood."""
    rows = tuple(
        (
            words(one.file, NAME_LIMIT),
            _name(one.host),
            size(one.bytes),
            f"{one.lines:,}",
            f"{one.recognised:,}",
            f"{one.events:,}",
            f"{one.odd:,}",
            words(", ".join(part for part in (one.sources.replace(",", ", "), one.kind, one.note) if part), NAME_LIMIT),
        )
        for one in files
    )
    heads = ("file", "host", "size", "lines", "recognised", "events", "odd", "what it is")
    return TextTable("Coverage by file", heads, frozenset({2, 3, 4, 5, 6}), rows, max(0, total - len(rows)))


def odd_table(examples: list[OddLine], total: int) -> TextTable:
    """Examples of odd lines and files."""
    rows = tuple(
        (
            words(f"{one.file}:{one.line}" if one.line else one.file, NAME_LIMIT),
            words(one.why, NAME_LIMIT),
            words(one.text, 160),
        )
        for one in examples
    )
    heads = ("where", "why", "how it begins")
    return TextTable("Odd lines and files", heads, frozenset(), rows, max(0, total - len(rows)))
