"""Names of addresses: /etc/hosts, getent hosts, getent ahosts -> `addresses`.

    10.0.0.11   node-01.cluster.local node-01   # rack 3
    10.0.0.11       node-01

The first name is the host's; a name of one of its interfaces (`node-01-ib0`) is taken for the host's. Names of loopback, of multicast groups and of Docker's gateway are left out.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from postmortem.decoders.base import Format, Head
from postmortem.decoders.hosts.inventory import Output, looks_like, read
from postmortem.patterns import later

_LINE: Final = later(
    r"^\s*(?P<at>[0-9a-fA-F.:]{2,45}(?:%\w+)?)\s+(?P<names>[A-Za-z0-9_][\w.-]{0,252}(?:\s+[\w.-]{1,253})*)\s*(?:#.*)?$"
)
_NOT_A_HOST: Final = later(
    r"^(?:localhost|ip6-|broadcasthost|host\.docker|gateway\.docker|kubernetes\.docker|host\.containers|STREAM|DGRAM|RAW)|localdomain",
    re.IGNORECASE,
)
_INTERFACE: Final = later(r"^(?P<host>.{2,}?)[-_](?P<ifname>(?:ib|eth|bond|rdma|hsn)[0-9]{1,2}|en[ops][0-9]\w*)$")
_LOOPBACK: Final = later(r"^\s*(?:127\.0\.[01]\.1|::1)\s+\S", re.MULTILINE)


class HostsFile(Output):
    """`/etc/hosts`, or `getent` in the same form."""

    command = later(r"/etc/hosts\b|\bgetent\s+a?hosts(?:v4)?\b")

    def on_line(self, number: int, line: str) -> bool:
        if line.lstrip().startswith("#"):
            return True
        found = _LINE.match(line[:600])
        if found is None or not _is_address(found["at"]):
            return False
        name = found["names"].split()[0].rstrip(".")
        if _NOT_A_HOST.search(name) or re.fullmatch(r"[0-9.]+", name):
            return True
        # The address is that of the machine that the line names, whoever's file it is.
        owner, self.sheet.host = self.sheet.host, name.split(".", 1)[0]
        named = _INTERFACE.match(self.sheet.host)
        if named:
            self.sheet.host = named["host"]
        self.sheet.address(number, found["at"], named["ifname"] if named else None)
        self.sheet.host = owner
        return True


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.split("%", 1)[0])
    except ValueError:
        return False
    return True


def looks_like_hosts(head: Head) -> bool:
    """Addresses and names alone: with a line for loopback, or named `hosts`, so that a table of peers is not taken for one."""
    is_named = re.search(r"(?:^|[/!._-])(?:etc_)?hosts(?:\.txt|\.log)?$|getent", head.name) is not None
    has_loopback = ("127.0." in head.text or "::1" in head.text) and _LOOPBACK.search(head.text) is not None
    return (is_named or has_loopback) and looks_like(head, HostsFile, 1, 1.0)


FORMATS: Final = (
    Format(
        "etc_hosts", "/etc/hosts, getent hosts: names of addresses", "Linux", "hosts(5), getent(1)", looks_like_hosts,
        lambda member, hints: read(member, hints, HostsFile), in_section=True,
    ),
)  # fmt: skip
