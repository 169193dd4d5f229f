"""RDMA devices, their GUIDs and the state of their ports: ibstat, ibstatus, ibv_devinfo -> `nics`, `addresses`, facts `nic.port`.

CA 'mlx5_0'                          Infiniband device 'mlx5_0' port 1 status:     hca_id: mlx5_0
    CA type: MT4129                      default gid:  fe80:0000:…:b859:9f03:…         transport:   InfiniBand (0)
    Node GUID: 0xb8599f03006f0000        state:        4: ACTIVE                       node_guid:   b859:9f03:006f:0000
    Port 1:                              phys state:   5: LinkUp                           port: 1
        State: Active                    link_layer:   InfiniBand                              state:  PORT_ACTIVE (4)
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Format, Row, whole
from postmortem.decoders.hosts.inventory import Output, Sheet, guid, looks_like, read
from postmortem.patterns import later

_CA: Final = later(r"^(?:CA|Router|Switch|iWARP RNIC) '(?P<dev>[^']{1,100})'$")
_CA_FIELD: Final = later(
    r"^\s*(?P<key>(?:CA|Router|Switch|iWARP RNIC) type|Number of ports|Firmware version|Hardware version|Node GUID|System image GUID|State|Physical state|Rate"
    r"|Effective speed|Base lid|LMC|SM lid|Capability mask|Port GUID|Link layer):(?: (?P<value>.*))?$"
)
_CA_PORT: Final = later(r"^\s*Port (?P<port>[0-9]+):$")
_STATUS: Final = later(r"^Infiniband device '(?P<dev>[^']{1,100})' port (?P<port>[0-9]+) status:$")
_STATUS_FIELD: Final = later(
    r"^\s+(?P<key>default gid|base lid|sm lid|state|phys state|rate|link_layer|lmc):\s*(?P<value>.*)$"
)
_INFO: Final = later(r"^hca_id:\s*(?P<dev>\S{1,100})$")
_INFO_FIELD: Final = later(r"^\s+(?P<key>node_guid|port|state|port_lid|link_layer|GID\[ *[0-9]+\]):\s*(?P<value>.*)$")


class Ibstat(Output):
    """`ibstat`: a block for each device with blocks of its ports."""

    command = later(r"\bibstat(?!us)\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._nic: Row | None = None
        self._port: str | None = None
        self._state: Row | None = None

    def on_line(self, number: int, line: str) -> bool:
        if found := _CA.match(line):
            self._nic, self._port, self._state = self.sheet.add("nics", number, dev=found["dev"], guid=None), None, None
            return True
        if found := _CA_PORT.match(line):
            self._port = found["port"]
            return self._nic is not None
        found = _CA_FIELD.match(line)
        if found is None or self._nic is None:
            return False
        key, value = found["key"], found["value"] or ""
        if key == "Node GUID":
            self._nic["guid"] = guid(value)
        elif key == "State":
            self._state = self.sheet.fact(
                number, line, "nic.port", dev=self._nic["dev"], port=self._port, status=value, value=None
            )
        elif self._state is not None and key == "Physical state":
            self._state["value"] = value
        elif self._state is not None and key == "Port GUID":
            self._state["guid"] = guid(value)
        elif self._state is not None and key == "Base lid":
            self._state["lid"] = whole(value)
        return True


class Ibstatus(Output):
    """`ibstatus`: a block for each port. The default GID of an InfiniBand port ends in its GUID."""

    command = later(r"\bibstatus\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._nic: Row | None = None
        self._state: Row = {}
        self._gid = ""

    def on_line(self, number: int, line: str) -> bool:
        if found := _STATUS.match(line):
            self._nic = self.sheet.add("nics", number, dev=found["dev"], guid=None)
            self._state = self.sheet.fact(
                number, line, "nic.port", dev=found["dev"], port=found["port"], status=None, value=None
            )
            return True
        found = _STATUS_FIELD.match(line)
        if found is None or self._nic is None:
            return line.startswith("Fatal error: ")
        key, value = found["key"], found["value"]
        if key == "default gid":
            self._gid = value
        elif key == "base lid":
            self._state["lid"] = whole(int(value, 16)) if re.fullmatch("0x[0-9a-f]{1,8}", value) else None
        elif key in {"state", "phys state"}:
            self._state["status" if key == "state" else "value"] = value.split(": ", 1)[-1]
        elif key == "link_layer" and value in {"InfiniBand", "IB"} and len(self._gid) == 39:
            self._nic["guid"] = guid(self._gid[20:])
        return True


class IbvDevinfo(Output):
    """`ibv_devinfo`, also with -v: a block for each device with blocks of its ports."""

    command = later(r"\bibv_devinfo\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._nic: Row | None = None
        self._port = ""
        self._state: Row = {}

    def on_line(self, number: int, line: str) -> bool:
        if found := _INFO.match(line):
            self._nic, self._state = self.sheet.add("nics", number, dev=found["dev"], guid=None), {}
            return True
        if self._nic is None:
            return False
        found = _INFO_FIELD.match(line)
        if found is None:
            return re.match(r"^\s+\S", line) is not None
        key, value = found["key"], found["value"]
        if key == "node_guid":
            self._nic["guid"] = guid(value)
        elif key == "port":
            self._port = value[:20]
        elif key == "state":
            state = re.sub(r"^PORT_| \([0-9]+\)$", "", value)
            self._state = self.sheet.fact(
                number, line, "nic.port", dev=self._nic["dev"], port=self._port, status=state, lid=None
            )
        elif key == "port_lid":
            self._state["lid"] = whole(value)
        elif key.startswith("GID"):
            self.sheet.address(number, value.split(",", 1)[0])
        return True


FORMATS: Final = (
    Format(
        "ibstat", "ibstat: GUID of each RDMA device and state of its ports", "infiniband-diags, all versions",
        "linux-rdma/rdma-core infiniband-diags/ibstat.c",
        lambda head: "Node GUID: 0x" in head.text and looks_like(head, Ibstat),
        lambda member, hints: read(member, hints, Ibstat), in_section=True,
    ),
    Format(
        "ibstatus", "ibstatus: state of each port of RDMA devices", "infiniband-diags, all versions",
        "linux-rdma/rdma-core infiniband-diags/scripts/ibstatus",
        lambda head: "Infiniband device '" in head.text and looks_like(head, Ibstatus),
        lambda member, hints: read(member, hints, Ibstatus), in_section=True,
    ),
    Format(
        "ibv_devinfo", "ibv_devinfo: GUID of each RDMA device, state and addresses of its ports", "libibverbs, all versions",
        "linux-rdma/rdma-core libibverbs/examples/devinfo.c",
        lambda head: "hca_id:" in head.text and looks_like(head, IbvDevinfo),
        lambda member, hints: read(member, hints, IbvDevinfo), in_section=True,
    ),
)  # fmt: skip
