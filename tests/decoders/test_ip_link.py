"""Interfaces and addresses: ip, ifconfig, ethtool -i."""

from __future__ import annotations

import json

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

NIC = ("ifname", "mac", "guid", "line")
ADDRESS = ("address", "ifname", "line")

# networktocode/ntc-templates tests/linux/ip_address_show, with an IPoIB interface and a bond's member as iproute2 prints them.
IP = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: ens32: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq_codel state UP group default qlen 1000
    link/ether 00:0c:29:56:07:1b brd ff:ff:ff:ff:ff:ff
    altname enp2s0
    inet 192.168.131.128/24 brd 192.168.131.255 scope global dynamic ens32
       valid_lft 1307sec preferred_lft 1307sec
    inet6 fe80::20c:29ff:fe56:71b/64 scope link
       valid_lft forever preferred_lft forever
4: br-218f5e637867: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default
    link/ether 02:42:5d:d7:c2:c1 brd ff:ff:ff:ff:ff:ff
    inet 172.21.0.1/16 brd 172.21.255.255 scope global br-218f5e637867
7: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP group default qlen 256
    link/infiniband 00:00:10:29:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:6f:00:01 brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff
    inet 10.10.0.7/16 brd 10.10.255.255 scope global ib0
8: ib0.8002@ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc noqueue state UP group default qlen 1000
    link/infiniband 00:00:10:2a:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:6f:00:01 brd 00:ff:ff:ff:ff:12:40:1b:80:02:00:00:00:00:00:00:ff:ff:ff:ff
    inet 10.11.0.7/16 scope global ib0.8002
9: ens1f0: <BROADCAST,MULTICAST,SLAVE,UP,LOWER_UP> mtu 9000 qdisc mq master bond0 state UP group default qlen 1000
    link/ether 0c:42:a1:00:00:01 brd ff:ff:ff:ff:ff:ff permaddr 0c:42:a1:00:00:02
10: usb0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq_codel state UNKNOWN group default qlen 1000
    link/ether be:3a:f2:b6:05:9f brd ff:ff:ff:ff:ff:ff
    inet 169.254.3.1/24 brd 169.254.3.255 scope link usb0
"""


def test_ip_address() -> None:
    assert sniff("node-07/ip_addr.txt", IP.encode()) == "ip_address"
    decoded = sniffed("x", IP, host="node-07")
    assert pick(rows(decoded, "nics"), *NIC) == [
        ("ens32", "00:0c:29:56:07:1b", None, 5),
        ("ib0", None, "0xb8599f03006f0001", 15),
        ("ens1f0", "0c:42:a1:00:00:02", None, 21),
        ("usb0", "be:3a:f2:b6:05:9f", None, 23),
    ]
    assert pick(rows(decoded, "addresses"), *ADDRESS) == [
        ("192.168.131.128", "ens32", 8),
        ("fe80::20c:29ff:fe56:71b", "ens32", 10),
        ("10.10.0.7", "ib0", 17),
        ("10.11.0.7", "ib0.8002", 20),
    ]
    assert {row["host"] for row in rows(decoded, "nics")} == {"node-07"}
    assert decoded.notes == []


def test_ip_in_one_line_each() -> None:
    links = (
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000\\    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n"
        "3: enp8s0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq_codel state UP mode DEFAULT group default qlen 1000\\    link/ether 52:54:00:e5:11:d4 brd ff:ff:ff:ff:ff:ff\n"
    )
    assert pick(rows(sniffed("ip_-o_link", links), "nics"), *NIC) == [("enp8s0", "52:54:00:e5:11:d4", None, 2)]
    addresses = (
        "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever\n"
        "3: enp8s0    inet 10.0.0.7/24 brd 10.0.0.255 scope global enp8s0\\       valid_lft forever preferred_lft forever\n"
    )
    assert pick(rows(sniffed("ip_-o_addr", addresses), "addresses"), *ADDRESS) == [("10.0.0.7", "enp8s0", 2)]


def test_ip_in_short() -> None:
    addresses = (
        "lo               UNKNOWN        127.0.0.1/8 ::1/128 \n"
        "ens1f0           UP             10.0.0.7/24 metric 100 fe80::20c:29ff:fe56:71b/64 \n"
        "docker0          DOWN           172.17.0.1/16 \n"
        "eth0@if12        UP             10.244.1.5/24 \n"
    )
    decoded = sniffed("x", addresses)
    assert pick(rows(decoded, "addresses"), *ADDRESS) == [
        ("10.0.0.7", "ens1f0", 2),
        ("fe80::20c:29ff:fe56:71b", "ens1f0", 2),
        ("10.244.1.5", "eth0", 4),
    ]
    assert pick(rows(decoded, "nics"), "ifname") == [("ens1f0",)]
    links = (
        "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n"
        "ens1f0           UP             00:0c:29:56:07:1b <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
    )
    assert pick(rows(sniffed("x", links), "nics"), "ifname", "mac") == [("ens1f0", "00:0c:29:56:07:1b")]


NEW = """eno1: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500
        inet 10.0.0.7  netmask 255.255.255.0  broadcast 10.0.0.255
        inet6 fe80::20c:29ff:fe56:71b  prefixlen 64  scopeid 0x20<link>
        ether 00:0c:29:56:07:1b  txqueuelen 1000  (Ethernet)
        RX packets 11  bytes 1088 (1.0 KiB)
ib4: flags=4163<UP,BROADCAST,RUNNING,MULTICAST> mtu 2044
inet 192.168.1.73 netmask 255.255.255.0 broadcast 192.168.1.255
"""
OLD = """ib0       Link encap:InfiniBand  HWaddr A0:00:02:20:FE:80:00:00:00:00:00:00:00:00:00:00:00:00:00:00
          inet addr:10.137.25.3  Bcast:10.137.255.255  Mask:255.255.0.0
          inet6 addr: fe80::202:c903:50:6191/64 Scope:Link
          UP BROADCAST RUNNING MULTICAST  MTU:65520  Metric:1
eth0:1    Link encap:Ethernet  HWaddr 00:0C:29:56:07:1B
          inet addr:10.0.0.8  Bcast:10.0.0.255  Mask:255.255.255.0
lo        Link encap:Local Loopback
          inet addr:127.0.0.1  Mask:255.0.0.0
"""


def test_ifconfig() -> None:
    decoded = run("ifconfig", "x", NEW)
    assert sniff("x", NEW.rsplit("ib4", 1)[0].encode()) == "ifconfig"
    assert pick(rows(decoded, "nics"), *NIC[:2]) == [("eno1", "00:0c:29:56:07:1b"), ("ib4", None)]
    assert pick(rows(decoded, "addresses"), *ADDRESS) == [
        ("10.0.0.7", "eno1", 2),
        ("fe80::20c:29ff:fe56:71b", "eno1", 3),
    ]


def test_ifconfig_of_old() -> None:
    decoded = sniffed("x", OLD)
    assert pick(rows(decoded, "nics"), *NIC[:3]) == [("ib0", None, None)]
    assert pick(rows(decoded, "addresses"), *ADDRESS) == [
        ("10.137.25.3", "ib0", 2),
        ("fe80::202:c903:50:6191", "ib0", 3),
        ("10.0.0.8", "eth0", 6),
    ]


DRIVER = """driver: mlx5_core
version: 5.15.0-91-generic
firmware-version: 28.39.1002 (MT_0000000838)
expansion-rom-version:
bus-info: 0000:1a:00.0
supports-statistics: yes
supports-test: yes
supports-eeprom-access: no
supports-register-dump: no
supports-priv-flags: yes
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sos_commands/networking/ethtool_-i_ens1f0np0", DRIVER, [("ens1f0np0", "0000:1a:00.0")]),
        ("x.txt", f"root@node-1:~# ethtool -i ib0\n{DRIVER}", [("ib0", "0000:1a:00.0")]),
        (
            "x.txt",
            f"$ ethtool -i ib0\n{DRIVER}$ ethtool -i ib1\n{DRIVER.replace('1a:', '2b:')}",
            [("ib0", "0000:1a:00.0"), ("ib1", "0000:2b:00.0")],
        ),
    ],
)
def test_ethtool_driver(name: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert sniff(name, text.encode()) == "ethtool_driver"
    assert pick(rows(sniffed(name, text), "nics"), "ifname", "pci") == expected


def test_ethtool_driver_of_nobody() -> None:
    assert run("ethtool_driver", "x.txt", DRIVER).tables == {}
    assert run("ethtool_driver", "ethtool_-i_bond0", DRIVER.replace("0000:1a:00.0", "")).tables == {}


def test_ip_json() -> None:
    document = [
        {"ifindex": 1, "ifname": "lo", "flags": ["LOOPBACK"], "link_type": "loopback", "address": "00:00:00:00:00:00"},
        {
            "ifindex": 2, "ifname": "ib0", "flags": ["UP"], "link_type": "infiniband",
            "address": "00:00:10:29:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:6f:00:01",
            "addr_info": [{"family": "inet", "local": "10.10.0.7", "prefixlen": 16, "scope": "global", "label": "ib0"}],
        },
        {
            "ifindex": 3, "link": "ens1f0", "ifname": "ens1f0.100", "flags": ["UP"], "link_type": "ether", "address": "0c:42:a1:00:00:01",
            "addr_info": [{"family": "inet", "local": "10.20.0.7"}, 3],
        },
        {"ifindex": 4, "ifname": "ens1f0", "flags": ["UP"], "link_type": "ether", "address": "0c:42:a1:00:00:01", "permaddr": "0c:42:a1:00:00:02"},
        {"ifindex": 5, "ifname": 7},
        9,
    ]  # fmt: skip
    text = json.dumps(document, indent=1)
    assert sniff("ip.json", text.encode()) == "ip_address_json"
    decoded = sniffed("ip.json", text, host="node-07")
    assert pick(rows(decoded, "nics"), *NIC[:3]) == [
        ("ib0", None, "0xb8599f03006f0001"),
        ("ens1f0", "0c:42:a1:00:00:02", None),
    ]
    assert pick(rows(decoded, "addresses"), "address", "ifname", "host") == [
        ("10.10.0.7", "ib0", "node-07"),
        ("10.20.0.7", "ens1f0.100", "node-07"),
    ]
    line = next(n for n, t in enumerate(text.split("\n"), 1) if '"ifname": "ib0"' in t)
    assert rows(decoded, "nics")[0]["line"] == line
    cut = run("ip_address_json", "ip.json", text[:-20])
    assert cut.tables == {}
    assert cut.notes == ["JSON of ip, cut off or damaged"]


def test_counters_are_read_by_others() -> None:
    text = "2: ens1: <UP> mtu 1500 qdisc mq state UP\n    link/ether 00:0c:29:56:07:1b brd ff:ff:ff:ff:ff:ff\n    RX: bytes  packets  errors  dropped overrun mcast\n    10 2 0 0 0 0\n    TX: bytes  packets  errors  dropped carrier collsns\n    10 2 0 0 0 0\n"
    assert sniff("ip_-s_link", text.encode()) == "ip_link_statistics"
