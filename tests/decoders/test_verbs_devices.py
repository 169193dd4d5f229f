"""ibstat, ibstatus, ibv_devinfo: GUIDs and states of ports."""

from __future__ import annotations

from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0xb8599f03006f0000
\tSystem image GUID: 0xb8599f03006f0000
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 17
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0xb8599f03006f0001
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4119
\tNumber of ports: 1
\tFirmware version: 16.35.2000
\tHardware version: 0
\tNode GUID: 0x7cfe900300296d8e
\tSystem image GUID: 0x7cfe900300296d8e
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 40
\t\tBase lid: 0
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0x00010000
\t\tPort GUID: 0x7efe90fffe296d8e
\t\tLink layer: Ethernet
"""
PORT = ("dev", "port", "status", "value", "guid", "lid", "line")


def test_ibstat() -> None:
    decoded = sniffed("ibstat.txt", IBSTAT, host="node-07")
    assert pick(rows(decoded, "nics"), "host", "dev", "guid", "line") == [
        ("node-07", "mlx5_0", "0xb8599f03006f0000", 1),
        ("node-07", "mlx5_1", "0x7cfe900300296d8e", 18),
    ]
    assert pick(rows(decoded, "facts"), *PORT) == [
        ("mlx5_0", "1", "Active", "LinkUp", "0xb8599f03006f0001", 17, 9),
        ("mlx5_1", "1", "Down", "Disabled", "0x7efe90fffe296d8e", 0, 26),
    ]


IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:b859:9f03:006f:0001
\tbase lid:\t 0x11
\tsm lid:\t\t 0x1
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand

Infiniband device 'mlx5_1' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:7efe:90ff:fe29:6d8e
\tbase lid:\t 0x0
\tsm lid:\t\t 0x0
\tstate:\t\t 1: DOWN
\tphys state:\t 3: Disabled
\trate:\t\t 40 Gb/sec (4X QDR)
\tlink_layer:\t Ethernet
"""


def test_ibstatus() -> None:
    decoded = sniffed("ibstatus.txt", IBSTATUS)
    assert pick(rows(decoded, "nics"), "dev", "guid", "line") == [
        ("mlx5_0", "0xb8599f03006f0001", 1),
        ("mlx5_1", None, 10),
    ]
    assert pick(rows(decoded, "facts"), *PORT[:4], "lid") == [
        ("mlx5_0", "1", "ACTIVE", "LinkUp", 17),
        ("mlx5_1", "1", "DOWN", "Disabled", 0),
    ]


def test_ibstatus_without_devices_says_nothing() -> None:
    text = "[root@node045 ~]# ibstatus\nFatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)\n"
    assert sniff("host-ibstatus-node045.log", text.encode()) is None
    assert run("ibstatus", "x", text).tables == {}


DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.39.1002
\tnode_guid:\t\t\tb859:9f03:006f:0000
\tsys_image_guid:\t\t\tb859:9f03:006f:0000
\tvendor_id:\t\t\t0x02c9
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tsm_lid:\t\t\t1
\t\t\tport_lid:\t\t17
\t\t\tlink_layer:\t\tEthernet
\t\t\tGID[  0]:\t\tfe80::ac0:ebff:fe2c:5a10, RoCE v1
\t\t\tGID[  1]:\t\t::ffff:10.0.1.7, RoCE v2

hca_id:\tmlx5_1
\tnode_guid:\t\t\t7cfe:9003:0029:6d8e
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_DOWN (1)
"""


def test_ibv_devinfo() -> None:
    decoded = sniffed("ibv_devinfo.txt", DEVINFO)
    assert pick(rows(decoded, "nics"), "dev", "guid") == [
        ("mlx5_0", "0xb8599f03006f0000"),
        ("mlx5_1", "0x7cfe900300296d8e"),
    ]
    assert pick(rows(decoded, "facts"), "dev", "port", "status", "lid") == [
        ("mlx5_0", "1", "ACTIVE", 17),
        ("mlx5_1", "1", "DOWN", None),
    ]
    assert pick(rows(decoded, "addresses"), "address") == [("fe80::ac0:ebff:fe2c:5a10",), ("10.0.1.7",)]
