"""Containers of evidence as their makers pack them: every member is found and read as what it is."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str | bytes]], "Incident"]

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
LLDP = "LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr\n------------  --------------  --------------  ------------  -----------------\nEthernet0    node-07         enp25s0np0      RS            ConnectX-7\n"
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0xa088c20300b5a1e0
\tSystem image GUID: 0xa088c20300b5a1e0
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 17
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa651e84a
\t\tPort GUID: 0xa088c20300b5a1e0
\t\tLink layer: InfiniBand
"""
ADDRESS = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: enp25s0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000
    link/ether a0:88:c2:b5:a1:e0 brd ff:ff:ff:ff:ff:ff
    inet 10.20.30.7/24 brd 10.20.30.255 scope global enp25s0np0
       valid_lft forever preferred_lft forever
"""
ETHTOOL = "NIC statistics:\n     rx_packets: 1840\n     tx_packets: 1722\n     rx_crc_errors_phy: 17\n     link_down_events_phy: 3\n"
SMI = """
==============NVSMI LOG==============

Timestamp                                 : Wed Mar  4 05:06:07 2026
Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Brand                         : NVIDIA
    Serial Number                         : 1650000000001
    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555
    Minor Number                          : 3
    PCI
        Bus                               : 0x3B
        Device                            : 0x00
        Domain                            : 0x0000
        Bus Id                            : 00000000:3B:00.0
"""


def tar(files: Mapping[str, str | bytes]) -> bytes:
    """A tar archive of `files`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return out.getvalue()


def kinds(incident: Incident) -> dict[str, str]:
    """Kind of each file, by the last part of its name."""
    rows = incident.con.sql("SELECT regexp_extract(file, '[^/]+$'), kind FROM files").fetchall()
    return dict(rows)


def test_sosreport(analyse: Analyse) -> None:
    top = "sosreport-node-07-2026-03-04-abcdefg"
    files = {
        f"{top}/var/log/kern.log": f"Mar  4 05:06:07 node-07 kernel: {XID}\n",
        f"{top}/sos_commands/kernel/dmesg": f"[12345.678901] {XID}\n",
        f"{top}/sos_commands/networking/ip_-d_address": ADDRESS,
        f"{top}/sos_commands/networking/ethtool_-S_enp25s0np0": ETHTOOL,
        f"{top}/sos_commands/infiniband/ibstat": IBSTAT,
        f"{top}/sos_commands/nvidia/nvidia-smi_-q": SMI,
        f"{top}/sos_commands/date/date": "Wed Mar  4 05:10:00 UTC 2026\n",
        f"{top}/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "3\n",
        f"{top}/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    }
    con = analyse({f"{top}.tar.xz": lzma.compress(tar(files))}).con
    assert con.sql("SELECT DISTINCT host, event, xid FROM events WHERE xid IS NOT NULL").fetchall() == [
        ("node-07", "gpu.xid", 79)
    ]
    assert ("10.20.30.7", "node-07", "enp25s0np0") in con.sql("SELECT address, host, ifname FROM addresses").fetchall()
    assert con.sql("SELECT host, dev, guid FROM nics WHERE dev = 'mlx5_0'").fetchall() == [
        ("node-07", "mlx5_0", "0xa088c20300b5a1e0")
    ]
    assert con.sql("SELECT host, pci, model FROM gpus").fetchall() == [
        ("node-07", "0000:3b:00.0", "NVIDIA H100 80GB HBM3")
    ]
    assert con.sql("SELECT host, ifname, dev, value FROM counters WHERE counter LIKE 'link_down%' ORDER BY ALL").fetchall() == [
        ("node-07", "enp25s0np0", None, 3.0),
        ("node-07", None, "mlx5_0", 3.0),
    ]  # fmt: skip


def test_nvidia_bug_report(analyse: Analyse) -> None:
    rule = "____________________________________________\n\n"
    text = (
        f"{rule}Start of NVIDIA bug report log file.  Please include this file, along\n\n"
        f"nvidia-bug-report.sh Version: 36000000\n\nDate: Wed Mar  4 05:10:00 UTC 2026\n"
        f"uname: Linux node-07 6.1.0 #1 SMP x86_64 GNU/Linux\n{rule}"
        f"*** /etc/issue\n*** ls: -rw-r--r-- 1 root root 26 2024-01-01 00:00:00 /etc/issue\nUbuntu\n{rule}"
        f"/usr/bin/nvidia-smi --query\n{SMI}\n{rule}"
        f"/usr/bin/journalctl -b -0 _COMM=kernel:\n\nMar 04 05:06:07 node-07 kernel: {XID}\n{rule}"
        f"/usr/sbin/ibstat\n\n{IBSTAT}\n{rule}End of NVIDIA bug report log file.\n"
    )
    incident = analyse({"nvidia-bug-report.log.gz": gzip.compress(text.encode())})
    con = incident.con
    lines = text.split("\n")
    ((host, event, line),) = con.sql("SELECT host, event, line FROM events WHERE xid = 79").fetchall()
    assert (host, event) == ("node-07", "gpu.xid")
    assert XID in lines[line - 1]
    ((host, pci, uuid, line),) = con.sql("SELECT host, pci, gpu_uuid, line FROM gpus").fetchall()
    assert (host, pci, uuid) == ("node-07", "0000:3b:00.0", "GPU-11111111-2222-3333-4444-555555555555")
    assert "GPU 00000000:3B:00.0" in lines[line - 1]
    assert con.sql("SELECT host, dev FROM nics WHERE guid IS NOT NULL").fetchall() == [("node-07", "mlx5_0")]


def test_sonic_techsupport(analyse: Analyse) -> None:
    top = "sonic_dump_leaf-3_20260304_050607"
    log = "2026 Mar  4 05:06:07.123456 leaf-3 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet0 oper state set from up to down\n"
    files: dict[str, str | bytes] = {
        f"{top}/log/syslog.1.gz": gzip.compress(log.encode()),
        f"{top}/dump/lldp.table": LLDP,
        f"{top}/dump/show.lldp.table": f"Executing: show lldp table\n{LLDP}",
    }
    con = analyse({f"{top}.tar.gz": gzip.compress(tar(files))}).con
    assert con.sql("SELECT host, event, ifname FROM events").fetchall() == [("leaf-3", "link.down", "Ethernet0")]
    assert set(con.sql("SELECT switch, port, host, dev FROM ports").fetchall()) == {
        ("leaf-3", "Ethernet0", "node-07", "enp25s0np0")
    }


def test_ufm_dump(analyse: Analyse) -> None:
    event = (
        "2026-03-04 05:06:07.123 [5] [329] WARNING [Fabric_Topology] Link [b8599f0300fc6de4_17 : a088c20300b5a1e0_1]: Link went down: "
        "(Switch:leaf-3:1/9/1)b8599f0300fc6de4:17 - (Computer:node-07 mlx5_0)a088c20300b5a1e0:1, cable S/N: MT0000FT00000\n"
    )
    topology = """vendid=0x2c9
devid=0xd2f2
switchguid=0xb8599f0300fc6de4(b8599f0300fc6de4)
Switch\t41 "S-b8599f0300fc6de4"\t\t# "MF0;leaf-3:MQM9700/U1" enhanced port 0 lid 4 lmc 0
[17]\t"H-a088c20300b5a1e0"[1](a088c20300b5a1e0) \t\t# "node-07 mlx5_0" lid 17 4xNDR
"""
    files = {"opt/ufm/files/log/event.log": event, "opt/ufm/files/log/ibnetdiscover.out": topology}
    con = analyse({"ufm-sysdump-20260304.tgz": gzip.compress(tar(files))}).con
    assert con.sql("SELECT event, host FROM events").fetchall() == [("link.down", "leaf-3")]
    assert ("leaf-3", "17", "node-07", "mlx5_0") in con.sql("SELECT switch, port, host, dev FROM ports").fetchall()


def test_kubectl_cluster_info_dump(analyse: Analyse) -> None:
    pod = {
        "metadata": {"name": "job-0", "namespace": "default"},
        "spec": {"nodeName": "node-07"},
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {
                    "name": "pytorch",
                    "state": {
                        "terminated": {
                            "exitCode": 137,
                            "reason": "OOMKilled",
                            "startedAt": "2026-03-04T04:00:00Z",
                            "finishedAt": "2026-03-04T05:06:07Z",
                        }
                    },
                }
            ],
        },
    }
    pods = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod]}, indent=4)
    log = "[rank12]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    con = analyse(
        {"cluster-dump/default/pods.json": pods, "cluster-dump/default/job-0/logs.txt": f"==== START logs for container pytorch of pod default/job-0 ====\n{log}==== END logs for container pytorch of pod default/job-0 ====\n"}
    ).con  # fmt: skip
    assert con.sql("SELECT event, pod FROM events WHERE event = 'pod.oom_killed'").fetchall() == [
        ("pod.oom_killed", "job-0")
    ]
    assert con.sql("SELECT rank FROM events WHERE event = 'torch.cuda_error'").fetchall() == [(12,)]
    assert con.sql("SELECT pod, host FROM facts WHERE fact = 'pod.node'").fetchall()[0] == ("job-0", "node-07")
