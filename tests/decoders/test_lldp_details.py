"""LLDP neighbours at length: lldpd's text and keyvalue, Cisco's and Juniper's details; JSON of hosts."""

from __future__ import annotations

import json

import pytest
from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff

CABLE = ("switch", "port", "host", "dev", "line")

# sonic-net/sonic-utilities doc/Command-Reference.md, shortened; the second neighbour is a host's lldpd.
SONIC = """admin@leaf-1:~$ show lldp neighbors
-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    Ethernet112, via: LLDP, RID: 2, Time: 0 day, 19:24:17
  Chassis:
    ChassisID:    mac 4c:76:25:e5:e6:c0
    SysName:      T1-1
    SysDescr:     Debian GNU/Linux 8 (jessie) Linux 4.9.0-8-amd64 #1 SMP Debian 4.9.110-3+deb9u6 (2015-12-19) x86_64
    TTL:          120
    Capability:   Bridge, on
  Port:
    PortID:       local hundredGigE1/2
    PortDescr:    T0-2:hundredGigE1/29
-------------------------------------------------------------------------------
Interface:    Ethernet0, via: LLDP, RID: 3, Time: 0 day, 12:20:49
  Chassis:
    ChassisID:    mac 0c:42:a1:00:00:01
    SysName:      node-07
  Port:
    PortID:       mac 0c:42:a1:00:00:01
    PortDescr:    enp25s0np0
-------------------------------------------------------------------------------
"""
HOST = """-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    enp25s0np0, via: LLDP, RID: 1, Time: 0 day, 12:21:21
  Chassis:
    ChassisID:    mac 00:01:e8:81:e3:45
    SysName:      leaf-1
  Port:
    PortID:       ifname Ethernet1/17
-------------------------------------------------------------------------------
"""
PAIRS = """lldp.enp7s0.via=LLDP
lldp.enp7s0.rid=1
lldp.enp7s0.age=0 day, 03:41:54
lldp.enp7s0.chassis.mac=00:11:22:33:44:55
lldp.enp7s0.chassis.name=leaf-1
lldp.enp7s0.chassis.Bridge.enabled=on
lldp.enp7s0.port.ifname=Ethernet1/5
lldp.enp7s0.port.descr=Ethernet1/5
lldp.enp7s0.vlan.vlan-id=1
lldp.enp7s0.unknown-tlvs.unknown-tlv.oui=00,01,42
lldp.enp8s0.chassis.name=leaf-2
lldp.enp8s0.port.mac=00:11:22:33:44:66
lldp.enp8s0.port.descr=swp3
"""
NXOS = """Capability codes:
  (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device
  (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other
Device ID            Local Intf      Hold-time  Capability  Port ID

Chassis id: 5087.89a1.d8d6
Port id: Ethernet1/1
Local Port id: Eth1/1
Port Description: Ethernet1/1
System Name: spine-2.example.com
System Description: Cisco Nexus Operating System (NX-OS) Software 7.0(3)I4(1)
TAC support: http://www.cisco.com/tac
Time remaining: 93 seconds

Chassis id: 24a9.3700.0001
Port id: 1a51.4800.0001
Local Port id: Eth1/10
Port Description: enp25s0np0
System Name: node-07
"""
XR = """Tue Jan 16 13:49:50.315 AEST
Capability codes:
        (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device

------------------------------------------------
Local Interface: FourHundredGigE0/0/0/0
Chassis id: 6c03.b5aa.bbcc
Port id: Fou1/0/22
Port Description: uplink:router1:FH0/0/0/0
System Name: router-400.router.com

System Description:
Cisco IOS Software [Cupertino], Catalyst L3 Switch Software (CAT9K_IOSXE), Version 17.9.3, RELEASE SOFTWARE (fc6)

------------------------------------------------
Local Interface: FourHundredGigE0/0/0/28
Chassis id: d0dc.2cdd.aabc
Port id: enp25s0np0
System Name: node-07
"""
IOS = """------------------------------------------------
Local Intf: Gi1/0/2
Chassis id: 7c25.86c9.aaaa
Port id: 502
Port Description: ge-0/0/0.0
System Name - not advertised

------------------------------------------------
Local Intf: Gi1/0/3
Chassis id: 7c25.86c9.aaab
Port id: 502
Port Description: ge-0/0/0.0
System Name: spine-1

------------------------------------------------
Local Intf: Gi1/0/1
Chassis id: 94f1.2879.5555
Port id: ens1f0
System Name: node-08
"""
JUNOS = """LLDP Neighbor Information:
Local Information:
Index: 3 Time to live: 120 Time mark: Tue Jan 16 13:49:50 2024 Age: 12 secs
Local Interface    : et-0/0/0
Parent Interface   : -
Local Port ID      : 513
Ageout Count       : 0

Neighbour Information:
Chassis type       : Mac address
Chassis ID         : 2c:6b:f5:a1:c2:c0
Port type          : Mac address
Port ID            : 2c:6b:f5:a1:c2:c1
Port description   : enp25s0np0
System name        : node-07
"""


@pytest.mark.parametrize(
    ("name", "text", "decoder", "expected"),
    [
        ("x.txt", SONIC, "lldp_lldpcli", [("leaf-1", "Ethernet112", "T1-1", "hundredGigE1/2", 5), ("leaf-1", "Ethernet0", "node-07", "enp25s0np0", 16)]),
        ("node-07-lldpctl.txt", HOST, "lldp_lldpcli", [("leaf-1", "Ethernet1/17", "node-07", "enp25s0np0", 4)]),
        ("node-07-lldp.kv", PAIRS, "lldp_keyvalue", [("leaf-1", "Ethernet1/5", "node-07", "enp7s0", 5), ("leaf-2", "swp3", "node-07", "enp8s0", 11)]),
        ("leaf-2-lldp.txt", NXOS, "lldp_detail", [("leaf-2", "Eth1/1", "spine-2.example.com", "Ethernet1/1", 6), ("leaf-2", "Eth1/10", "node-07", "enp25s0np0", 15)]),
        ("leaf-3-lldp.txt", XR, "lldp_detail", [("leaf-3", "FourHundredGigE0/0/0/0", "router-400.router.com", "Fou1/0/22", 6), ("leaf-3", "FourHundredGigE0/0/0/28", "node-07", "enp25s0np0", 16)]),
        ("leaf-4-lldp.txt", IOS, "lldp_detail", [("leaf-4", "Gi1/0/3", "spine-1", "ge-0/0/0.0", 9), ("leaf-4", "Gi1/0/1", "node-08", "ens1f0", 16)]),
        ("leaf-5-lldp.txt", JUNOS, "lldp_detail", [("leaf-5", "et-0/0/0", "node-07", "enp25s0np0", 4)]),
    ],
    ids=["sonic", "host", "keyvalue", "nxos", "xr", "ios", "junos"],
)  # fmt: skip
def test_neighbours_at_length(name: str, text: str, decoder: str, expected: list[tuple[object, ...]]) -> None:
    assert sniff(name, text.encode()) == decoder
    decoded = sniffed(name, text)
    assert pick(rows(decoded, "ports"), *CABLE) == expected
    assert {row["basis"] for row in rows(decoded, "ports")} == {"lldp"}


def test_nobody_to_speak_of() -> None:
    decoded = sniffed("x.txt", XR)
    assert decoded.tables == {}
    assert decoded.notes == ["LLDP neighbours that do not say of which device"]


def test_a_log_with_such_fields_stays_a_log() -> None:
    log = "2026 Jan  2 03:04:05 leaf-1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/1 is down\n"
    assert sniff("x.log", (log + NXOS).encode()) is None
    assert sniff("x.log", (HOST + log * 30).encode()) is None


def test_json_of_a_switch_that_a_host_told_its_address() -> None:
    port = {"id": {"type": "mac", "value": "0c:42:a1:00:00:01"}, "descr": "enp25s0np0"}
    document = {"lldp": {"interface": [{"Ethernet0": {"chassis": {"node-07": {}}, "port": port}}]}}
    assert pick(rows(sniffed("leaf-1.lldp.json", json.dumps(document)), "ports"), *CABLE[:4]) == [
        ("leaf-1", "Ethernet0", "node-07", "enp25s0np0")
    ]
    port["descr"] = "not an interface"
    assert pick(rows(sniffed("leaf-1.lldp.json", json.dumps(document)), "ports"), "dev") == [("0c:42:a1:00:00:01",)]
