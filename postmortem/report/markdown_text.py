"""Foreign text in Markdown: nothing of a log line can begin a heading, a link, a mention, HTML or a table column.

Prose keeps its plain words; a word that any dialect (CommonMark, GitHub, GitLab) could read as markup becomes a code span, whose content no
dialect interprets. Lines of logs stand in fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from postmortem.report.figures import shown, visible

WORD: Final = re.compile(r"[^\W_]+(?:['’./,:%–-][^\W_]+)*%?")
"""A word without any character of markup."""
AROUND: Final = re.compile(r"([(\"“]*)(.*?)([)\"”.,;:!?…]*)", re.DOTALL)
ALONE: Final = frozenset("– — → · … % / ×".split())
CLOCK: Final = re.compile(r"[0-9]+:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?")
# What forges turn into links without any mark: addresses, issues (GH-12), commits.
LINKED: Final = re.compile(r"(?i)www\..*|gh-[0-9]+|(?=.*[a-f])[0-9a-f]{7,40}")
RUN: Final = re.compile(r"`+")


def prose(text: str, limit: int = 1000) -> str:
    """Text of one paragraph, on one line."""
    words = [word for word in shown(text, limit).split(" ") if word]
    return " ".join(_word(word, is_first=place == 0) for place, word in enumerate(words))


def _word(word: str, *, is_first: bool) -> str:
    before, core, after = _parts(word)
    if not core:
        # Punctuation only; `...` could be part of a rule or a list, an arrow can't.
        return word if word in ALONE or (before and after) else code(word)
    if core in ALONE:
        return word
    is_plain = WORD.fullmatch(core) and not LINKED.fullmatch(core) and (core.count(":") < 2 or CLOCK.fullmatch(core))
    # At the beginning `1.` and `1)` would begin a list.
    if is_plain and not (is_first and core.isdigit() and after[:1] in (".", ")")):
        return word
    return f"{before}{code(core)}{after}"


def _parts(word: str) -> tuple[str, str, str]:
    found = AROUND.fullmatch(word)
    return (found[1], found[2], found[3]) if found else ("", word, "")


def code(text: str, limit: int = 300) -> str:
    """A code span."""
    inner = shown(text, limit) or " "
    ticks = "`" * (max((len(run) for run in RUN.findall(inner)), default=0) + 1)
    pad = " " if inner[0] in "` " or inner[-1] in "` " else ""
    return f"{ticks}{pad}{inner}{pad}{ticks}"


def fence(lines: Iterable[str], limit: int = 600) -> str:
    """A fenced block of lines as they are, invisible characters made visible."""
    body = [shown(line, limit) for line in lines]
    ticks = "`" * max(3, max((len(run) for line in body for run in RUN.findall(line)), default=0) + 1)
    return "\n".join((f"{ticks}text", *body, ticks))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; heads and cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in lines)


def _cell(text: str) -> str:
    # A bar ends a cell even within a code span.
    return visible(text).replace("|", "\\|") or " "
