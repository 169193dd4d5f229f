"""Switch lines beyond the samples of parsers/switch: other framings, other interface names, other states, and noise.

Lines are those of public test data (napalm-logs, nocproject/noc, elastic/integrations, SEKOIA intake formats,
splunk-connect-for-syslog) with hosts and public addresses neutralised, or the same message in another framing of switch.md 2.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from postmortem.catalogue.lint import recognise_texts
from postmortem.catalogue.matcher import Matcher
from postmortem.lines.peel import peel

ALARMS = {"warning", "error", "fatal"}
LINK = "%LINK-3-UPDOWN: Interface Ethernet1/7, changed state to down"


def rows(matcher: Matcher, lines: list[str]) -> list[list[dict[str, Any]]]:
    """Events (no facts) of each line, each line a file of its own."""
    found = recognise_texts(matcher, [(f"switch/{n}.log", line) for n, line in enumerate(lines)])
    return [[r for r in found[f"switch/{n}.log"] if not r["is_fact"]] for n in range(len(lines))]


# Header before LINK, host, time as printed, its zone in seconds (None: none usable).
FRAMES: list[tuple[str, str | None, str | None, int | None]] = [
    ("<190>3132517: Jul 13 08:23:43 192.168.100.2 sw01: 3132779: Jul 14 2023 08:23:43.398 UTC: ", "sw01", "2023-07-14T08:23:43.398", 0),
    ("<190>3132517: 192.168.100.2 3132513: Jul 14 2023 08:23:43.398 UTC: ", "192.168.100.2", "2023-07-14T08:23:43.398", 0),
    ("<190>3132517: 3132513: Jul 14 2023 08:23:43.398 UTC: ", None, "2023-07-14T08:23:43.398", 0),
    ("<190>3132811: 3router 3132807: Jul 14 2023 08:23:43.398 UTC: ", "3router", "2023-07-14T08:23:43.398", 0),
    ("<190>3132517: 4firewall.local Jul 14 2023 08:23:43.398 UTC: ", "4firewall.local", "2023-07-14T08:23:43.398", 0),
    ("<190>*Jul 14 2023 08:23:43.398 UTC: ", None, "2023-07-14T08:23:43.398", None),
    ("<190>3132517: sw01: 3132513: 2y10w: ", "sw01", None, None),
    ("<189>leaf-1: 00:01:01: ", "leaf-1", None, None),
    ("000123: .Mar  1 18:46:11: ", None, "1972-03-01T18:46:11", None),
    ("<187>Jun 14 11:34:35 ac45ce-sr1 AEST: ", "ac45ce-sr1", "1972-06-14T11:34:35", 36000),
    ("Oct  1 10:00:00 10.0.0.1 leaf-1: 2024 Oct  1 10:00:00 UTC: ", "leaf-1", "2024-10-01T10:00:00", 0),
    ("2013-08-09T11:09:36+02:00 leaf.example : 2013 Aug  9 11:09:36.290 CET: ", "leaf.example", "2013-08-09T11:09:36.290", 7200),
    ("2013-08-09T11:09:36+02:00 leaf.example : 2013 Aug  9 09:09:36.290 UTC: ", "leaf.example", "2013-08-09T09:09:36.290", 0),
    ("<189>2024 Jan 15 10:23:45.678 UTC leaf-1: ", "leaf-1", "2024-01-15T10:23:45.678", 0),
    ("2024 Jan  2 03:04:05.123 leaf-1 ", "leaf-1", "2024-01-02T03:04:05.123", None),
    ("Jan 02 2024 03:04:05 leaf-1 ", "leaf-1", "2024-01-02T03:04:05", None),
    ("Jan 15 10:23:46 10.0.0.9 97: leaf-1 RP/0/RP0/CPU0:2024 Jan 15 10:23:45.123 UTC: ifmgr[337]: ", "leaf-1", "2024-01-15T10:23:45.123", 0),
    ("0/RP0/ADMIN0:2024 Jan 15 10:23:45.123 UTC: pm[337]: ", None, "2024-01-15T10:23:45.123", 0),
    ("2016 May 26 15:41:47 UTC leaf-1 Ebra[1234]: ", "leaf-1", "2016-05-26T15:41:47", 0),
]  # fmt: skip


@pytest.mark.parametrize(("header", "host", "printed", "zone"), FRAMES, ids=[f[0] for f in FRAMES])
def test_framings_of_cisco_and_arista(
    matcher: Matcher, header: str, host: str | None, printed: str | None, zone: int | None
) -> None:
    [[event]] = rows(matcher, [header + LINK])
    assert (event["event"], event["host"], event["ifname"]) == ("link.down", host, "Ethernet1/7")
    stamp = peel(pl.Series([header + LINK])).to_dicts()[0]
    when = datetime.fromisoformat(printed).replace(tzinfo=UTC) if printed else None
    assert stamp["stamp_us"] == (when and round(when.timestamp() * 1e6))
    assert stamp["stamp_zone_s"] == zone


OTHER_FRAMES = [
    "Jan 21 06:59:27.452 2026  leaf-1 mib2d[1144]: %DAEMON-4-SNMP_TRAP_LINK_DOWN: ifIndex 552, ifAdminStatus up(1), ifOperStatus down(2), ifName {}",
    "<28>1 2024-01-15T10:23:45.188Z leaf-1 mib2d 18654 SNMP_TRAP_LINK_DOWN - ifIndex 552, ifAdminStatus up(1), ifOperStatus down(2), ifName {}",
    "Jan 15 10:23:46 10.0.0.9 Jan 15 10:23:45 leaf-1 mib2d[1144]: SNMP_TRAP_LINK_DOWN: ifIndex 552, ifAdminStatus up(1), ifOperStatus down(2), ifName {}",
    "2024-11-26T14:05:55+08:00 10.0.0.9 Nov 26 2024 14:05:54 leaf-1 %%01IFNET/4/IF_STATE(l)[0]:Interface {} has turned into DOWN state.",
    "Nov 26 2024 14:05:54+08:00 DST leaf-1 %%01IFNET/4/IF_STATE(l):CID=0x807a0404;Interface {} has turned into DOWN state.",
    "Sep 14 16:23:25 10.0.0.9 Sep 14 16:23:24 2026 leaf-1 %%10IFNET/3/PHY_UPDOWN: -DevIP=10.0.0.9; Physical state on the interface {} changed to down.",
    "%@1234567%Sep 14 16:23:24:068 2026 leaf-1 IFNET/3/PHY_UPDOWN: Physical state on the interface {} changed to down.",
    "Jan  2 03:04:06 10.0.0.9 2024 Jan  2 03:04:05.123456 leaf-1 NOTICE swss#orchagent: :- updatePortOperStatus: Port {} oper state set from up to down",
    "2024-05-17T20:27:21.252868+00:00 leaf-1 local6|WARN sr_chassis_mgr: chassis|1476|1476|00122|W: Interface {} is now down for reason: lower-layer-down",
]


@pytest.mark.parametrize("line", OTHER_FRAMES)
def test_framings_of_other_vendors(matcher: Matcher, line: str) -> None:
    name = "ethernet-1/31/2" if "sr_chassis" in line else "et-0/0/0:1"
    [[event]] = rows(matcher, [line.format(name)])
    assert (event["event"], event["host"], event["ifname"]) == ("link.down", "leaf-1", name)
    assert peel(pl.Series([line.format(name)]))["stamp_us"].item() is not None


# Per system: a line, the event of a port and of an aggregate, and names that ports and aggregates have there.
NAMES: dict[str, tuple[str, str, str, str]] = {
    "NX-OS": ("2024 Jan  2 03:04:05.123 leaf-1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface {} is down (Link failure)", "down",
              "Ethernet1/1/3 Eth1/1 Ethernet104/1/33 mgmt0 Ethernet1/1.100", "port-channel23"),
    "NX-OS up": ("2024 Jan  2 03:04:05.123 leaf-1 %ETHPORT-5-IF_UP: Interface {} is up in mode trunk", "up", "Ethernet1/33/1", "port-channel1"),
    "IOS XE": ("<187>521: leaf-1: *Mar  1 08:30:56.699: %LINK-3-UPDOWN: Interface {}, changed state to down", "down",
               "HundredGigE1/0/49 TwentyFiveGigE1/0/1 Te1/6 GigabitEthernet0/0/0.100 FourHundredGigE1/0/1 Vlan10", "Port-channel1 Po1"),
    "EOS": ("Jan 15 10:23:45 leaf-1 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface {} (to spine-1 (Et1)), changed state to down", "down",
            "Ethernet49/1 Et49/1 Ethernet3/1/1 Management1 Ethernet50/1.10", "Port-Channel3"),
    "IOS XR": ("94307: leaf-1 LC/0/2/CPU0:Jan 15 10:23:45.123 : ifmgr[337]: %PKT_INFRA-LINK-3-UPDOWN : Interface {}, changed state to Up", "up",
               "HundredGigE0/0/0/1 TenGigE0/2/0/4.60 Optics0/0/0/1 MgmtEth0/RP0/CPU0/0 EightHundredGigE0/0/0/3", "Bundle-Ether1001"),
    "Junos": ("Jan 15 10:23:45  leaf-1 mib2d[1144]: SNMP_TRAP_LINK_DOWN: ifIndex 552, ifAdminStatus up(1), ifOperStatus down(2), ifName {}", "down",
              "et-0/0/10 xe-0/0/0:1 et-0/0/1:0.0 em0", "ae5 ae5.0"),
    "Huawei": ("Nov 26 2024 14:05:54+08:00 leaf-1 %%01IFNET/4/IF_STATE(l)[0]:Interface {} has turned into UP state.", "up",
               "400GE1/0/1 100GE1/0/1:1 25GE1/0/41 MEth0/0/0", "Eth-Trunk1"),
    "H3C": ("%Sep 14 16:23:24:068 2026 leaf-1 IFNET/3/PHY_UPDOWN: Physical state on the interface {} changed to down.", "down",
            "FourHundredGigE1/0/1 HundredGigE1/0/25:1 Ten-GigabitEthernet1/0/49 Vlan-interface100", "Bridge-Aggregation1 BAGG1"),
    "SONiC": ("2024 Jan  2 03:04:05.123456 leaf-1 NOTICE swss#orchagent: :- updatePortOperStatus: Port {} oper state set from up to down", "down",
              "Ethernet0 Ethernet508 Ethernet1/1", "PortChannel101"),
    "Cumulus": ("2024-01-02T03:04:05.123456+00:00 leaf-1 switchd[5692]: nic.c:213 nic_set_carrier: {}: setting kernel carrier: down", "down",
                "swp17 swp1s0 swp32s3", "bond0"),
    "OS10": ("<165>1 2019-10-28T19:10:22.6+00:00 leaf-1 dn_alm 669 - - Node.1-Unit.1:PRI [event], Dell EMC (OS10) %IFM_OSTATE_DN: Interface operational state is down :{}",
             "down", "ethernet1/1/12 ethernet1/1/12:1", "port-channel10"),
    "SR Linux": ("2024-01-15T10:23:45.1+00:00 leaf-1 sr_chassis_mgr: chassis|1|1|00138|N: Interface {} is now up", "up", "ethernet-1/1 ethernet-1/31/2", "lag1"),
}  # fmt: skip


@pytest.mark.parametrize("system", NAMES)
def test_interface_names(matcher: Matcher, system: str) -> None:
    text, way, ports, aggregates = NAMES[system]
    names = [(n, f"link.{way}") for n in ports.split()] + [(n, f"lag.{way}") for n in aggregates.split()]
    found = rows(matcher, [text.format(name) for name, _ in names])
    assert [[(r["ifname"], r["event"], r["host"]) for r in one] for one in found] == [
        [(n, e, "leaf-1")] for n, e in names
    ]


STATES: list[tuple[str, str, dict[str, Any]]] = [
    ("<28>Jun 21 14:03:12  vmx01 rpd[2902]: RPD_OSPF_NBRDOWN: OSPF neighbor 10.1.1.1 (realm ospf-v2 et-0/0/0.0 area 0.0.0.0) state changed from Full to Down due to KillNbr (event reason: neighbor down)",
     "igp.down", {"ifname": "et-0/0/0.0", "peer": "10.1.1.1"}),
    ("2024-01-15T10:23:45.1+00:00 s1 Rib: Instance 100: %OSPF-4-OSPF_ADJACENCY_TEARDOWN: NGB 10.28.107.224, interface 10.28.107.13 adjacency dropped: DD packet mismatch, state was: FULL",
     "igp.down", {"host": "s1", "peer": "10.28.107.224", "reason": "DD packet mismatch"}),
    ("<187>521: router1: Mar 15 10:05:53.044: %OSPF-5-ADJCHG: Process 1, Nbr 10.10.20.28 on Vlan444 from EXSTART to DOWN, Neighbor Down: Interface down or detached",
     "igp.down", {"ifname": "Vlan444", "reason": "Interface down or detached"}),
    ("%BGP-5-ADJCHANGE: neighbor *10.110.0.60 vpn vrf BLUE Up ", "bgp.up", {"peer": "10.110.0.60"}),
    ("2024 Jan  2 03:04:05 leaf-1 %BGP-5-ADJCHANGE:  bgp-65001 [8401] (default) neighbor 10.1.1.1 Down - holdtimer expired error", "bgp.down",
     {"host": "leaf-1", "peer": "10.1.1.1", "reason": "holdtimer expired error"}),
    ("2023 Jan 17 12:23:15 CET: %ETHPORT-5-IF_DOWN_CFG_CHANGE: Interface Ethernet1/38 (description:SRV-01) is down(Config change)", "link.admin_down", {"ifname": "Ethernet1/38"}),
    ("<189>: 2018 Apr 22 10:27:53 CDT: %ETHPORT-5-IF_DOWN_ERROR_DISABLED: Interface Ethernet103/1/3 is down (Error disabled. Reason:BPDUGuard) (message repeated 2 times)",
     "link.err_disabled", {"ifname": "Ethernet103/1/3", "reason": "BPDUGuard"}),
    ("Jun 28 15:06:19 le-3 Ebra: %ETH-4-ERRDISABLE: link-flap error detected on Ethernet5/1.", "link.err_disabled", {"ifname": "Ethernet5/1", "reason": "link-flap"}),
    ("%PM-4-ERR_DISABLE_VP: bpduguard error detected on Gi1/0/1, vlan 10. Putting in err-disable state.", "link.err_disabled", {"ifname": "Gi1/0/1"}),
    ("*Mar  1 00:01:02: %TRANSCEIVER-6-REMOVED: R0/0: iomd:  Transceiver module removed from TenGigabitEthernet0/0/1", "optic.removed", {"ifname": "TenGigabitEthernet0/0/1"}),
    ("2024 Jan  2 03:04:05 leaf-1 %ETHPORT-3-IF_SFP_ALARM: Interface Ethernet1/17, Lane 3 - High Tx Bias Alarm", "optic.alarm", {"lane": 3, "reason": "High Tx Bias Alarm"}),
    ("%SFF8472-3-THRESHOLD_VIOLATION: HundredGigE1/0/49: Temperature high alarm; Operating value:  75.3 C, Threshold value:  75.0 C.", "optic.alarm", {"value": "75.3", "unit": "C"}),
    ("%Sep 14 16:23:24:068 2026 SW2 OPTMOD/5/TEMP_HIGH: HundredGigE1/0/25: Temperature is high.", "optic.alarm", {"ifname": "HundredGigE1/0/25"}),
    ("Jan 21 06:59:27.452 2026  leaf-4 craftd[27851]: %DAEMON-4:  Major alarm set, FPC 1 Major Errors", "switch.asic_error", {"host": "leaf-4"}),
    ("Jul 22 14:18:58 leaf-1b init: chassis-control (PID 1413) terminated by signal number 6. Core dumped!", "switch.process_crash", {"process": "chassis-control", "signal": 6}),
    ("2024 Nov 12 03:14:15.1 leaf-3 WARNING pmon#psud: PSU absence warning: PSU 2 is not present.", "switch.psu", {"host": "leaf-3"}),
    ("%PLATFORM_ENV-1-FAN_NOT_PRESENT: Fan is not present", "switch.fan", {}),
    ("%C7600_ENV-SP-4-MINORTEMPALARM: module 4 device-1 temperature crossed threshold #1(=60C). It has exceeded normal operating temperature range.", "switch.thermal", {}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "event", "fields"), STATES, ids=[s[1] + " " + s[0][:40] for s in STATES])
def test_other_wordings(matcher: Matcher, line: str, event: str, fields: dict[str, Any]) -> None:
    [found] = rows(matcher, [line])
    assert [r["event"] for r in found] == [event]
    assert {k: found[0][k] for k in fields} == fields


NOISE = """
<28>Jun 21 14:03:12  vmx01 rpd[2902]: RPD_BGP_NEIGHBOR_STATE_CHANGED: BGP peer 10.1.1.1 (External AS 2222) changed state from OpenConfirm to Idle (event TransportError) (instance master)
<172>2020-03-31T08:41:59+00:00 some-router rpd[13037]: bgp_handle_notify:4236: NOTIFICATION received from 10.0.0.1 (External AS 64512): code 6 (Cease) subcode 5 (Connection Rejected)
<172>2020-03-31T08:41:59+00:00 some-router rpd[13037]: bgp_recv: read from peer fd00:1065::1 (External AS 65500) failed: Connection reset by peer
<149>Jun 21 14:03:12  vmx01 rpd[2902]: BGP_PREFIX_THRESH_EXCEEDED: 192.168.140.254 (External AS 4230): Configured maximum prefix-limit threshold(140) exceeded for inet4-unicast nlri: 141 (instance master)
<4>Jul 20 21:23:00 vmx01 /kernel: tcp_auth_ok: Packet from 192.168.140.254:61664 wrong MD5 digest
<28>Nov  9 01:02:40  some-switch jddosd[4223]: DDOS_PROTOCOL_VIOLATION_SET: Warning: Host-bound traffic for protocol/exception  Redirect:aggregate exceeded its allowed bandwidth at fpc 0 for 6661 times, started at 2020-11-09 01:02:39 UTC
<28>Jul  8 23:04:13  vmx01 craftd[4817]:  Minor alarm set, RE 0 /var partition usage is high
<28>Jul  8 23:04:13  vmx01 alarmd[2449]: Alarm cleared: Pwr supply color=YELLOW, class=CHASSIS, reason=PEM 1 Fan Failed
<189>Jul 20 21:44:00 vmx01 mgd[7729]: UI_LOAD_EVENT: User 'admin' is performing a 'rollback 3'
Jul 22 14:18:53 init: craft-control (PID 1413) started
Mar 19 14:19:40  switchname-asw01 eswd[1262]: ESWD_BPDU_BLOCK_ERROR_ENABLED: ge-0/0/47.0: bpdu-block enabled port
<189>107: sw01: May 9 14:40:12.903: %BGP-3-NOTIFICATION: sent to neighbor 10.110.0.81 4/0 (hold time expired) 0 bytes
%SPANTREE-2-LOOPGUARD_BLOCK: Loop guard blocking port GigabitEthernet0/39 on VLAN0252.
%SW_MATM-4-MACFLAP_NOTIF: Host 0017.0e82.0850 in vlan 254 is flapping between port Gi0/24 and port Gi0/25
%CDP-4-DUPLEX_MISMATCH: duplex mismatch discovered on GigabitEthernet3/16 (not half duplex), with node-17 Port 1 (half duplex).
%PORT_SECURITY-2-PSECURE_VIOLATION: Security violation occurred, caused by MAC address 0200.0000.0000 on port GigabitEthernet1/10.
%STORM_CONTROL-3-FILTERED: A Broadcast storm detected on Fa0/1. A packet filter action has been applied on the interface
%ENVMON-5-48V_STATUS: -48V supply OK
%SYS-0-MOD_TEMPMAJORRECOVER: Module 2 major temperature threshold recovered
%C6KPWR-SP-4-PSOK: power supply 1 turned on.
%HARDWARE-5-FAN_OK: Fan works fine.
<185>switchname: 2023 Apr 26 09:09:48 UTC: %LLDP-3-DETECT_MULTIPLE_PEERS: Multiple peers detected on Eth1/14
<186>switchname: 2023 Apr 26 09:08:48 UTC: %HMM-2-DUP_HOSTS:  hmm [23346]  (p0-i-mgmt) [IPv4] Detected a potential duplicate host 10.208.112.147/32
<186>leaf-3 2023 May  3 13:55:35.928 AEST: %VPC-2-L3_VPC_UNEQUAL_WEIGHT: Layer3 peer-router is enabled.  Please make sure both vPC peers have the same L3 routing configuration
2023 Jan 11 18:43:54 CET: %ETHPORT-5-SPEED: Interface Ethernet1/38, operational speed changed to 1 Gbps
%PLATFORM-ENVMON-2-ENV_CONDITION : Outstanding environmental condition exists in the chassis
%L2-BM-6-MEMBER_COMPATIBILITY : Interface GigabitEthernet0/1/0/6 in Bundle-Ether5 is no longer incompatible with the bundle operational state
%ROUTING-BGP-5-MAXPFX : No. of IPv4 Unicast prefixes received from 192.0.2.5 has reached 94106, max 125000
Jul 19 2012 18:12:13 leaf-5 %%01MSTP/6/SET_PORT_FORWARDING(l)[1015]:In MSTP process 0 instance 0,MSTP set port GigabitEthernet0/0/1 state as forwarding.
Aug  2 2012 09:02:34 leaf-5 SRM/4/PortPhysicalEthHalfDuplexClear:OID 1.3.6.1.4.1.2011.5.25.129.2.5.12 port work at full-duplex state.(EntityPhysicalIndex=28, BaseTrapSeverity=4)
%Sep 14 16:23:24:068 2026 SW2 OPTMOD/5/RX_POW_NORMAL: FortyGigE1/0/1: RX power is normal.
2024 Nov 12 03:14:15.1 leaf-3 NOTICE pmon#thermalctld: Insufficient number of working fans warning cleared: all fans are back to normal
2024 Nov 12 03:14:15.1 leaf-3 NOTICE pmon#psud: Voltage warning cleared: PSU 1 voltage is back to normal.
Nov 13 17:27:22.878468 sonic NOTICE swss#orchagent: :- createEntry: Started PFC Watchdog on port Ethernet0
Jan 11 18:39:02 leaf2 sr_bfd_mgr: bfd|1879|1879|00062|N: BFD:  Network-instance default - The protocol BGP is now using BFD session from 10.0.0.2:16395 to 10.0.0.5:0
<13>Aug 8 23:30:19 leaf-9 System: Power supply 1, left side power supply, normal
<30>console-1 port02 2018-Nov- 9 15:42:06.972 SIGNAL: CTS => 0
<14>Dec 13 13:12:00 srx-1 RT_FLOW: RT_FLOW_SESSION_CLOSE: session closed idle Timeout: 172.16.0.1/23456->192.0.2.8/443 junos-https 172.16.0.2/12345->192.0.2.8/443 source rule LAN N/A N/A 6 allow-any PRIVATE PUBLIC 123456 N/A(N/A) hu-1/0/0.0 UNKNOWN UNKNOWN UNKNOWN
""".strip().splitlines()  # fmt: skip


def test_noise_gives_no_alarm(matcher: Matcher) -> None:
    found = rows(matcher, NOISE)
    alarms = {
        line[:90]: [r["event"] for r in one]
        for line, one in zip(NOISE, found, strict=True)
        if any(r["severity"] in ALARMS for r in one)
    }
    assert alarms == {}
