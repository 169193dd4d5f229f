"""Outputs of commands that follow each other in one text file, each read by the decoder that knows it.

nvidia-bug-report.log (rules of underscores, then the command), `show tech-support` (`------ show lldp neighbors ------`, NX-OS
between back-quotes), transcripts with prompts (`leaf-1# show …`, `$ ibdev2netdev`), files put together by a collector
(`==== lspci -vv ====`, `==> FILE <==`). The same lines also go through the line pass; what a decoder reads of a section keeps the line
numbers of the file.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import polars as pl

from postmortem.decoders import Decoded, decode, sniff
from postmortem.decoders.base import MAX_TEXT_BYTES
from postmortem.lines.blocks import Block
from postmortem.patterns import later

SNIFF_LINES: Final = 400
MAX_SECTIONS: Final = 20_000
"""Sections of one file that are tried; a file with more marks than that is no collection of outputs."""

_COMMANDS: Final = (
    r"(?:show_gids|ibdev2netdev|ibstat(?:us)?|ibv_devinfo|rdma|lspci|nvidia-smi|rocm-smi|amd-smi|ethtool|perfquery|mlxlink|mst|lldpctl|lldpcli|"
    r"ibnetdiscover|iblinkinfo|ibqueryerrors|ifconfig|sacct|scontrol|sinfo|kubectl|py-spy|dcgmi|ipmitool|ras-mc-ctl|nstat|netstat|ncclras)"
)
_WORDS: Final = r"(?:show|display|ip|net|nv|cat|dmesg|getent|lldp|grep|ls)"
_PATH: Final = r"(?:sudo (?:-[A-Za-z]+ )?)?(?:/[A-Za-z0-9_./-]*/)?"
_PROMPT: Final = r"(?:\[[^\]]{1,60}\][#$] ?|[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+[: ]?[^#$>%]{0,40}[#$>%] ?|[A-Za-z][A-Za-z0-9_.-]{0,60}(?:\([A-Za-z0-9_-]+\))?[#>] ?|[$#+] )"
MARK: Final = (
    r"^(?:_{20,}\s*$"
    rf"|{_PATH}{_COMMANDS}(?: [^|]{{0,160}})?$"
    rf"|[-=*#~>`+ ]{{2,90}}{_PATH}(?:{_COMMANDS}|{_WORDS})(?: [^|]{{0,160}})?$"
    rf"|`{_PATH}(?:{_COMMANDS}|{_WORDS}) [^`]{{0,160}}`$"
    rf"|{_PROMPT}{_PATH}(?:{_COMMANDS}|{_WORDS}) ?[^|]{{0,160}}$"
    r"|==> [^ ].{0,300} <==$)"
)
"""A line that says that another command's output begins (Rust and Python dialect)."""

_MARK: Final = later(MARK.replace(r"\s*$", r"[ \t\r]*$"), re.MULTILINE)
_HOST: Final = later(
    r"^(?:\[)?(?:[A-Za-z0-9_.-]+@(?P<at>[A-Za-z0-9][A-Za-z0-9_.-]*)|(?P<bare>[A-Za-z][A-Za-z0-9_.-]*?)(?:\([A-Za-z0-9_-]+\))?[#>] ?(?:show|display|net|nv)\b)"
)


def holds_sections(head: bytes, least: int = 1) -> bool:
    """The first bytes of a text file show that outputs of commands follow each other in it: at least so many marks."""
    marks = _MARK.finditer(head.decode("utf-8", "replace"))
    return len(list(islice(marks, least))) >= least


@dataclass(slots=True)
class _Open:
    """The section that is being read: the line of its mark, its lines so far, and who reads it once that is known."""

    mark: str
    line: int
    lines: list[str] = field(default_factory=list)
    size: int = 0
    decoder: str | None = None
    skip: int = 0
    is_tried: bool = False


@dataclass(slots=True)
class _Part:
    """A section as a member of its own."""

    name: str
    stream: io.BytesIO


@dataclass(slots=True)
class Sections:
    """Feed it all blocks of a file in order, then call `finish`; `found` holds what the sections gave."""

    name: str
    host_hint: str | None
    rank_hint: int | None
    found: list[Decoded] = field(default_factory=list)
    _open: _Open | None = field(default_factory=lambda: _Open("", 0))
    _count: int = 0

    def feed(self, block: Block) -> None:
        """Take the lines of `block` to the sections they belong to."""
        if self._count > MAX_SECTIONS:
            return
        marks = block.text.str.contains(MARK).arg_true().to_list()
        start = 0
        # A Python loop over marks: a file has some hundred.
        for at in [*marks, len(block.text)]:
            self._add(block.text.slice(start, at - start))
            if at < len(block.text):
                self.finish()
                self._count += 1
                self._open = _Open(str(block.text[at]), block.first_line + at)
            start = at + 1

    def _add(self, text: pl.Series) -> None:
        part = self._open
        if part is None or not len(text) or part.size > MAX_TEXT_BYTES or (part.is_tried and part.decoder is None):
            return
        part.lines += text.to_list()
        part.size += int(text.str.len_bytes().sum()) + len(text)
        if not part.is_tried and len(part.lines) >= SNIFF_LINES:
            self._try(part)

    def _try(self, part: _Open) -> None:
        """Ask the formats who reads this: with the line of the mark, which names the command, then without, and behind blank lines."""
        part.is_tried = True
        begin = next((i for i, line in enumerate(part.lines[:20]) if line.strip()), 0)
        for skip in (-1, begin, begin + 1) if part.mark else (begin,):
            lines = part.lines[max(skip, 0) : SNIFF_LINES * 4]
            head = "\n".join([part.mark, *lines] if skip < 0 else lines)
            part.decoder = sniff(self.name, head.encode("utf-8", "replace")[: 64 << 10], in_section=True)
            part.skip = skip
            if part.decoder:
                return
        part.lines = []

    def finish(self) -> None:
        """End the section that is open."""
        part, self._open = self._open, None
        if part is None:
            return
        if not part.is_tried and part.lines:
            self._try(part)
        if not part.decoder:
            return
        lines = [part.mark, *part.lines] if part.skip < 0 else part.lines[part.skip :]
        stream = io.BytesIO("\n".join(lines).encode("utf-8", "replace"))
        who = _HOST.match(part.mark)
        host = (who["at"] or who["bare"]) if who else None
        decoded = decode(
            part.decoder, _Part(self.name, stream), host_hint=host or self.host_hint, rank_hint=self.rank_hint
        )
        shift = part.line - 1 if part.skip < 0 else part.line + part.skip
        decoded.tables = {
            table: frame.with_columns(pl.col("line") + shift) if "line" in frame.columns else frame
            for table, frame in decoded.tables.items()
        }
        if decoded.tables:
            self.found.append(decoded)
