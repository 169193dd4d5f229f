"""Counters of InfiniBand and RoCE ports: perfquery, ibqueryerrors, rdma statistic.

perfquery (rdma-core perfquery.c; the names of old versions are shorter):

    # Port counters: Lid 214 port 35 (CapMask: 0x1300)
    SymbolErrorCounter:..............0

ibqueryerrors (rdma-core ibqueryerrors.c) prints only what is above its thresholds, counted since somebody cleared it:

    Errors for 0x2c903006e29b0 "MF0;leaf-1:SX6036/U1"
       GUID 0x2c903006e29b0 port 5: [SymbolErrorCounter == 65535] [LinkDownedCounter == 2]

rdma statistic show (iproute2 rdma/stat.c): `link mlx5_0/1 rx_write_requests 0 …`, with `-p` one a line.
"""

from __future__ import annotations

import json
import re
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text, real, whole
from postmortem.decoders.counters.base import (
    HCA,
    Framed,
    Sheet,
    base_name,
    looks_like,
    named_hca,
    read,
)
from postmortem.decoders.fabric.infiniband import switch_name
from postmortem.patterns import later

_NO_COUNTERS: Final = frozenset({"PortSelect", "CounterSelect", "CounterSelect2", "CapabilityMask"})
_PERF_HEAD: Final = later(
    r"^# ([A-Za-z][A-Za-z0-9 ]*?) ?(?:counters|Counters|extended counters)?: (Lid|DR path|GID|GUID) ?(.*?),? (?:port|all ports)(?: ([0-9]+|ALL))?\b"
)
_PERF_ROW: Final = later(r"^([A-Za-z][A-Za-z0-9]*):\.+(0x[0-9a-fA-F]+|[0-9]{1,20})(?:\s.*)?$")
_PORT_IN_NAME: Final = later(r"(?:-P|port|_p)[_ -]?([0-9]{1,3})(?![0-9])", re.IGNORECASE)
_ERRORS_FOR: Final = later(r'^(?:Errors|Data Counters) for (?:(0x[0-9a-f]+) )?"([^"]*)"')
_GUID_ROW: Final = later(r"^\s*GUID (0x[0-9a-f]+) port (ALL|[0-9]+): ?(\[.*)$")
_PAIR: Final = later(r"\[([A-Za-z][A-Za-z0-9]*) == ([0-9]{1,20})(?: \([0-9.]+ ?[A-Za-z]*\))?\]")
_DEVICE_AT_END: Final = later(rf"^(.*?)[ /]+({HCA}|HCA-[0-9]+)$")
_RDMA_HEAD: Final = later(r"^link ([A-Za-z][\w.-]*)/([0-9]+)((?: [a-z][a-z0-9_]* [0-9]+)*) *$")
_RDMA_MORE: Final = later(r"^(?:\s+|(?=[a-z]))([a-z][a-z0-9_]*) ([0-9]+)((?: [a-z][a-z0-9_]* [0-9]+)*) *$")


class PerfQuery(Framed):
    """`perfquery`, also of several ports one after the other."""

    command = later(r"(?:^|[\s/#$>])perfquery\b(.*)$")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.asked(base_name(sheet.name))

    def asked(self, text: str) -> None:
        """The HCA that a command or a file's name gives, asked for its own port; a LID given in words means another's."""
        self.named = named_hca(text)
        self.sheet.dev = self.named
        port = _PORT_IN_NAME.search(text) if self.named else None
        self.sheet.port = port[1] if port else None

    def on_command(self, line: str, found: re.Match[str]) -> None:
        self.asked(found[1])

    def on_line(self, number: int, line: str) -> bool:
        if found := _PERF_HEAD.match(line):
            self.sheet.dev = self.named or f"{found[2].lower()} {found[3]}"[:80]
            self.sheet.port = found[4] or "ALL"
            return True
        found = _PERF_ROW.match(line)
        if found is None:
            return False
        value = whole(found[2])
        if value is not None and found[1] not in _NO_COUNTERS:
            self.sheet.add(found[1], value, number)
        return True


class QueryErrors(Framed):
    """`ibqueryerrors`: a switch's rows are on its ports, a host's on its HCA."""

    command = later(r"(?:^|[\s/#$>])ibqueryerrors\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.is_switch = False
        self.node: str | None = None
        self.dev: str | None = None

    def on_command(self, line: str, found: re.Match[str]) -> None:
        """Whoever ran it is not what it speaks of."""

    def on_line(self, number: int, line: str) -> bool:
        if found := _ERRORS_FOR.match(line):
            self.is_switch = found[1] is not None and not _DEVICE_AT_END.match(found[2])
            end = _DEVICE_AT_END.match(found[2])
            self.node = end[1] if end else switch_name(found[2]) or found[1]
            self.dev = end[2] if end else None
            return True
        if found := _GUID_ROW.match(line):
            self.sheet.host = self.node
            for name, value in _PAIR.findall(found[3]):
                self.sheet.add(name, int(value), number, dev=self.dev or found[1], port=found[2])
            return True
        return re.match(r"^(?:##? |\s+Link info:|\s*Errors? )", line) is not None


class RdmaStatistic(Framed):
    """`rdma statistic show` as text."""

    command = later(r"(?:^|[\s/#$>])rdma\s+(?:-p\s+)?stat(?:istics?)?\b")

    def on_line(self, number: int, line: str) -> bool:
        if found := _RDMA_HEAD.match(line):
            self.sheet.dev, self.sheet.port = found[1], found[2]
            self.pairs(found[3], number)
            return True
        found = _RDMA_MORE.match(line) if self.sheet.dev else None
        if found is None:
            return False
        self.pairs(line, number)
        return True

    def pairs(self, text: str, number: int) -> None:
        """`name value name value …`."""
        cells = text.split()
        for name, value in zip(cells[::2], cells[1::2], strict=False):
            self.sheet.add(name, int(value[:25]), number)


def looks_like_rdma_json(head: Head) -> bool:
    """`rdma -j statistic show`: an array of objects with an HCA's name, its port and counters."""
    return (
        re.match(r'\s*\[\s*\{\s*"ifindex":\s*[0-9]+,\s*"ifname":\s*"[^"]+",\s*"port":\s*[0-9]+,\s*"[a-z]', head.text) is not None
        and re.search(r'"(?:rx_write_requests|out_of_sequence|rx_read_requests|packet_seq_err|np_cnp_sent|rx_pkts|retry_exceeded_err)":', head.text) is not None
    )  # fmt: skip


def decode_rdma_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `counters` from `rdma -j statistic show`."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet("rdma statistic", member.name, hints.host)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("rdma statistic as JSON, cut off or damaged")
        return decoded
    line, at = 1, 0
    for entry in document if isinstance(document, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("ifname"), str):
            continue
        place = text.find(f'"{entry["ifname"]}"', at)
        if place >= 0:
            line, at = line + text.count("\n", at, place), place
        for name, value in entry.items():
            number = real(value)
            if number is not None and name not in {"ifindex", "port"}:
                sheet.add(name, number, line, dev=entry["ifname"], port=str(entry.get("port"))[:20])
    sheet.put(decoded)
    return decoded


FORMATS: Final = (
    Format(
        "perfquery", "perfquery: counters of an InfiniBand port", "infiniband-diags, all versions",
        "linux-rdma/rdma-core infiniband-diags/perfquery.c, libibmad/dump.c",
        lambda head: ":..." in head.text and looks_like(head, PerfQuery),
        lambda member, hints: read(member, hints, "perfquery", PerfQuery), in_section=True,
    ),
    Format(
        "ibqueryerrors", "ibqueryerrors: error counters above a threshold, all ports of a fabric", "infiniband-diags, all versions",
        "linux-rdma/rdma-core infiniband-diags/ibqueryerrors.c",
        lambda head: "GUID 0x" in head.text and " == " in head.text and looks_like(head, QueryErrors, 1),
        lambda member, hints: read(member, hints, "ibqueryerrors", QueryErrors), in_section=True,
    ),
    Format(
        "rdma_statistic", "rdma statistic show: RoCE and InfiniBand counters of a port", "iproute2 5.2 and later",
        "iproute2 rdma/stat.c",
        lambda head: "link " in head.text and looks_like(head, RdmaStatistic),
        lambda member, hints: read(member, hints, "rdma statistic", RdmaStatistic), in_section=True,
    ),
    Format(
        "rdma_statistic_json", "rdma -j statistic show: RoCE and InfiniBand counters as JSON", "iproute2 5.2 and later",
        "iproute2 rdma/stat.c", looks_like_rdma_json, decode_rdma_json, in_section=True,
    ),
)  # fmt: skip
