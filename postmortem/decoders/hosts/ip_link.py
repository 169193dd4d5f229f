"""Network interfaces, their hardware addresses and IP addresses: ip address, ip link (also -br, -o), ifconfig -> `nics`, `addresses`.

    2: ens32: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 …      ib0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST> mtu 2044
        link/ether 00:0c:29:56:07:1b brd ff:ff:ff:ff:ff:ff            inet 192.168.1.73  netmask 255.255.255.0  broadcast …
        inet 10.1.0.7/24 brd 10.1.0.255 scope global ens32          eth0  Link encap:Ethernet  HWaddr 00:0c:29:56:07:1b
    ens32            UP             10.1.0.7/24 fe80::…/64                inet addr:10.1.0.7  Bcast:…  Mask:…

What the machine made itself (loopback, bridges, pods' ends, tunnels) is left out. A bond's member shows its own address as `permaddr`.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Format, Row
from postmortem.decoders.hosts.inventory import (
    Output,
    Sheet,
    base_name,
    hardware_address,
    is_virtual,
    looks_like,
    pci_address,
    read,
)
from postmortem.patterns import later

_NAME: Final = r"[A-Za-z][\w.:-]{0,40}"
_IP_HEAD: Final = later(rf"^[0-9]+: (?P<name>{_NAME}?)(?P<on>@[\w.:-]+)?: <[A-Z0-9_,-]*> ")
_IP_LINK: Final = later(
    r"^\s+link/(?P<kind>[\w\[\]/-]+)(?: (?P<at>[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,19}))?(?:.* permaddr (?P<own>[0-9a-f:]{17,59}))?"
)
_IP_ADDRESS: Final = later(r"^\s+inet6? (?P<at>[0-9a-fA-F.:]+)(?:/[0-9]+| )")
_IP_ELSE: Final = later(
    r"^\s+(?:valid_lft|altname|vf [0-9]+|alias |link-netns|bridge_slave|promiscuity|vxlan|bond|vlan|numtxqueues|minmtu)|^\s{4,}\S"
)
_ONE_LINE: Final = later(rf"^[0-9]+: (?P<name>{_NAME})\s+inet6? (?P<at>[0-9a-fA-F.:]+)(?:/[0-9]+| ).* scope ")
_BRIEF: Final = later(
    rf"^(?P<name>{_NAME}?)(?P<on>@[\w.:-]+)?\s+(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT|NOTPRESENT|TESTING)\b\s*(?P<rest>[0-9a-fmetric:./ ]*)"
    r"(?:<[A-Z0-9_,-]*>)?$"
)
_IFCONFIG: Final = later(rf"^(?P<name>{_NAME}?):? (?: *flags=[0-9]+<[A-Z0-9_,-]*>|\s+Link encap:)(?P<rest>.*)$")
_IFCONFIG_ADDRESS: Final = later(r"^\s+inet6?(?: addr:)? ?(?P<at>[0-9a-fA-F.:]+)(?:/[0-9]+)?(?=\s|$)")
_IFCONFIG_LINK: Final = later(
    r"(?:HWaddr|\bether|\binfiniband) (?P<at>[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5,19})(?=\s|$)"
)
_IFCONFIG_ELSE: Final = later(r"^(?:Ifconfig (?:uses the ioctl|is obsolete)|Because Infiniband address has 20 bytes)")
_DRIVER: Final = later(
    r"^(?P<key>driver|version|firmware-version|expansion-rom-version|bus-info|supports-(?:statistics|test|eeprom-access|register-dump|priv-flags)): ?(?P<value>.*)$"
)
_INTERFACE_IN_NAME: Final = later(
    r"ethtool[-_ ]+(?:-i|i|driver)[-_ ]+([A-Za-z][\w.-]*?)(?:\.(?:txt|log|out))?$|^([A-Za-z][\w.-]*?)[-_.]ethtool"
)


class _Interfaces(Output):
    """Interfaces with what is printed below their names."""

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._name: str | None = None
        self._is_own = False
        self._nic: Row | None = None

    def _begin(self, name: str, number: int, is_stacked: bool) -> None:
        """An interface; one that is stacked on another (`ib0.8002@ib0`) or has a label (`eth0:1`) is no NIC but has addresses."""
        self._name = name.split(":", 1)[0]
        self._is_own = not is_virtual(name)
        self._nic = None
        if self._is_own and not is_stacked and ":" not in name and "." not in name:
            self._nic = self.sheet.add("nics", number, dev=None, ifname=name, mac=None, guid=None)

    def _link(self, printed: str) -> None:
        if self._nic is not None:
            self._nic.update(hardware_address(printed))

    def _address(self, number: int, printed: str) -> None:
        if self._is_own:
            self.sheet.address(number, printed, self._name)


class IpAddress(_Interfaces):
    """`ip address`, `ip link`; with -o each address stands behind the interface's number and name."""

    command = later(r"\bip\s+(?:-\w+\s+)*(?:a|ad|add|addr|address|l|li|link)\b")

    def on_line(self, number: int, line: str) -> bool:
        pieces = line.split("\\")
        return all([self._piece(number, p) for p in pieces])

    def _piece(self, number: int, line: str) -> bool:
        if found := _IP_HEAD.match(line):
            self._begin(found["name"], number, bool(found["on"]))
        elif found := _ONE_LINE.match(line):
            if found["name"] != self._name:
                self._begin(found["name"], number, False)
            self._address(number, found["at"])
        elif self._name is None:
            return False
        elif found := _IP_LINK.match(line):
            if found["at"] and found["kind"] in {"ether", "infiniband"}:
                self._link(found["own"] or found["at"])
        elif found := _IP_ADDRESS.match(line):
            self._address(number, found["at"])
        else:
            return _IP_ELSE.match(line) is not None
        return True


class IpBrief(_Interfaces):
    """`ip -br address`, `ip -br link`: a line for each interface."""

    command = later(r"\bip\s+(?:-\w+\s+)*-br\w*\s+(?:-\w+\s+)*(?:a|addr|address|l|link)\b")

    def on_line(self, number: int, line: str) -> bool:
        found = _BRIEF.match(line[:2000])
        if found is None:
            return False
        self._begin(found["name"], number, bool(found["on"]))
        for word in found["rest"].split():
            if "/" in word:
                self._address(number, word)
            elif word.count(":") >= 5:
                self._link(word)
        return True


class Ifconfig(_Interfaces):
    """`ifconfig` of net-tools, before and since 2.0. Before, 20 octets of InfiniBand were cut off: no GUID can be told."""

    command = later(r"\bifconfig\b")

    def on_line(self, number: int, line: str) -> bool:
        if found := _IFCONFIG.match(line):
            self._begin(found["name"], number, False)
            if link := _IFCONFIG_LINK.search(found["rest"]):
                self._link(link["at"])
            return True
        if self._name is None or not line[:1].isspace():
            return _IFCONFIG_ELSE.match(line) is not None
        if found := _IFCONFIG_ADDRESS.match(line):
            self._address(number, found["at"])
        elif link := _IFCONFIG_LINK.search(line):
            self._link(link["at"])
        return True


class EthtoolDriver(Output):
    """`ethtool -i`: the PCI address of an interface that the command line or the file's name says (sosreport: `ethtool_-i_ens1f0`)."""

    command = later(r"\bethtool\s+(?:-i|--driver)\s+([A-Za-z][\w.-]*)")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        named = _INTERFACE_IN_NAME.search(base_name(sheet.name))
        self._ifname = (named[1] or named[2]) if named else None

    def on_command(self, found: re.Match[str]) -> None:
        self._ifname = found[1]

    def on_line(self, number: int, line: str) -> bool:
        found = _DRIVER.match(line)
        if found is None:
            return False
        pci = pci_address(found["value"]) if found["key"] == "bus-info" else None
        if pci and self._ifname:
            self.sheet.add("nics", number, dev=None, ifname=self._ifname, pci=pci)
        return True


FORMATS: Final = (
    Format(
        "ip_address", "ip address, ip link: interfaces of a host and their addresses", "iproute2, all versions", "iproute2 ip/ipaddress.c",
        lambda head: (": <" in head.text or " scope " in head.text) and looks_like(head, IpAddress),
        lambda member, hints: read(member, hints, IpAddress), in_section=True,
    ),
    Format(
        "ip_brief", "ip -br address, ip -br link: interfaces of a host and their addresses, in short", "iproute2 4.13 and later",
        "iproute2 ip/ipaddress.c print_linkinfo_brief",
        lambda head: " UNKNOWN " in head.text and re.search(r"^lo +UNKNOWN ", head.text, re.MULTILINE) is not None and looks_like(head, IpBrief, 0),
        lambda member, hints: read(member, hints, IpBrief), in_section=True,
    ),
    Format(
        "ifconfig", "ifconfig: interfaces of a host and their addresses", "net-tools 1.60 and 2.x", "net-tools lib/interface.c",
        lambda head: ("flags=" in head.text or "Link encap:" in head.text) and looks_like(head, Ifconfig),
        lambda member, hints: read(member, hints, Ifconfig), in_section=True,
    ),
    Format(
        "ethtool_driver", "ethtool -i: PCI address of a network interface", "ethtool, all versions", "ethtool/ethtool ethtool.c dump_drvinfo",
        lambda head: "bus-info: " in head.text and looks_like(head, EthtoolDriver),
        lambda member, hints: read(member, hints, EthtoolDriver), in_section=True,
    ),
)  # fmt: skip
