"""Text that was copied out of a list, a quotation or a code block: each line stands behind the same blanks or `> `."""

from __future__ import annotations

from typing import Final

from postmortem.patterns import later

MARGIN_LOOK: Final = 1 << 20
"""Bytes of the largest text that is looked at: nobody quotes more."""

_LEAST_LINES: Final = 3
_MARGIN: Final = later(rb"^(?:[ \t]*(?:> ?)+)?[ \t]*")


def without_margin(text: bytes) -> bytes | None:
    """`text` without what stands before each of its lines; None where nothing does, or where it is longer than MARGIN_LOOK.

    Lines that hold nothing else may lack it.
    """
    if len(text) > MARGIN_LOOK:
        return None
    lines = text.split(b"\n")
    margins = [found[0] for line in lines if line.strip(b" \t\r>") and (found := _MARGIN.match(line))]
    if len(margins) < _LEAST_LINES:
        return None
    # What the first and the last in order have in common all have.
    first, last = min(margins), max(margins)
    margin = first[: next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
    # Programs print one blank themselves: Megatron does before each step.
    if margin in (b"", b" "):
        return None
    return b"\n".join(line[len(margin) :] if line.startswith(margin) else line.lstrip(b" \t>") for line in lines)
