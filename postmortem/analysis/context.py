"""Three lines around each evidence line, read again from the bundle: only the members that are cited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from postmortem.analysis.model import Evidence, Finding
from postmortem.bundle import Unit, open_unit
from postmortem.lines.blocks import read_blocks

AROUND: Final = 3
MAX_CHARS: Final = 400
HEAD_BYTES: Final = 4096
MAX_BYTES: Final = 64 << 20
"""A cited member larger than this is not read again: the verdict should not wait for decoration."""


def _wanted(findings: Sequence[Finding]) -> dict[str, set[int]]:
    lines: dict[str, set[int]] = defaultdict(set)
    for finding in findings:
        for e in finding.evidence:
            if e.text and e.event_id is None:
                continue  # its `line` is an entry of a file that has no lines
            lines[e.file].update(range(max(1, e.line - AROUND), e.line + AROUND + 1))
    return lines


def _missing(findings: Sequence[Finding]) -> dict[str, set[int]]:
    lines: dict[str, set[int]] = defaultdict(set)
    for finding in findings:
        for e in finding.evidence:
            if not e.text:
                lines[e.file].add(e.line)
    return lines


def _read(units: Sequence[Unit], wanted: dict[str, set[int]]) -> dict[tuple[str, int], str]:
    """Text of the wanted lines, by (file, line)."""
    found: dict[tuple[str, int], str] = {}
    for unit in units:
        mine = {f for f in wanted if f == unit.name or f.startswith(unit.name + "!/") or unit.name == ""}
        if not mine or unit.size > MAX_BYTES:
            continue
        for member in open_unit(unit):
            lines = wanted.get(member.name)
            if not lines or b"\0" in member.head(HEAD_BYTES):
                continue  # no text: what is cited of it is a row or an entry, and comes with its words
            for block in read_blocks(member.stream):
                last = block.first_line + len(block.text)
                for n in lines:
                    if block.first_line <= n < last:
                        found[member.name, n] = str(block.text[n - block.first_line])[:MAX_CHARS]
                if last > max(lines):
                    break
    return found


def with_context(findings: Sequence[Finding], units: Sequence[Unit], *, neighbours: bool = True) -> tuple[Finding, ...]:
    """`findings` whose evidence has its neighbouring lines in `before` and `after`, and its text where it had none.

    Without `neighbours` only missing texts are read.
    """
    wanted = _wanted(findings) if neighbours else _missing(findings)
    if not wanted:
        return tuple(findings)
    texts = _read(units, wanted)

    def around(e: Evidence) -> Evidence:
        if e.text and e.event_id is None:
            return e
        before = tuple(t for n in range(e.line - AROUND, e.line) if (t := texts.get((e.file, n))) is not None)
        after = tuple(t for n in range(e.line + 1, e.line + AROUND + 1) if (t := texts.get((e.file, n))) is not None)
        return replace(e, before=before, after=after, text=e.text or texts.get((e.file, e.line), ""))

    return tuple(replace(f, evidence=tuple(around(e) for e in f.evidence)) for f in findings)
