"""RDMA devices: ibdev2netdev, rdma, show_gids, mst."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

NIC = ("host", "dev", "ifname", "pci", "guid", "line")

PLAIN = "mlx5_0 port 1 ==> enp26s0np0 (Up)\nmlx5_1 port 1 ==> ib1 (Down)\n"
# Spellings of boards out of public guides; without a board name, with blanks in the state, with LNet's network behind.
VERBOSE = """0000:01:00.0 mlx5_0 (MT4123 - MCX653105A-HDAT) ConnectX-6 VPI adapter card, HDR IB (200Gb/s) and 200GbE, single-port QSFP56 fw 20.28.1002 port 1 (ACTIVE) ==> p5p1 (Up)
0000:02:00.5 mlx5_2 (MT4116 - NA)  fw 12.23.1020 port 1 (DOWN  ) ==> enp2s0f2 (Down)
0000:b8:00.1 mlx5_13 (MT4123 - MCX653106A-ECAT) ConnectX-6 VPI adapter card, 100Gb/s (HDR100, EDR IB and 100GbE), dual-port QSFP56 fw 20.26.4012 port 1 (ACTIVE) ==> ib4 (Up) (o2ib)
0000:5e:00.0 mlx5_5 (MT4121 - 7359059    ) CX556A - ConnectX-5 QSFP28 fw 16.23.1020 port 1 (ACTIVE) ==> enp94s0f0 (Up)
"""


def test_ibdev2netdev() -> None:
    assert sniff("node-07/ibdev2netdev.txt", PLAIN.encode()) == "ibdev2netdev"
    assert pick(rows(sniffed("x.txt", PLAIN, host="node-07"), "nics"), *NIC[:4]) == [
        ("node-07", "mlx5_0", "enp26s0np0", None),
        ("node-07", "mlx5_1", "ib1", None),
    ]


def test_ibdev2netdev_at_length() -> None:
    decoded = sniffed("x.txt", VERBOSE)
    assert pick(rows(decoded, "nics"), "dev", "ifname", "pci", "line") == [
        ("mlx5_0", "p5p1", "0000:01:00.0", 1),
        ("mlx5_2", "enp2s0f2", "0000:02:00.5", 2),
        ("mlx5_13", "ib4", "0000:b8:00.1", 3),
        ("mlx5_5", "enp94s0f0", "0000:5e:00.0", 4),
    ]
    assert pick(rows(decoded, "facts"), "fact", "dev", "port", "status") == [
        ("nic.port", "mlx5_0", "1", "ACTIVE"),
        ("nic.port", "mlx5_2", "1", "DOWN"),
        ("nic.port", "mlx5_13", "1", "ACTIVE"),
        ("nic.port", "mlx5_5", "1", "ACTIVE"),
    ]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (f"root@ubuntu-17:/home/ubuntu# ibdev2netdev\n{PLAIN}", ["ubuntu-17", "ubuntu-17"]),
        (f"[root@node-08 ~]# ibdev2netdev\n{PLAIN}[root@node-08 ~]# \n", ["node-08", "node-08"]),
        (f"root@0123456789ab:/workspace# ibdev2netdev\n{PLAIN}", ["node-07", "node-07"]),
        (
            "".join(f"node-{n}: {line}\n" for n in (1, 2) for line in PLAIN.splitlines()),
            ["node-1"] * 2 + ["node-2"] * 2,
        ),
        (f"--------------\nnode-3\n--------------\n{PLAIN}", ["node-3", "node-3"]),
        (f"node-4 | CHANGED | rc=0 >>\n{PLAIN}\nnode-5 | CHANGED | rc=0 >>\n{PLAIN}", ["node-4"] * 2 + ["node-5"] * 2),
        (f"=== ibdev2netdev ===\n{PLAIN}", ["node-07", "node-07"]),
    ],
    ids=["prompt", "bracketed prompt", "container", "pdsh", "dshbak", "ansible", "heading"],
)
def test_whose_output_it_is(text: str, hosts: list[str]) -> None:
    assert sniff("out.txt", text.encode()) == "ibdev2netdev"
    decoded = sniffed("out.txt", text, host="node-07")
    assert [row["host"] for row in rows(decoded, "nics")] == hosts
    assert decoded.notes == []


def test_a_log_with_such_lines_stays_a_log() -> None:
    log = "Nov 29 12:44:47 node-1 kernel: mlx5_core 0000:9c:00.0: Port module event\n"
    assert sniff("x.log", (PLAIN + log).encode()) is None
    assert sniff("x.log", (log + PLAIN).encode()) is None


LINK = """link mlx5_0/1 state DOWN physical_state DISABLED netdev ens7f0np0
link mlx5_1/1: state ACTIVE physical_state LINK_UP netdev ens7f1np1
8/1: mlx5_bond_0/1: state ACTIVE physical_state LINK_UP netdev reth0
link ibp23s0/1 subnet_prefix fe80:0000:0000:0000 lid 2 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP
"""
DEVICES = "0: mlx5_0: node_type ca fw 16.35.2000 node_guid 7cfe:9003:0029:6d8e sys_image_guid 7cfe:9003:0029:6d8e\n"


def test_rdma_link_and_dev() -> None:
    decoded = sniffed("rdma_link.txt", LINK)
    assert pick(rows(decoded, "nics"), *NIC[1:3]) == [
        ("mlx5_0", "ens7f0np0"),
        ("mlx5_1", "ens7f1np1"),
        ("mlx5_bond_0", "reth0"),
        ("ibp23s0", None),
    ]
    assert pick(rows(decoded, "facts"), "dev", "port", "status", "value", "ifname") == [
        ("mlx5_0", "1", "DOWN", "DISABLED", "ens7f0np0"),
        ("mlx5_1", "1", "ACTIVE", "LINK_UP", "ens7f1np1"),
        ("mlx5_bond_0", "1", "ACTIVE", "LINK_UP", "reth0"),
        ("ibp23s0", "1", "ACTIVE", "LINK_UP", None),
    ]
    assert pick(rows(sniffed("rdma.txt", DEVICES), "nics"), "dev", "guid") == [("mlx5_0", "0x7cfe900300296d8e")]


def test_rdma_json() -> None:
    new = '[{"ifindex":1,"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"ens1f0","netdev_index":4}]'
    old = '[\n{"ifindex":1,"port":1,"ifname":"mlx5_0/1","state":"DOWN",\n"physical_state":"POLLING"}]'
    device = '[{"ifindex":0,"ifname":"mlx5_0","node_type":"ca","fw":"16","node_guid":"7cfe:9003:0029:6d8e","sys_image_guid":"7cfe:9003:0029:6d8e"}]'
    assert pick(rows(sniffed("a", new), "nics"), *NIC[1:3]) == [("mlx5_0", "ens1f0")]
    decoded = sniffed("a", old)
    assert pick(rows(decoded, "nics"), "dev", "line") == [("mlx5_0", 2)]
    assert pick(rows(decoded, "facts"), "port", "status", "value") == [("1", "DOWN", "POLLING")]
    assert pick(rows(sniffed("a", device), "nics"), "guid") == [("0x7cfe900300296d8e",)]
    cut = run("rdma_link_json", "a", new[:-9])
    assert cut.tables == {}
    assert len(cut.notes) == 1


GIDS = (
    "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
    "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    "mlx5_0\t1\t0\tfe80:0000:0000:0000:0ac0:ebff:fe2c:5a10\t\t\tv1\tens1f0np0\n"
    "mlx5_0\t1\t2\t0000:0000:0000:0000:0000:ffff:0a00:0107\t10.0.1.7  \tv1\tens1f0np0\n"
    "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0107\t10.0.1.7  \tv2\tens1f0np0\n"
    "mlx5_1\t1\t0\tfe80:0000:0000:0000:b859:9f03:006f:0000\t\t\t\t\n"
    "n_gids_found=4\n"
)


def test_show_gids() -> None:
    decoded = sniffed("show_gids", GIDS, host="node-07")
    assert pick(rows(decoded, "nics"), "dev", "ifname", "guid") == [
        ("mlx5_0", "ens1f0np0", None),
        ("mlx5_1", None, "0xb8599f03006f0000"),
    ]
    assert pick(rows(decoded, "addresses"), "address", "host", "ifname") == [
        ("fe80::ac0:ebff:fe2c:5a10", "node-07", "ens1f0np0"),
        ("10.0.1.7", "node-07", "ens1f0np0"),
        ("fe80::b859:9f03:6f:0", "node-07", None),
    ]


MST = """MST modules:
------------
    MST PCI module is not loaded
    MST PCI configuration module loaded
PCI devices:
------------
DEVICE_TYPE             MST                           PCI             RDMA            NET                       NUMA
ConnectX4(rev:0)        /dev/mst/mt4115_pciconf0.1    0004:01:00.1    mlx5_1          net-ib1                   1
.
ConnectX6(rev:0)        NA                            37:00.0         mlx5_0          net-ib0                   0
ConnectX2(rev:b0)       /dev/mst/mt26428_pciconf0
ConnectX4(rev:0)        mt4115_pciconf0               03:00.0                         net-vmnic4
"""


def test_mst_status() -> None:
    assert pick(rows(sniffed("mst.txt", MST), "nics"), "dev", "ifname", "pci", "line") == [
        ("mlx5_1", "ib1", "0004:01:00.1", 8),
        ("mlx5_0", "ib0", "0000:37:00.0", 10),
        (None, "vmnic4", "0000:03:00.0", 12),
    ]
