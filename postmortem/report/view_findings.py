"""Findings and their evidence as the HTML report prints them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from postmortem.analysis.model import WORDS, Culprit, Evidence, Finding, word_for
from postmortem.report.figures import shown, stamp, visible
from postmortem.report.view_hops import HopView, chain, hop_views, network_sentence, reach_sentence
from postmortem.report.view_rows import words
from postmortem.report.words import cause_title, culprit_name, what_happened

EVIDENCE = 25
LINE_LIMIT, CONTEXT_LIMIT = 2000, 400


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """One line with its neighbours, each with its line number; `anchor` is unique in the page."""

    anchor: str
    where: str
    role: str
    when: str
    number: int
    text: str
    before: tuple[tuple[int, str], ...]
    after: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class FindingView:
    """One possible cause. `proof` is the line that convinces, cut for the first screen."""

    number: int
    cause: str
    title: str
    word: str
    confidence: str
    percent: int
    culprit: str
    culprit_facts: tuple[tuple[str, str], ...]
    summary: str
    says_more: bool
    """The summary says more than that the culprit did it, as the headline has it."""
    onset: str
    proof: EvidenceView | None
    rivals: tuple[tuple[str, str], ...]
    evidence: tuple[EvidenceView, ...]
    more_evidence: int
    next_steps: tuple[str, ...]
    collect: tuple[str, ...]
    chain: str
    network: str
    reach: str
    hops: tuple[HopView, ...]


def _evidence(finding: int, index: int, line: Evidence) -> EvidenceView:
    before = line.before[-3:]
    return EvidenceView(
        anchor=f"e{finding}-{index}",
        where=words(f"{line.file}:{line.line}", 300),
        role=line.role,
        when="" if line.ts is None else f"{stamp(line.ts)} UTC",
        number=line.line,
        text=shown(line.text, LINE_LIMIT),
        before=tuple(
            (line.line - len(before) + place, shown(text, CONTEXT_LIMIT)) for place, text in enumerate(before)
        ),
        after=tuple(
            (line.line + place, shown(text, CONTEXT_LIMIT)) for place, text in enumerate(line.after[:3], start=1)
        ),
    )


def finding_view(number: int, finding: Finding) -> FindingView:
    """The finding with its number from 1; lines and lists are cut to what a page can hold."""
    evidence = tuple(_evidence(number, index, line) for index, line in enumerate(finding.evidence[:EVIDENCE], start=1))
    proof = next((line for line in evidence if line.role == "cause"), evidence[0] if evidence else None)
    return FindingView(
        number=number,
        cause=words(finding.cause, 60),
        title=words(cause_title(finding.cause), 80),
        word=word_for(finding.confidence) if finding.confidence >= WORDS[-1][0] else "weak",
        confidence=f"{finding.confidence:.2f}",
        percent=max(0, min(100, round(100 * finding.confidence))),
        culprit=words(culprit_name(finding.culprit, finding.cause) or "", 300),
        culprit_facts=tuple(_facts(finding.culprit)),
        summary=words(finding.summary),
        says_more=not visible(finding.summary)
        .lower()
        .startswith(what_happened(finding.cause, finding.culprit).lower()),
        onset="" if finding.onset is None else f"{stamp(finding.onset)} UTC",
        proof=proof,
        rivals=tuple((cause_title(rival.cause), words(rival.why, 500)) for rival in finding.chosen_over[:12]),
        evidence=evidence,
        more_evidence=max(0, len(finding.evidence) - EVIDENCE),
        next_steps=distinct([finding.next_steps]),
        collect=distinct([finding.collect]),
        chain=chain(finding),
        network=network_sentence(finding),
        reach=reach_sentence(finding),
        hops=hop_views(finding, {(e.file, e.line): v.anchor for e, v in zip(finding.evidence, evidence, strict=False)}),
    )


def _facts(culprit: Culprit) -> list[tuple[str, str]]:
    ranks = ", ".join(str(rank) for rank in culprit.ranks[:16])
    more = f" and {len(culprit.ranks) - 16:,} more" if len(culprit.ranks) > 16 else ""
    facts: list[tuple[str, object]] = [
        ("host", culprit.host),
        ("pod", culprit.pod),
        ("GPU", culprit.gpu),
        ("PCI address", culprit.pci),
        ("rank", culprit.rank if not ranks else None),
        ("ranks", f"{ranks}{more}" or None),
        ("local rank", culprit.local_rank),
        ("process", culprit.pid),
        ("device", culprit.dev),
        ("port", culprit.port),
        ("interface", culprit.ifname),
        ("queue pair", culprit.qpn),
        ("NVLink", culprit.link),
        ("switch", culprit.switch),
        ("switch port", culprit.switch_port),
        ("peer", culprit.peer),
    ]
    return [(name, words(str(value), 240)) for name, value in facts if value is not None]


def distinct(lists: Iterable[tuple[str, ...]], limit: int = 20) -> tuple[str, ...]:
    """The texts of all lists, each once, in their order."""
    found = dict.fromkeys(words(text, 600) for texts in lists for text in texts)
    return tuple(found)[:limit]
