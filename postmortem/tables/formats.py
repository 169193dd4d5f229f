"""docs/formats.md from parsers/ and the decoders: `python -m postmortem.tables.formats > docs/formats.md`.

`postmortem formats list` prints the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from postmortem.catalogue.definition import Message, load_folders
from postmortem.decoders import DECODERS
from postmortem.resources import data_folder
from postmortem.schema import SOURCES

_HEAD: Final = """\
<!-- Generated from parsers/ and postmortem/decoders/ by `python -m postmortem.tables.formats > docs/formats.md`; change it there. -->
# Formats

Everything that is recognised: {messages} messages of log lines with {samples} sample lines, and {decoders} formats that are no lines.
`postmortem formats list` prints the same. Any line may stand in any file, behind any of the framings below. A format of your own:
[adding-a-format.md](adding-a-format.md).

## Framings

What may stand before or around a line, one inside the other: kernel ring buffers (`dmesg` with all its options, /dev/kmsg, pstore, netconsole),
syslog (RFC 3164 and 5424, with and without priority, with a relay's stamp before the host's), the journal (short, ISO, monotonic, JSON, export),
container logs (docker's JSON, CRI, `kubectl logs`, stern, docker compose), launchers (torchrun, srun, Open MPI, Ray, torchx, pdsh),
collectors' exports (Loki, Elasticsearch and Kibana, Splunk, CloudWatch, Cloud Logging, Datadog, GELF, Vector, Fluent Bit; JSON or CSV), loggers of C++ and Python,
terminal colours, progress bars redrawn with carriage returns, `message repeated N times`. tests/tables/test_framings.py shows one line in each.
Several commands' outputs in one file (nvidia-bug-report, `show tech-support`, transcripts) are read one by one.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One message or format: who prints it, in which versions, what it gives, where it is read from."""

    source: str
    program: str
    versions: str
    gives: str
    severity: str
    text: str
    where: str
    reference: str

    @property
    def line(self) -> str:
        """The row as `postmortem formats list` prints it."""
        about = ", ".join(part for part in (self.program, self.versions) if part)
        return f"{self.source:10} {self.gives:28} {self.severity:8} {self.where:32} {self.text!r}  {about}; {self.reference}"


def message_rows(messages: Iterable[Message]) -> Iterator[Row]:
    """One row per message; known noise has no row of its own."""
    for m in messages:
        if not m.is_noise:
            name = f"fact {m.event}" if m.is_fact else m.event
            where = f"{m.file}#{m.number}"
            yield Row(m.source, m.program, m.versions, name, m.severity, m.contains[0], where, m.reference)


def decoder_rows() -> Iterator[Row]:
    """One row per format that is no line."""
    for f in DECODERS.values():
        yield Row("file", f.program, "", f.name, "", f.about, "", f.reference)


def formats_page(messages: tuple[Message, ...]) -> str:
    """The whole page: framings, formats that are no lines, then a section per source with a table per program."""
    shown = list(message_rows(messages))
    head = _HEAD.format(messages=len(shown), samples=sum(len(m.samples) for m in messages), decoders=len(DECODERS))
    parts = [
        head,
        "## Formats that are no lines\n",
        "| format | what is read | printed by | reference |",
        "| --- | --- | --- | --- |",
    ]
    parts += [f"| `{r.gives}` | {_cell(r.text)} | {_cell(r.program)} | {_cell(r.reference)} |" for r in decoder_rows()]
    for source in SOURCES:
        own = sorted(
            (r for r in shown if r.source == source), key=lambda r: (r.program, r.where.split("#")[0], r.gives)
        )
        if not own:
            continue
        parts.append(f"\n## Lines: {source}")
        for program, rows in groupby(own, key=lambda r: r.program):
            parts += [
                f"\n### {program}\n",
                "| event | severity | a text it holds | versions | reference |",
                "| --- | --- | --- | --- | --- |",
            ]
            parts += [
                f"| `{r.gives}` | {r.severity} | `{_cell(r.text)}` | {_cell(r.versions)} | {_cell(r.reference)} |"
                for r in rows
            ]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Print the page."""
    sys.stdout.write(formats_page(load_folders([data_folder("parsers")])))


if __name__ == "__main__":
    main()
