"""Hardware errors that daemons collected: ras-mc-ctl --errors and --summary (rasdaemon's database), /var/log/mcelog.

ras-mc-ctl (rasdaemon util/ras-mc-ctl.in) prints a section per kind, times with zone:

    MCE events:
    1 2024-12-19 03:52:38 +0000 error: Corrected error, no action required., CPU 2, bank Unified Memory Controller (bank=17), …

mcelog (mcelog.c, dump_mce) prints blocks; bit 61 of STATUS says uncorrected:

    Hardware event. This is not a software error.
    MCE 0
    CPU 21 BANK 8
    TIME 1519356496 Fri Feb 23 03:28:16 2018
    STATUS fc00010001010092 MCGSTATUS 0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, Row, evidence, read_text, stamp
from postmortem.decoders.counters.base import Sheet
from postmortem.patterns import later

MAX_EVENTS: Final = 20_000

_ROW: Final = later(r"^([0-9]+) (20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8} [+-][0-9]{4}) (.*)$")
_SECTION: Final = later(
    r"^(?:([A-Z][A-Za-z ]*?) (?:events|errors|records)(?: summary)?:|No [A-Za-z ]+ (?:errors|records)?\.|No SIGNAL\.)$"
)
_MC: Final = later(r"^([0-9]+) (Corrected|Uncorrected|Fatal|Deferred|Info) error\(s\): (.*?) at (.*?) location: ")
_AER: Final = later(r"^([0-9a-fA-F:.]+) (Corrected|Uncorrected|Fatal|Uncorrected \((?:Non-Fatal|Fatal)\)) error: (.*)$")
_PAIR: Final = later(r"(\w+)=('[^']*'|[^,]*)")
_STATUS: Final = later(r"\bstatus=0x([0-9a-f]{1,16})")
_SUMMARY_MC: Final = later(
    r"^\t(Corrected|Uncorrected|Fatal|Deferred) on DIMM Label\(s\): '(.*?)' location: \S+ errors: ([0-9]+)$"
)
_SUMMARY: Final = later(r"^\t([0-9]+) (.*?) errors(?:: (.*))?$")

_BLOCK: Final = later(r"^(?:mcelog: )?Hardware event\. This is not a software error\.$")
_MCELOG: Final = later(
    r"^(?:mcelog: .*|Hardware event\..*|MCE [0-9]+|CPU [0-9]+ .*|RIP.*|MISC .*|ADDR .*|TIME [0-9]+.*|STATUS [0-9a-f]+.*|MCG ?CAP.*|MCG status:.*|MCi status:|MCA: .*|CPUID .*|TSC .*|PPIN .*|SOCKETID.*"
    r"|APICID.*|MICROCODE.*|(?:Corrected|Uncorrected|Error|MCi_|Processor|Machine|Transaction|Large|Threshold|Firmware|No sticky|STATUS|Model|not finished).*|MEMORY CONTROLLER .*|Memory .*|SR[AO]R?.*|.*(?:ERR|Error|error).*)$"
)


def _corrected(status: int) -> bool:
    return not status >> 61 & 1


def _parsed(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return None


def _memory(rest: str) -> Row | None:
    found = _MC.match(rest)
    if found is None:
        return None
    kind = "CE" if found[2] == "Corrected" else "UE"
    severity = {"Corrected": "warning", "Info": "info", "Deferred": "error"}.get(found[2], "fatal")
    return {
        "event": "host.edac",
        "severity": severity,
        "reason": kind,
        "value": found[1],
        "code": found[3][:200],
        "dev": found[4][:100],
    }


def _aer(rest: str) -> Row | None:
    found = _AER.match(rest)
    if found is None:
        return None
    event, severity = ("pcie.aer_nonfatal", "error")
    if found[2] == "Corrected":
        event, severity = "pcie.aer_corrected", "info"
    elif found[2] in {"Fatal", "Uncorrected (Fatal)"}:
        event, severity = "pcie.aer_fatal", "fatal"
    return {"event": event, "severity": severity, "pci": found[1].lower(), "reason": found[3][:200]}


def _mce(rest: str) -> Row | None:
    if not rest.startswith("error: "):
        return None
    status = _STATUS.search(rest)
    is_corrected = (
        _corrected(int(status[1], 16)) if status else "orrected_error" in rest and "Uncorrected_error" not in rest
    )
    row: Row = {
        "event": "host.mce",
        "severity": "info" if is_corrected else "error",
        "reason": rest[7:].split(",")[0][:200],
    }
    return row | ({"code": status[1]} if status else {})


def _devlink(rest: str) -> Row | None:
    fields = {k: v.strip("'") for k, v in _PAIR.findall(rest)}
    reporter = fields.get("reporter_name", "")
    event = "nic.tx_timeout" if reporter == "tx" else "nic.fw_error" if reporter.startswith("fw") else None
    if event is None or fields.get("bus_name") != "pci":
        return None
    return {
        "event": event,
        "severity": "error",
        "pci": fields.get("dev_name", "").lower() or None,
        "reason": fields.get("message", "")[:200],
    }


def _disk(rest: str) -> Row | None:
    fields = {k: v.strip("'") for k, v in _PAIR.findall(rest)}
    return (
        {"event": "host.disk_error", "severity": "error", "dev": fields["dev"], "reason": fields.get("error", "")[:200]}
        if fields.get("dev")
        else None
    )


def _failure(rest: str) -> Row | None:
    fields = dict(_PAIR.findall(rest))
    if "action_result" not in fields:
        return None
    return {"event": "host.mce", "severity": "error", "reason": f"memory failure: {fields['action_result']}"[:200]}


_READERS: Final = {
    "Memory controller": _memory,
    "PCIe AER": _aer,
    "MCE": _mce,
    "Devlink": _devlink,
    "Disk": _disk,
    "Memory failure": _failure,
}


def decode_errors(member: MemberLike, hints: Hints) -> Decoded:
    """Events of `ras-mc-ctl --errors`, readings of the table `counters` of `--summary`. A Python loop: a row's meaning depends on its section."""
    decoded = Decoded()
    sheet = Sheet("ras-mc-ctl --summary", member.name, hints.host)
    events: list[Row] = []
    section = ""
    for number, line in enumerate(read_text(member, decoded).split("\n"), 1):
        line = line[:2000].rstrip()
        if found := _SECTION.match(line):
            section = found[1] or ""
        elif found := _ROW.match(line):
            read = _READERS.get(section)
            row = read(found[3]) if read else None
            if row is not None and len(events) < MAX_EVENTS:
                events.append(
                    {**evidence(member, number, line, "host"), "host": hints.host, **row, **stamp(_parsed(found[2]))}
                )
        elif found := _SUMMARY_MC.match(line):
            sheet.add(f"{found[1]} memory errors", int(found[3]), number, dev=found[2])
        elif (found := _SUMMARY.match(line)) and section:
            sheet.add(": ".join(p for p in (section, found[2], found[3]) if p), int(found[1]), number, dev=section)
    sheet.put(decoded)
    decoded.put("events", events)
    return decoded


def looks_like_errors(head: Head) -> bool:
    """Sections of ras-mc-ctl from the first line on."""
    lines = [line.rstrip() for line in head.text[:4000].split("\n") if line.strip()]
    return (
        len(lines) >= 2
        and sum(_SECTION.match(line) is not None for line in lines) >= 2
        and _SECTION.match(lines[0]) is not None
    )


def looks_like_mcelog(head: Head) -> bool:
    """mcelog's own blocks, and nothing else: with stamps of syslog in front they are lines."""
    lines = [line.rstrip() for line in head.text[:4000].split("\n") if line.strip()]
    lines = lines[:-1] if len(head.text) > 4000 else lines
    return any(_BLOCK.match(line) for line in lines) and sum(
        _MCELOG.match(line) is not None for line in lines
    ) >= 0.9 * len(lines)


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line of the first one, lines) of each block."""
    at, block = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if _BLOCK.match(line[:200].rstrip()):
            if at:
                yield at, block
            at, block = number, []
        if at and len(block) < 100:
            block.append(line[:300].rstrip())
    if at:
        yield at, block


def decode_mcelog(member: MemberLike, hints: Hints) -> Decoded:
    """One `host.mce` per block, on the line of its STATUS."""
    decoded = Decoded()
    events: list[Row] = []
    for first, block in _blocks(read_text(member, decoded)):
        status = next(
            ((n, m) for n, line in enumerate(block) if (m := re.match(r"^STATUS ([0-9a-f]{1,16})\b", line))), None
        )
        place = next(
            (m for line in block if (m := re.match(r"^CPU ([0-9]+) (?:.*?BANK ([0-9]+)|([0-9]+) .*)", line))), None
        )
        time = next((m for line in block if (m := re.match(r"^TIME ([0-9]{9,10})\b", line))), None)
        if status is None or len(events) >= MAX_EVENTS:
            continue
        is_corrected = _corrected(int(status[1][1], 16))
        said = next(
            (
                line
                for line in block
                if re.search(r"ERR|[Ee]rror", line) and not line.startswith(("Hardware event", "MCi", "Error enabled"))
            ),
            "",
        )
        when = datetime.fromtimestamp(int(time[1]), UTC) if time else None
        events.append(
            {
                "event": "host.mce",
                **evidence(member, first + status[0], block[status[0]], "host"),
                "severity": "info" if is_corrected else "error",
                "host": hints.host,
                "value": (place[2] or place[3]) if place else None,
                "code": status[1][1],
                "reason": said[:200] or None,
                **stamp(when),
            }
        )
    decoded.put("events", events)
    return decoded


FORMATS: Final = (
    Format(
        "ras_mc_ctl", "ras-mc-ctl --errors and --summary: hardware errors that rasdaemon recorded", "rasdaemon, all versions",
        "mchehab/rasdaemon util/ras-mc-ctl.in", looks_like_errors, decode_errors, in_section=True,
    ),
    Format(
        "mcelog", "/var/log/mcelog: machine checks in blocks", "mcelog, all versions", "andikleen/mcelog mcelog.c dump_mce",
        looks_like_mcelog, decode_mcelog, in_section=True,
    ),
)  # fmt: skip
