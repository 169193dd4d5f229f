"""Who is who: each join of two names, the near miss that must give none, and the chain from switch port to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from postmortem.analysis.model import Hop
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)


def stamp(second: float, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return (BEGIN + timedelta(seconds=second)).strftime(form)


def kernel(host: str, second: float, text: str) -> str:
    return f"{stamp(second, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 {host} kernel: [{1000 + second:.6f}] {text}\n"


def switch(name: str, second: float, port: str, state: str = "down") -> str:
    """A link that changes, as Arista's switches print it."""
    return f"{stamp(second, '%b %d %H:%M:%S')} {name} Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface {port}, changed state to {state}\n"


def nccl(host: str, pid: int, text: str, second: float = 0.0) -> str:
    return f"[{stamp(second)}] {host}:{pid}:{pid + 1} [0] NCCL INFO {text}\n"


def init(
    host: str,
    rank: int,
    nranks: int,
    bus: str,
    *,
    nvml: int | None = None,
    cuda: int = 0,
    pid: int | None = None,
    second: float = 0.0,
) -> str:
    index = f" nvmlDev {nvml}" if nvml is not None else ""
    comm = f"ncclCommInitRank comm 0x55d0 rank {rank} nranks {nranks} cudaDev {cuda}{index} busId {bus} commId 0x5f1d - Init COMPLETE"
    return nccl(host, 100 + rank if pid is None else pid, comm, second)


def using(host: str, pid: int, *devices: str, link: str = "IB") -> str:
    listed = " ".join(f"[{n}]{d}:1/{link}" for n, d in enumerate(devices))
    return nccl(host, pid, f"NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.5<0>")


def rows(incident: Incident, sql: str, *values: object) -> list[tuple[Any, ...]]:
    return incident.con.execute(sql, list(values)).fetchall()


def steps(last: int = 30) -> str:
    line = "iteration {:8}/    9000 | consumed samples: {:12} | elapsed time per iteration (ms): 10000.0 | global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |"
    return "".join(f"[{stamp(10.0 * n)}] {line.format(n + 1, n * 128)}\n" for n in range(last))


# ---- pods, containers, nodes ------------------------------------------------------------------------------------------


SCHEDULED = '{{"apiVersion":"v1","kind":"Event","type":"Normal","reason":"Scheduled","message":"Successfully assigned training/{pod} to {node}","lastTimestamp":"2026-02-03T13:58:00Z","involvedObject":{{"kind":"Pod","namespace":"training","name":"{pod}"}}}}\n'


def test_a_pod_is_on_its_node(analyse: Analyse) -> None:
    found = analyse(
        {
            "events.jsonl": SCHEDULED.format(pod="llm-worker-0", node="node-7"),
            "rank0.log": init("llm-worker-0", 0, 1, "1b000", nvml=3),
        }
    )
    assert rows(found, "SELECT rank, host, node, gpu, pci, basis FROM ranks") == [
        (0, "llm-worker-0", "node-7", 3, "0000:1b:00.0", None)
    ]
    assert rows(found, "SELECT host, a, b, basis, file, line FROM joins WHERE kind = 'pod-node'") == [
        ("node-7", "llm-worker-0", "node-7", "stated", "events.jsonl", 1)
    ]
    assert rows(found, "SELECT node, in_job FROM hosts WHERE host = 'llm-worker-0'") == [("node-7", True)]


def test_a_name_with_a_domain_is_the_machine_without(analyse: Analyse) -> None:
    found = analyse(
        {
            "events.jsonl": SCHEDULED.format(pod="llm-worker-0", node="ip-10-0-0-4.ec2.internal"),
            "kern.log": kernel("ip-10-0-0-4", 5, "NVRM: Xid (PCI:0000:1b:00): 13, pid=100, Graphics Exception"),
            "rank0.log": init("llm-worker-0", 0, 1, "1b000", nvml=3),
        }
    )
    assert rows(found, "SELECT node FROM ranks") == [("ip-10-0-0-4",)]


def test_two_domains_are_two_machines(analyse: Analyse) -> None:
    found = analyse(
        {
            "a/events.jsonl": SCHEDULED.format(pod="a-0", node="node-4.east.example")
            + SCHEDULED.format(pod="b-0", node="node-4.west.example"),
            "kern.log": kernel("node-4", 5, "NVRM: Xid (PCI:0000:1b:00): 13, pid=100, Graphics Exception"),
            "rank0.log": init("a-0", 0, 2, "1b000", nvml=3) + init("b-0", 1, 2, "1b000", nvml=3),
        }
    )
    assert rows(found, "SELECT node FROM ranks ORDER BY rank") == [("node-4.east.example",), ("node-4.west.example",)]


CONTAINERS = ("4f5d0ac1b2e3", "9a8b7c6d5e4f")


def contained(*more: str, buses: tuple[str, str] = ("1b000", "1b000")) -> str:
    return "".join(init(c, n, 2, buses[n], nvml=0, pid=7062 + n) for n, c in enumerate(CONTAINERS)) + "".join(more)


def test_a_container_in_a_machines_folder(analyse: Analyse) -> None:
    found = analyse(
        {
            "node-1/nccl.log": init(CONTAINERS[0], 0, 2, "1b000", nvml=0),
            "node-2/nccl.log": init(CONTAINERS[1], 1, 2, "1b000", nvml=0),
            "node-1/kern.log": kernel("node-1", 5, "NVRM: Xid (PCI:0000:5d:00): 13, pid=9, Graphics Exception"),
            "node-2/kern.log": kernel("node-2", 5, "NVRM: Xid (PCI:0000:5d:00): 13, pid=9, Graphics Exception"),
        }
    )
    assert rows(found, "SELECT rank, node, basis, confidence FROM ranks ORDER BY rank") == [
        (0, "node-1", "folder", 0.9),
        (1, "node-2", "folder", 0.9),
    ]


def test_a_container_whose_process_and_gpu_the_kernel_names(analyse: Analyse) -> None:
    found = analyse(
        {
            "all.log": contained(),
            "kern1.log": kernel(
                "node-1",
                300,
                "NVRM: Xid (PCI:0000:1b:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            ),
            "kern2.log": kernel("node-2", 300, "NVRM: Xid (PCI:0000:d8:00): 13, pid=4, Graphics Exception"),
        }
    )
    assert rows(found, "SELECT rank, node, basis, confidence FROM ranks ORDER BY rank") == [
        (0, "node-1", "process and GPU of a kernel line", 0.85),
        (1, CONTAINERS[1], None, None),
    ]
    assert rows(found, "SELECT rank FROM gpus WHERE host = 'node-1'") == [(0,)]


def test_a_process_number_that_two_nodes_name_proves_nothing(analyse: Analyse) -> None:
    line = "NVRM: Xid (PCI:0000:1b:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No"
    found = analyse(
        {"all.log": contained(), "kern1.log": kernel("node-1", 300, line), "kern2.log": kernel("node-2", 300, line)}
    )
    assert rows(found, "SELECT node FROM ranks ORDER BY rank") == [(c,) for c in CONTAINERS]


def test_a_process_number_on_another_gpu_proves_nothing(analyse: Analyse) -> None:
    line = "NVRM: Xid (PCI:0000:5d:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No"
    found = analyse({"all.log": contained(), "kern1.log": kernel("node-1", 300, line)})
    assert rows(found, "SELECT node FROM ranks WHERE rank = 0") == [(CONTAINERS[0],)]


# ---- GPUs and ranks ---------------------------------------------------------------------------------------------------


def test_the_index_of_cuda_is_not_that_of_nvml(analyse: Analyse) -> None:
    """Each process sees one GPU and calls it 0; NVML's number is the node's."""
    found = analyse(
        {"a.log": init("node-1", 0, 2, "1b000", nvml=4, cuda=0) + init("node-1", 1, 2, "ca000", nvml=5, cuda=0)}
    )
    assert rows(found, "SELECT pci, gpu, rank FROM gpus ORDER BY pci") == [
        ("0000:1b:00.0", 4, 0),
        ("0000:ca:00.0", 5, 1),
    ]


def test_an_index_that_repeats_on_a_host_is_none(analyse: Analyse) -> None:
    found = analyse({"a.log": init("node-1", 0, 2, "1b000", cuda=0) + init("node-1", 1, 2, "ca000", cuda=0)})
    assert rows(found, "SELECT gpu FROM ranks") == [(None,), (None,)]


def test_the_nodes_own_tool_numbers_the_gpus(analyse: Analyse) -> None:
    smi = "index, pci.bus_id, uuid\n6, 00000000:1B:00.0, GPU-f1906b9b-557a-e961-045c-9fe4be3ce012\n"
    found = analyse({"node-1/nvidia-smi.csv": smi, "a.log": init("node-1", 0, 1, "1b000", cuda=0)})
    assert rows(found, "SELECT gpu, rank, gpu_uuid FROM gpus") == [(6, 0, "GPU-f1906b9b-557a-e961-045c-9fe4be3ce012")]
    assert rows(found, "SELECT gpu FROM ranks") == [(6,)]
    assert rows(found, "SELECT basis, file, line FROM joins WHERE kind = 'pci-gpu'") == [
        ("stated", "node-1/nvidia-smi.csv", 2)
    ]


# ---- NICs ------------------------------------------------------------------------------------------------------------


def test_names_of_a_nic_come_together(analyse: Analyse) -> None:
    """HCA by NCCL and by ibdev2netdev, network device by the kernel with its address."""
    found = analyse(
        {
            "a.log": using("node-1", 100, "mlx5_3") + init("node-1", 0, 1, "1b000"),
            "node-1/ibdev2netdev.txt": "mlx5_3 port 1 ==> enp26s0np0 (Up)\nmlx5_0 port 1 ==> eth0 (Up)\n",
            "node-1/kern.log": kernel("node-1", 300, "mlx5_core 0000:1a:00.0 enp26s0np0: Link down"),
        }
    )
    assert rows(found, "SELECT dev, ifname, pci, network, basis FROM nics ORDER BY dev") == [
        ("mlx5_0", "eth0", None, "front", None),
        ("mlx5_3", "enp26s0np0", "0000:1a:00.0", "back", None),
    ]
    assert ("nic-netdev", "mlx5_3", "enp26s0np0", "stated", "node-1/ibdev2netdev.txt", 1) in rows(
        found, "SELECT kind, a, b, basis, file, line FROM joins"
    )


@pytest.mark.parametrize(
    ("name", "pci"),
    [
        ("enp188s0np0", "0000:bc:00.0"),
        ("enp59s0f1np1", "0000:3b:00.1"),
        ("enP2p1s0", "0002:01:00.0"),
        ("ibp12s0", "0000:0c:00.0"),
        ("enp59s0f0v3", None),
        ("ens3", None),
        ("eth2", None),
    ],
)  # fmt: skip
def test_a_name_that_is_made_of_the_address(analyse: Analyse, name: str, pci: str | None) -> None:
    found = analyse({"node-1/ibdev2netdev.txt": f"mlx5_3 port 1 ==> {name} (Up)\n"})
    assert rows(found, "SELECT ifname, pci, basis FROM nics") == [(name, pci, "name" if pci else None)]


def test_a_line_wins_over_a_name(analyse: Analyse) -> None:
    found = analyse({"node-1/kern.log": kernel("node-1", 300, "mlx5_core 0000:1a:00.0 enp188s0np0: Link down")})
    assert rows(found, "SELECT pci, basis FROM nics") == [("0000:1a:00.0", None)]


LLDP = """Port          Neighbor Device ID       Neighbor Port ID           TTL
---------- ------------------------ ---------------------- ---
Et1/1         node-1                   enp59s0np0                 120
Et2/1         node-1                   enp25s0np0                 120
"""


def test_hcas_in_the_order_of_addresses(analyse: Analyse) -> None:
    files = {
        "a.log": using("node-1", 100, "mlx5_0", "mlx5_4", link="RoCE"),
        "node-1/kern.log": kernel("node-1", 1, "NVRM: GPU at PCI:0000:5d:00: GPU-f1906b9b-557a-e961-045c-9fe4be3ce012"),
    }
    found = analyse({**files, "leaf-1/show_lldp_neighbors.txt": LLDP})
    assert rows(found, "SELECT dev, ifname, pci, basis FROM nics WHERE dev IS NOT NULL ORDER BY dev") == [
        ("mlx5_0", "enp25s0np0", "0000:19:00.0", "order"),
        ("mlx5_4", "enp59s0np0", "0000:3b:00.0", "order"),
    ]


def test_no_order_where_the_numbers_differ(analyse: Analyse) -> None:
    files = {
        "a.log": using("node-1", 100, "mlx5_0", "mlx5_4", "mlx5_5", link="RoCE"),
        "node-1/kern.log": kernel("node-1", 1, "NVRM: GPU at PCI:0000:5d:00: GPU-f1906b9b-557a-e961-045c-9fe4be3ce012"),
    }
    found = analyse({**files, "leaf-1/show_lldp_neighbors.txt": LLDP})
    assert rows(found, "SELECT dev FROM nics WHERE dev IS NOT NULL AND (ifname IS NOT NULL OR pci IS NOT NULL)") == []


def test_no_order_where_a_line_says_otherwise(analyse: Analyse) -> None:
    files = {
        "a.log": using("node-1", 100, "mlx5_0", "mlx5_4", link="RoCE"),
        "node-1/ibdev2netdev.txt": "mlx5_0 port 1 ==> enp59s0np0 (Up)\n",
    }
    found = analyse({**files, "leaf-1/show_lldp_neighbors.txt": LLDP})
    assert rows(found, "SELECT dev, ifname FROM nics WHERE dev IS NOT NULL ORDER BY dev") == [
        ("mlx5_0", "enp59s0np0"),
        ("mlx5_4", None),
    ]


def channel(host: str, rank: int, number: int, via: str = "") -> str:
    return nccl(host, 100 + rank, f"Channel 00/0 : {rank}[{rank}] -> 9[1] [send] via NET/IB/{number}{via}/GDRDMA")


def test_the_nic_that_one_rank_alone_sends_by(analyse: Analyse) -> None:
    ranks = "".join(
        using("node-1", 100 + r, "mlx5_0", "mlx5_3") + init("node-1", r, 2, ("1b000", "ca000")[r], nvml=r)
        for r in (0, 1)
    )
    found = analyse({"a.log": ranks + channel("node-1", 0, 1) + channel("node-1", 1, 0)})
    assert rows(found, "SELECT dev, gpu, gpu_basis FROM nics WHERE dev IS NOT NULL ORDER BY dev") == [
        ("mlx5_0", 1, "traffic"),
        ("mlx5_3", 0, "traffic"),
    ]


@pytest.mark.parametrize("second", ["", "(0)"])
def test_a_nic_of_two_ranks_is_of_neither(analyse: Analyse, second: str) -> None:
    """Shared, or lent to another rank (PXN): only what is sent directly counts."""
    ranks = "".join(
        using("node-1", 100 + r, "mlx5_0", "mlx5_3") + init("node-1", r, 2, ("1b000", "ca000")[r], nvml=r)
        for r in (0, 1)
    )
    found = analyse({"a.log": ranks + channel("node-1", 0, 0) + channel("node-1", 1, 0, second)})
    assert rows(found, "SELECT gpu FROM nics WHERE dev = 'mlx5_0'") == [(0,) if second else (None,)]


def provider(host: str, pid: int, number: int, dev: str, pci: str) -> str:
    return nccl(
        host,
        pid,
        f"NET/IB: [{number}] {dev}:uverbs{number}:1/IB provider=Mlx5 speed=400000 context=0x55d0 pciPath=/sys/devices/pci0000:15/0000:15:01.0/{pci} ar=1",
    )


NUMBERED = provider("node-1", 100, 0, "mlx5_0", "0000:1a:00.0") + provider("node-1", 100, 1, "mlx5_3", "0000:c0:00.0")


def test_the_gpu_with_the_nearest_bus_number(analyse: Analyse) -> None:
    found = analyse({"a.log": NUMBERED + init("node-1", 0, 2, "c3000", nvml=5) + init("node-1", 1, 2, "1b000", nvml=0)})
    assert rows(found, "SELECT dev, pci, gpu, gpu_basis FROM nics ORDER BY dev") == [
        ("mlx5_0", "0000:1a:00.0", 0, "bus numbers"),
        ("mlx5_3", "0000:c0:00.0", 5, "bus numbers"),
    ]


@pytest.mark.parametrize("buses", [("1b000",), ("18000", "1c000"), ("1b000", "60000")])
def test_bus_numbers_that_leave_it_open(analyse: Analyse, buses: tuple[str, ...]) -> None:
    """A GPU that is missing, two as near, one too far: `mlx5_3` is of none of them."""
    found = analyse(
        {"a.log": NUMBERED + "".join(init("node-1", r, len(buses), b, nvml=r) for r, b in enumerate(buses))}
    )
    assert rows(found, "SELECT gpu FROM nics WHERE dev = 'mlx5_3'") == [(None,)]


# ---- networks --------------------------------------------------------------------------------------------------------


def test_bootstrap_is_the_front_end_where_verbs_carry_the_collectives(analyse: Analyse) -> None:
    found = analyse(
        {
            "a.log": nccl("node-1", 100, "Bootstrap : Using eth0:10.0.0.5<0>")
            + using("node-1", 100, "mlx5_0")
            + init("node-1", 0, 1, "1b000")
        }
    )
    assert rows(found, "SELECT coalesce(dev, ifname), network FROM nics ORDER BY 1") == [
        ("eth0", "front"),
        ("mlx5_0", "back"),
    ]
    assert rows(found, "SELECT address, network FROM addresses") == [("10.0.0.5", "front")]


def test_sockets_are_the_back_end_where_nothing_else_is_used(analyse: Analyse) -> None:
    lines = (
        nccl("node-1", 100, "Bootstrap : Using eth0:10.0.0.5<0>")
        + nccl("node-1", 100, "NET/IB : No device found.")
        + nccl("node-1", 100, "NET/Socket : Using [0]eth1:10.1.0.5<0>")
    )
    found = analyse({"a.log": lines + nccl("node-1", 100, "Using network Socket") + init("node-1", 0, 1, "1b000")})
    assert rows(found, "SELECT ifname, network FROM nics ORDER BY 1") == [("eth0", "unknown"), ("eth1", "back")]


@pytest.mark.parametrize(("link", "network"), [("IB", "front"), ("RoCE", "unknown")])
def test_ethernet_beside_infiniband_is_not_the_back_end(analyse: Analyse, link: str, network: str) -> None:
    found = analyse(
        {
            "a.log": using("node-1", 100, "mlx5_0", link=link) + init("node-1", 0, 1, "1b000"),
            "kern.log": kernel("node-1", 5, "mlx5_core 0000:a1:00.1 enp161s0f1np1: Link down"),
        }
    )
    assert rows(found, "SELECT network FROM nics WHERE ifname = 'enp161s0f1np1'") == [(network,)]


def test_an_address_that_two_hosts_call_their_own_is_of_neither(analyse: Analyse) -> None:
    lines = "".join(
        nccl(f"node-{n}", 100, "Bootstrap : Using docker0:172.17.0.1<0>") + init(f"node-{n}", n, 2, "1b000")
        for n in (0, 1)
    )
    assert rows(analyse({"a.log": lines}), "SELECT address, host FROM addresses") == [("172.17.0.1", None)]


# ---- cables ----------------------------------------------------------------------------------------------------------


def outage(*seconds: float, late: float = 0.5) -> dict[str, str]:
    return {
        "node-1/kern.log": "".join(
            kernel("node-1", s, "mlx5_core 0000:1a:00.0 enp26s0np0: Link down") for s in seconds
        ),
        "switches/leaf-1.log": "".join(switch("leaf-1", s + late, "Ethernet1/17") for s in seconds),
    }


CABLES = "SELECT switch, port, host, dev, basis FROM ports"


def test_both_ends_go_down_and_nothing_else(analyse: Analyse) -> None:
    assert rows(analyse(outage(300)), CABLES) == [("leaf-1", "Ethernet1/17", "node-1", "enp26s0np0", "coincidence")]


def test_ends_that_go_down_at_different_times(analyse: Analyse) -> None:
    """Far beyond what two clocks that nothing compares may differ by."""
    assert rows(analyse(outage(300, late=40.0)), CABLES) == []


def test_another_port_at_the_same_time_leaves_it_open(analyse: Analyse) -> None:
    files = outage(300)
    files["switches/leaf-2.log"] = switch("leaf-2", 300.5, "Ethernet3/1")
    assert rows(analyse(files), CABLES) == []


def test_the_port_that_goes_down_with_it_again_and_again(analyse: Analyse) -> None:
    files = outage(300, 900)
    files["switches/leaf-2.log"] = switch("leaf-2", 300.5, "Ethernet3/1")
    assert rows(analyse(files), CABLES) == [("leaf-1", "Ethernet1/17", "node-1", "enp26s0np0", "coincidence")]


def test_a_cable_that_lldp_states_is_not_guessed(analyse: Analyse) -> None:
    table = LLDP.replace("enp59s0np0", "enp26s0np0")
    assert [
        r
        for r in rows(analyse({**outage(300), "leaf-9/show_lldp_neighbors.txt": table}), CABLES)
        if r[4] == "coincidence"
    ] == []


# ---- hosts of the job ------------------------------------------------------------------------------------------------


def in_job(incident: Incident) -> dict[str, bool | None]:
    return dict(rows(incident, "SELECT host, in_job FROM hosts"))


XID = "NVRM: Xid (PCI:0000:5d:00): 13, pid=9, Graphics Exception"


def test_a_host_without_ranks_is_outside_once_all_are_placed(analyse: Analyse) -> None:
    found = in_job(
        analyse(
            {
                "a.log": init("node-1", 0, 2, "1b000") + init("node-2", 1, 2, "1b000"),
                "kern.log": kernel("node-1", 5, XID) + kernel("node-9", 5, XID),
            }
        )
    )
    assert found == {"node-1": True, "node-2": True, "node-9": False}


def test_a_host_may_be_of_the_job_while_ranks_are_missing(analyse: Analyse) -> None:
    found = in_job(
        analyse(
            {"a.log": init("node-1", 0, 2, "1b000"), "kern.log": kernel("node-1", 5, XID) + kernel("node-9", 5, XID)}
        )
    )
    assert found == {"node-1": True, "node-9": None}


def test_the_schedulers_list_names_the_jobs_nodes(analyse: Analyse) -> None:
    lists = "[2026-02-03T13:58:00.509] sched: Allocate JobId=77 NodeList=node-[1-3] #CPUs=2 Partition=gpu\n[2026-02-03T13:58:01.509] sched: Allocate JobId=78 NodeList=node-[8-9] #CPUs=2 Partition=gpu\n"
    found = in_job(
        analyse(
            {
                "slurmctld.log": lists,
                "a.log": init("node-1", 0, 3, "1b000"),
                "kern.log": "".join(kernel(f"node-{n}", 5, XID) for n in (1, 2, 9)),
            }
        )
    )
    assert (found["node-1"], found["node-2"], found["node-9"]) == (True, True, False)


def test_a_job_that_is_cancelled_on_a_spare_node_is_the_job(analyse: Analyse) -> None:
    lists = "[2026-02-03T13:58:00.509] sched: Allocate JobId=77 NodeList=node-[1-2] #CPUs=2 Partition=gpu\n"
    end = "slurmstepd: error: *** JOB 77 ON node-1 CANCELLED AT 2026-02-03T14:05:10 ***\n"
    found = analyse(
        {
            "slurmctld.log": lists,
            "slurm-77.out": end,
            "a.log": init("node-2", 0, 1, "1b000"),
            "kern.log": kernel("node-1", 5, XID) + kernel("node-2", 5, XID),
        }
    )
    assert in_job(found)["node-1"] is False
    assert rows(found, "SELECT in_job FROM episodes WHERE event = 'job.cancelled'") == [(True,)]


# ---- the chain -------------------------------------------------------------------------------------------------------


def flap() -> dict[str, str]:
    """A link that goes down under two ranks of two hosts, told by kernel, switch and NCCL."""
    job = {}
    for rank, host in enumerate(("node-1", "node-2")):
        lines = using(host, 100 + rank, "mlx5_3", link="RoCE") + init(host, rank, 2, "1b000", nvml=3, cuda=0)
        job[f"{host}.log"] = lines + steps() if rank == 0 else lines
    error = f"[{stamp(332)}] node-2:101:300 [0] transport/net_ib.cc:1695 NCCL WARN NET/IB : Got completion from peer 10.40.2.12<58626> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_3\n"
    job["node-2.log"] += error
    job["node-1/kern.log"] = kernel("node-1", 300, "mlx5_core 0000:1a:00.0 enp26s0np0: Link down")
    job["node-1/ibdev2netdev.txt"] = "mlx5_3 port 1 ==> enp26s0np0 (Up)\n"
    job["node-1/nvidia-smi-topo.txt"] = (
        "\tGPU0\tGPU3\tmlx5_3\tCPU Affinity\nGPU0\t X \tNV18\tSYS\t0-55\nGPU3\tNV18\t X \tPIX\t0-55\nmlx5_3\tSYS\tPIX\t X \t\n"
    )
    job["leaf-1/show_lldp_neighbors.txt"] = LLDP.replace("enp59s0np0", "enp26s0np0")
    job["switches/leaf-1.log"] = switch("leaf-1", 300.2, "Ethernet1/1")
    return job


def path(hops: tuple[Hop, ...]) -> list[tuple[str, str, str, int]]:
    return [(h.source, h.target, h.file, h.line) for h in hops]


def test_the_chain_from_port_to_step(analyse: Analyse) -> None:
    best = analyse(flap()).analysis.findings[0]
    assert best.cause == "link_flap"
    assert path(best.hops) == [
        ("leaf-1 Ethernet1/1", "enp26s0np0 on node-1", "leaf-1/show_lldp_neighbors.txt", 3),
        ("enp26s0np0 on node-1", "mlx5_3 on node-1", "node-1/ibdev2netdev.txt", 1),
        ("mlx5_3 on node-1", "0000:1a:00.0", "node-1/kern.log", 1),
        ("0000:1a:00.0", "GPU 3 (0000:1b:00.0)", "node-1/nvidia-smi-topo.txt", 4),
        ("GPU 3 (0000:1b:00.0)", "rank 0", "node-1.log", 2),
        ("rank 0", "step 30", "node-1.log", 32),
    ]
    assert {h.basis for h in best.hops} == {""}
    assert best.network is not None
    assert (best.network.which, best.network.name, best.network.line) == ("back", "mlx5_3", 1)


def test_what_nothing_shows_is_left_out_of_the_chain(analyse: Analyse) -> None:
    files = flap()
    del files["node-1/nvidia-smi-topo.txt"], files["leaf-1/show_lldp_neighbors.txt"], files["switches/leaf-1.log"]
    best = analyse(files).analysis.findings[0]
    assert [h.kind for h in best.hops] == ["pci"]


def test_a_rank_without_a_gpu_is_shown_where_it_ran(analyse: Analyse) -> None:
    failed = (
        f"[{stamp(301)}] [rank0]: Traceback (most recent call last):\n"
        f'[{stamp(301)}] [rank0]:   File "train.py", line 7, in <module>\n'
        f"[{stamp(301)}] [rank0]: KeyError: 'attention_mask'\n"
    )
    best = analyse({"node-1.log": steps() + failed}).analysis.findings[0]
    assert best.culprit.rank == 0
    assert [(h.kind, h.source, h.target) for h in best.hops] == [
        ("rank", "node-1", "rank 0"),
        ("step", "rank 0", "step 30"),
    ]
    assert best.network is None
