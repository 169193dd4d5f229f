"""Kernel and driver lines in the spellings that samples don't show: other addresses, other kernels, other drivers, cut text."""

from __future__ import annotations

from typing import Any

import pytest

from postmortem.catalogue.lint import recognise_texts
from postmortem.catalogue.matcher import Matcher

ALARMS = {"warning", "error", "fatal"}


def events(matcher: Matcher, text: str) -> list[dict[str, Any]]:
    """Rows of one file that are no facts, records merged, in line order."""
    rows = recognise_texts(matcher, [("kern.log", text)])["kern.log"]
    return [row for row in rows if not row["is_fact"]]


# Each line, its event, and the fields that are certain. Formats: torvalds/linux and NVIDIA/open-gpu-kernel-modules, in the files that the
# definitions name; lines of GPUd's, NVSentinel's and node-problem-detector's tests.
NAMED: list[tuple[str, str, dict[str, Any]]] = [
    # Xid: width and case of the address, no pid, unknown pid, MIG, NVLink 4 and 5, cut text
    (
        "NVRM: Xid (PCI:0000:9B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "gpu.xid",
        {"pci": "0000:9b:00.0", "xid": 79, "pid": None, "severity": "fatal"},
    ),
    (
        "NVRM: Xid (PCI:00000000:9b:00.0): 48, pid=1234, An uncorrectable double bit error (DBE) has been detected on GPU",
        "gpu.xid",
        {"pci": "0000:9b:00.0", "xid": 48, "pid": 1234},
    ),
    ("NVRM: Xid (PCI:10003:01:00): 13, Graphics Exception", "gpu.xid", {"pci": "10003:01:00.0", "xid": 13}),
    (
        "NVRM: Xid (PCI:0000:43:00): 74, pid=0, NVLink: failed to train link 3 to remote PCI:0000:44:00",
        "gpu.xid",
        {"xid": 74, "link": 3, "pci": "0000:43:00.0"},
    ),
    (
        "NVRM: Xid (PCI:0000:04:00): 145, pid='<unknown>', name=<unknown>, RLW_SRC_TRACK Nonfatal XC0 i0 Link 05 (0x00000002 0x2)",
        "gpu.xid",
        {"xid": 145, "code": "RLW_SRC_TRACK", "link": 5, "process": None, "severity": "error"},
    ),
    (
        "NVRM: Xid (PCI:0000:04:00): 150, MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000002 0x00000002)",
        "gpu.xid",
        {"xid": 150, "code": "MSE_WATCHDOG", "severity": "fatal"},
    ),
    (
        "NVRM: Xid (PCI:0000:43:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)",
        "gpu.xid",
        {"xid": 154, "recovery_action": "Drain P2P"},
    ),
    (
        "NVRM: Xid (PCI:0000:4f:00): 120, pid='<unknown>', name=<unknown>, GSP task exception: cause 0xc",
        "gpu.xid",
        {"xid": 120, "severity": "fatal"},
    ),
    ("NVRM: Xid (PCI:0000:3f:00): 61, pid=2203, 0cde(3098) 00000000 00000000", "gpu.xid", {"xid": 61, "pid": 2203}),
    # SXid
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28002, Non-fatal, Therm Warn Deactivated, instance=0, chiplet=0",
        "gpu.sxid",
        {"sxid": 28002, "severity": "warning"},
    ),
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 10004, PMGR OVERT Threshold reached. Shutting Down",
        "gpu.sxid",
        {"sxid": 10004, "reason": "PMGR OVERT Threshold reached. Shutting Down"},
    ),
    # AER, DPC, hotplug, IOMMU
    (
        "pcieport 0000:00:1c.5: AER: Multiple Correctable error message received from 0000:02:00.0",
        "pcie.aer_corrected",
        {"pci": "0000:00:1c.5", "value": "0000:02:00.0", "severity": "info"},
    ),
    (
        "pcieport 0000:00:1c.5: AER: Uncorrectable (Fatal) error message received from 0000:02:00.0",
        "pcie.aer_fatal",
        {"value": "0000:02:00.0"},
    ),
    (
        "nvidia 0000:3B:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        "pcie.aer_fatal",
        {"pci": "0000:3b:00.0", "reason": "Transaction Layer"},
    ),
    (
        "pcieport 0000:00:1c.5:pcie002: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, id=3b00(Receiver ID)",
        "pcie.aer_nonfatal",
        {"pci": "0000:00:1c.5"},
    ),
    ("pcieport 0000:00:1c.5: AER: Device recovery failed", "pcie.recovery_failed", {"pci": "0000:00:1c.5"}),
    (
        "dpc 0000:10:01.2:pcie208: DPC containment event, status:0x1f09 source:0x0000",
        "pcie.dpc",
        {"pci": "0000:10:01.2", "status": "0x1f09"},
    ),
    ("pciehp 0000:64:01.0:pcie004: Slot(3): Card not present", "pcie.device_removed", {"pci": "0000:64:01.0"}),
    (
        "DMAR: [INTR-REMAP] Request device [f0:1f.7] fault index 0x0 [fault reason 0x22] Present field in the IRTE entry is clear",
        "pcie.iommu_fault",
        {"pci": "0000:f0:1f.7", "reason": "Present field in the IRTE entry is clear"},
    ),
    (
        "nvme 0000:01:00.0: AMD-Vi: Event logged [INVALID_DEVICE_REQUEST device=0000:01:00.0 pasid=0x00000 address=0xfffffffdf8000000]",
        "pcie.iommu_fault",
        {"pci": "0000:01:00.0", "reason": "INVALID_DEVICE_REQUEST"},
    ),
    ("arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:", "pcie.iommu_fault", {"reason": "event 0x10 received"}),
    # mlx5
    (
        "mlx5_core 0000:05:00.0: mlx5_health_check_fatal_sensors:164:(pid 0): Fatal error 3 detected",
        "nic.health",
        {"pci": "0000:05:00.0", "severity": "fatal"},
    ),
    (
        "mlx5_core 0000:05:00.0: mlx5_cmd_check:782:(pid 2323): MODIFY_QP(0x502) op_mod(0x0) failed, status bad parameter(0x3)",
        "nic.fw_error",
        {"code": "MODIFY_QP(0x502)"},
    ),
    (
        "mlx5_core 0000:03:00.0: wait_func:970:(pid 1): DESTROY_MKEY(0x202) canceled on out of queue timeout.",
        "nic.fw_error",
        {"code": "DESTROY_MKEY(0x202)"},
    ),
    (
        "mlx5_core 0000:03:00.0: Port module event[error]: module 0, Cable error, Bus stuck(I2C or data shorted)",
        "nic.module",
        {"port": "0", "reason": "Bus stuck(I2C or data shorted)", "severity": "error"},
    ),
    (
        "mlx5_port_module_event:2345:(pid 1234): Port module event[warning]: module 1, Cable error, High Temperature",
        "nic.module",
        {"port": "1", "reason": "High Temperature"},
    ),
    (
        "mlx5_core 0000:03:00.0: Port module event: module 0, Cable disabled",
        "nic.module",
        {"reason": "disabled", "severity": "warning"},
    ),
    ("infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe", "nic.cqe_error", {"dev": "mlx5_0"}),
    ("bnxt_re 0000:01:00.0 bnxt_re0: Port: 1 Link DOWN", "nic.port_state", {"dev": "bnxt_re0", "severity": "error"}),
    # other NICs
    (
        "NETDEV WATCHDOG: ens1np0 (mlx5_core): transmit queue 12 timed out 5120 ms",
        "nic.tx_timeout",
        {"ifname": "ens1np0", "queue": 12, "elapsed_ms": 5120.0},
    ),
    ("mlx4_en: ens4: TX timeout on queue: 3, QP: 0x20a, CQ: 0x84", "nic.tx_timeout", {"ifname": "ens4", "queue": 3}),
    (
        "bnxt_en 0000:01:00.0 eth0: TX timeout detected, starting reset task!",
        "nic.tx_timeout",
        {"pci": "0000:01:00.0", "ifname": "eth0"},
    ),
    (
        "ena 0000:00:06.0 ens5: Lost TX completions are above the threshold (129 > 128). Completion transmission timeout: 5000.",
        "nic.tx_timeout",
        {"ifname": "ens5"},
    ),
    ("ena 0000:00:06.0 ens5: Keep alive watchdog timeout.", "nic.health", {"ifname": "ens5", "elapsed_ms": None}),
    (
        "bnxt_en 0000:01:00.0 (unnamed net_device) (uninitialized): Error (timeout: 500) msg {0x0 0x0} len:0",
        "nic.fw_error",
        {"pci": "0000:01:00.0"},
    ),
    (
        "ice 0000:98:00.0 ens2f0: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC",
        "link.up",
        {"value": "100", "unit": "Gbps"},
    ),
    ("tg3 0000:02:00.0 eno1: Link is down", "link.down", {"ifname": "eno1"}),
    ("cxgb4 0000:03:00.4 ens1f4: link down, link failed", "link.down", {"ifname": "ens1f4"}),
    # the host
    (
        "Memory cgroup out of memory: Killed process 5678 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB",
        "host.oom_kill",
        {"pid": 5678, "process": "python3"},
    ),
    (
        "INFO: task kworker/u256:1:1234 blocked for more than 120 seconds.",
        "host.hung_task",
        {"process": "kworker/u256:1", "pid": 1234},
    ),
    (
        "NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:4711]",
        "host.soft_lockup",
        {"process": "kworker/3:1", "pid": 4711, "elapsed_ms": 22000.0},
    ),
    ("INFO: rcu_sched self-detected stall on CPU { 3}  (t=60000 jiffies g=1 c=2 q=3)", "host.rcu_stall", {}),
    (
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 3: be00000000800400",
        "host.mce",
        {"value": "3", "code": "be00000000800400", "severity": "error"},
    ),
    (
        "{1}[Hardware Error]: event severity: corrected",
        "host.mce",
        {"reason": "corrected", "severity": "info"},
    ),
    (
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)",
        "host.edac",
        {"dev": "CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "severity": "fatal"},
    ),
    (
        "python3[4711]: segfault at 0 ip 00007f1c2 sp 00007ffde error 4 in libc-2.31.so[7f1c0000+1b2000] likely on CPU 3 (core 3, socket 0)",
        "host.segfault",
        {"pid": 4711, "path": "libc-2.31.so"},
    ),
    (
        "python3[4711]: segfault at 20 ip 00007f sp 00007f error 6",
        "host.segfault",
        {"process": "python3", "path": None},
    ),
    (
        "Oops: general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] PREEMPT SMP NOPTI",
        "host.oops",
        {"severity": "fatal"},
    ),
    ("Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled", "host.panic", {}),
    # storage
    ("print_req_error: critical target error, dev nvme0n1, sector 1", "host.disk_error", {"dev": "nvme0n1"}),
    (
        "critical space allocation error, dev dm-0, sector 1 op 0x1:(WRITE) flags 0x0",
        "host.disk_error",
        {"dev": "dm-0"},
    ),
    ("sd 0:0:0:0: [sda] tag#12 rejecting I/O to offline device", "host.disk_error", {"dev": "sda"}),
    ("device-mapper: multipath: 253:3: Failing path 8:16.", "host.disk_error", {"dev": "8:16"}),
    (
        "XFS (dm-0): Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x. Shutting down filesystem",
        "host.fs_error",
        {"dev": "dm-0"},
    ),
    ("JBD2: Detected IO errors while flushing file data on dm-0-8", "host.fs_error", {"dev": "dm-0-8"}),
    ("BTRFS info (device sda1: state EA): forced readonly", "host.fs_error", {"dev": "sda1"}),
    ("lockd: server 10.0.0.27 not responding, still trying", "host.storage_stall", {"peer": "10.0.0.27"}),
    ("lockd: server 10.0.0.27 OK", "host.storage_restored", {"peer": "10.0.0.27"}),
    (
        "libceph: mon0 (1)[fd00::1]:6789 session lost, hunting for new mon",
        "host.storage_stall",
        {"peer": "fd00::1"},
    ),
    (
        "LNetError: 2431:0:(o2iblnd_cb.c:3425:kiblnd_check_conns()) Timed out RDMA with 172.31.126.87@o2ib (107): c: 6, oc: 0",
        "host.storage_stall",
        {"peer": "172.31.126.87@o2ib"},
    ),
    (
        "CIFS: VFS: \\\\filer.example has not responded in 180 seconds. Reconnecting...",
        "host.storage_stall",
        {"peer": "filer.example"},
    ),
    # AMD
    (
        "amdgpu 0000:c5:00.0: [drm] *ERROR* ring sdma0 timeout, signaled seq=1255, emitted seq=1257",
        "gpu.hang",
        {"pci": "0000:c5:00.0", "severity": "fatal"},
    ),
    ("amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!. Source:  1", "gpu.reset", {"pci": "0000:c3:00.0"}),
    (
        "amdgpu 0000:c3:00.0: amdgpu: {1}socket: 4, die: 0, 12 new correctable hardware errors detected in gfx block",
        "gpu.ras_error",
        {"value": "12", "code": "gfx", "severity": "info"},
    ),
]


HEADS = {"bare": "", "dmesg": "[12345.678901] ", "syslog": "Nov 12 03:14:15 node-07 kernel: "}


@pytest.fixture(scope="module")
def named(matcher: Matcher) -> dict[str, list[dict[str, Any]]]:
    """Rows by `<head>/<number>` of every line under every head; the catalogue is run once."""
    texts = [(f"{name}/{n}", head + line) for name, head in HEADS.items() for n, (line, _, _) in enumerate(NAMED)]
    found = recognise_texts(matcher, texts)
    return {name: [row for row in rows if not row["is_fact"]] for name, rows in found.items()}


@pytest.mark.parametrize("number", range(len(NAMED)), ids=[line[:60] for line, _, _ in NAMED])
@pytest.mark.parametrize("head", HEADS)
def test_a_line_gives_its_event(named: dict[str, list[dict[str, Any]]], head: str, number: int) -> None:
    _, event, fields = NAMED[number]
    found = named[f"{head}/{number}"]
    assert [row["event"] for row in found] == [event]
    assert {key: found[0][key] for key in fields} == fields


# Details and companions of a message that has its event, and what healthy machines print.
QUIET = [
    "NVRM: GPU Board Serial Number: 1653900000510",
    "NVRM: objClInitPcieChipset: *** Chipset Setup Function Error!",
    "NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.",
    "NVRM: None of the NVIDIA devices were initialized.",
    "NVRM: has the version 535.104.05, but this kernel module has",
    "nvidia-nvswitch0: open (major=510)",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, EGRESS: MISC MC: 0x00000000",
    "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
    "pcieport 0000:00:1c.5: AER: found no error details for 0000:02:00.0",
    "pcieport 0000:64:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 4, DL_ActiveErr+",
    "pcieport 0000:64:01.0: pciehp: Slot(3): Card present",
    "pcieport 0000:64:01.0: pciehp: Slot #3 AttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+ Surprise+ Interlock- NoCompl+",
    "mlx5_core 0000:03:00.0: mlx5_pcie_event:301:(pid 12): PCIe slot advertised sufficient power (75W).",
    "mlx5_core: Detected insufficient power on the PCIe slot (27.5W).",
    "mlx5_core: Detected insufficient power on the PCIe slot (27 W).",
    "mlx5_core 0000:05:00.0: mlx5_error_sw_reset:284:(pid 11): start",
    "mlx5_core 0000:03:00.0: firmware version: 28.39.1002",
    "bnxt_en 0000:21:00.1 ens2f1np1: hwrm req_type 0x53 seq id 0x6fca error 0x2",
    "ena 0000:00:07.0 eth1: tx_timeout: 0",
    "IPv6: ADDRCONF(NETDEV_CHANGE): ens1f0: link becomes ready",
    "ata3: SATA link down (SStatus 0 SControl 300)",
    "Memory cgroup out of memory: OOM victim 4711 (python3) is already exiting. Skip killing the task",
    "INFO: task python3:4711 blocked on a mutex likely owned by task python3:4712.",
    "---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "mce: CPU6: Core temperature/speed normal",
    "{1}[Hardware Error]:   section_type: PCIe error",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:3a:0a.0 (INTERRUPT)",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: (null)",
    "XFS (sda1): Ending clean mount",
    "BTRFS info (device sda1): disk space caching is enabled",
    "nvme nvme0: 128/0/0 default/read/poll queues",
    "ceph: mds0 reconnect start",
    "amdgpu 0000:83:00.0: amdgpu: MODE1 reset",
    "amdgpu 0000:c3:00.0: amdgpu: 0 correctable hardware errors detected in total in umc block, no user action is needed.",
    "amdgpu 0000:83:00.0: amdgpu: [gfxhub0] retry page fault (src_id:0 ring:40 vmid:8 pasid:32776)",
]


def test_details_and_ordinary_lines_give_nothing(matcher: Matcher) -> None:
    texts = [(f"{n}", f"[12345.678901] {line}") for n, line in enumerate(QUIET)]
    found = recognise_texts(matcher, texts)
    assert [(QUIET[int(n)], row["event"]) for n, rows in found.items() for row in rows if not row["is_fact"]] == []


def test_one_fault_over_many_lines(matcher: Matcher) -> None:
    text = """\
[ 6265.301284] pcieport 0000:a9:10.0: AER: Uncorrectable (Fatal) error message received from 0000:aa:00.0
[ 6265.301290] nvidia 0000:aa:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)
[ 6265.301300] nvidia 0000:aa:00.0:   device [10de:2330] error status/mask=00040000/00180000
[ 6265.301310] nvidia 0000:aa:00.0:    [18] MalfTLP                (First)
[ 6265.301320] nvidia 0000:aa:00.0: AER:   TLP Header: 60001004 aa00000f 00000000 00000000
[ 6265.302000] NVRM: API mismatch: the client 'python3' (pid 4711)
               NVRM: has the version 535.104.05, but this kernel module has
               NVRM: the version 535.129.03.  Please make sure that this"""
    found = [(row["line"], row["event"], row["value"]) for row in events(matcher, text)]
    assert found == [
        (1, "pcie.aer_fatal", "0000:aa:00.0"),
        (2, "pcie.aer_fatal", None),
        (6, "gpu.driver_error", "535.104.05"),
    ]


def test_corrected_by_hardware_is_no_alarm(matcher: Matcher) -> None:
    lines = [
        "pcieport 0000:00:1c.5: AER: Corrected error received: 0000:02:00.0",
        "nvme 0000:02:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: 8c00004000010091",
        "nvidia-nvswitch1: SXid (PCI:0000:a9:00.0): 12021, Non-fatal, Link 05 egress input ECC error limit",
        "amdgpu 0000:c3:00.0: amdgpu: 1 correctable hardware errors detected in umc block, no user action is needed.",
    ]
    found = events(matcher, "\n".join(f"[12345.678901] {line}" for line in lines))
    assert len(found) == len(lines)
    assert {row["severity"] for row in found}.isdisjoint(ALARMS)
