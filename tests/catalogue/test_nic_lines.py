"""Lines of drivers, daemons and management controllers in spellings that samples don't show, and their ordinary twins."""

from __future__ import annotations

from typing import Any

import pytest

from postmortem.catalogue.lint import recognise_texts
from postmortem.catalogue.matcher import Matcher

ALARMS = {"warning", "error", "fatal"}

# Each line, its event, and the fields that are certain. Formats: the files that the definitions name.
NAMED: list[tuple[str, str, dict[str, Any]]] = [
    # links: no PCI, USB, VLAN, a driver's own words
    ("[   55.1] cdc_ncm 2-1:2.0 eth2: Link is Down", "link.down", {"ifname": "eth2"}),
    ("fec 30be0000.ethernet eth1: Link is Down", "link.down", {"ifname": "eth1"}),
    ("bnx2 0000:01:00.0: slave0: NIC SerDes Link is Down", "link.down", {"ifname": "slave0"}),
    ("bnx2: eth0 NIC Remote Copper Link is Up, 1000 Mbps full duplex", "link.up", {"ifname": "eth0", "value": "1000"}),
    ("enic 0000:06:00.0 eth0: Link UP", "link.up", {"pci": "0000:06:00.0"}),
    ("eth1 (Ext switch port: 3) (Logical Port: 11) Link DOWN.", "link.down", {"ifname": "eth1", "port": "11"}),
    ("igc 0000:03:00.0 enp3s0: Link Speed was downgraded by SmartSpeed", "link.degraded", {"ifname": "enp3s0"}),
    # bonds
    ("bond0: link status down for active interface eth0, disabling it in 200 ms", "lag.member_down", {"ifname": "eth0"}),
    ("bond0: (slave eth1): link status definitely up, 25000 Mbps full duplex", "lag.member_up", {"value": "25000"}),
    # firmware and queues
    ("bnx2 0000:01:00.0 eth0: fw sync timeout, reset code = 5020008", "nic.fw_error", {"code": "5020008"}),
    ("i40e 0000:3d:00.0: Malicious Driver Detection event 0x02 on TX queue 3 PF number 0x00 VF number 0x00", "nic.fw_error", {}),
    ("ixgbe 0000:04:00.0 eth1: tx hang 2 detected on queue 7, resetting adapter", "nic.tx_timeout", {"queue": 7}),
    # clocks of Slurm
    ("slurmctld: error: Munge decode failed: Rewound credential", "host.clock_unsync", {"severity": "error"}),
    ("srun: error: Munge decode failed: Expired credential", "host.clock_unsync", {}),
    # UCX
    (
        "# UCX  ERROR mlx5_5: ibv_create_srq() failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 8192 kbytes)",
        "host.resource_limit",
        {"dev": "mlx5_5", "value": "8192"},
    ),
    (
        "UCX  ERROR Remote access error on mlx5_0:1/IB (synd 0x13 vend 0x88 hw_synd 0/0)",
        "nccl.ib_completion_error",
        {"status": "10", "dev": "mlx5_0", "vendor_err": 0x88},
    ),
    # host
    ("BUG: NMI Watchdog detected LOCKUP on CPU3, ip ffffffff8101", "host.hard_lockup", {"value": "3"}),
    ("INFO: rcu_sched_state detected stall on CPU 1 (t=60000 jiffies)", "host.rcu_stall", {}),
    ("rcu: rcu_preempt kthread starved for 5250 jiffies! g2937 f0x0 RCU_GP_WAIT_FQS(5)", "host.rcu_stall", {}),
    ("mce: CPUs not responding to MCE broadcast (may include false positives): 4-7", "host.mce", {"severity": "fatal"}),
    ("[Hardware Error]: Deferred error, no action required.", "host.mce", {"severity": "warning"}),
    # management controllers
    ("Severity: Critical, Category: System Health, MessageID: CPU0005, Message: CPU 1 machine check error detected.", "host.mce", {"severity": "fatal"}),
    ("LOG: Uncorrectable Memory Error - Processor 2, DIMM 7", "host.edac", {"dev": "Processor 2, DIMM 7"}),
    # storage
    ("md/raid10:md1: not enough operational mirrors.", "host.disk_error", {"value": "md1"}),
    ("sd 2:0:0:1: [sdb] FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK", "host.disk_error", {"dev": "sdb"}),
]  # fmt: skip

# What is ordinary: boots, owners who take a port down, tests, what was mended.
QUIET = """\
br0: port 3(eth3) entered disabled state
IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready
ata3: SATA link down (SStatus 0 SControl 300)
systemd-networkd[511]: eth0: Link DOWN
systemd-networkd: eth0: Link DOWN
bond0: (slave eth0): Enslaving as a backup interface with a down link
bond0: Enslaving eth0 as an active interface with a down link
hfi1 0000:d8:00.0: hfi1_0: logical state changed to PORT_ACTIVE (0x4)
atlantic 0000:01:00.0 eth0: atlantic: link change old 1000 new 2500
RTL8211F Gigabit Ethernet mdio_mux-0.0:00: attached PHY driver (mii_bus:phy_addr=mdio_mux-0.0:00, irq=POLL)
i40e 0000:3d:00.0 eno1: NIC Link is Up, 10 Gbps Full Duplex, Flow Control: None
ionic 0000:24:00.0: FW heartbeat restored at 1342169688
[2021-09-22T14:11:30.278] error: Munge decode failed: Invalid credential
[2021-09-22T14:11:30.278] debug2: We had a replayed cred, but this is expected in multiple slurmd mode.
test_soft_lockup.py::test_expired_credential PASSED
[1729458724.473282] [node-01:78   :0]       tcp_iface.c:893  UCX  INFO  ibv_create_cq(cqe=4096) succeeded
The power input for power supply 1 has been restored.
Power supply redundancy is regained.
md/raid1:md0: active with 2 out of 2 mirrors
[Hardware Error]: Corrected error, no action required.
i915 0000:00:02.0: [drm] Finished loading DMC firmware i915/kbl_dmc_ver1_04.bin (v1.4)
nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  550.144.03
[drm] ring kiq_0.2.1.0 test passed
"""


@pytest.fixture(scope="module")
def named(matcher: Matcher) -> dict[str, list[dict[str, Any]]]:
    """Rows of each line of NAMED, by its number."""
    return recognise_texts(matcher, [(str(at), line) for at, (line, _, _) in enumerate(NAMED)])


@pytest.mark.parametrize("at", range(len(NAMED)), ids=lambda at: NAMED[at][1])
def test_a_line_gives_its_event_and_no_other(named: dict[str, list[dict[str, Any]]], at: int) -> None:
    line, event, fields = NAMED[at]
    rows = [row for row in named.get(str(at), []) if not row["is_fact"]]
    assert [row["event"] for row in rows] == [event], line
    assert {name: rows[0].get(name) for name in fields} == fields, line


def test_ordinary_lines_give_no_alarm(matcher: Matcher) -> None:
    rows = recognise_texts(matcher, [("kern.log", QUIET)]).get("kern.log", [])
    assert [(r["line"], r["event"]) for r in rows if r["severity"] in ALARMS and not r["is_fact"]] == []
