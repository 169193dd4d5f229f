"""Counters that the kernel shows as files, and those of its network stack.

Files of sysfs, as a folder of files that hold one number each (sosreport), or listed by `grep . …`, `tail -n +1 …` or `head`:

    /sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors:0
    ==> /sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence <==
    12

Also PCIe error counters (`aer_dev_correctable`), EDAC's (`ce_count`), amdgpu's (`umc_err_count`), `nstat`, `netstat -s`,
/proc/net/snmp and /proc/net/netstat: of the stack only what is lost, repeated or refused.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text, whole
from postmortem.decoders.counters.base import Framed, Sheet, looks_like, read
from postmortem.patterns import later

_PATH: Final = later(
    r"(?:^|[\s/!])(?:"
    r"(?P<hca>[A-Za-z][\w.-]*)/ports/(?P<port>[0-9]+)/(?:hw_)?counters/(?P<ib>\w+)"
    r"|net/(?P<ifname>[A-Za-z][\w.@-]*)/statistics/(?P<net>\w+)"
    r"|(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(?:(?P<aer>aer_(?:dev|rootport)_\w+)|ras/(?P<gpuras>\w+_err_count))"
    r"|(?P<card>card[0-9]+)/device/ras/(?P<ras>\w+_err_count)"
    r"|edac/(?:\w+/)?(?P<mc>mc[0-9]+)/(?P<edac>(?:\w+/)*(?:\w+_)?(?:ce|ue)(?:_noinfo)?_count)"
    r")(?=[:=\s]|$)"
)
_AFTER: Final = later(r"^\s*[:=]?\s*(?:([A-Za-z_]+)\s*[: ]\s*)?(-?[0-9]{1,20})$")
_BARE_VALUE: Final = later(r"^(?:([A-Za-z_]+)\s*[: ]\s*)?(-?[0-9]{1,20})$")
_FRAME: Final = later(r"^(?:==>\s+)?(/?\S+?)(?:\s+<==)?:?$")
_KEPT: Final = later(
    r"retrans|lost|loss|drop|err|fail|timeout|overflow|abort|prune|reset|reject|bad|discard|overrun|congest|rcvq|backlog|orphan|zerowindow",
    re.IGNORECASE,
)
_NSTAT_ROW: Final = later(r"^([A-Z][A-Za-z0-9]+) +(-?[0-9]{1,20}) +-?[0-9]+\.[0-9]+$")
_SNMP_ROW: Final = later(r"^([A-Z][A-Za-z0-9]+):((?: -?[A-Za-z0-9_]+)+)$")
_NETSTAT_TITLE: Final = later(
    r"^(Ip|Ip6|Icmp|Icmp6|IcmpMsg|Icmp6?Msg|Tcp|Udp|Udp6|UdpLite|UdpLite6|TcpExt|IpExt|MPTcpExt|Sctp|TCP|UDP):$"
)
_NETSTAT_ROW: Final = later(
    r"^\s+(?:([0-9]{1,20}) ([A-Za-z(].*)|([A-Za-z][A-Za-z0-9 ]*): ?([0-9]{1,20})|[A-Z][A-Za-z ]*: .*|[A-Za-z].*)$"
)


def _place(found: re.Match[str]) -> tuple[str, str | None, str | None, str | None]:
    """(counter, dev, port, ifname) of a path of sysfs."""
    dev = found["hca"] or found["pci"] or found["card"] or found["mc"]
    name = found["ib"] or found["net"] or found["aer"] or found["gpuras"] or found["ras"] or found["edac"]
    return name, dev, found["port"], found["ifname"]


class SysfsListing(Framed):
    """Paths with their values: behind a colon, behind a blank, or on the lines below."""

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.under: re.Match[str] | None = None

    def on_line(self, number: int, line: str) -> bool:
        found = _PATH.search(line)
        if found is None:
            value = _BARE_VALUE.match(line.strip())
            if self.under is None or value is None:
                # Other files of the same folders, listed alike.
                frame = _FRAME.match(line)
                if line.startswith(("/sys/", "==> /sys/")):
                    self.under = None
                    return True
                return frame is not None and "/" in frame[1] and frame[1].startswith("/sys/")
            self.add(self.under, value, number)
            return True
        rest = line[found.end() :].strip()
        if rest in {"", "<==", ":"}:
            self.under = found
            return True
        value = _AFTER.match(rest)
        if value is None:
            return line.startswith("/sys/")
        self.under = None
        self.add(found, value, number)
        return True

    def add(self, found: re.Match[str], value: re.Match[str], number: int) -> None:
        """A reading; a file of several (`aer_dev_correctable`) names each."""
        name, dev, port, ifname = _place(found)
        counter = f"{name} {value[1]}" if value[1] else name
        self.sheet.add(counter, int(value[2]), number, dev=dev, port=port, ifname=ifname)


def looks_like_sysfs_file(head: Head) -> bool:
    """A file at a counter's path that holds its number, or rows of name and number."""
    name = head.name.replace("!", "/")
    found = _PATH.search(name)
    if found is None or found.end() != len(name) or len(head.raw) > 4096:
        return False
    rows = [line.strip() for line in head.text.split("\n") if line.strip()]
    return bool(rows) and all(_BARE_VALUE.match(row) for row in rows)


def decode_sysfs_file(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `counters` of one file of sysfs; its path says which counter it is."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet("sysfs", member.name, hints.host)
    found = _PATH.search(member.name.replace("!", "/"))
    if found is None:
        return decoded
    name, dev, port, ifname = _place(found)
    for number, line in enumerate(text.split("\n")[:200], 1):
        value = _BARE_VALUE.match(line.strip())
        if value:
            counter = f"{name} {value[1]}" if value[1] else name
            sheet.add(counter, int(value[2]), number, dev=dev, port=port, ifname=ifname)
    sheet.put(decoded)
    return decoded


class Nstat(Framed):
    """`nstat`, with `-az` also zeros; without `-a` what was counted since it ran before."""

    command = later(r"(?:^|[\s/#$>])nstat\b")

    def on_line(self, number: int, line: str) -> bool:
        if re.match(r"^#(?:kernel|[0-9a-z ._-]+)$", line):
            return True
        found = _NSTAT_ROW.match(line)
        if found is None:
            return False
        if _KEPT.search(found[1]):
            self.sheet.add(found[1], int(found[2]), number)
        return True


class ProcNetSnmp(Framed):
    """/proc/net/snmp and /proc/net/netstat: a line of names, then one of numbers; named as nstat does (`TcpRetransSegs`)."""

    command = later(r"/proc/net/(?:snmp|netstat)\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.group, self.names = "", list[str]()

    def on_line(self, number: int, line: str) -> bool:
        found = _SNMP_ROW.match(line)
        if found is None:
            return False
        cells = found[2].split()
        if found[1] == self.group and all(whole(c) is not None or c.lstrip("-").isdigit() for c in cells):
            for name, cell in zip(self.names, cells, strict=False):
                if _KEPT.search(name):
                    self.sheet.add(self.group + name, int(cell[:25]), number)
            self.group = ""
        elif not cells[0].lstrip("-").isdigit():
            self.group, self.names = found[1], cells
        else:
            return False
        return True


class NetstatStatistics(Framed):
    """`netstat -s`: sentences with a number in front, or names with one behind; the sentence is the counter's name."""

    command = later(r"(?:^|[\s/#$>])netstat\s+-[a-z]*s")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.title = ""

    def on_line(self, number: int, line: str) -> bool:
        if title := _NETSTAT_TITLE.match(line):
            self.title = title[1]
            return True
        found = _NETSTAT_ROW.match(line) if self.title else None
        if found is None:
            return False
        name, value = (found[2], found[1]) if found[1] else (found[3], found[4])
        if name and _KEPT.search(name):
            self.sheet.add(f"{self.title}: {name}", int(value), number)
        return True


FORMATS: Final = (
    Format(
        "sysfs_counter", "a file of sysfs that holds a port's or device's counter", "Linux; sosreport, gpud and others copy them",
        "torvalds/linux drivers/infiniband/core/sysfs.c, drivers/pci/pcie/aer.c, Documentation/ABI/testing",
        looks_like_sysfs_file, decode_sysfs_file,
    ),
    Format(
        "sysfs_listing", "counters of sysfs, listed with their paths", "grep, tail, head over /sys",
        "torvalds/linux drivers/infiniband/core/sysfs.c, drivers/pci/pcie/aer.c, Documentation/ABI/testing",
        lambda head: any(w in head.text for w in ("/counters/", "/hw_counters/", "/statistics/", "/aer_", "_count")) and "/" in head.text
        and looks_like(head, SysfsListing),
        lambda member, hints: read(member, hints, "sysfs", SysfsListing), in_section=True,
    ),
    Format(
        "nstat", "nstat: what the network stack lost, repeated or refused", "iproute2, all versions", "iproute2 misc/nstat.c",
        lambda head: re.search(r"^[A-Z][A-Za-z0-9]+ +[0-9]+ +[0-9]+\.[0-9]$", head.text[:4000], re.MULTILINE) is not None
        and looks_like(head, Nstat),
        lambda member, hints: read(member, hints, "nstat", Nstat), in_section=True,
    ),
    Format(
        "proc_net_snmp", "/proc/net/snmp, /proc/net/netstat: what the network stack lost, repeated or refused", "Linux",
        "torvalds/linux net/ipv4/proc.c",
        lambda head: ("Tcp: " in head.text or "TcpExt: " in head.text) and looks_like(head, ProcNetSnmp),
        lambda member, hints: read(member, hints, "/proc/net/snmp", ProcNetSnmp), in_section=True,
    ),
    Format(
        "netstat_statistics", "netstat -s: what the network stack lost, repeated or refused", "net-tools, all versions",
        "net-tools statistics.c",
        lambda head: "Tcp:\n" in head.text and looks_like(head, NetstatStatistics),
        lambda member, hints: read(member, hints, "netstat -s", NetstatStatistics), in_section=True,
    ),
)  # fmt: skip
