"""What the readers of a machine's own outputs share: rows of `gpus`, `nics`, `addresses` …, whose output it is, spelling of addresses.

A reader takes one line after the other and says whether the line is of its format. The same reader recognises a file (nearly all
first lines are its own) and reads it. Outputs of several hosts in one file are told apart: pdsh's `node-01: ` before each line,
dshbak's and Ansible's headings, a shell's prompt. Python loops: what a line says depends on the headings above it, and
these outputs have some thousand lines at most.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from postmortem.bundle.host_shape import Shape, shape_of
from postmortem.decoders.base import MAX_TEXT, Decoded, Head, Hints, MemberLike, Row, read_text, stamp
from postmortem.patterns import later

MAX_ROWS: Final = 20_000
"""Rows kept of one file and table; the rest is noted."""

_HEAD_BYTES: Final = 16_000
_MAX_LINE: Final = 2000
_ANSI: Final = later(r"\x1b\[[0-9;]*[A-Za-z]")
_PROMPT: Final = later(
    r"^(?:\([^)]*\) ?)?\[?[A-Za-z0-9_.-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)[^#$>]{0,80}[#$>]\s*(?P<command>.*)$"
)
_ANSIBLE: Final = later(r"^(\S+) \| (?:CHANGED|SUCCESS|FAILED!?) (?:\| rc=[0-9]+ >>|=> .*)$")
_PDSH: Final = later(r"^([A-Za-z][A-Za-z0-9.-]{0,80}): ?(.*)$")
_RULE: Final = later(r"^[-=*#+~ ]{3,}$")
_DATE: Final = later(
    r"^(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .{0,20}[0-9]{2}:[0-9]{2}:[0-9]{2}.{0,20}|20[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-9:.,Z+-]{5,24})$"
)
_CONTAINER: Final = later(r"^(?:[0-9a-f]{12}|localhost)$")
_PCI: Final = later(r"^(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-9a-f]))?$", re.IGNORECASE)
_VIRTUAL: Final = later(
    r"^(?:lo$|lo[0-9]+$|docker|veth|cali|cilium|lxc|flannel|cni|tunl|virbr|br-[0-9a-f]{12}$|kube-|nodelocaldns|dummy|ifb|gre|erspan|sit[0-9]"
    r"|ip6|ip_vti|vxlan|vnet|tap|tun[0-9]|podman|weave|ovs|genev|vmnet|wg[0-9])"
)


def pci_address(text: str) -> str | None:
    """dddd:bb:dd.f, lower case, of a printed PCI address; null when it is none (`pciconf0`, `N/A`)."""
    found = _PCI.match(text.strip())
    if found is None:
        return None
    domain = (found[1] or "").lower().lstrip("0").rjust(4, "0")
    return f"{domain}:{found[2].lower()}:{found[3].lower()}.{(found[4] or '0').lower()}"


def guid(text: str) -> str | None:
    """0x and 16 digits of a GUID, however it is grouped (`0x…`, `7cfe:9003:0029:6d8e`, `7c:fe:…`); null when it is none or zero."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "").replace(".", "")
    return f"0x{digits}" if re.fullmatch(r"[0-9a-f]{16}", digits) and digits.strip("0") else None


def hardware_address(text: str) -> Row:
    """`mac` of an Ethernet address, `guid` of IPoIB's 20 octets (their last eight); nothing for others and for zeros."""
    octets = text.strip().lower().replace("-", ":").split(":")
    if not all(re.fullmatch("[0-9a-f]{2}", o) for o in octets) or set(octets) <= {"00", "ff"}:
        return {}
    if len(octets) == 20:
        return {"guid": guid("".join(octets[12:]))}
    return {"mac": ":".join(octets)} if len(octets) == 6 else {}


def host_address(text: str) -> str | None:
    """An address that names one machine: no loopback, multicast or link-local IPv4, no hand-made link-local IPv6; IPv4 in IPv6 as IPv4."""
    try:
        at = ipaddress.ip_address(text.strip().split("/", 1)[0].split("%", 1)[0])
    except ValueError:
        return None
    if isinstance(at, ipaddress.IPv6Address) and at.ipv4_mapped is not None:
        at = at.ipv4_mapped
    if at.is_loopback or at.is_multicast or at.is_unspecified:
        return None
    if at.is_link_local and (at.version == 4 or int(at) & 0xFFFFFFFFFFFFFFFF < 1 << 16):
        return None
    return at.compressed


def is_virtual(ifname: str) -> bool:
    """Bridges, tunnels and pods' ends that the machine itself made: neither a NIC nor an address that names one machine."""
    return _VIRTUAL.match(ifname) is not None


def base_name(name: str) -> str:
    """The last part of a member's path, archives' separators taken for folders."""
    return name.replace("!", "/").rsplit("/", 1)[-1]


def finder(text: str) -> Callable[[str], int]:
    """A function from a literal to the line where it stands next; literals are asked for in the order of the text."""
    at = line_at = 0
    line = 1

    def find(literal: str) -> int:
        nonlocal at, line_at, line
        found = text.find(literal, at)
        if found >= 0:
            at = found + 1
            line += text.count("\n", line_at, found)
            line_at = found
        return line

    return find


class Sheet:
    """Rows of one file by table; `host` is that of the rows to come."""

    def __init__(self, name: str, host: str | None = None) -> None:
        self.name = name
        self.host = host
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self.notes: list[str] = []
        self.left_out = 0

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def add(self, table: str, line: int, **values: object) -> Row:
        """A row of `table` read in `line`. It may be completed later: what is returned is the row itself."""
        row: Row = {"host": self.host, **values, "file": self.name, "line": line}
        if len(self.rows[table]) < MAX_ROWS:
            self.rows[table].append(row)
        else:
            self.left_out += 1
        return row

    def address(self, line: int, text: str, ifname: str | None = None) -> None:
        """A row of `addresses`, unless the address names no single machine or is known for the host."""
        found = host_address(text)
        if found and not any(r["address"] == found and r["host"] == self.host for r in self.rows["addresses"][-200:]):
            self.add("addresses", line, address=found, ifname=ifname)

    def event(self, line: int, text: str, event: str, severity: str, source: str = "host", **values: object) -> None:
        """An event without a time: the output says what is so when it was made, not since when."""
        self.add("events", line, event=event, severity=severity, **_as_line(text, source), **values, **stamp(None))

    def fact(self, line: int, text: str, fact: str, **values: object) -> Row:
        """A row of `facts`."""
        return self.add("facts", line, fact=fact, severity="info", **_as_line(text, "host"), **values, **stamp(None))

    def counter(self, line: int, program: str, counter: str, value: float, dev: str | None) -> None:
        """A row of `counters` without a time."""
        self.add("counters", line, counter=counter[:200], value=value, dev=dev, program=program)

    def put(self, decoded: Decoded) -> None:
        """Hand the rows over."""
        if self.left_out:
            decoded.notes.append(f"{self.left_out} rows beyond the first {MAX_ROWS} of a table were left out")
        decoded.notes.extend(dict.fromkeys(self.notes[:20]))
        for table, rows in self.rows.items():
            decoded.put(table, rows)


def _as_line(text: str, source: str) -> Row:
    return {"offset": 0, "text": text[:MAX_TEXT], "message": text.strip()[:MAX_TEXT], "source": source}


class Reader(Protocol):
    """Reads a format line by line."""

    def feed(self, number: int, line: str) -> bool:
        """Take a line; whether it is one of the format."""
        ...

    def finish(self) -> None:
        """The output has ended."""
        ...


MakeReader = Callable[[Sheet], Reader]


class Output:
    """Base of readers: prompts, headings, dates and rules around an output are of every format."""

    command: re.Pattern[str]
    """The program's name as it stands in a command line or heading; groups are handed to `on_command`."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._below_rule = False

    def feed(self, number: int, line: str) -> bool:
        """The format's own lines first, then what may stand around them."""
        below_rule, self._below_rule = self._below_rule, _RULE.match(line) is not None
        if not line.strip():
            self.on_blank()
            return True
        prompt = _PROMPT.match(line[:400])
        if prompt and (not prompt["command"] or self.command.search(prompt["command"])):
            host = prompt["host"].split(".", 1)[0]
            self.sheet.host = self.sheet.host if _CONTAINER.match(host) else host
            self._started(self.command.search(prompt["command"]))
            return True
        if self.on_line(number, line):
            return True
        if heading := _ANSIBLE.match(line[:400]):
            self.sheet.host = heading[1].split(".", 1)[0]
            self._started(None)
            return True
        if below_rule and shape_of(line.strip()) >= Shape.LOOSE:
            self.sheet.host = line.strip().split(".", 1)[0]
            self._started(None)
            return True
        if len(line) < 160 and (named := self.command.search(line)):
            self._started(named)
            return True
        return self._below_rule or _DATE.match(line) is not None

    def _started(self, command: re.Match[str] | None) -> None:
        self.finish()
        if command:
            self.on_command(command)

    def on_command(self, found: re.Match[str]) -> None:
        """The command or heading whose output follows."""

    def on_blank(self) -> None:
        """A blank line."""

    def on_line(self, number: int, line: str) -> bool:
        """Any other line."""
        raise NotImplementedError

    def finish(self) -> None:
        """The output has ended: hand over what waits."""


def _streams(text: str) -> Iterator[tuple[str | None, list[tuple[int, str]]]]:
    """The lines of each host where each line is led by its host (pdsh), else all lines of no host."""
    lines = [
        (n, (_ANSI.sub("", t) if "\x1b" in t else t)[:_MAX_LINE].rstrip()) for n, t in enumerate(text.split("\n"), 1)
    ]
    led = [found for _, t in lines[:400] if t and (found := _PDSH.match(t))]
    names = {found[1] for found in led}
    filled = sum(1 for _, t in lines[:400] if t)
    if (
        len(led) < max(2, 0.9 * filled)
        or len(led) < 2 * len(names)
        or not all(shape_of(n) >= Shape.LOOSE for n in names)
    ):
        yield None, lines
        return
    by_host: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, line in lines:
        if found := _PDSH.match(line):
            by_host[found[1]].append((number, found[2]))
    for host, own in by_host.items():
        yield host.split(".", 1)[0], own


def looks_like(head: Head, make: MakeReader, least: int = 1, share: float = 0.9) -> bool:
    """Whether a reader understands at least `share` of the first lines and finds `least` rows in them."""
    text = head.text if len(head.text) < _HEAD_BYTES else head.text.rsplit("\n", 1)[0]
    sheet = Sheet(head.name)
    seen = known = 0
    for host, lines in _streams(text):
        sheet.host = host
        reader = make(sheet)
        for number, line in lines:
            taken = reader.feed(number, line)
            if line.strip():
                seen += 1
                known += taken
        reader.finish()
    return len(sheet) >= least and known >= share * seen


def read(member: MemberLike, hints: Hints, make: MakeReader) -> Decoded:
    """All rows of a member by a reader; lines that are not of the format are counted in a note."""
    decoded = Decoded()
    sheet = Sheet(member.name, hints.host)
    unread = 0
    for host, lines in _streams(read_text(member, decoded)):
        sheet.host = host or hints.host
        reader = make(sheet)
        unread += sum(1 for number, line in lines if not reader.feed(number, line))
        reader.finish()
    if unread:
        decoded.notes.append(f"{unread} lines that are not of this output")
    sheet.put(decoded)
    return decoded
