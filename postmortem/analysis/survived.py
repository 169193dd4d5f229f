"""Faults that did not end the job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from postmortem.analysis.model import Survived

if TYPE_CHECKING:
    from postmortem.analysis.candidates import Candidate


def survived(scored: list[Candidate]) -> tuple[Survived, ...]:
    """Faults on the job's own parts that it lived through, earliest first, at most 20."""
    rows = [
        c
        for c in scored
        if c.tier == "direct" and c.weight >= 0.5 and "progress after it" in c.why_not and c.in_job is not False
    ]
    rows.sort(key=lambda c: (c.first or datetime.max, c.episode))
    seen: dict[int, Survived] = {}
    for c in rows:
        seen.setdefault(c.episode, Survived(c.event, c.host, c.entity, c.first, c.back or c.last, c.why_not))
    return tuple(seen.values())[:20]
