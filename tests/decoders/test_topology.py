"""Cables: LLDP of several switches, InfiniBand tools, UFM's file."""

from __future__ import annotations

import json

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

CABLE = ("switch", "port", "host", "dev", "line")

EOS = """Last table change time   : 0:00:02 ago
Number of table inserts  : 48

Port       Neighbor Device ID             Neighbor Port ID           TTL
---------- ------------------------------ -------------------------- ---
Et1/1      h200-0017                      enp25s0np0                 120
Et10/1     spine-01.example.com           Ethernet49/1               120
Ma1        mgmt switch                    ge-0/0/1                   120
"""
NXOS = """leaf-2# show lldp neighbors
Capability codes:
  (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device
  (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other
Device ID            Local Intf      Hold-time  Capability  Port ID
gpu-host-010         Eth1/10         120        S           enp25s0np0
gpu-host-with-a-very-long-name.example.com
                     Eth1/11         120        B, R        enp43s0np0
gpu-host-012         Eth1/12         120                    0c42.a1f0.0001
Total entries displayed: 3
"""
JUNOS = """Local Interface    Parent Interface    Chassis Id          Port info          System Name
et-0/0/0           -                   2c:6b:f5:a1:00:00   enp11s0np0         node-01
et-0/0/1           ae0                 2c:6b:f5:a1:01:00   port 7             node-02
"""
SONIC = """LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr
-----------  --------------  --------------  ------------  -----------------
Ethernet0    node-01         enp25s0np0      RS            Mellanox ConnectX-7
"""
CUMULUS = """LocalPort  Speed  Mode        RemoteHost  RemotePort
---------  -----  ----------  ----------  ----------
swp1       100G   BondMember  node-01     enp25s0np0
"""
DETAIL = """Interface Ethernet1 detected 1 LLDP neighbors:

  Neighbor 0c42.a1f0.0001/"enp25s0np0", age 12 seconds
  - Chassis ID type: MAC address (4)
    Chassis ID     : 0c42.a1f0.0001
  - Port ID type: Interface name (5)
    Port ID     : "enp25s0np0"
  - System Name: "node-01"
Interface Ethernet2 detected 0 LLDP neighbors:
"""
XR = """Mon Jan 29 19:06:33.768 UTC
Capability codes:
        (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device

Device ID       Local Intf          Hold-time  Capability     Port ID
ASR-OCC-P1      Gi0/0/0/0           120        R               Gi0/0/0/2
node-07         FH0/0/0/3           120        B,R             enp25s0np0
Polycom VVX 500 Gi1/0/2             120        T               0004.f2d1.2222

Total entries displayed: 3
"""
DETAIL_OF_HOST = """Interface Ethernet1 detected 2 LLDP neighbors:

  Neighbor 0c42.a1f0.0001/0c42.a1f0.0002, age 12 seconds
  - Port ID type: MAC address (3)
    Port ID     : 0c42.a1f0.0002
  - Port Description: "enp25s0np0"
  - System Name: "node-01"

  Neighbor 0c42.a1f0.0003/0c42.a1f0.0004, age 12 seconds
  - Port ID type: MAC address (3)
    Port ID     : 0c42.a1f0.0004
  - System Name: "node-02"
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "topology/leaf-1a-show-lldp-neighbors.txt",
            EOS,
            [
                ("leaf-1a", "Et1/1", "h200-0017", "enp25s0np0", 6),
                ("leaf-1a", "Et10/1", "spine-01.example.com", "Ethernet49/1", 7),
                ("leaf-1a", "Ma1", "mgmt switch", "ge-0/0/1", 8),
            ],
        ),
        (
            "out.txt",
            NXOS,
            [
                ("leaf-2", "Eth1/10", "gpu-host-010", "enp25s0np0", 6),
                ("leaf-2", "Eth1/11", "gpu-host-with-a-very-long-name.example.com", "enp43s0np0", 8),
                ("leaf-2", "Eth1/12", "gpu-host-012", "0c42.a1f0.0001", 9),
            ],
        ),
        (
            "leaf-3_lldp.txt",
            JUNOS,
            [("leaf-3", "et-0/0/0", "node-01", "enp11s0np0", 2), ("leaf-3", "et-0/0/1", "node-02", "port 7", 3)],
        ),
        ("leaf-4.lldp.txt", SONIC, [("leaf-4", "Ethernet0", "node-01", "enp25s0np0", 3)]),
        ("leaf-5-lldp.txt", CUMULUS, [("leaf-5", "swp1", "node-01", "enp25s0np0", 3)]),
        ("leaf-6-show-lldp-neighbors-detail.txt", DETAIL, [("leaf-6", "Ethernet1", "node-01", "enp25s0np0", 1)]),
        (
            "leaf-7-lldp.txt",
            DETAIL_OF_HOST,
            [
                ("leaf-7", "Ethernet1", "node-01", "enp25s0np0", 1),
                ("leaf-7", "Ethernet1", "node-02", "0c42.a1f0.0004", 1),
            ],
        ),
        (
            "leaf-8-lldp.txt",
            XR,
            [
                ("leaf-8", "Gi0/0/0/0", "ASR-OCC-P1", "Gi0/0/0/2", 6),
                ("leaf-8", "FH0/0/0/3", "node-07", "enp25s0np0", 7),
                ("leaf-8", "Gi1/0/2", "Polycom VVX 500", "0004.f2d1.2222", 8),
            ],
        ),
        (
            "x.txt",
            f"admin@leaf-9:~$ show lldp table\nCapability codes: (R) Router, (B) Bridge, (O) Other\n{SONIC}",
            [("leaf-9", "Ethernet0", "node-01", "enp25s0np0", 5)],
        ),
    ],
    ids=["eos", "nxos", "junos", "sonic", "cumulus", "eos-detail", "eos-detail of hosts", "xr", "sonic's prompt"],
)
def test_tables_of_neighbours(name: str, text: str, expected: list[tuple[object, ...]]) -> None:
    assert sniff(name, text.encode()) == "lldp_text"
    decoded = sniffed(name, text)
    assert pick(rows(decoded, "ports"), *CABLE) == expected
    assert {row["basis"] for row in rows(decoded, "ports")} == {"lldp"}


def test_a_table_of_an_unknown_switch_gives_a_note() -> None:
    decoded = sniffed("neighbors.txt", JUNOS)
    assert decoded.tables == {}
    assert len(decoded.notes) == 1
    assert pick(rows(sniffed("neighbors.txt", JUNOS, host="leaf-9"), "ports"), "switch") == [("leaf-9",), ("leaf-9",)]


def test_a_log_that_shows_a_table_stays_a_log() -> None:
    log = "2026 Jan  2 03:04:05 leaf-1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/1 is down\n" * 3
    assert sniff("leaf-1.log", (log + NXOS).encode()) is None
    assert sniff("leaf-1.txt", (JUNOS + "something else entirely\n" * 20).encode()) is None


def keyed(local: str, system: str, port: str) -> str:
    body = {local: {"via": "LLDP", "chassis": {system: {"id": {"value": "aa"}}}, "port": {"id": {"value": port}}}}
    return json.dumps({"lldp": {"interface": [body]}}, indent=1)


def test_json_of_a_switch_and_of_a_host() -> None:
    switch = sniffed("leaf-1.lldp.json", keyed("Ethernet0", "node-01", "enp25s0np0"))
    assert pick(rows(switch, "ports"), *CABLE) == [("leaf-1", "Ethernet0", "node-01", "enp25s0np0", 5)]
    host = sniffed("node-01/lldpctl.json", keyed("enp25s0np0", "leaf-1", "Ethernet0"), host="node-01")
    assert pick(rows(host, "ports"), *CABLE) == [("leaf-1", "Ethernet0", "node-01", "enp25s0np0", 5)]


def test_json_as_a_dictionary_of_interfaces() -> None:
    body = {"chassis": {"id": {"value": "aa"}, "node-02": {}}, "port": {"id": {"value": "ens1"}}}
    text = json.dumps({"lldp": {"interface": {"swp1": body}}})
    assert pick(rows(sniffed("leaf-1-lldp.json", text), "ports"), *CABLE) == [("leaf-1", "swp1", "node-02", "ens1", 1)]


def test_json_where_everything_is_a_list() -> None:
    def interface(local: str, system: str) -> dict[str, object]:
        chassis = [{"name": [{"value": system}]}]
        port = [{"id": [{"type": "ifname", "value": "enp17s0np0"}]}]
        return {"interface": [{"name": local, "via": "LLDP", "chassis": chassis, "port": port}]}

    text = json.dumps({"lldp": [interface("Ethernet16", "node-03"), interface("Ethernet24", "node-04")]})
    found = rows(sniffed("leaf-1b.lldp.json", text), "ports")
    assert pick(found, *CABLE[:4]) == [
        ("leaf-1b", "Ethernet16", "node-03", "enp17s0np0"),
        ("leaf-1b", "Ethernet24", "node-04", "enp17s0np0"),
    ]


@pytest.mark.parametrize("text", ['{"lldp":', '{"lldp": 3}', '{"lldp": {"interface": [[1], {"a": {"chassis": [3]}}]}}'])
def test_odd_json_never_raises(text: str) -> None:
    assert run("lldp_json", "leaf-1-lldp.json", text).tables == {}


IBNETDISCOVER = """#
# Topology file: generated on Mon Jun 29 14:15:10 2026
#

vendid=0x2c9
devid=0xd2f2
sysimgguid=0xfc6a1c03006f0080
switchguid=0xfc6a1c03006f0080(fc6a1c03006f0080)
Switch\t64 "S-fc6a1c03006f0080"\t\t# "MF0;leaf-1a:MQM9700/U1" enhanced port 0 lid 4008 lmc 0
[1]\t"H-b8599f036f000000"[1](b8599f036f000000) \t\t# "node-04 mlx5_0" lid 2 4xNDR
[2]\t"H-b8599f036f000100"[1](b8599f036f000100) \t\t# "Mellanox Technologies Aggregation Node" lid 10 4xNDR
[33]\t"S-fc6a1c03006f0090"[5]\t\t# "spine-1" lid 4009 4xNDR

vendid=0x2c9
caguid=0xb8599f036f000000
Ca\t1 "H-b8599f036f000000"\t\t# "node-04 mlx5_0"
[1](b8599f036f000000) \t"S-fc6a1c03006f0080"[1]\t\t# lid 2 lmc 0 "MF0;leaf-1a:MQM9700/U1" lid 4008 4xNDR

caguid=0xb8599f036f000200
Ca\t1 "H-b8599f036f000200"\t\t# "node-05 HCA-1"
[1](b8599f036f000200) \t"S-fc6a1c03006f00a0"[7]\t\t# lid 3 lmc 0 "leaf-1c" lid 4010 4xNDR
"""


def test_ibnetdiscover() -> None:
    decoded = sniffed("ibnetdiscover.txt", IBNETDISCOVER)
    assert pick(rows(decoded, "ports"), *CABLE) == [
        ("leaf-1a", "1", "node-04", "mlx5_0", 10),
        ("leaf-1a", "33", "spine-1", "5", 12),
        ("leaf-1c", "7", "node-05", "HCA-1", 21),
    ]
    assert decoded.notes == ["1 links to or from devices without a name of their own"]


IBLINKINFO = """CA: node-04 mlx5_0:
      0xb8599f036f000000      2    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>    4008    1[  ] "leaf-1a" ( )
Switch: 0xfc6a1c03006f0080 leaf-1a:
        4008    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       2    1[  ] "node-04 mlx5_0" ( )
        4008    2[  ] ==( 1X      106.25 Gbps Active/  LinkUp)==>       9    1[  ] "node-05 mlx5_0" ( Could be 4X )
        4008    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
        4008   33[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>    4009    5[  ] "spine-1" ( )
"""


def test_iblinkinfo() -> None:
    assert pick(rows(sniffed("iblinkinfo.txt", IBLINKINFO), "ports"), *CABLE) == [
        ("leaf-1a", "1", "node-04", "mlx5_0", 4),
        ("leaf-1a", "2", "node-05", "mlx5_0", 5),
        ("leaf-1a", "33", "spine-1", "5", 7),
    ]


def test_iblinkinfo_by_line() -> None:
    text = '0xfc6a1c03006f0080 "leaf-1a"    4008    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  0xb8599f036f000000      2    1[  ] "node-04 mlx5_0" ( )\n'
    assert pick(rows(sniffed("links.txt", text), "ports"), *CABLE) == [("leaf-1a", "1", "node-04", "mlx5_0", 1)]


def test_names_of_guids() -> None:
    decoded = sniffed("node-name-map", '# names\n0xFC6A1C03006F0080 "leaf-1a"\n0xfc6a1c03006f0090\t"leaf-1b" # row 2\n')
    assert pick(rows(decoded, "facts"), "fact", "guid", "value", "line") == [
        ("fabric.name", "0xfc6a1c03006f0080", "leaf-1a", 2),
        ("fabric.name", "0xfc6a1c03006f0090", "leaf-1b", 3),
    ]


def test_planned_cables_of_ufm() -> None:
    text = (
        "#StartDevice,StartPort,EndDevice,EndPort,LinkType\n"
        "node-17,node-17 ibp11s0f0,leaf-3,Port 1, Data\n"
        "leaf-3,Port 33,spine-1,Port 5, Data\n"
        "node-18\n"
    )
    decoded = sniffed("cables.ndt", text)
    assert pick(rows(decoded, "ports"), *CABLE) == [
        ("leaf-3", "1", "node-17", "ibp11s0f0", 2),
        ("leaf-3", "33", "spine-1", "5", 3),
        ("spine-1", "5", "leaf-3", "33", 3),
    ]
    assert decoded.notes == ["1 rows with too few fields"]
