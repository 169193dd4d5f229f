"""Hosts and ranks out of names: those that are named, and the many words that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.bundle import HostHint, host_hint, host_hints, rank_hint

SOURCE_FOLDERS = """
    kernel nccl switch switches trainer torch scheduler profiler topology logs log var sos_commands flight_recorder
    rank ranks hosts nodes dmesg
"""
SOS = "sosreport-worker5-2026-05-18-jyhykqe"


@pytest.mark.parametrize(
    ("name", "host", "basis"),
    [
        ("node017/dmesg", "node017", "folder"),
        ("dmesg-gpu-host-003.log", "gpu-host-003", "name"),
        (f"{SOS}.tar.gz!/{SOS}/var/log/messages", "worker5", "folder"),
        (f"{SOS}.tar.xz", "worker5", "name"),
        ("sosreport-ip-10-33-0-4-2026-05-18-jyhykqe/date", "ip-10-33-0-4", "folder"),
        ("sonic_dump_leaf-3_20260304_050607/dump/lldp.table", "leaf-3", "folder"),
        ("sonic_dump_str-msn2700-01_20260304_050607.tar.gz!/x/log/syslog", "str-msn2700-01", "folder"),
        ("cl_support_leaf-3_20260304_050607/var/log/syslog", "leaf-3", "folder"),
        ("sosreport-cn12-0123456-2026-05-18-jyhykqe/date", "cn12", "folder"),
        ("messages-ip-10-33-0-4.log", "ip-10-33-0-4", "name"),
        ("messages-h200-0017.log.1", "h200-0017", "name"),
        ("messages-cn119-20260518.gz", "cn119", "name"),
        ("hosts/h200-0017/kern.log", "h200-0017", "folder"),
        ("hosts/athena/kern.log", "athena", "folder"),
        ("hosts/10.0.0.4/kern.log", "10.0.0.4", "folder"),
        ("nodes/odin3.log", "odin3", "name"),
        ("switches/leaf-1a.log", "leaf-1a", "name"),
        ("switch-leaf-1e.log", "leaf-1e", "name"),
        ("switch-switch2.log", "switch2", "name"),
        ("leaf-1a-show-lldp-neighbors.txt", "leaf-1a", "name"),
        ("topology/leaf-07.lldp.json", "leaf-07", "name"),
        ("torchrun-gpu-host-007.log", "gpu-host-007", "name"),
        ("deepspeed-worker12.log", "worker12", "name"),
        ("nccl.pretrain-worker-0.1533.log", "pretrain-worker-0", "name"),
        ("nccl.gpt-7b-worker-3.1533.log", "gpt-7b-worker-3", "name"),
        ("nccl.my-training-job-worker-0.77", "my-training-job-worker-0", "name"),
        ("nccl.athena.1533.log", "athena", "name"),
        ("nccl-h100-28.log", "h100-28", "name"),
        ("profiler/ncclprof-node-03-24022.txt", "node-03", "name"),
        ("profiler/ncclprof-worker5-24022.txt", "worker5", "name"),
        ("profiler/nccl-inspector-ip-10-33-0-11.jsonl", "ip-10-33-0-11", "name"),
        ("profiler/nccl-inspector-h200-0024.jsonl", "h200-0024", "name"),
        ("dmesg.node-3", "node-3", "name"),
        ("node-3.dmesg.txt", "node-3", "name"),
        ("gpu12_kern.log", "gpu12", "name"),
        ("kern.log.node3", "node3", "name"),
        ("journal_gpu12.txt", "gpu12", "name"),
        ("dmesg-athena.log", "athena", "name"),
        ("messages-odin-03.log", "odin-03", "name"),
        ("uptime-s-worker8.txt", "worker8", "name"),
        ("host-ibstatus-node045.log", "node045", "name"),
        ("torchrun-stderr-node3.log", "node3", "name"),
        ("train-worker-0.log", "worker-0", "name"),
        ("node-3.log", "node-3", "name"),
        ("jz023/dmesg.txt", "jz023", "folder"),
        ("worker6/rank_12.log", "worker6", "folder"),
        ("logs-worker6.tar.gz!/train.log", "worker6", "folder"),
        ("i-0abc1234def567890/messages", "i-0abc1234def567890", "folder"),
        ("node-5_nccl.log", "node-5", "folder"),
        ("switches_leaf-04.log", "leaf-04", "name"),
    ],
)
def test_a_named_host(name: str, host: str, basis: str) -> None:
    hint = host_hint(name)
    assert hint is not None
    assert (hint.host, hint.basis) == (host, basis)


@pytest.mark.parametrize("folder", SOURCE_FOLDERS.split())
def test_a_folder_called_after_a_source_is_no_host(folder: str) -> None:
    assert host_hint(f"{folder}/x.log") is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{word}/x.log"
            for word in [
                "kernel",
                "nccl",
                "switch",
                "switches",
                "trainer",
                "torch",
                "scheduler",
                "profiler",
                "topology",
            ]
        ),
        *(
            f"{word}/x.log"
            for word in [
                "logs",
                "log",
                "var",
                "sos_commands",
                "flight_recorder",
                "rank",
                "ranks",
                "hosts",
                "nodes",
                "dmesg",
            ]
        ),
        "rank_00003.log",
        "rank3",
        "rank_7/stdout.log",
        "train.log",
        "network-syslog.log",
        "opensm.log",
        "slurm-1234.out",
        "slurm-job.out",
        "kernel/kernel-0173.log",
        "nccl/nccl-0173.log",
        "host/host-0012.log",
        "switch/switch-0044.log",
        "2026-05-18/dmesg",
        "20260518/messages",
        "messages-20260518",
        "messages.1",
        "syslog.old",
        "dmesg-T.log",
        "dmesg-boot1.txt",
        "dmesg-6.8.0-45.txt",
        "kernel-5.15.0-91-generic.log",
        "leaf-1a-to-leaf-2b.txt",
        "0017/dmesg",
        "run3/dmesg",
        "job2/dmesg",
        "attempt_0/3/stdout.log",
        "attempt1/train.log",
        "train-job1.log",
        "llama70b/train.log",
        "torchrun-gpt2.log",
        "deepspeed-zero3.log",
        "gpu3/output.log",
        "switch-sonic.log",
        "switch-transceiver-status.log",
        "host-nvidia-smi.log",
        "torchrun-2nodes-sigkill-node0.log",
        "xid79-h100-node.dmesg.log",
        "xid79/dmesg.log",
        "nccl.rank3.1533.log",
        "nccl.debug.1533.log",
        "nccl_trace_rank_12",
        "worker_3.log",
        "hosts/inventory.txt",
        "network/ibdiagnet2.log",
        "step_times_per_rank.csv",
        "k8s-events.jsonl",
        "h100/train.log",
        "",
        "/",
        "!/",
    ],
)
def test_no_host(name: str) -> None:
    assert host_hint(name) is None


def test_the_file_comes_before_the_folder() -> None:
    assert host_hints("h200-0017/nccl.pretrain-worker-0.1533.log") == (
        HostHint("pretrain-worker-0", "name"),
        HostHint("h200-0017", "folder"),
    )


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_00003.log", 3),
        ("rank3.out", 3),
        ("RANK-12.txt", 12),
        ("nccl_trace_rank_12", 12),
        ("flight_recorder/comm_lib_trace_rank_0.json", 0),
        ("x.tar!/logs/rank_7/stdout.log", 7),
        ("trace_dump_12", 12),
        ("fr_dump_4.json.gz", 4),
        ("rank_7/rank_8.log", 8),
        ("train.log", None),
        ("attempt_0/3/stdout.log", None),
        ("local_rank_3.log", None),
        ("node_rank1.log", None),
        ("nranks16.log", None),
        ("rank_0_to_7.log", None),
        ("rank0-7.log", None),
        ("crank3x.log", None),
        ("step_times_per_rank.csv", None),
        ("rank_999999999999.log", None),
        ("dmesg_dump_latest", None),
    ],
)
def test_rank(name: str, rank: int | None) -> None:
    assert rank_hint(name) == rank


@given(st.text(max_size=200))
def test_hints_take_any_name(name: str) -> None:
    host_hints(name)
    rank_hint(name)
