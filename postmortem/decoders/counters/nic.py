"""Counters of a host's network interfaces: ethtool -S and -m, ip -s link, /proc/net/dev.

ethtool -S (ethtool.c, do_gstats) does not print the interface: it comes from the command above, or from the file's name
(sosreport's `ethtool_-S_ens1f0`). Counters of single queues that are zero are left out: a NIC has thousands.

    NIC statistics:
         rx_packets: 845320277
         rx_crc_errors_phy: 0
         [0]: rx_bytes: 209487403324
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
    named_interface,
    read,
)
from postmortem.patterns import later

_PER_QUEUE: Final = later(
    r"^(?:\[[0-9]+\]|[rt]x[-_ ]?(?:q|queue|ring)?[-_ ]?[0-9]+[-_.: ]|(?:ch|queue|q|ring|vport_rep|eq|cq|qid)[-_ ]?[0-9]+[-_.: ]"
    r"|(?:rx|tx)_?(?:q|queue|ring)_?[0-9]+|veb|port\.[rt]x_priority|tx_?xdp|rx_?xsk[0-9]|tx_?xsk[0-9]|ptp_(?:ch|cq|rq|tx)[0-9])",
    re.IGNORECASE,
)
_GROUP: Final = later(r"^(?:NIC|Standard|Port|PHY|VF|Per-queue) (?:stats|statistics)(?: for ([^ :]+))?:?$")
_STAT: Final = later(r"^(?:\s+|(?=(?:eth-|rmon-|pause-|fec-|tx_|rx_)))(\S.*?): *(-?[0-9]{1,20})$")
_MODULE: Final = later(r"^\s*([A-Za-z][^:]{2,60}?)\s+: (.*)$")
_ALARM: Final = later(r"^(.*(?:alarm|warning))$")
_READING: Final = later(r"^(-?[0-9.]+|-?inf) (degrees C|V|mA|mW)(?: / (-?[0-9.]+|-?inf) (dBm|degrees F))?")
_IP_LINK: Final = later(r"^[0-9]+: ([^ :@]+)(?:@[^ :]+)?: <[A-Z0-9_,-]*> ")
_IP_HEAD: Final = later(r"^\s+([RT]X(?: errors)?):((?: +[a-z_]+)+)\s*$")
_DEV_HEAD: Final = later(r"^ *Inter-\| +Receive +\| +Transmit")
_DEV_ROW: Final = later(r"^ *([^ :|]+): *((?:[0-9]+ +){15}[0-9]+)$")
_DEV_NAMES: Final = tuple(
    [f"receive {n}" for n in "bytes packets errs drop fifo frame compressed multicast".split()]
    + [f"transmit {n}" for n in "bytes packets errs drop fifo colls carrier compressed".split()]
)


class Statistics(Framed):
    """`ethtool -S`, several outputs in a file included."""

    command = later(r"(?:^|[\s/#$>])ethtool\s+(?:-S|--statistics)\s+([A-Za-z][\w.@-]*)")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        sheet.ifname = named_interface(base_name(sheet.name))
        self.inside = False

    def on_command(self, line: str, found: re.Match[str]) -> None:
        self.sheet.ifname, self.inside = found[1], False

    def on_line(self, number: int, line: str) -> bool:
        group = _GROUP.match(line)
        if group:
            self.inside = True
            self.sheet.ifname = group[1] or self.sheet.ifname
            return True
        found = _STAT.match(line) if self.inside else None
        if found is None:
            bare = re.fullmatch(r"[=#*\- ]*([A-Za-z][\w.@-]*)[:=#*\- ]*", line)
            if bare and named_interface(bare[1]) == bare[1]:
                self.sheet.ifname, self.inside = bare[1], False
                return True
            return False
        value = int(found[2])
        if value or not _PER_QUEUE.match(found[1]):
            self.sheet.add(found[1].strip(), value, number)
        return True


class Module(Framed):
    """`ethtool -m`: temperature, voltage, bias and power of the optic, and its alarms (1 is on)."""

    command = later(r"(?:^|[\s/#$>])ethtool\s+(?:-m|--dump-module-eeprom|--module-info)\s+([A-Za-z][\w.@-]*)")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        sheet.ifname = named_interface(base_name(sheet.name))

    def on_command(self, line: str, found: re.Match[str]) -> None:
        self.sheet.ifname = found[1]

    def on_line(self, number: int, line: str) -> bool:
        found = _MODULE.match(line)
        if found is None:
            return False
        name, value = found[1].strip(), found[2].strip()
        if _ALARM.match(name) and value in {"On", "Off"}:
            self.sheet.add(name, value == "On", number)
            # Low alarms are on wherever a port is shut or its far end dark; heat is not.
            if value == "On" and name == "Module temperature high alarm":
                self.sheet.event("optic.alarm", number, line, name)
        elif "threshold" not in name and (reading := _READING.match(value)):
            text = reading[3] if reading[4] == "dBm" else reading[1]
            number_read = real(float(text)) if "inf" not in text and text.strip("-.") else None
            if number_read is not None:
                self.sheet.add(
                    f"{name} [dBm]" if reading[4] == "dBm" else f"{name} [{reading[2]}]", number_read, number
                )
        return True


class IpLink(Framed):
    """`ip -s link` and `ip -s -s link`: a line of names, then a line of numbers."""

    command = later(r"(?:^|[\s/#$>])ip(?: +-[a-z-]+)+ +(?:link|addr|address|l|a)\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.names: list[str] = []

    def on_line(self, number: int, line: str) -> bool:
        if found := _IP_LINK.match(line):
            self.sheet.ifname, self.names = found[1], []
            return True
        if found := _IP_HEAD.match(line):
            self.names = [f"{found[1]} {n}" for n in found[2].split()]
            return True
        cells = line.split()
        if self.names and line[:1].isspace() and all(c.isdigit() for c in cells):
            for name, cell in zip(self.names, cells, strict=False):
                self.sheet.add(name, int(cell[:25]), number)
            self.names = []
            return True
        return self.sheet.ifname is not None and line[:1].isspace()


class ProcNetDev(Framed):
    """`/proc/net/dev`."""

    command = later(r"/proc/net/dev\b")

    def on_line(self, number: int, line: str) -> bool:
        if _DEV_HEAD.match(line) or re.match(r"^ *face +\|bytes", line):
            return True
        found = _DEV_ROW.match(line)
        if found is None:
            return False
        for name, cell in zip(_DEV_NAMES, found[2].split(), strict=False):
            self.sheet.add(name, int(cell[:25]), number, ifname=found[1])
        return True


def looks_like_link_json(head: Head) -> bool:
    """`ip -j -s link`: an array of objects with `ifname` and `stats64`, on one line or several."""
    return re.match(r'\s*\[\s*\{\s*"ifindex":', head.text) is not None and '"stats64"' in head.text


def decode_link_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `counters` from `ip -j -s link`; names as in the text: `RX errors`."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet("ip -s link", member.name, hints.host)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("ip -j -s link, cut off or damaged")
        return decoded
    line, at = 1, 0
    for entry in document if isinstance(document, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("ifname"), str):
            continue
        place = text.find(f'"{entry["ifname"]}"', at)
        if place >= 0:
            line, at = line + text.count("\n", at, place), place
        _stats64(sheet, entry["ifname"], entry.get("stats64"), line)
    sheet.put(decoded)
    return decoded


def _stats64(sheet: Sheet, ifname: str, stats: Any, line: int) -> None:
    for way, counters in stats.items() if isinstance(stats, dict) else []:
        for name, value in counters.items() if isinstance(counters, dict) else []:
            number = real(value)
            if number is not None:
                sheet.add(f"{way.upper()} {name}", number, line, ifname=ifname)


FORMATS: Final = (
    Format(
        "ethtool_statistics", "ethtool -S: counters of a network interface", "ethtool, all versions; Cumulus Linux",
        "ethtool/ethtool ethtool.c do_gstats; kernel Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
        lambda head: (" statistics:" in head.text or "Standard stats for" in head.text) and looks_like(head, Statistics),
        lambda member, hints: read(member, hints, "ethtool -S", Statistics), in_section=True,
    ),
    Format(
        "ethtool_module", "ethtool -m: readings and alarms of an optic", "ethtool 3 and later",
        "ethtool/ethtool sff-common.c, qsfp.c, cmis.c",
        lambda head: "Identifier" in head.text and "Module temperature" in head.text and looks_like(head, Module),
        lambda member, hints: read(member, hints, "ethtool -m", Module), in_section=True,
    ),
    Format(
        "ip_link_statistics", "ip -s link: counters of network interfaces", "iproute2, all versions",
        "iproute2 ip/ipaddress.c print_stats64",
        lambda head: "RX:" in head.text and looks_like(head, IpLink),
        lambda member, hints: read(member, hints, "ip -s link", IpLink), in_section=True,
    ),
    Format(
        "ip_link_json", "ip -j -s link: counters of network interfaces as JSON", "iproute2 4.14 and later",
        "iproute2 ip/ipaddress.c __print_link_stats", looks_like_link_json, decode_link_json, in_section=True,
    ),
    Format(
        "proc_net_dev", "/proc/net/dev: counters of network interfaces", "Linux",
        "torvalds/linux net/core/net-procfs.c",
        lambda head: "Inter-|" in head.text[:4000] and looks_like(head, ProcNetDev),
        lambda member, hints: read(member, hints, "/proc/net/dev", ProcNetDev), in_section=True,
    ),
)  # fmt: skip
