"""What the analysis says of the job's pace: typed records beside those of `model`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from postmortem.analysis.model import Span


@dataclass(frozen=True, slots=True)
class TraceView:
    """What a trace of timed operations says of the job's pace (lost_compute.md section 4).

    `slowdown` is S: mean time of a step as it was (`step_s`, delays of the host left out) over that with every operation as long as the
    mean of its kind (`ideal_s`); `waste_share` is 1 - 1/S. The shares say how much of the difference goes away with the worst 3 % of the
    workers repaired, with the longest stage evened out, with all microbatches of a stage alike. None where it can't be computed.
    """

    trace: str
    workers: int
    stages: int
    steps: int
    step_s: float | None = None
    ideal_s: float | None = None
    slowdown: float | None = None
    waste_share: float | None = None
    worker_share: float | None = None
    longest_stage: int | None = None
    stage_ratio: float | None = None
    stage_share: float | None = None
    variation_share: float | None = None
    cause: Literal["rank", "stage", "variation", "even", "unknown"] = "unknown"
    summary: str = ""


@dataclass(frozen=True, slots=True)
class QueuePairs:
    """All queue pairs that were measured.

    `where` is what the slow ones have in common: nic, peer nic, switch, path, pair (one, nothing to compare it with), spread; none without a slow
    one. `extra_us` is what a slow request of the worst one takes beyond the usual; `lost` is the share of the job's throughput, `per_step` the
    number of such requests one after another that would account for it.
    """

    measured: int = 0
    slow: int = 0
    hosts: int = 0
    where: str = "none"
    summary: str = ""
    extra_us: float = 0.0
    traced_share: float | None = None
    lost: Span | None = None
    lost_basis: str | None = None
    per_step: int | None = None


@dataclass(frozen=True, slots=True)
class Congestion:
    """Signs of congestion at a switch or host, counted, and how the job's steps went in those minutes (shares of minutes with a slow step)."""

    place: str
    minutes: int
    storms: int
    marks: int
    drops: int
    waits: int
    grown: int
    ports: int
    first: datetime
    last: datetime
    slow_with: float | None
    slow_without: float | None
    worst_step: float | None
    summary: str
