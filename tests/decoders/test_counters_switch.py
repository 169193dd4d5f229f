"""Counters of switches: tables, blocks of `show interfaces`, JSON."""

from __future__ import annotations

import json

import pytest
from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff
from postmortem.decoders.counters.switch import FORMATS

# Shape as in Cisco's command reference; the values of public replies.
NXOS = """leaf-2# show interface counters errors

--------------------------------------------------------------------------------
Port          Align-Err    FCS-Err   Xmit-Err    Rcv-Err  UnderSize OutDiscards
--------------------------------------------------------------------------------
mgmt0                   0          0         --         --         --          --
Eth1/1                  0        142          0        142          0           4
Po700                   0          0          0          0          0        4303

--------------------------------------------------------------------------------
Port         Single-Col  Multi-Col   Late-Col  Exces-Col  Carri-Sen       Runts
--------------------------------------------------------------------------------
Eth1/1                  0          0          0          0          0           2
"""
EOS = """leaf-1#show interfaces counters errors
Port               FCS      Align     Symbol         Rx      Runts     Giants         Tx
Et1/1               12          0          3         15          0          0          0
Et2/1                0          0          0          0          0          0          0
"""
# sonic-utilities tests/portstat_test.py, pfcstat_test.py, queue_counter_test.py
SONIC = """admin@leaf-3:~$ show interfaces counters
    IFACE    STATE    RX_OK        RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR    TX_OK        TX_BPS    TX_UTIL    TX_ERR    TX_DRP    TX_OVR
---------  -------  -------  ------------  ---------  --------  --------  --------  -------  ------------  ---------  --------  --------  --------
Ethernet0        D        8  2000.00 MB/s     64.00%        10       100       N/A       10  1500.00 MB/s     48.00%       N/A       N/A       N/A
Ethernet4      N/A        4   204.80 KB/s        N/A         0     1,000       N/A       40   204.85 KB/s        N/A       N/A       N/A       N/A
"""
SONIC_PFC = """  Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0   1,200     201     202     203     204     205     206     207

  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0   1,210     211     212     213     214     215     216     217
"""
SONIC_QUEUE = """For namespace :
     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes
---------  -----  --------------  ---------------  -----------  ------------
Ethernet0    UC0               0                0            0             0
Ethernet0    UC3              52               70           19            76
Ethernet0  ALL20             N/A              N/A          N/A           N/A
"""
SONIC_FEC = """    IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER
---------  -------  ----------  ------------  ----------------  -------------  --------------
Ethernet0        U     130,402             3                 4       1.18e-12        0.00e+00
"""
NXOS_PFC = """============================================================
Port               Mode Oper(VL bmap)  RxPPP      TxPPP
============================================================

Ethernet1/1        Auto Off           0          0
Ethernet1/2        Auto On  (8)       4088353    1890
Br-Ethernet1/17/1  Auto Off           373112640  5422273
"""
EOS_BLOCK = """Ethernet1 is up, line protocol is up (connected)
  Hardware is Ethernet, address is 444c.a815.e159 (bia 444c.a815.e159)
  Ethernet MTU 9214 bytes , BW 40000000 kbit
  Full-duplex, 40Gb/s, auto negotiation: off, uni-link: n/a
  Up 16 hours, 12 minutes, 33 seconds
  4 link status changes since last clear
  Last clearing of "show interface" counters 16:18:26 ago
  5 minutes input rate 0 bps (0.0% with framing overhead), 0 packets/sec
     4450102 packets input, 6633930106 bytes
     Received 13981 broadcasts, 57797 multicast
     0 runts, 0 giants
     12 input errors, 9 CRC, 0 alignment, 3 symbol, 0 input discards
     7 PAUSE input
     201 packets output, 37260 bytes
     0 output errors, 0 collisions
     0 late collision, 0 deferred, 5 output discards
"""
NXOS_BLOCK = """Ethernet1/7 is down (Link not connected)
admin state is up, Dedicated Interface
  Hardware: 100/1000/10000 Ethernet, address: 00de.fb4c.a4f0 (bia 00de.fb4c.a4f0)
  MTU 9216 bytes, BW 10000000 Kbit, DLY 10 usec
  9 interface resets
  RX
    0 unicast packets  0 multicast packets  0 broadcast packets
    3 runts  0 giants  31 CRC  0 no buffer
    34 input error  0 short frame  0 overrun   0 underrun  0 ignored
    0 Rx pause
  TX
    0 output error  0 collision  0 deferred  0 late collision
    2 lost carrier  0 no carrier  0 babble  6 output discard
    1 Tx pause
"""
JUNOS = """Physical interface: et-0/0/0, Enabled, Physical link is Up
  Interface index: 650, SNMP ifIndex: 515, Generation: 211
  Statistics last cleared: Never
  Input errors:
    Errors: 4, Drops: 0, Framing errors: 4, Runts: 0, Policed discards: 0,
    L3 incompletes: 0, Resource errors: 0
  Output errors:
    Carrier transitions: 3, Errors: 0, Drops: 17, Collisions: 0, Aged packets: 0
  Egress queues: 8 supported, 4 in use
  PCS statistics                      Seconds
    Bit errors                             2
    Errored blocks                         0
  Ethernet FEC statistics              Errors
    FEC Corrected Errors                   91
    FEC Uncorrected Errors                  5
  MAC statistics:                      Receive         Transmit
    Total octets                      58911348         64383576
    CRC/Align errors                         4                0
"""


def counters(text: str, name: str = "out.txt", host: str | None = "sw-9") -> dict[tuple[str, str], float]:
    """Values by port and counter."""
    return {(r["port"], r["counter"]): r["value"] for r in rows(sniffed(name, text, host=host), "counters")}


def test_nxos_tables_follow_each_other() -> None:
    found = rows(sniffed("errors.txt", NXOS), "counters")
    assert {r["host"] for r in found} == {"leaf-2"}
    values = counters(NXOS)
    assert values["Eth1/1", "FCS-Err"] == 142
    assert values["Po700", "OutDiscards"] == 4303
    assert values["Eth1/1", "Runts"] == 2
    assert ("mgmt0", "Xmit-Err") not in values
    assert pick(found, "port", "line")[0] == ("mgmt0", 6)


def test_eos_table() -> None:
    values = counters(EOS)
    assert values["Et1/1", "FCS"] == 12
    assert values["Et1/1", "Symbol"] == 3
    assert values["Et2/1", "Tx"] == 0
    assert {r["host"] for r in rows(sniffed("x", EOS, host="other"), "counters")} == {"leaf-1"}


def test_sonic_rates_are_one_column_and_no_counter() -> None:
    values = counters(SONIC)
    assert values["Ethernet0", "RX_ERR"] == 10
    assert values["Ethernet4", "RX_DRP"] == 1000
    assert not {"STATE", "RX_BPS", "RX_UTIL", "TX_ERR"} & {name for _, name in values}


def test_sonic_pfc_queue_and_fec() -> None:
    pfc = counters(SONIC_PFC)
    assert (pfc["Ethernet0", "Rx PFC0"], pfc["Ethernet0", "Tx PFC3"]) == (1200, 213)
    assert counters(SONIC_QUEUE) == {
        ("Ethernet0", "UC3 Counter/pkts"): 52, ("Ethernet0", "UC3 Counter/bytes"): 70,
        ("Ethernet0", "UC3 Drop/pkts"): 19, ("Ethernet0", "UC3 Drop/bytes"): 76,
    }  # fmt: skip
    fec = counters(SONIC_FEC)
    assert (fec["Ethernet0", "FEC_UNCORR"], fec["Ethernet0", "FEC_PRE_BER"]) == (3, 1.18e-12)


def test_nxos_pfc() -> None:
    values = counters(NXOS_PFC)
    assert values["Ethernet1/2", "RxPPP"] == 4088353
    assert values["Br-Ethernet1/17/1", "TxPPP"] == 5422273
    assert values["Ethernet1/1", "RxPPP"] == 0


def test_blocks_of_eos_and_nxos() -> None:
    eos = counters(EOS_BLOCK)
    assert (eos["Ethernet1", "CRC"], eos["Ethernet1", "symbol"], eos["Ethernet1", "output discards"]) == (9, 3, 5)
    assert eos["Ethernet1", "link status changes since last clear"] == 4
    nxos = counters(NXOS_BLOCK)
    assert (nxos["Ethernet1/7", "CRC"], nxos["Ethernet1/7", "input error"]) == (31, 34)
    assert (nxos["Ethernet1/7", "lost carrier"], nxos["Ethernet1/7", "interface resets"]) == (2, 9)
    assert not [name for _, name in eos if "packets" in name or "bps" in name]


def test_blocks_of_junos() -> None:
    values = counters(JUNOS)
    assert values["et-0/0/0", "input Framing errors"] == 4
    assert values["et-0/0/0", "output Carrier transitions"] == 3
    assert values["et-0/0/0", "output Drops"] == 17
    assert values["et-0/0/0", "CRC/Align errors receive"] == 4
    assert values["et-0/0/0", "FEC Uncorrected Errors"] == 5


def test_eos_json() -> None:
    document = {
        "interfaceErrorCounters": {
            "Ethernet1": {"inErrors": 3, "fcsErrors": 2},
            "Ethernet6": {"inErrors": 0, "fcsErrors": 0},
        }
    }
    values = counters(json.dumps(document, indent=2))
    assert values == {
        ("Ethernet1", "inErrors"): 3,
        ("Ethernet1", "fcsErrors"): 2,
        ("Ethernet6", "inErrors"): 0,
        ("Ethernet6", "fcsErrors"): 0,
    }


@pytest.mark.parametrize(
    "text",
    [
        "Port Name Status Vlan Duplex Speed Type\nEt1 x connected 1 full 10G 10GBASE\n",
        "Interface                     Status         Protocol\nEthernet1/1 up up\n",
        "leaf-1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/7 is down (Link failure)\n" * 9,
        "Ethernet1 is up\nEthernet2 is up\n",
    ],
)
def test_other_output_of_switches_is_left_alone(text: str) -> None:
    assert sniff("leaf-1.log", text.encode()) not in {f.name for f in FORMATS}
