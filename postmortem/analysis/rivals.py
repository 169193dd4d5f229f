"""What a finding was chosen over, and why each of those lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from postmortem.analysis.candidates import Candidate, Edge
from postmortem.analysis.model import Finding, Rival
from postmortem.analysis.windows import SKEW_S

MAX_RIVALS: Final = 4
EXPLAINED: Final = 0.3
"""From this strength of a rule on a candidate counts as explained by an earlier one."""


def rivals_of(
    winner: Candidate, others: Sequence[Candidate], edges: Sequence[Edge], scored: Sequence[Candidate]
) -> tuple[Rival, ...]:
    """The best other candidates, one per cause and best first, each with why it lost against `winner`."""
    events = {c.episode: c for c in scored}
    return tuple(Rival(o.cause, why(o, winner, edges, events)) for o in others[:MAX_RIVALS])


def why(loser: Candidate, winner: Candidate, edges: Sequence[Edge], episodes: dict[int, Candidate]) -> str:
    """Why `loser` lost: it was survived or lies elsewhere, follows from something, is hearsay, came later, or knows less."""
    if loser.why_not:
        return loser.why_not
    into = [e for e in edges if e.effect == loser.episode and e.strength > EXPLAINED and e.cause != loser.episode]
    if into:
        best = min(into, key=lambda e: (e.cause != winner.episode, -e.strength, e.cause, e.rule))
        source = episodes.get(best.cause)
        rule = best.rule.split(" ", 1)[-1]
        if source is not None:
            return f"{source.event}{_place(source, loser)} {_ago(best.lag_s)} explains it ({rule})"
        return f"an earlier fault explains it ({rule})"
    if dict(loser.features).get("explained", 0.0) > EXPLAINED:
        return "it follows from an earlier fault"
    if loser.tier == "victim":
        return f"{loser.event} only says that somebody else was late or gone"
    if loser.first and winner.first and loser.first > winner.first + timedelta(seconds=SKEW_S):
        return f"its first sign, {loser.event}, came {_seconds((loser.first - winner.first).total_seconds())} later"
    if loser.weight * loser.relevance < winner.weight * winner.relevance:
        return f"its sign, {loser.event}, says less: {loser.weight * loser.relevance:.2f} against {winner.weight * winner.relevance:.2f}"
    return "fewer lines of other kinds say the same"


def _place(source: Candidate, loser: Candidate) -> str:
    return f" on {source.host}" if source.host and source.host != loser.host else ""


def _ago(lag_s: float) -> str:
    if abs(lag_s) < 1:
        return "at the same time"
    return f"{_seconds(abs(lag_s))} {'before' if lag_s > 0 else 'after'}"


def _seconds(value: float) -> str:
    if value >= 7200:
        return f"{value / 3600:.0f} h"
    if value >= 120:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s"


def in_order(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each chosen over those below it and over none above it.

    They exclude each other: what the first leaves of certainty is shared out among the others, in proportion to what each would be alone.
    """
    if len(found) > 1:
        first, others = found[0], found[1:]
        whole = sum(f.confidence for f in others)
        left = 1 - first.confidence
        found = [
            first,
            *(
                replace(f, confidence=round(min(f.confidence, left * f.confidence / whole), 4)) if whole > 0 else f
                for f in others
            ),
        ]
    out = []
    for number, finding in enumerate(found):
        above = {f.cause for f in found[:number]} | {finding.cause}
        kept = [r for r in finding.chosen_over if r.cause not in above]
        named = {r.cause for r in kept}
        kept += [
            Rival(f.cause, f"less likely: {f.confidence:.2f} against {finding.confidence:.2f}")
            for f in found[number + 1 :]
            if f.cause not in named | above
        ]
        out.append(replace(finding, chosen_over=tuple(kept[:MAX_RIVALS])))
    return tuple(out)
