"""What lines of kernels, switches, management controllers and storage speak for, each beside the like of it that means another thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]

RPC = "Timeout after 10s of waiting for RPC response from GPU1 GSP! Expected function 21 (DUP_OBJECT) sequence 3200 (0x0 0x0)."
CQE = "[15601.662156] infiniband mlx5_0: mlx5_poll_one:527:(pid 0): Requestor error cqe on cqn 0x406:\n[15601.662158] infiniband mlx5_0: mlx5_poll_one:530:(pid 0): syndrome {}, vendor syndrome 0xf9"
REDFISH = '{{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0/LogServices/EventLog/Entries/9","Created":"2026-02-03T17:02:11+00:00","EntryType":"Event","Message":"The resource property {} has detected errors of type {}.","MessageId":"ResourceEvent.1.0.ResourceErrorsDetected","Severity":"Critical"}}'
OOM = "[2612362.231458] {} invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=829"
LINES: tuple[tuple[str, str | None], ...] = (
    # a number of the driver's whose text is another one's
    (f"[  412.114021] NVRM: Xid (PCI:0000:05:00): 175, pid=8123, name=python3, {RPC}", "gpu_fault"),
    ("[  412.114021] NVRM: Xid (PCI:0000:05:00): 175, pid=8123, name=python3, Memory subsystem error", "gpu_memory"),
    # a request that was flushed, one whose protection domain is wrong, one that the path lost
    (CQE.format("0x5"), None),
    (CQE.format("0x4"), "nic_fault"),
    # the baseboard's own log
    (REDFISH.format("GPU_SXM_5 Memory", "Uncorrectable ECC Error"), "gpu_memory"),
    (REDFISH.format("GPU_SXM_7 PowerGood", "GPU Power Good Abnormal change"), "gpu_fault"),
    (REDFISH.format("'GPU_SXM_2 NVLink_9'", "'NVLink Training Error'"), "nvlink_fault"),
    (REDFISH.format("GPU_SXM_1 Driver Event Message", "[1771239411][17][0] XID 79 GPU has fallen off the bus."), "pcie_drop"),
    (REDFISH.format("GPU_SXM_1 PCIe", "PCIe link error - Correctable"), None),
    # who asked for memory when there was none
    (OOM.format("python"), "host_oom"),
    # storage that does not answer, and a client that waits for it
    ("[1.5] beegfs: elb-wrk-1(163500): writefile (communication): Communication error. Node: node_storage_1", "storage_stall"),
    ("[2019-07-11 03:29:12.540968] E [MSGID: 108006] [afr-common.c:5318:__afr_handle_child_down_event] 0-v-replicate-0: All subvolumes are down. Going offline until at least one of them comes back up.", "storage_stall"),
    ("[2019-07-11 03:29:12.540935] I [MSGID: 114018] [client.c:2323:client_rpc_notify] 0-v-client-1: disconnected from v-client-1. Client process will keep trying to connect to glusterd until brick's port is available", None),
    ('{"category":"Filesystem","severity":"CRITICAL","timestamp":"2026-02-03T17:02:11.123456Z","type":"HangingDriverFrontendIosDetected","description":"Some IOs are hanging."}', "storage_stall"),
    ("2026-02-03T17:02:11 NodeId<42> Drive MAJOR DriveDead Drive is unresponsive and fails to return IOs for extended period.", None),
    # an NVLink domain that is set up wrongly
    ("[Mar 21 2025 20:45:38] [ERROR] [tid 39] No matching network interface found for any IP addresses in the node configuration file", "network_config"),
    # switches
    ("chassisd:Jul 30 17:48:57 CHASSISD_OVER_TEMP_SHUTDOWN_TIME: Chassis temperature above 90 degrees C for too long (> 240 seconds); powering down all FRUs", "switch_failure"),
    ("Sep 23 10:17:30 mx204-1 chassisd[1509]: CHASSISD_FRU_OFFLINE_NOTICE: Taking PEM 1 offline: Removal", None),
    ("Jan 21 07:24:13.393 2026  mx-1 chassisd[27847]: %DAEMON-5-CHASSISD_FRU_OFFLINE_NOTICE: Taking FPC 1 offline: Offlined by cli command", None),
    ("Mar 17 05:40:04.883349 leaf-1 INFO swss#supervisord 2020-03-17 05:39:55,585 INFO exited: orchagent (terminated by SIGABRT (core dumped); not expected)", "switch_failure"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), LINES, ids=[f"{n}-{cause}" for n, (_, cause) in enumerate(LINES)])
def test_what_a_line_speaks_for(analyse: Analyse, line: str, cause: str | None) -> None:
    """None: nothing is established, and no cause is named as sure."""
    verdict = analyse({"node.log": line + "\n"}).analysis.verdict
    assert verdict.cause == (cause or "unknown")


def test_what_a_switch_says_of_its_ports_makes_it_no_node(analyse: Analyse) -> None:
    """The description of a port stands in the line that says that it went down."""
    log = "Feb 15 01:40:18 SW-1 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet35 (Server35), changed state to down\n"
    culprit = analyse({"SW-1.log": log}).analysis.findings[0].culprit
    assert (culprit.switch, culprit.switch_port, culprit.host) == ("SW-1", "Ethernet35", None)
