"""What a bundle lacks makes a verdict less sure: no kernel of the host at a link's end, nothing of the job; and a switch seen from its nodes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from postmortem.analysis.model import Finding
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]

BEGIN = datetime(2026, 2, 3, 14, 0, 0)
CABLES = """\
Switch\t64 "S-fc6a1c0300e900e0"\t\t# "leaf-1" enhanced port 0 lid 7 lmc 0
[3]\t"H-b8599f03ca000f05"[1](b8599f03ca000f05) \t\t# "node-1 mlx5_0" lid 12 4xNDR
[4]\t"H-b8599f03ca000f06"[1](b8599f03ca000f06) \t\t# "node-1 mlx5_1" lid 13 4xNDR
[5]\t"H-b8599f03ca000f07"[1](b8599f03ca000f07) \t\t# "node-2 mlx5_0" lid 14 4xNDR
"""
FABRIC = """\
Feb 03 14:05:00 646202 [4F2006C0] 0x02 -> osm_pi_rcv_process: Switch 0xfc6a1c0300e900e0 leaf-1 port 3 changed state from ACTIVE to DOWN
"""
BACK = """\
Feb 03 14:05:01 646202 [4F2006C0] 0x02 -> osm_pi_rcv_process: Switch 0xfc6a1c0300e900e0 leaf-1 port 3 changed state from DOWN to INIT
Feb 03 14:05:03 646202 [4F2006C0] 0x02 -> osm_pi_rcv_process: Switch 0xfc6a1c0300e900e0 leaf-1 port 3 changed state from ACTIVE to DOWN
"""
JOB = """\
[2026-02-03 14:04:50.000000] node-1:100:200 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 9d000 commId 0x5f1d - Init COMPLETE
[2026-02-03 14:05:10.000000] node-1:100:300 [0] transport/net_ib.cc:1695 NCCL WARN NET/IB : Got completion from peer 10.40.2.12<58626> with status=12 opcode=0 len=0 vendor err 129 (Send)
[2026-02-03 14:05:11.000000] [rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error
"""
STEPS = "".join(
    f"[2026-02-03 14:0{4 + k // 6}:{k % 6}0.000000] iteration {k + 1:8}/    9000 | consumed samples: {k * 128:12} | elapsed time per iteration (ms): 10000.0 | global batch size:   128 | lm loss: 7.3E+00 |\n"
    for k in range(7)
)
RACK = "2026-02-03T14:05:0{}.000000+00:00 node-{} kernel: [1000.000000] mlx5_core 0000:93:00.0 enp147s0np0: Link down\n"
IB = "kern  :warn  : 2026-02-03T14:05:0{0},500000+00:00 mlx5_core 0000:{1}:00.0 mlx5_{0}: Port: 1 Link DOWN\n"
KILLED = "2026-02-03T14:05:00.000000+00:00 node-1 kernel: [1000.000000] Out of memory: Killed process 101 (python3) total-vm:2002280kB, anon-rss:1326132kB, file-rss:97748kB, shmem-rss:0kB, UID:0 pgtables:3128kB oom_score_adj:0\n"
QUIET = "2026-02-03T14:01:00.000000+00:00 {} kernel: [700.000000] mlx5_core 0000:bc:00.0: Port module event: module 0, Cable unplugged\n"


def first(analyse: Analyse, files: Mapping[str, str]) -> Finding:
    return analyse(files).analysis.findings[0]


@pytest.fixture
def switch_alone() -> dict[str, str]:
    return {"opensm.log": FABRIC, "ibnetdiscover.txt": CABLES, "node-1.log": JOB, "train.log": STEPS}


def test_a_link_that_only_the_switch_saw_go_down_for_good_may_be_any_part_of_it(
    analyse: Analyse, switch_alone: dict[str, str]
) -> None:
    found = first(analyse, switch_alone)
    assert found.cause == "link_flap"
    assert found.confidence < 0.7
    assert found.next_steps[0].startswith("Get the kernel log of node-1: ")


def test_a_link_that_goes_down_again_and_again_is_a_link(analyse: Analyse, switch_alone: dict[str, str]) -> None:
    found = first(analyse, {**switch_alone, "opensm.log": FABRIC + BACK})
    assert found.cause == "link_flap"
    assert found.confidence >= 0.7


def test_the_kernel_at_the_other_end_makes_it_sure(analyse: Analyse, switch_alone: dict[str, str]) -> None:
    line = "2026-02-03T14:05:00.500000+00:00 node-1 kernel: [1000.000000] mlx5_core 0000:bc:00.0 mlx5_0: Port: 1 Link DOWN\n"
    found = first(analyse, {**switch_alone, "node-1/kern.log": line})
    assert found.cause == "link_flap"
    assert found.confidence >= 0.7


def test_without_the_job_no_fault_of_several_machines_is_sure(analyse: Analyse) -> None:
    machines = {"node-1/kern.log": KILLED, "node-2/kern.log": QUIET.format("node-2")}
    bare = analyse(machines).analysis
    assert bare.verdict.cause == "host_oom"
    assert bare.verdict.confidence < 0.7
    assert any("Nothing of the job" in one for one in bare.coverage.left_out)
    alone = analyse({"kern.log": KILLED}).analysis
    assert alone.verdict.confidence >= 0.7
    assert not any("Nothing of the job" in one for one in alone.coverage.left_out)


def test_what_the_program_says_twice_is_one_source(analyse: Analyse) -> None:
    """Without steps a broken queue pair may be the first use of a wrong network; that torch and other ranks repeat it makes it no surer."""
    more = JOB.replace("node-1:100", "node-1:101").replace("[0]", "[1]").replace("rank 0", "rank 1")
    found = first(analyse, {"node-1.log": JOB, "node-1b.log": more})
    assert found.confidence < 0.7


def test_links_of_several_nodes_at_once_are_one_switch(analyse: Analyse) -> None:
    files = {f"node-{k}/kern.log": RACK.format(k, k) for k in (1, 2, 3)}
    found = first(analyse, {**files, "node-1.log": JOB, "train.log": STEPS})
    assert (found.cause, found.culprit.switch, found.culprit.host) == ("switch_failure", None, None)
    two = {name: text for name, text in files.items() if name != "node-3/kern.log"}
    assert first(analyse, {**two, "node-1.log": JOB, "train.log": STEPS}).cause == "link_flap"


def test_the_cable_list_names_the_switch(analyse: Analyse) -> None:
    kernels = {
        "node-1/dmesg": IB.format(0, "bc") + IB.format(1, "bd"),
        "node-2/dmesg": IB.format(0, "bc"),
    }
    found = first(analyse, {**kernels, "ibnetdiscover.txt": CABLES, "node-1.log": JOB, "train.log": STEPS})
    assert (found.cause, found.culprit.switch) == ("switch_failure", "leaf-1")


def test_all_links_of_one_node_are_the_nodes(analyse: Analyse) -> None:
    cables = CABLES.replace("node-2 mlx5_0", "node-1 mlx5_2")
    kernel = {"node-1/dmesg": "".join(IB.format(k, pci) for k, pci in enumerate(("bc", "bd", "be")))}
    found = first(analyse, {**kernel, "ibnetdiscover.txt": cables, "node-1.log": JOB, "train.log": STEPS})
    assert found.cause != "switch_failure"


def test_a_helper_that_was_killed_is_not_made_a_fault_by_broken_connections(analyse: Analyse) -> None:
    helper = KILLED.replace("Out of memory", "Memory cgroup out of memory").replace("python3", "dcgm-exporter")
    found = analyse({"node-1/kern.log": helper, "node-1.log": JOB, "train.log": STEPS}).analysis.verdict
    assert found.cause != "host_oom" or found.confidence < 0.7


def test_a_switch_takes_only_its_own_ports(analyse: Analyse) -> None:
    """Another switch that lost its ports a minute before does not explain a link that the cable list has on this one."""
    other = "".join(
        f"Feb 03 14:04:0{k} 100000 [4F2006C0] 0x02 -> osm_pi_rcv_process: Switch 0xfc6a1c0300e900e1 leaf-2 port {k + 1} changed state from ACTIVE to DOWN\n"
        for k in range(4)
    )
    line = "2026-02-03T14:05:00.500000+00:00 node-1 kernel: [1000.000000] mlx5_core 0000:bc:00.0 mlx5_0: Port: 1 Link DOWN\n"
    files = {"opensm.log": other + FABRIC, "ibnetdiscover.txt": CABLES, "node-1/kern.log": line, "node-1.log": JOB}
    found = first(analyse, {**files, "train.log": STEPS})
    assert (found.cause, found.culprit.switch) == ("link_flap", "leaf-1")


@pytest.mark.parametrize(("slow_ms", "is_slow"), [(10_000, False), (20_000, True)])
def test_a_job_that_was_stopped_after_slow_steps_was_stopped_for_a_reason(
    analyse: Analyse, slow_ms: int, is_slow: bool
) -> None:
    steps, second = [], 0.0
    for number in range(60):
        took = slow_ms if number >= 30 else 10_000
        second += took / 1000
        stamp = (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")
        steps.append(
            f"[{stamp}] iteration {number + 1:8}/    9000 | consumed samples: {number * 128:12} | elapsed time per iteration (ms): {took}.0 | global batch size:   128 | lm loss: 7.3E+00 |\n"
        )
    end = (BEGIN + timedelta(seconds=second + 5)).strftime("%Y-%m-%dT%H:%M:%S")
    slurm = f"slurmstepd: error: *** STEP 4339976.0 ON node-1 CANCELLED AT {end} ***\n"
    found = analyse({"train.log": "".join(steps), "slurm-4339976.out": slurm}).analysis.verdict
    assert found.cause == "cancelled"
    assert (found.confidence < 0.7) == is_slow
    assert ("not established" in found.summary) == is_slow


@pytest.mark.parametrize(("slow", "is_said"), [(60, True), (6, False)], ids=["for long", "at the start alone"])
def test_a_job_was_stopped_for_slow_steps_only_where_they_lasted(analyse: Analyse, slow: int, is_said: bool) -> None:
    """A job of ten-second steps, `slow` of them at twice that, that somebody cancels."""
    lines, at = [], BEGIN
    for k in range(120):
        took = 20.0 if (k < slow if slow < 10 else k >= 120 - slow) else 10.0
        at += timedelta(seconds=took)
        lines.append(
            f"[{at:%Y-%m-%d %H:%M:%S}.000000] iteration {k + 1:8}/    9000 | consumed samples: {k * 128:12} | elapsed time per iteration (ms): {took * 1000:.1f} | global batch size:   128 | lm loss: 7.3E+00 |\n"
        )
    end = f"slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT {at + timedelta(seconds=5):%Y-%m-%dT%H:%M:%S} ***\n"
    found = analyse({"train.log": "".join(lines), "slurm-4711.out": end}).analysis
    assert found.verdict.cause == "cancelled"
    assert ("slow steps" in found.verdict.summary) == is_said
    assert found.loss.slow_steps == slow
