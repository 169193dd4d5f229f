"""The BMC's event log: ipmitool sel list, elist, -v and -c, FreeIPMI's ipmi-sel, Redfish's LogEntries.

A record a line (ipmitool lib/ipmi_sel.c, ipmi_sel_print_std_entry); times are the BMC's own clock, mostly without zone, the date
as the locale of the reader writes it. Only assertions count.

      1a | 10/03/2024 | 05:56:38 | Processor #0xfa | IERR | Asserted
      36 | 04/13/2025 | 03:08:16 PM EDT | Critical Interrupt #0xa1 | Bus Fatal Error (Bus fatal:B5d/D03/F02) | Asserted
    2c9 |  Pre-Init  |0000198492| Temperature SSB Temp | Upper Critical going high | Asserted | Reading 96 > Threshold 95 degrees C

A power unit that went off is an error, one supply of several a warning (`host.power`); fans become facts (`host.fan`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, Row, evidence, read_text, stamp
from postmortem.decoders.counters.base import ZONES
from postmortem.patterns import later

MAX_RECORDS: Final = 20_000
"""A BMC keeps some thousand records."""

_LINE: Final = later(
    r"^\s*[0-9a-fA-F]{1,4} \| ?(?:\s?Pre-Init\s*\|\s*[0-9]+|[0-9]{1,4}[/.-][0-9]{1,2}[/.-][0-9]{2,4} \| [0-9]{1,2}:[0-9]{2}:[0-9]{2}[^|]*)\s*\| ?(.*)$"
)
_BARE: Final = later(r"^\s*[0-9a-fA-F]{1,4} \| (Linux kernel panic: .*|OEM record [ef][0-9a-f] .*)$")
_WHEN: Final = later(
    r"\| ([0-9]{1,4})[/.-]([0-9]{1,2})[/.-]([0-9]{2,4}) \| ([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?: ([AP]M))?(?: ([A-Z]{3,4}|[+-][0-9]{2,4}))?"
)
_CSV: Final = later(
    r"^[0-9a-fA-F]{1,4},(?:[0-9/.-]{6,10}|\s?Pre-Init ?),[^,]*,[^,]+,.*,(?:Asserted|Deasserted)(?:,.*)?$"
)
_FREEIPMI: Final = later(
    r"^[0-9]+\s*\| ([A-Z][a-z]{2})-([0-9]{2})-([0-9]{4})\s*\| ([0-9]{2}):([0-9]{2}):([0-9]{2})\s*\| ([^|]*)\| ([^|]*)\| (.*)$"
)
_FIELD: Final = later(
    r"^\s*(SEL Record ID|Timestamp|Sensor Type|Sensor Number|Event Direction|Description)\s*: ?(.*?)\s*$"
)
_BDF: Final = later(
    r"bus:? ?([0-9a-f]{2})[ /]+d(?:evice)?:? ?([0-9a-f]{2})[ /]+f(?:unction)?:? ?([0-7])", re.IGNORECASE
)
_QUANTA: Final = later(r"B([0-9a-f]{2})/D([0-9a-f]{2})/F0?([0-7])", re.IGNORECASE)
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()

# Of `sensor | event`: what it is and what it means for a job. The first that fits.
_KINDS: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = tuple(
    (later(p, re.IGNORECASE), name, severity)
    for p, name, severity in (
        (r"Linux kernel panic|Run-?time critical stop|OS .*\bpanic", "host.panic", "fatal"),
        (r"(?<!Un)Correctable (?:Machine Check|MCA)|Machine Check.*\bcorrectable\b", "host.mce", "info"),
        (r"\bIERR\b|\bMCERR\b|CAT ?ERR\b|Machine Check Exception|Uncorrectable (?:machine|CPU|MCA)|Processor.*(?:FRB1|BIST failure|Internal Err)", "host.mce", "fatal"),
        (r"Thermal Trip", "host.thermal_throttle", "error"),
        (r"Processor.*Throttled", "host.thermal_throttle", "warning"),
        (r"Uncorrectable (?:ECC|Memory|Error.*DIMM)|multi-?bit (?:memory )?error|Memory.*\bParity\b", "host.edac", "fatal"),
        (r"(?:Correctable ECC|single-?bit (?:memory )?error|Correctable memory)", "host.edac", "warning"),
        (r"Bus Correctable|PCIe? Cor(?:rectable)? .*Error", "pcie.aer_corrected", "info"),
        (r"Bus Fatal Error|PCI SERR|PCI PERR|PCIe?.*\bfatal\b(?<!non-fatal)|fatal error was detected on a component at bus", "pcie.aer_fatal", "fatal"),
        (r"Bus Uncorrectable|PCIe?.*(?:uncorrectable|non-?fatal)", "pcie.aer_nonfatal", "error"),
        (r"Watchdog ?[12]?.*(?:Hard reset|Power cycle|Power down)", "host.hard_lockup", "error"),
        (r"GPU.*(?:Upper (?:Critical|Non-recoverable) going high|overheat|over ?temp)", "gpu.thermal", "warning"),
        (r"Temp.*Upper (?:Critical|Non-recoverable) going high|Temp.*(?:above|exceed).*(?:critical|upper critical)", "host.thermal_throttle", "warning"),
        (r"Temp.*Upper Non-critical going high", "host.thermal_throttle", "info"),
        (r"Drive (?:Slot|Bay|\d).*(?:Drive Fault|In Failed Array)", "host.disk_error", "error"),
        (r"Drive (?:Slot|Bay|\d).*Predictive Failure", "host.disk_error", "warning"),
        (r"System Boot Initiated|OEM System boot event|System boot initiated|System Restart", "host.boot", "info"),
        (r"Power Unit.*(?:Power off|AC lost|Failure|cycle|Soft-power)|ACPI Power State.*soft-off", "host.power", "error"),
        (r"Power Supply.*(?:Failure detected|AC lost|Predictive failure|input (?:lost|out)|Configuration error)|Redundancy Lost", "host.power", "warning"),
        (r"\bFan\b.*(?:Lower (?:Critical|Non-recoverable) going low|Failure|Transition to Critical)", "host.fan", "info"),
    )
)  # fmt: skip
_FACTS: Final = frozenset({"host.fan"})


@dataclass(frozen=True, slots=True)
class Record:
    """One entry: the sensor with its type, what it says, whether that came or went, and when."""

    line: int
    text: str
    sensor: str
    what: str
    is_asserted: bool
    when: datetime | None


def judged(sensor: str, what: str) -> tuple[str, str] | None:
    """(event or fact, severity) of an entry; None for presence, clock and firmware progress."""
    said = f"{sensor} | {what}"
    return next(((name, severity) for pattern, name, severity in _KINDS if pattern.search(said)), None)


def _address(text: str) -> str | None:
    found = _BDF.search(text) or _QUANTA.search(text)
    return f"0000:{found[1]}:{found[2]}.{found[3]}".lower() if found else None


def _zone(name: str | None) -> timezone | None:
    if name is None:
        return None
    if name[0] in "+-":
        sign = -1 if name[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(name[1:3]), minutes=int(name[3:5] or 0)))
    return timezone(timedelta(seconds=ZONES[name])) if name in ZONES else None


def _time(found: re.Match[str] | None, day_first: bool) -> datetime | None:
    """The time of a line; month first but where a file shows days in that place."""
    if found is None:
        return None
    first, second, third = (int(found[i]) for i in (1, 2, 3))
    if first > 31:
        year, month, day = first, second, third
    else:
        year, month, day = third, *((second, first) if day_first else (first, second))
    hour = int(found[4]) % 12 + (12 if found[7] == "PM" else 0) if found[7] else int(found[4])
    try:
        return datetime(
            year + 2000 if year < 100 else year, month, day, hour, int(found[5]), int(found[6]), tzinfo=_zone(found[8])
        )
    except ValueError:
        return None


def _listed(text: str) -> Iterator[Record]:
    """Records a line each, separated by bars or commas."""
    lines = text.split("\n")
    times = [_WHEN.search(line[:200]) for line in lines]
    day_first = any(t and 12 < int(t[1]) <= 31 for t in times)
    for number, line in enumerate(lines, 1):
        line = line[:1000]
        if _CSV.match(line):
            cells = line.split(",")
            piped = f"{cells[0]} | {cells[1]} | {cells[2]} | "
            yield Record(
                number, line, cells[3], cells[4], cells[5] == "Asserted", _time(_WHEN.search(piped), day_first)
            )
        elif found := _BARE.match(line):
            yield Record(number, line, "", found[1], True, None)
        elif found := _LINE.match(line):
            parts = [c.strip() for c in found[1].split("|")]
            came = "Deasserted" not in parts
            yield Record(
                number, line, parts[0], parts[1] if len(parts) > 1 else "", came, _time(times[number - 1], day_first)
            )


def _freeipmi(text: str) -> Iterator[Record]:
    for number, line in enumerate(text.split("\n"), 1):
        found = _FREEIPMI.match(line[:1000])
        if found:
            try:
                when = datetime(
                    int(found[3]),
                    _MONTHS.index(found[1]) + 1,
                    int(found[2]),
                    int(found[4]),
                    int(found[5]),
                    int(found[6]),
                )
            except ValueError:
                when = None
            sensor = f"{found[8].strip()} {found[7].strip()}"
            yield Record(number, line, sensor, found[9].strip(), "Deassert" not in found[9], when)


def _verbose(text: str) -> Iterator[Record]:
    """Records of several lines (`sel list -v`, `sel get`); the line is that of the description."""
    fields: dict[str, str] = {}
    at, shown = 0, ""
    for number, line in enumerate([*text.split("\n"), "SEL Record ID : end"], 1):
        found = _FIELD.match(line[:400])
        if found is None:
            continue
        if found[1] == "SEL Record ID":
            if fields.get("Description"):
                when = _time(_WHEN.search("| " + fields.get("Timestamp", "").replace(" ", " | ", 1)), False)
                sensor = f"{fields.get('Sensor Type', '')} #0x{fields.get('Sensor Number', '')}"
                yield Record(
                    at,
                    shown,
                    sensor,
                    fields["Description"],
                    not fields.get("Event Direction", "").startswith("Deassert"),
                    when,
                )
            fields = {}
        fields[found[1]] = found[2]
        if found[1] == "Description":
            at, shown = number, line


def _redfish(text: str) -> Iterator[Record]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    lines, at = 1, 0
    for entry in document.get("Members", []) if isinstance(document, dict) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("Message"), str):
            continue
        place = text.find(json.dumps(entry["Message"])[:60], at)
        if place >= 0:
            lines, at = lines + text.count("\n", at, place), place
        if entry.get("EntryCode") not in {"Deassert", "Deasserted"} and entry.get("Severity") != "OK":
            sensor = f"{_text(entry.get('SensorType'))} {_text(entry.get('Name'))}".strip()
            yield Record(lines, entry["Message"], sensor, entry["Message"], True, _iso(entry.get("Created")))


def _text(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""


def _iso(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _rows(member: MemberLike, records: Iterator[Record], host: str | None) -> tuple[list[Row], list[Row]]:
    """(events, facts) of the records that say something."""
    events: list[Row] = []
    facts: list[Row] = []
    for record in records:
        if len(events) + len(facts) >= MAX_RECORDS:
            break
        kind = judged(record.sensor, record.what) if record.is_asserted else None
        if kind is None:
            continue
        row: Row = {
            **evidence(member, record.line, record.text, "host"),
            # Logs reach back years: an entry without a date may be of any of them.
            "severity": kind[1] if record.when else "info",
            "host": host,
            "dev": record.sensor[:100] or None,
            "reason": record.what[:200],
            "pci": _address(record.what) if kind[0].startswith("pcie.") else None,
            **stamp(record.when),
        }
        if kind[0] in _FACTS:
            facts.append({"fact": kind[0], **row, "value": record.what[:200], "state": "set"})
        else:
            events.append({"event": kind[0], **row})
    return events, facts


def _decode(reader: Callable[[str], Iterator[Record]]) -> Callable[[MemberLike, Hints], Decoded]:
    def run(member: MemberLike, hints: Hints) -> Decoded:
        decoded = Decoded()
        text = read_text(member, decoded)
        events, facts = _rows(member, reader(text), hints.host)
        decoded.put("events", events)
        decoded.put("facts", facts)
        return decoded

    return run


def _mostly(head: Head, *patterns: re.Pattern[str]) -> bool:
    lines = [line for line in head.text[:8000].split("\n")[:200] if line.strip()]
    lines = lines[:-1] if len(head.text) > 8000 else lines
    unknown = 0
    for line in lines:
        if not any(p.match(line[:1000]) for p in patterns):
            unknown += 1
            if len(lines) - unknown < 0.7 * len(lines):
                return False
    return unknown < len(lines)


FORMATS: Final = (
    Format(
        "ipmi_sel", "ipmitool sel list, elist and -c: the BMC's event log", "ipmitool, all versions", "ipmitool/ipmitool lib/ipmi_sel.c",
        lambda head: _mostly(head, _LINE, _BARE, _CSV), _decode(_listed), in_section=True,
    ),
    Format(
        "ipmi_sel_verbose", "ipmitool -v sel list, sel get: the BMC's event log", "ipmitool, all versions", "ipmitool/ipmitool lib/ipmi_sel.c",
        lambda head: re.match(r"\s*SEL Record ID\s+: [0-9a-f]{4}\s", head.text) is not None, _decode(_verbose), in_section=True,
    ),
    Format(
        "ipmi_sel_freeipmi", "ipmi-sel: the BMC's event log", "FreeIPMI, all versions", "FreeIPMI ipmi-sel manual page",
        lambda head: _mostly(head, _FREEIPMI, re.compile(r"^ID\s+\| Date\s+\| Time")), _decode(_freeipmi), in_section=True,
    ),
    Format(
        "redfish_log", "Redfish LogEntries: the BMC's event log as JSON", "Redfish LogEntryCollection", "DMTF DSP0268, LogEntry",
        lambda head: head.text.lstrip()[:1] == "{" and "LogEntr" in head.text and '"Members"' in head.text and '"Severity"' in head.text,
        _decode(_redfish), in_section=True,
    ),
)  # fmt: skip
