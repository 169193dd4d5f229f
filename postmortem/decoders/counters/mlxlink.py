"""mlxlink, mstlink: state, bit errors and optic of a port, and what the firmware recommends.

Sections of `name : value` under a title (mstflint mlxlink/modules/printutil/mlxlink_cmd_print.cpp), values possibly in colour,
per-lane values separated by commas; with `--json` the same in `result.output`.

    Troubleshooting Info
    --------------------
    Status Opcode                      : 15
    Group Opcode                       : PHY FW
    Recommendation                     : Bad signal integrity

The status opcodes are those of the register PDDR (mstflint register_access_table.adb, monitor_opcode).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text, real
from postmortem.decoders.counters.base import (
    Framed,
    Sheet,
    base_name,
    looks_like,
    named_hca,
    named_interface,
    read,
)
from postmortem.patterns import later

_TITLES: Final = frozenset(
    {
        "Operational Info", "Supported Info", "Troubleshooting Info", "Tool Information", "Module Info",
        "Physical Counters and BER Info", "EYE Opening Info", "FEC Capability Info", "Histogram of FEC Errors",
        "Device Info", "PCIe Operational (Enabled) Info", "Management PCIe Timers Counters Info",
        "Management PCIe Performance Counters Info", "Serdes Tuning Transmitter Info", "Operational Info (VIRTUAL)",
    }
)  # fmt: skip
_COUNTED: Final = frozenset({"Physical Counters and BER Info", "Management PCIe Performance Counters Info"})
_MODULE: Final = frozenset(
    {"Temperature [C]", "Voltage [mV]", "Bias Current [mA]", "Rx Power Current [dBm]", "Tx Power Current [dBm]"}
)
_FIELD: Final = later(r"^(\S[^:]{0,60}?)\s*: ?(.*)$")
_NUMBER: Final = later(r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?$")
_TITLE: Final = later(r"^[A-Z][A-Za-z]+(?: [A-Za-z()]+){1,6}$")
_RANGE: Final = later(r"\s*\[[^\]]*\]\s*$")

BAD_SIGNAL: Final = later(r"^(?:Bad signal integrity|link not healthy|BER)", re.IGNORECASE)
BAD_MODULE: Final = later(
    r"^(?:Bus stuck|Bad/unsupported EEPROM|Module temperature shutdown|Shorted cable|Module state machine fault"
    r"|Modules? DataPath FSM fault|Module Boot Error|ELS laser)",
    re.IGNORECASE,
)


def judged(recommendation: str) -> str | None:
    """The event that a recommendation says for certain; None for the rest: no issue, closed by command, nothing plugged in."""
    if BAD_SIGNAL.match(recommendation):
        return "link.errors"
    return "optic.fault" if BAD_MODULE.match(recommendation) else None


class MlxLink(Framed):
    """Sections of `mlxlink`; the device comes from the command or the file's name."""

    command = later(r"(?:^|[\s/#$>])(?:mlxlink|mstlink)\s(.*)$")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.title = ""
        self.asked(base_name(sheet.name))

    def asked(self, text: str) -> None:
        """The device that a command or a file's name gives."""
        self.sheet.dev, self.sheet.ifname = named_hca(text), None
        if self.sheet.dev is None:
            self.sheet.ifname = named_interface(text)

    def on_command(self, line: str, found: re.Match[str]) -> None:
        self.asked(found[1])

    def on_line(self, number: int, line: str) -> bool:
        if line.strip() in _TITLES or _TITLE.match(line):
            self.title = line.strip()
            return line.strip() in _TITLES or bool(self.title)
        found = _FIELD.match(line)
        if found is None or not self.title:
            return False
        take(self.sheet, self.title, (found[1].strip(), found[2]), number, line)
        return True


def take(sheet: Sheet, title: str, pair: tuple[str, object], line: int, text: str) -> None:
    """A field of a section, name and value: a reading, or the recommendation."""
    name, value = pair
    if title == "Troubleshooting Info" and name == "Recommendation" and isinstance(value, str):
        event = judged(value.strip())
        if event is not None:
            sheet.event(event, line, text, value.strip())
        return
    if title not in _COUNTED and name not in _MODULE:
        return
    cells = value.get("values") if isinstance(value, dict) else value
    parts = cells if isinstance(cells, list) else _RANGE.sub("", str(cells)).split(",")
    numbers = [real(float(str(p))) for p in parts if _NUMBER.match(str(p).strip())]
    for lane, number in enumerate(numbers):
        if number is not None:
            sheet.add(name if len(numbers) == 1 else f"{name} lane {lane}", number, line)


def looks_like_json(head: Head) -> bool:
    """`mlxlink --json`."""
    return re.match(r'\s*\{\s*"(?:result|status)"\s*:', head.text) is not None and (
        '"Troubleshooting Info"' in head.text or '"Physical Counters and BER Info"' in head.text or '"Module Info"' in head.text
    )  # fmt: skip


def decode_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `counters`, and an event where the recommendation says so, from `mlxlink --json`."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet("mlxlink", member.name, hints.host)
    MlxLink(sheet)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("mlxlink as JSON, cut off or damaged")
        return decoded
    lines = text.split("\n")
    for title, fields in _output(document).items():
        for name, value in fields.items() if isinstance(fields, dict) else []:
            at = text.find(f'"{name}"', max(text.find(f'"{title}"'), 0))
            line = text.count("\n", 0, max(at, 0))
            take(sheet, title, (name, value), line + 1, lines[line])
    sheet.put(decoded)
    return decoded


def _output(document: Any) -> dict[str, Any]:
    for key in ("result", "output"):
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


FORMATS: Final = (
    Format(
        "mlxlink", "mlxlink: bit errors, optic and recommendation of a port", "mlxlink of MFT, mstlink of mstflint; all versions",
        "Mellanox/mstflint mlxlink/modules/mlxlink_commander.cpp, printutil/mlxlink_cmd_print.cpp",
        lambda head: any(t in head.text for t in ("Operational Info", "BER Info", "Module Info", "Troubleshooting Info"))
        and looks_like(head, MlxLink, 1),
        lambda member, hints: read(member, hints, "mlxlink", MlxLink), in_section=True,
    ),
    Format(
        "mlxlink_json", "mlxlink --json: bit errors, optic and recommendation of a port", "MFT 4.18 and later",
        "Mellanox/mstflint mlxlink/modules/printutil/mlxlink_cmd_print.cpp toJsonFormat", looks_like_json, decode_json, in_section=True,
    ),
)  # fmt: skip
