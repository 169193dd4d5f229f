"""Counters of hosts: network interfaces, HCAs, sysfs, the network stack, metrics."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff
from postmortem.decoders.counters.base import MAX_COUNTERS, stated_time

# Seen in isc-projects/ethq#8 (mlx5) and #6 (bnx2x).
ETHTOOL = """NIC statistics:
     rx_packets: 845320277
     rx_crc_errors_phy: 7
     rx_symbol_err_phy: 0
     rx_prio3_pause: 0
     rx0_packets: 0
     rx0_bytes: 12
     ch0_events: 0
     tx-1.tx_packets: 0
     [0]: rx_bytes: 209487403324
     [0]: rx_discards: 0
     rxq0: rx_drops_no_frags: 3885606854
"""
# rdma-core perfquery.c; the values are those of a public reply.
PERFQUERY = """# Port counters: Lid 214 port 35 (CapMask: 0x1300)
PortSelect:......................35
CounterSelect:...................0x0000
SymbolErrorCounter:..............15
LinkErrorRecoveryCounter:........3
LinkDownedCounter:...............1
VL15Dropped:.....................0
PortXmitData:....................1234567890
"""
# A fabric of four nodes, linux-rdma mailing list.
IBQUERYERRORS = """Errors for 0x2c903006e29b0 "MF0;leaf-1:SX6036/U1"
   GUID 0x2c903006e29b0 port ALL: [LinkErrorRecoveryCounter == 15] [PortXmitWait == 4294967295]
   GUID 0x2c903006e29b0 port 5: [SymbolErrorCounter == 65535] [PortXmitData == 123456 (120.563KB)]
Errors for "node-02 mlx4_0"
   GUID 0xe41d2d0300e0bae2 port 2: [PortXmitWait == 1]

## Summary: 4 nodes checked, 4 bad nodes found
##          43 ports checked, 14 ports have errors beyond threshold
## Thresholds:
## Suppressed:
"""
RDMA = (
    "link mlx5_0/1 rx_write_requests 0 out_of_buffer 135 out_of_sequence 4 local_ack_timeout_err 2\n"
    "link mlx5_1/1 rx_write_requests 0 out_of_buffer 0 out_of_sequence 0 local_ack_timeout_err 0\n"
)
MLXLINK = (
    "\nOperational Info\n----------------\nState                              : Active\nPhysical state                     : LinkUp\n"
    "\nTroubleshooting Info\n--------------------\nStatus Opcode                      : 15\nGroup Opcode                       : PHY FW\n"
    "Recommendation                     : \x1b[31mBad signal integrity\x1b[0m\n"
    "\nPhysical Counters and BER Info\n------------------------------\nTime Since Last Clear [Min]        : 348349.5\n"
    "Effective Physical Errors          : 42\nEffective Physical BER             : \x1b[32m15E-255\x1b[0m\n"
    "Raw Physical Errors Per Lane       : 3946476397,5120336064\nLink Down Counter                  : 3\n"
    "\nModule Info\n-----------\nTemperature [C]                    : 54 [-5..75]\nVendor Serial Number               : X1\n"
)
IP_LINK = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    RX:  bytes packets errors dropped  missed   mcast
       1266896   10936      0       0       0       0
    TX:  bytes packets errors dropped carrier collsns
       1266896   10936      0       0       0       0
2: ens1f0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT group default qlen 1000
    link/ether 52:54:00:aa:bb:cc brd ff:ff:ff:ff:ff:ff
    RX:  bytes packets errors dropped  missed   mcast
    3172718142 8541041     11     260       0       5
    RX errors:  length    crc   frame    fifo overrun
                     0     11       0       0       0
    TX:  bytes packets errors dropped carrier collsns
    1046892178 3410029      0       0       2       0
    altname enp1s0f0
"""
PROC_NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1266896   10936    0    0    0     0          0         0  1266896   10936    0    0    0     0       0          0
  eth0: 3172718142 8541041    3  260    0     1          0         0 1046892178 3410029    0    0    0     0       2          0
"""
SYSFS = """/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors:3
/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:12
/sys/class/net/ens1f0/statistics/rx_crc_errors:1
/sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable:RxErr 4
/sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable:TOTAL_ERR_COR 4
/sys/devices/system/edac/mc/mc0/ce_count:2
"""
NSTAT = "#kernel\nIpInReceives                    3410029            0.0\nTcpRetransSegs                  1234               0.0\nTcpExtTCPTimeouts               9                  0.0\n"
SNMP = "Tcp: RtoAlgorithm ActiveOpens AttemptFails RetransSegs InErrs\nTcp: 1 3000 5 1234 0\nUdp: InDatagrams InErrors\nUdp: 77 2\n"
NETSTAT = """Ip:
    Forwarding: 1
    3410029 total packets received
    0 incoming packets discarded
Tcp:
    3000 active connection openings
    1234 segments retransmitted
TcpExt:
    TCPLostRetransmit: 5
    3 resets received for embryonic SYN_RECV sockets
"""
METRICS = """# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-f809e614",pci_bus_id="00000000:03:00.0",device="nvidia0",modelName="NVIDIA H100",Hostname="node-01",err_code="79",err_msg=""} 79
DCGM_FI_DEV_MEMORY_TEMP{gpu="1",UUID="GPU-b"} 9.223372036854776e+18
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b"} 83
# TYPE node_infiniband_port_errors_received_total counter
node_infiniband_port_errors_received_total{device="mlx5_0",port="1"} 3 1770138131000
node_network_receive_errs_total{device="eth0"} 11
"""


def test_the_interface_of_ethtool_comes_from_the_name_or_the_command() -> None:
    found = rows(sniffed("sos_commands/networking/ethtool_-S_ens1f0", ETHTOOL, host="node-01"), "counters")
    assert pick(found, "host", "ifname", "counter", "value", "line")[:2] == [
        ("node-01", "ens1f0", "rx_packets", 845320277.0, 2),
        ("node-01", "ens1f0", "rx_crc_errors_phy", 7.0, 3),
    ]
    for name in ("ethtool-S_eth0.txt", "node-01/eth0.ethtool-S", "ethtool_S_eth0_before.txt"):
        assert {r["ifname"] for r in rows(sniffed(name, ETHTOOL), "counters")} == {"eth0"}
    two = f"root@node-07:~# ethtool -S eth0\n{ETHTOOL}\nroot@node-07:~# ethtool -S ib1\n{ETHTOOL}"
    found = rows(sniffed("nics.txt", two), "counters")
    assert {(r["host"], r["ifname"]) for r in found} == {("node-07", "eth0"), ("node-07", "ib1")}
    assert {r["ifname"] for r in rows(sniffed("x.txt", ETHTOOL), "counters")} == {None}


def test_zeros_are_kept_but_those_of_queues() -> None:
    found = {r["counter"] for r in rows(sniffed("ethtool_S_eth0", ETHTOOL), "counters")}
    assert {"rx_symbol_err_phy", "rx_prio3_pause", "rx0_bytes", "[0]: rx_bytes"} <= found
    assert not {"rx0_packets", "ch0_events", "tx-1.tx_packets", "[0]: rx_discards"} & found


def test_a_time_that_is_stated_with_its_zone_is_that_of_the_readings_below() -> None:
    text = f"Tue Feb  3 17:02:11 CET 2026\n{ETHTOOL}\n2026-02-03T18:02:11+01:00\n{ETHTOOL}"
    found = [r for r in rows(sniffed("ethtool_S_eth0", text), "counters") if r["counter"] == "rx_packets"]
    assert [r["ts"] for r in found] == [datetime(2026, 2, 3, 16, 2, 11), datetime(2026, 2, 3, 17, 2, 11)]


@pytest.mark.parametrize(
    ("line", "when"),
    [
        ("Tue 03 Feb 2026 05:02:11 PM UTC", datetime(2026, 2, 3, 17, 2, 11)),
        ("=== 2026-02-03 17:02:11.250 +0000 ===", datetime(2026, 2, 3, 17, 2, 11, 250000)),
        ("# timestamp 1264494583.110014", datetime(2010, 1, 26, 8, 29, 43)),
        ("Tue Feb  3 17:02:11 CST 2026", None),
        ("2026-02-03 17:02:11", None),
        ("2026-02-03T99:02:11Z", None),
    ],
)
def test_stated_times(line: str, when: datetime | None) -> None:
    assert stated_time(line) == when


def test_perfquery_names_the_hca_or_the_lid() -> None:
    found = rows(sniffed("perfquery.txt", PERFQUERY), "counters")
    assert pick(found, "dev", "port", "counter", "value")[0] == ("lid 214", "35", "SymbolErrorCounter", 15.0)
    assert {"PortSelect", "CounterSelect"}.isdisjoint(r["counter"] for r in found)
    own = rows(sniffed("sos_commands/infiniband/perfquery_-C_mlx5_0_-P_1", PERFQUERY), "counters")
    assert pick(own, "dev", "port")[0] == ("mlx5_0", "35")
    extended = PERFQUERY.replace("Port counters: Lid 214", "Port extended counters: Lid 61")
    assert rows(sniffed("x", extended.replace("(CapMask: 0x1300)", "")), "counters")[0]["dev"] == "lid 61"
    asked = f"[root@node-03 ~]# perfquery -C mlx5_1 -x\n{PERFQUERY}"
    assert pick(rows(sniffed("x", asked), "counters"), "host", "dev")[0] == ("node-03", "mlx5_1")


def test_ibqueryerrors_tells_switches_from_hosts() -> None:
    decoded = sniffed("ibqueryerrors.txt", IBQUERYERRORS, host="head-1")
    assert pick(rows(decoded, "counters"), "host", "dev", "port", "counter", "value") == [
        ("leaf-1", "0x2c903006e29b0", "ALL", "LinkErrorRecoveryCounter", 15.0),
        ("leaf-1", "0x2c903006e29b0", "ALL", "PortXmitWait", 4294967295.0),
        ("leaf-1", "0x2c903006e29b0", "5", "SymbolErrorCounter", 65535.0),
        ("leaf-1", "0x2c903006e29b0", "5", "PortXmitData", 123456.0),
        ("node-02", "mlx4_0", "2", "PortXmitWait", 1.0),
    ]
    assert rows(decoded, "events") == []


def test_rdma_statistic_as_text_table_and_json() -> None:
    found = rows(sniffed("rdma.txt", RDMA), "counters")
    assert ("mlx5_0", "1", "out_of_sequence", 4.0) in pick(found, "dev", "port", "counter", "value")
    table = "link mlx5_0/1\n\trx_write_requests 0\n\tout_of_sequence 4\n"
    assert pick(rows(sniffed("rdma.txt", table), "counters"), "counter", "value", "line")[1] == (
        "out_of_sequence",
        4.0,
        3,
    )
    document = json.dumps([{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "rx_write_requests": 0, "out_of_sequence": 4}])
    found = rows(sniffed("rdma.json", document), "counters")
    assert pick(found, "dev", "port", "counter", "value") == [
        ("mlx5_0", "1", "rx_write_requests", 0.0),
        ("mlx5_0", "1", "out_of_sequence", 4.0),
    ]


def test_mlxlink_says_what_it_counts_and_what_it_recommends() -> None:
    decoded = sniffed("mlxlink_mlx5_0_counters.log", MLXLINK, host="node-01")
    found = {r["counter"]: r["value"] for r in rows(decoded, "counters")}
    assert found["Effective Physical Errors"] == 42
    assert found["Raw Physical Errors Per Lane lane 1"] == 5120336064
    assert found["Temperature [C]"] == 54
    assert "Vendor Serial Number" not in found
    (event,) = rows(decoded, "events")
    assert (event["event"], event["severity"], event["dev"], event["line"]) == ("link.errors", "warning", "mlx5_0", 11)


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        ("No issue was observed", []),
        ("No issue was observed.", []),
        ("The port is closed by command.", []),
        ("Cable is unplugged", []),
        ("Bus stuck (I2C Data or clock shorted)", ["optic.fault"]),
        ("Bad signal integrity", ["link.errors"]),
    ],
)
def test_only_what_is_certain_becomes_an_event(reason: str, events: list[str]) -> None:
    decoded = run("mlxlink", "mlxlink_mlx5_0", MLXLINK.replace("Bad signal integrity", reason))
    assert [r["event"] for r in rows(decoded, "events")] == events


def test_mlxlink_as_json() -> None:
    document = {
        "result": {
            "output": {
                "Troubleshooting Info": {"Status Opcode": "0", "Recommendation": "No issue was observed"},
                "Physical Counters and BER Info": {
                    "Effective Physical Errors": "0",
                    "Raw Physical Errors Per Lane": {"values": ["3", "4"]},
                },
            }
        },
        "status": {"code": 0, "message": "success"},
    }
    decoded = sniffed("mlxlink_mlx5_2.json", json.dumps(document, indent=1))
    assert pick(rows(decoded, "counters"), "dev", "counter", "value") == [
        ("mlx5_2", "Effective Physical Errors", 0.0),
        ("mlx5_2", "Raw Physical Errors Per Lane lane 0", 3.0),
        ("mlx5_2", "Raw Physical Errors Per Lane lane 1", 4.0),
    ]
    assert rows(decoded, "events") == []


def test_an_optic_that_is_too_hot_says_so_and_a_dark_one_does_not() -> None:
    # ethtool sff-common.c, qsfp.c
    text = (
        "\tIdentifier                                : 0x11 (QSFP28)\n"
        "\tModule temperature                        : 76.20 degrees C / 169.16 degrees F\n"
        "\tRcvr signal avg optical power(Channel 1)  : 0.0001 mW / -40.00 dBm\n"
        "\tRx power low alarm (Channel 1)            : On\n"
        "\tLaser rx power low alarm                  : On\n"
        "\tModule temperature high alarm             : On\n"
        "\tModule temperature high alarm threshold   : 75.00 degrees C / 167.00 degrees F\n"
    )
    decoded = sniffed("ethtool_-m_ens1f0", text)
    found = {r["counter"]: r["value"] for r in rows(decoded, "counters")}
    assert found["Module temperature [degrees C]"] == 76.2
    assert found["Rcvr signal avg optical power(Channel 1) [dBm]"] == -40.0
    assert "Module temperature high alarm threshold" not in str(list(found))
    assert pick(rows(decoded, "events"), "event", "ifname", "line") == [("optic.alarm", "ens1f0", 6)]


def test_ip_link_names_its_numbers_by_the_line_above() -> None:
    found = rows(sniffed("ip_-s_-s_link", IP_LINK), "counters")
    values = {(r["ifname"], r["counter"]): r["value"] for r in found}
    assert values["ens1f0", "RX errors"] == 11
    assert values["ens1f0", "RX errors crc"] == 11
    assert values["ens1f0", "TX carrier"] == 2
    document = json.dumps(
        [{"ifindex": 2, "ifname": "eth0", "stats64": {"rx": {"errors": 5}, "tx": {"carrier_errors": 1}}}]
    )
    found = rows(sniffed("ip.json", document), "counters")
    assert pick(found, "ifname", "counter", "value") == [("eth0", "RX errors", 5.0), ("eth0", "TX carrier_errors", 1.0)]


def test_proc_net_dev() -> None:
    values = {(r["ifname"], r["counter"]): r["value"] for r in rows(sniffed("proc/net/dev", PROC_NET_DEV), "counters")}
    assert values["eth0", "receive errs"] == 3
    assert values["eth0", "transmit carrier"] == 2


def test_sysfs_as_listing() -> None:
    found = rows(sniffed("counters.txt", SYSFS), "counters")
    assert pick(found, "dev", "port", "ifname", "counter", "value") == [
        ("mlx5_0", "1", None, "port_rcv_errors", 3.0),
        ("mlx5_0", "1", None, "symbol_error", 0.0),
        ("mlx5_0", "1", None, "out_of_sequence", 12.0),
        (None, None, "ens1f0", "rx_crc_errors", 1.0),
        ("0000:3b:00.0", None, None, "aer_dev_correctable RxErr", 4.0),
        ("0000:3b:00.0", None, None, "aer_dev_correctable TOTAL_ERR_COR", 4.0),
        ("mc0", None, None, "ce_count", 2.0),
    ]
    headed = "".join(
        f"==> {line.rsplit(':', 1)[0]} <==\n{line.rsplit(':', 1)[1]}\n\n" for line in SYSFS.splitlines()[:4]
    )
    assert [r["value"] for r in rows(sniffed("x", headed), "counters")] == [3.0, 0.0, 12.0, 1.0]
    blank = SYSFS.splitlines()[0].replace(":3", " 3") + "\n" + SYSFS.splitlines()[2].replace(":12", ": 12") + "\n"
    assert [r["value"] for r in rows(sniffed("x", blank), "counters")] == [3.0, 12.0]


def test_sysfs_as_a_folder_of_files() -> None:
    name = "sosreport-node-01/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors"
    found = rows(sniffed(name, "3\n"), "counters")
    assert pick(found, "dev", "port", "counter", "value", "line") == [("mlx5_0", "1", "port_rcv_errors", 3.0, 1)]
    aer = rows(sniffed("sys/bus/pci/devices/0000:3b:00.0/aer_dev_fatal", "Undefined 0\nDLP 2\n"), "counters")
    assert pick(aer, "dev", "counter", "value")[1] == ("0000:3b:00.0", "aer_dev_fatal DLP", 2.0)
    assert sniff("logs/port_rcv_errors", b"3\n") is None
    assert sniff("out/latest_checkpointed_iteration.txt", b"4500\n") == "tracker"
    assert sniff("sys/class/infiniband/mlx5_0/ports/1/state", b"4: ACTIVE\n") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NSTAT, [("TcpRetransSegs", 1234.0), ("TcpExtTCPTimeouts", 9.0)]),
        (SNMP, [("TcpAttemptFails", 5.0), ("TcpRetransSegs", 1234.0), ("TcpInErrs", 0.0), ("UdpInErrors", 2.0)]),
        (NETSTAT, [("Ip: incoming packets discarded", 0.0), ("Tcp: segments retransmitted", 1234.0), ("TcpExt: TCPLostRetransmit", 5.0),
                   ("TcpExt: resets received for embryonic SYN_RECV sockets", 3.0)]),
    ],
)  # fmt: skip
def test_the_network_stack(text: str, expected: list[tuple[str, float]]) -> None:
    assert pick(rows(sniffed("stack.txt", text), "counters"), "counter", "value") == expected


def test_metrics_are_kept_where_they_concern_errors() -> None:
    found = rows(sniffed("metrics.txt", METRICS, host="node-09"), "counters")
    assert pick(found, "host", "dev", "port", "ifname", "counter", "value", "ts") == [
        ("node-01", "0000:03:00.0", None, None, "DCGM_FI_DEV_XID_ERRORS", 79.0, None),
        (
            "node-09",
            "mlx5_0",
            "1",
            None,
            "node_infiniband_port_errors_received_total",
            3.0,
            datetime(2026, 2, 3, 17, 2, 11),
        ),
        ("node-09", None, None, "eth0", "node_network_receive_errs_total", 11.0, None),
    ]


def test_counters_of_a_file_are_bounded() -> None:
    many = "NIC statistics:\n" + "".join(f"     errors_{i}: 1\n" for i in range(MAX_COUNTERS + 5))
    decoded = sniffed("ethtool_S_eth0", many)
    assert len(decoded.tables["counters"]) == MAX_COUNTERS
    assert any("left out" in note for note in decoded.notes)


LOGS = [
    "Feb  3 17:02:11 node-01 kernel: mlx5_core 0000:3b:00.0 ens1f0: Link up\n" * 20 + ETHTOOL,
    "step 1: loss 2.0\nlink is up 3\n" * 30,
    "2026-02-03T17:02:11Z leaf-1 ETH: Ethernet1 is up\n" * 30,
    "Interface  Status\nEthernet1 connected\n" * 5,
    "errors: 3\nwarnings: 4\n",
    "Tcp: connection refused\n" * 10,
    "     rx_packets: 5\n",
    '[{"ifname": "x", "port": 1}]',
]


@pytest.mark.parametrize("text", LOGS)
def test_what_is_mostly_a_log_is_left_to_the_lines(text: str) -> None:
    assert sniff("node-01/x.log", text.encode()) is None
