"""All line headers, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers import kernel, launcher, program, switch
from postmortem.lines.headers.grammar import Header

HEADERS: Final[tuple[Header, ...]] = (
    *switch.HEADERS,
    *launcher.HEADERS,
    *launcher.STATED,
    *kernel.HEADERS,
    *program.HEADERS,
)

__all__ = ["HEADERS", "Header"]
