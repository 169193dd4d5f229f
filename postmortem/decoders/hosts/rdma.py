"""Which RDMA device is which network interface and PCI device: ibdev2netdev, rdma link and dev, show_gids, mst status -> `nics`, `addresses`.

    mlx5_0 port 1 ==> enp26s0np0 (Up)
    0000:01:00.0 mlx5_0 (MT4123 - MCX653105A-HDAT) ConnectX-6 VPI adapter card … fw 20.28.1002 port 1 (ACTIVE) ==> p5p1 (Up)
    link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev enp26s0np0
    1: mlx5_0: node_type ca fw 20.28.1002 node_guid b859:9f03:006f:0000 sys_image_guid b859:9f03:006f:0000
    mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1        v2      enp26s0np0
    ConnectX7(rev:0)  /dev/mst/mt4129_pciconf0  1a:00.0  mlx5_0  net-ib0  0

What a port's state is becomes the fact `nic.port`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, Row, read_text
from postmortem.decoders.hosts.inventory import Output, Sheet, finder, guid, looks_like, pci_address, read
from postmortem.patterns import later

_NETDEV: Final = later(
    r"^(?:(?P<pci>[0-9a-fA-F:.]+) )?(?P<dev>[A-Za-z][\w.-]*) (?:\([^()]*\) .*?\bfw [^ ]+ )?port (?P<port>[0-9]+) (?:\((?P<state>[A-Z_]+) *\) )?==>"
    r" *(?P<ifname>[A-Za-z0-9_.@:-]+)?(?: *\((?P<up>\w*)\))?(?: \(\w+\))?$"
)
_LINK: Final = later(
    r"^(?:link |[0-9]+/[0-9]+: )(?P<dev>[A-Za-z][\w.-]*)/(?P<port>[0-9]+):? (?=.*\b(?:state|netdev|lid) )(?P<rest>.*)$"
)
_DEVICE: Final = later(r"^[0-9]+: (?P<dev>[A-Za-z][\w.-]*): node_type (?P<rest>.*)$")
_MORE: Final = later(r"^\s+(?:caps: <|adaptive-moderation|[A-Z_, ]+>?$)")
_GID_HEAD: Final = later(r"^DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s")
_GID: Final = later(
    r"^(?P<dev>[A-Za-z][\w.-]*)\s+(?P<port>[0-9]+)\s+(?P<index>[0-9]+)\s+(?P<gid>[0-9a-f]{4}(?::[0-9a-f]{4}){7})"
    r"(?:\s+(?P<ipv4>[0-9.]{7,15}))?(?:\s+[vV][0-9.]+)?(?:\s+(?P<ifname>[A-Za-z][\w.@:-]*))?$"
)
_MST: Final = later(
    r"^(?P<type>\S[^\t]*?\(rev:[^)]*\))\s+(?P<mst>\S+)\s+(?P<pci>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])\b(?P<rest>.*)$"
)
_MST_ELSE: Final = later(
    r"^(?:MST (?:modules|devices):|PCI devices:|DEVICE_TYPE\s+MST\s|\s*MST PCI |/dev/mst/|\s+(?:domain:bus|Chip revision|PCI )|\s+No MST devices|Cable devices:|I2C"
    r"|\S[^\t]{0,40}\(rev:[^)]*\)\s+\S+$|\.$)"
)
_JSON: Final = later(r'\s*\[\s*\{\s*"ifindex"\s*:\s*[0-9]+\s*,\s*(?:"port"\s*:\s*[0-9]+\s*,\s*)?"ifname"\s*:\s*"')


class Ibdev2netdev(Output):
    """`ibdev2netdev`, also with -v, whose lines begin with the PCI address."""

    command = later(r"\bibdev2netdev\b")

    def on_line(self, number: int, line: str) -> bool:
        found = _NETDEV.match(line.strip()[:600])
        if found is None:
            return False
        pci = found["pci"] and pci_address(found["pci"])
        self.sheet.add("nics", number, dev=found["dev"], ifname=found["ifname"], pci=pci)
        if found["state"]:
            _port(
                self.sheet, number, line, found["dev"], found["port"], found["state"], ifname=found["ifname"], pci=pci
            )
        return True


class RdmaLink(Output):
    """`rdma link` and `rdma dev`."""

    command = later(r"\brdma\s+(?:-\w+\s+)*(?:link|dev)\b")

    def on_line(self, number: int, line: str) -> bool:
        found = _LINK.match(line) or _DEVICE.match(line)
        if found is None:
            return _MORE.match(line) is not None
        words = found["rest"].split()
        said = dict(zip(words[::2], words[1::2], strict=False))
        if "port" in found.groupdict():
            ifname = said.get("netdev")
            self.sheet.add("nics", number, dev=found["dev"], ifname=ifname)
            _port(
                self.sheet,
                number,
                line,
                found["dev"],
                found["port"],
                said.get("state"),
                said.get("physical_state"),
                ifname=ifname,
            )
        else:
            said = dict(re.findall(r"\b(node_guid) (\S+)", found["rest"]))
            self.sheet.add("nics", number, dev=found["dev"], guid=guid(said.get("node_guid", "")))
        return True


class ShowGids(Output):
    """`show_gids`: every GID of every port. InfiniBand's have neither version nor interface; they end in the port's GUID."""

    command = later(r"\bshow_gids\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._seen: set[tuple[object, ...]] = set()

    def on_line(self, number: int, line: str) -> bool:
        found = _GID.match(line.strip())
        if found is None:
            return _GID_HEAD.match(line) is not None or line.startswith(("---", "n_gids_found="))
        ifname, gid = found["ifname"], found["gid"]
        key = (self.sheet.host, found["dev"], ifname)
        if key not in self._seen:
            self._seen.add(key)
            self.sheet.add("nics", number, dev=found["dev"], ifname=ifname, guid=None if ifname else guid(gid[20:]))
        self.sheet.address(number, found["ipv4"] or gid, ifname)
        return True


class MstStatus(Output):
    """`mst status -v`: a table of devices; without -v no line says which device of RDMA is meant."""

    command = later(r"\bmst\s+status\b")

    def on_line(self, number: int, line: str) -> bool:
        found = _MST.match(line)
        if found is None:
            return _MST_ELSE.match(line) is not None
        words = found["rest"].split()
        net = next((w.removeprefix("net-").split(",")[0] for w in words if w.startswith("net-")), None)
        dev = next(
            (w for w in words[:1] if re.fullmatch(r"[A-Za-z][\w.-]*[0-9]", w) and not w.startswith("net-")), None
        )
        if dev or net:
            self.sheet.add("nics", number, dev=dev, ifname=net, pci=pci_address(found["pci"]))
        return True


def _port(
    sheet: Sheet,
    number: int,
    line: str,
    dev: str,
    port: str,
    state: str | None,
    physical: str | None = None,
    **more: str | None,
) -> Row:
    """The fact that a port is in a state; `value` is the physical state."""
    return sheet.fact(number, line, "nic.port", dev=dev, port=port, status=state, value=physical, **more)


def looks_like_json(head: Head) -> bool:
    """An array of objects with `ifindex` and `ifname`, of links or devices of RDMA."""
    return _JSON.match(head.text) is not None and any(
        f'"{k}"' in head.text for k in ("physical_state", "node_type", "sys_image_guid")
    )


def decode_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `nics` from `rdma -j link` or `rdma -j dev`; before iproute2 5.2 `ifname` of a link holds the port too (`mlx5_0/1`)."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet(member.name, hints.host)
    find = finder(text)
    for entry in _entries(text, decoded):
        dev, port = str(entry.get("ifname", ""))[:100], entry.get("port")
        line = find(f'"{dev}"')
        if "/" in dev:
            dev, _, port = dev.partition("/")
        if not re.fullmatch(r"[A-Za-z][\w.-]*", dev):
            continue
        if "node_type" in entry or "node_guid" in entry:
            sheet.add("nics", line, dev=dev, guid=guid(str(entry.get("node_guid", ""))))
            continue
        ifname = entry.get("netdev") if isinstance(entry.get("netdev"), str) else None
        sheet.add("nics", line, dev=dev, ifname=ifname)
        state, physical = (str(entry[k])[:60] if k in entry else None for k in ("state", "physical_state"))
        shown = text.split("\n", line)[line - 1] if line <= 2000 else ""
        _port(sheet, line, shown, dev, str(port)[:20], state, physical, ifname=ifname)
    sheet.put(decoded)
    return decoded


def _entries(text: str, decoded: Decoded) -> Iterator[dict[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("JSON of rdma, cut off or damaged")
        return
    yield from (e for e in document if isinstance(e, dict)) if isinstance(document, list) else ()


FORMATS: Final = (
    Format(
        "ibdev2netdev", "ibdev2netdev: network interface and PCI address of each RDMA device", "Mellanox OFED, DOCA; all versions",
        "output in public guides of NVIDIA, DPDK and OpenShift",
        lambda head: " ==>" in head.text and looks_like(head, Ibdev2netdev),
        lambda member, hints: read(member, hints, Ibdev2netdev), in_section=True,
    ),
    Format(
        "rdma_link", "rdma link, rdma dev: network interface and GUID of each RDMA device", "iproute2 4.14 and later",
        "iproute2 rdma/link.c, rdma/dev.c",
        lambda head: ("state " in head.text or "node_type " in head.text) and looks_like(head, RdmaLink),
        lambda member, hints: read(member, hints, RdmaLink), in_section=True,
    ),
    Format(
        "rdma_link_json", "rdma -j link, rdma -j dev: network interface and GUID of each RDMA device", "iproute2 4.14 and later",
        "iproute2 rdma/link.c, rdma/dev.c", looks_like_json, decode_json, in_section=True,
    ),
    Format(
        "show_gids", "show_gids: addresses and network interface of each RDMA device", "mlnx-tools", "Mellanox/mlnx-tools sbin/show_gids",
        lambda head: "INDEX" in head.text and looks_like(head, ShowGids),
        lambda member, hints: read(member, hints, ShowGids), in_section=True,
    ),
    Format(
        "mst_status", "mst status -v: RDMA device and network interface of each PCI device", "MFT 4",
        "NVIDIA MFT documentation, mst synopsis",
        lambda head: "(rev:" in head.text and looks_like(head, MstStatus),
        lambda member, hints: read(member, hints, MstStatus), in_section=True,
    ),
)  # fmt: skip
