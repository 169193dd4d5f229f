"""Descriptions of a switch's ports: which name a machine, and which do not."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff
from postmortem.decoders.fabric.interface_descriptions import described_end

CABLE = ("switch", "port", "host", "dev", "line")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("to node-07 mlx5_3", ("node-07", "mlx5_3")),
        ("node-07:ens1f0", ("node-07", "ens1f0")),
        ("GPU-NODE-07_p3", ("GPU-NODE-07", "p3")),
        ("** h200-0017 | enp25s0np0 | rack 12 **", ("h200-0017", "enp25s0np0")),
        ("DL-node-12-port1", ("DL-node-12", "port1")),
        ("to_gpu-node-12_eth1", ("gpu-node-12", "eth1")),
        ("host=node12 port=mlx5_0", ("node12", "mlx5_0")),
        ("sv07 nic2", ("sv07", "nic2")),
        ("sv07 sv08 nic2", None),
        ("sv07", None),
        ("node-07", ("node-07", None)),
        ("gpu-node-12.example.com ib0", ("gpu-node-12.example.com", "ib0")),
        ("spine-1 Ethernet49/1", ("spine-1", "Ethernet49/1")),
        ("node-07 to node-08", None),
        ("ThiS iS a TeSt DeScriPtiON", None),
        ("MLAG peer link", None),
        ("10.20.99.0_Switch_mgmt_VLAN", None),
        ("VLAN100", None),
        ("rack12", None),
        ("Ligacao | 10G | 10G/061 | (ten0/4/0/1/0)", None),
        ("uplink2", None),
        ("", None),
    ],
)
def test_what_a_description_names(text: str, end: tuple[str, str | None] | None) -> None:
    assert described_end(text) == end


EOS = """Interface                      Status         Protocol           Description
Et1                            admin down     down               ThiS iS a TeSt DeScriPtiON
Et2/1                          up             up                 to node-07 mlx5_3
Et9.999                        down           lowerlayerdown
Et14                           down           notpresent
Ma1                            down           down               Management
Po101                          up             up                 h200-0017
"""
NXOS = """leaf-2# show interface description

-------------------------------------------------------------------------------
Interface                Description
-------------------------------------------------------------------------------
mgmt0                    --

-------------------------------------------------------------------------------
Port          Type   Speed   Description
-------------------------------------------------------------------------------
Eth4/1        eth    10G     --
Eth4/3        eth    400G    node-07:ens1f0
Eth4/4        eth    10G     This is a test description
"""
XR = """Tue Sep 24 10:49:25.293 BRA

Interface          Status      Protocol    Description
--------------------------------------------------------------------------------
BE100              up          up          Ligacao -SAT01 | 10G | (satellite100)
Nu0                up          up
Gi100/0/0/0.150012 admin-down  admin-down  ADMIN DOWN
FH0/0/0/2          up          up          GPU-NODE-07_p3
"""
JUNOS = """Interface       Admin Link Description
et-0/0/0        up    up   node-07 mlx5_0
et-0/0/1        up    down spare
"""
SONIC = """admin@leaf-5:~$ show interfaces description
  Interface    Oper    Admin            Alias           Description
-----------  ------  -------  ---------------  --------------------
  Ethernet0    down       up   hundredGigE1/1      node-07:ens1f0
  Ethernet8    down     down   hundredGigE1/3        hundredGigE1/3
"""
STATUS = """Port       Name                   Status       Vlan        Duplex  Speed Type
Et3/1/1    I am a 40G port !! Hi  connected    trunk       a-full  a-40G 40GBASE-CR4
Et3/1/4                           inactive     1           unconf unconf 40GBASE-CR4
Et3/2/1    node-07 mlx5_1         connected    1           a-full  a-400G 400GBASE-CR8
Et3/2/2    to GPU rail 1 node-07  connected    1           a-full  a-400G 400GBASE-CR8
"""
CONFIGURATION = """! device: leaf-6 (DCS-7060DX5-64S, EOS-4.31.2F)
!
hostname leaf-6
!
interface Ethernet1/17
   description node-07 mlx5_3
   mtu 9214
!
interface Ethernet1/18
   description "spare"
!
interface Management1
   ip address 10.0.0.1/24
router bgp 65001
   description node-08
"""
SET = 'set system host-name leaf-7\nset interfaces et-0/0/0 description "node-07 mlx5_0"\nset interfaces et-0/0/1 mtu 9216\n'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("leaf-1-show-interfaces-description.txt", EOS, [("leaf-1", "Et2/1", "node-07", "mlx5_3", 3), ("leaf-1", "Po101", "h200-0017", None, 7)]),
        ("x.txt", NXOS, [("leaf-2", "Eth4/3", "node-07", "ens1f0", 12)]),
        ("leaf-3_interfaces.txt", XR, [("leaf-3", "FH0/0/0/2", "GPU-NODE-07", "p3", 8)]),
        ("leaf-4-interfaces-descriptions.txt", JUNOS, [("leaf-4", "et-0/0/0", "node-07", "mlx5_0", 2)]),
        ("x.txt", SONIC, [("leaf-5", "Ethernet0", "node-07", "ens1f0", 4)]),
        ("leaf-8_show_int_status.txt", STATUS, [("leaf-8", "Et3/2/1", "node-07", "mlx5_1", 4)]),
        ("x.cfg", CONFIGURATION, [("leaf-6", "Ethernet1/17", "node-07", "mlx5_3", 6)]),
        ("x.conf", SET, [("leaf-7", "et-0/0/0", "node-07", "mlx5_0", 2)]),
    ],
    ids=["eos", "nxos", "xr", "junos", "sonic", "status", "configuration", "set"],
)  # fmt: skip
def test_ports(name: str, text: str, expected: list[tuple[object, ...]]) -> None:
    decoder = sniff(name, text.encode())
    assert decoder == ("switch_configuration" if name.startswith("x.c") else "interface_descriptions")
    decoded = sniffed(name, text)
    assert pick(rows(decoded, "ports"), *CABLE) == expected
    assert {row["basis"] for row in rows(decoded, "ports")} == {"description"}


def test_a_switch_without_a_name() -> None:
    decoded = sniffed("x.txt", JUNOS)
    assert decoded.tables == {}
    assert len(decoded.notes) == 1
    assert pick(rows(sniffed("x.txt", JUNOS, host="leaf-9"), "ports"), "switch") == [("leaf-9",)]


def test_logs_stay_logs() -> None:
    log = "Jan  2 03:04:05 leaf-1 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet1 (node-07 mlx5_3), changed state to down\n"
    for text in (EOS, CONFIGURATION):
        assert sniff("x.log", (log + text).encode()) is None
        assert sniff("x.log", (text + log * 20).encode()) is None
