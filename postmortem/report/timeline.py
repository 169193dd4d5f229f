"""What the swim-lane timeline shows: the window, the lanes that matter, the marked times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb

from postmortem.analysis.model import Analysis, Culprit
from postmortem.report.figures import storable
from postmortem.report.queries import Lane, LaneBin, event_range, lane_bins, lanes

MAX_LANES = 10
BINS = 84
LEAST_PAD_S = 15.0
NO_PLACE = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """A time that the report speaks of; `lo` and `hi` are its bounds where they differ."""

    name: str
    at: datetime
    lo: datetime
    hi: datetime


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that is drawn. `rest` sums the places that got no lane of their own."""

    lo: datetime
    hi: datetime
    lanes: tuple[Lane, ...]
    culprits: frozenset[str]
    rest: Lane | None
    rest_places: int
    bins: tuple[LaneBin, ...]
    markers: tuple[Marker, ...]


def build(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> Timeline | None:
    """The timeline of the minutes around the end; None when nothing has a time."""
    span = window(analysis, event_range(con))
    if span is None:
        return None
    lo, hi = span
    places = lanes(con, lo, hi)
    culprits = _culprits(analysis, {lane.name for lane in places})
    shown = _choose(places, culprits, _witnesses(analysis))
    hidden = [lane for lane in places if lane.name not in {lane.name for lane in shown}]
    bins = lane_bins(con, lo, hi, [lane.name for lane in shown], BINS)
    markers = tuple(mark for mark in _markers(analysis) if lo <= mark.at <= hi)
    return Timeline(
        lo, hi, tuple(shown), frozenset(culprits), _sum(hidden) if hidden else None, len(hidden), tuple(bins), markers
    )


def window(analysis: Analysis, events: tuple[datetime, datetime] | None) -> tuple[datetime, datetime] | None:
    """From before the last progress to after the detection; the job's end only if it is near.

    A teardown of ten minutes would squeeze the seconds that matter into a few pixels. Of a quiet
    run the whole job is shown.
    """
    job, verdict = analysis.job, analysis.verdict
    core = [verdict.onset, verdict.onset_lo, verdict.onset_hi, analysis.detected, analysis.last_progress]
    times = [moment for moment in core if moment is not None]
    if verdict.cause == "none" or len(set(times)) < 2:
        times += [moment for moment in (job.start if verdict.cause == "none" else None, job.end) if moment is not None]
    if not times or (len(times) < 2 and verdict.cause == "none"):
        times += events or ()
    if not times:
        return None
    lo, hi = min(times), max(times)
    length = (hi - lo).total_seconds()
    if job.end is not None and hi < job.end and (job.end - hi).total_seconds() <= 60 + 2 * length:
        hi = job.end
    pad = max(LEAST_PAD_S, (0.03 if verdict.cause == "none" else 0.15) * length)
    return _shift(lo, -pad), _shift(hi, pad)


def _shift(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return moment


def _names(culprit: Culprit, places: set[str]) -> Iterator[str]:
    """The culprit's lanes: its machine, by the name that events have, and its switch and peer where they have any.

    A machine without any event keeps its lane: its silence says something. A pod is no second machine, and of a switch or peer that logged
    nothing the bundle may just lack the log: they are silent lanes only where no machine is known.
    """
    # A name out of a path may hold bytes that are no UTF-8; the database takes none of these.
    machine, others = (
        [storable(name) for name in names if name]
        for names in ((culprit.host, culprit.pod), (culprit.switch, culprit.peer))
    )
    if machine:
        yield next((name for name in machine if name in places), machine[0])
    yield from [name for name in others if name in places] or ([] if machine else others[:1])


def _culprits(analysis: Analysis, places: set[str]) -> list[str]:
    named = list(_names(analysis.verdict.culprit, places))
    if not named and analysis.findings:
        named = list(_names(analysis.findings[0].culprit, places))
    return list(dict.fromkeys(named))


def _witnesses(analysis: Analysis) -> list[str]:
    """Hosts that the evidence of the findings speaks of, best finding first."""
    hosts = [line.host for finding in analysis.findings for line in finding.evidence if line.host]
    return list(dict.fromkeys(hosts))


def _choose(places: list[Lane], culprits: list[str], witnesses: list[str]) -> list[Lane]:
    """Culprits, then witnesses, then where most happened; the lane without a place comes last."""
    known = {lane.name: lane for lane in places}
    first = [known.get(name, Lane(name, 0, 0, 0, 0)) for name in culprits]
    seconds = [known[name] for name in witnesses if name in known]
    others = [lane for lane in places if lane.name != NO_PLACE]
    chosen = list({lane.name: lane for lane in (*first, *seconds, *others)}.values())[:MAX_LANES]
    return [*chosen, known[NO_PLACE]] if NO_PLACE in known else chosen


def _sum(hidden: list[Lane]) -> Lane:
    first = min((lane for lane in hidden if lane.bad_at), key=lambda lane: (lane.bad_at, lane.name), default=None)
    return Lane(
        f"{len(hidden):,} more",
        sum(lane.fatal for lane in hidden),
        sum(lane.error for lane in hidden),
        sum(lane.warning for lane in hidden),
        sum(lane.info for lane in hidden),
        first.bad_at if first else None,
        first.bad_event if first else None,
        first.bad_file if first else None,
        first.bad_line if first else None,
    )


def _markers(analysis: Analysis) -> Iterable[Marker]:
    verdict = analysis.verdict
    if analysis.last_progress is not None:
        yield Marker("last progress", analysis.last_progress, analysis.last_progress, analysis.last_progress)
    if verdict.onset is not None:
        yield Marker("onset", verdict.onset, verdict.onset_lo or verdict.onset, verdict.onset_hi or verdict.onset)
    if analysis.detected is not None:
        yield Marker("detected", analysis.detected, analysis.detected, analysis.detected)
    if analysis.job.end is not None:
        yield Marker("end", analysis.job.end, analysis.job.end, analysis.job.end)
