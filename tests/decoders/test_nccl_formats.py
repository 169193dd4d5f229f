"""What NCCL prints beside its log: RAS as JSON, topologies and graphs as XML, the Inspector's Prometheus text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import sniff

STATUS = """{
  "nccl_version": "2.29.1",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2025-12-19 13:06:53",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "172.16.64.245",
          "pid": 1524344,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 0,
            "AllReduce": 0
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "172.16.64.245",
          "pid": 1524345,
          "cuda_dev": 1,
          "nvml_dev": 1,
          "status": {
            "unresponsive": true,
            "considered_dead": false
          }
        }
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 0.000,
    "timeouts_count": 0
  }
}
"""
CHANGE = """{
  "timestamp": "2025-12-19 13:07:07",
  "group": "LIFECYCLE",
  "event": "PEER_DEAD",
  "peer": {
    "host": "172.16.64.245",
    "pid": 1524345,
    "cuda_devs": [1],
    "nvml_devs": [1]
  },
  "details": ""
}
"""


def rank(number: int, **changes: Any) -> dict[str, Any]:
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    counts = changes.pop("counts", {"AllReduce": 640})
    for key in list(changes):
        if key in status:
            status[key] = changes.pop(key)
    return {
        "rank": number, "host": "10.0.0.7", "pid": 1000 + number, "cuda_dev": number % 8, "nvml_dev": number % 8,
        "status": status, "collective_counts": counts, **changes,
    }  # fmt: skip


def status(ranks: list[dict[str, Any]], missing: list[dict[str, Any]] | None = None) -> str:
    comm = {"hash": "0x1f", "size": len(ranks), "ranks": ranks, "missing_ranks": missing or []}
    document = {
        "nccl_version": "2.29.1", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2025-12-19 13:06:53", "communicators_count": 1, "communicators": [comm],
    }  # fmt: skip
    return json.dumps(document, indent=2)


def ras(text: str, *names: str) -> list[tuple[Any, ...]]:
    return pick(rows(sniffed("ras.json", text), "events"), *names)


def test_a_missing_rank_is_named_as_in_the_text_form() -> None:
    found = rows(sniffed("ras.json", STATUS), "events")
    assert pick(found, "event", "code", "comm", "nranks", "rank", "peer", "pid", "gpu", "reason", "line") == [
        ("nccl.ras", "INCOMPLETE", "ae94423cfbb2ef4a", 2, None, None, None, None, None, 8),
        ("nccl.ras", "INCOMPLETE", "ae94423cfbb2ef4a", None, 1, "172.16.64.245", 1524345, 1, "unresponsive", 36),
    ]
    assert pick(found[:1], "stamp_us", "stamp_zone_s", "severity") == [(1766149613000000, None, "warning")]


def test_a_change_of_monitor_mode_is_read() -> None:
    banner = "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n" + "=" * 64 + "\n"
    assert ras(banner + CHANGE + CHANGE.replace("PEER_DEAD", "PEER_RECOVERED"), "code", "peer", "pid", "gpu", "severity", "line") == [
        ("PEER_DEAD", "172.16.64.245", 1524345, 1, "warning", 3),
        ("PEER_RECOVERED", "172.16.64.245", 1524345, 1, "info", 15),
    ]  # fmt: skip


def test_a_peer_without_a_name_is_its_address() -> None:
    text = '{\n  "timestamp": "2025-12-19 13:07:07",\n  "group": "TRACE",\n  "event": "PEER_RETRY",\n  "peer": {\n    "addr": "10.0.0.7<40000>"\n  },\n  "details": "retrying"\n}\n'
    assert ras(text, "code", "peer", "reason") == [("PEER_RETRY", "10.0.0.7", "retrying")]


def test_a_rank_alone_with_its_count_is_behind() -> None:
    ranks = [rank(n) for n in range(8)]
    ranks[5]["collective_counts"] = {"AllReduce": 639}
    assert ras(status(ranks), "code", "rank", "op", "seq") == [
        ("MISMATCH", None, None, None),
        ("MISMATCH", 5, "allreduce", 639),
    ]


def test_half_of_the_ranks_name_nobody() -> None:
    ranks = [rank(n, counts={"AllReduce": 640 + n % 2}) for n in range(8)]
    assert ras(status(ranks), "code") == []


def test_failed_and_aborting_ranks_are_named() -> None:
    ranks = [rank(n) for n in range(8)]
    ranks[1] = rank(1, async_error=6)
    ranks[2] = rank(2, abort_flag=True)
    assert ras(status(ranks), "code", "rank", "status", "reason") == [
        ("ERROR", None, None, None),
        ("MISMATCH", None, None, None),
        ("ERROR", 1, "6", "Remote process error"),
        ("MISMATCH", 2, None, "has status ABORT"),
    ]


def test_a_healthy_job_gives_nothing() -> None:
    decoded = sniffed("ras.json", status([rank(n, init_state=0) for n in range(8)]))
    assert decoded.tables == {}
    assert decoded.notes == []


def test_a_dead_rank_counts_as_incomplete() -> None:
    gone = {"rank": 8, "host": "unknown", "pid": -1, "status": {"unresponsive": True, "considered_dead": True}}
    assert ras(status([rank(0)], [gone]), "code", "rank", "peer", "pid") == [
        ("INCOMPLETE", None, None, None),
        ("DEAD", 8, None, None),
    ]


def test_a_cut_status_keeps_the_communicators_before_the_cut() -> None:
    both = STATUS + STATUS
    whole = ras(both, "code", "rank", "line")
    assert len(whole) == 4
    for size in range(200, len(both), 37):
        decoded = run("nccl_ras", "x", both[:size])
        found = pick(rows(decoded, "events"), "code", "rank", "line")
        assert found == whole[: len(found)]
        assert len(decoded.notes) <= 1


TOPOLOGY = """<system version="1">
  <cpu numaid="0" affinity="00000000,0000000f,ffff0000,00000000,000fffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:11:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:13:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
        <pci busid="0000:17:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
          <gpu dev="0" sm="80" rank="8" gdr="1">
            <nvlink target="0000:e7:00.0" count="2" tclass="0x068000"/>
          </gpu>
        </pci>
      </pci>
      <pci busid="0000:1c:00.0" class="0x020000" link_speed="8 GT/s" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x82d0c0003f6ceb8" maxconn="262144" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:3B:00.0" class="0x030200">
      <gpu dev="1" sm="80" rank="9" gdr="1"/>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
</system>
"""


def test_a_topology_names_gpus_and_nics() -> None:
    decoded = sniffed("topo.xml", TOPOLOGY, host="node-1")
    assert pick(rows(decoded, "gpus"), "host", "pci", "gpu", "rank", "line") == [
        ("node-1", "0000:17:00.0", 0, 8, 6),
        ("node-1", "0000:3b:00.0", 1, 9, 18),
    ]
    assert pick(rows(decoded, "nics"), "host", "dev", "ifname", "pci", "gpu", "line") == [
        ("node-1", "mlx5_0", None, "0000:1c:00.0", 0, 13),
        ("node-1", None, "eth0", None, None, 21),
    ]
    assert decoded.notes == []


def test_the_guid_is_turned_into_the_order_that_other_programs_print() -> None:
    assert pick(rows(sniffed("t.xml", TOPOLOGY, host="h"), "nics"), "guid") == [("0xb8cef603000c2d08",), (None,)]
    twice = TOPOLOGY.replace(
        "</nic>", TOPOLOGY.split("<nic>")[1].split("</nic>")[0].replace("mlx5_0", "mlx5_1") + "</nic>", 1
    )
    assert [row["guid"] for row in rows(sniffed("t.xml", twice, host="h"), "nics")] == [None, None, None]


def test_two_gpus_on_one_switch_are_equally_near() -> None:
    shared = TOPOLOGY.replace(
        '<pci busid="0000:17:00.0"',
        '<pci busid="0000:16:00.0" class="0x030200"><gpu dev="7" rank="15"/></pci><pci busid="0000:17:00.0"',
    )
    found = rows(sniffed("topo.xml", shared, host="node-1"), "nics")
    assert found[0]["gpu"] is None


def test_a_topology_of_several_hosts_is_of_none() -> None:
    second = (
        '  <cpu host_hash="0x2" numaid="0"><pci busid="0000:17:00.0"><gpu dev="0" rank="1"/></pci></cpu>\n</system>'
    )
    decoded = sniffed(
        "t.xml", TOPOLOGY.replace("<cpu ", '<cpu host_hash="0x1" ').replace("</system>", second), host="h"
    )
    assert decoded.tables == {}
    assert decoded.notes == ["an NCCL topology of 2 hosts that it does not name"]


def test_a_cut_topology_keeps_what_stands_before_the_cut() -> None:
    decoded = run("nccl_topology", "topo.xml", TOPOLOGY[: TOPOLOGY.index("mlx5_0")], host="node-1")
    assert len(rows(decoded, "gpus")) == 1
    assert decoded.notes == ["XML of NCCL: it is cut off or damaged"]


@pytest.mark.parametrize(
    "declared",
    ['<!DOCTYPE system [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>', '<!DOCTYPE system SYSTEM "file:///etc/passwd">'],
)
def test_xml_that_declares_entities_is_refused(declared: str) -> None:
    decoded = run("nccl_topology", "t.xml", declared + TOPOLOGY.replace('name="mlx5_0"', 'name="&b;"'), host="h")
    assert decoded.tables == {}
    assert decoded.notes == ["XML of NCCL: it declares entities or a document type"]
    assert sniff("t.xml", (declared + TOPOLOGY).encode()) is None


def test_graphs_are_known_and_give_nothing() -> None:
    text = (
        '<graphs version="1">\n  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="12" speedinter="12">\n'
        '    <channel>\n      <gpu dev="0"/>\n      <gpu dev="1"/>\n    </channel>\n  </graph>\n</graphs>\n'
    )
    assert sniff("g.xml", text.encode()) == "nccl_graphs"
    decoded = sniffed("g.xml", text)
    assert (decoded.tables, decoded.notes, decoded.lines) == ({}, [], 8)


def test_other_xml_is_left_alone() -> None:
    assert sniff("x.xml", b'<system version="1"><foo/></system>') is None
    assert sniff("x.svg", b'<svg version="1.1"><g/></svg>') is None


PROMETHEUS = (
    'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="unknown",node="node-4",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",'
    'nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678.263\n'
    'nccl_p2p_exec_time_microseconds{version="v5.1",slurm_job_id="unknown",node="node-4",gpu="GPU0",comm_name="unknown",n_nodes="1",'
    'nranks="4",p2p_operation="Send",message_size="512-513MB"} 1154.87\n'
)


def test_the_prometheus_text_of_the_inspector_gives_readings() -> None:
    decoded = sniffed("nccl_inspector_metrics_GPU-1.prom", PROMETHEUS + PROMETHEUS[:100])
    assert pick(rows(decoded, "counters"), "host", "dev", "counter", "value", "line") == [
        (
            "node-4",
            "GPU0",
            "nccl_bus_bandwidth_gbs{comm_name=DP Group 0,collective=AllReduce,message_size=4-5GB,algo_proto=Ring_ll}",
            678.263,
            1,
        ),
        ("node-4", "GPU0", "nccl_p2p_exec_time_microseconds{p2p_operation=Send,message_size=512-513MB}", 1154.87, 2),
    ]


def test_transfers_of_a_send_after_a_collective_are_not_nested_in_it() -> None:
    def event(name: str, cat: str, phase: str, ts: float, args: str = "") -> str:
        return f'{{"name": "{name}", "cat": "{cat}", "ph": "{phase}", "id": 0, "pid": 7, "tid": 1, "ts": {ts}{args}}},'

    coll = ', "args": {"SeqNum": 1, "CommHash": 5, "Rank": 0, "Count": 8}'
    send = [
        event("Send", "P2P", "b", 3),
        event("ProgressSend", "PROXY", "b", 4),
        event("ProgressSend", "PROXY", "e", 5),
    ]
    alone = ["[", event("AllReduce", "COLL", "b", 1, coll), event("AllReduce", "COLL", "e", 2)]
    inside = ["[", event("AllReduce", "COLL", "b", 1, coll), *send[1:], event("AllReduce", "COLL", "e", 6)]
    assert [r["elapsed_us"] for r in rows(sniffed("t", "\n".join([*alone, *send])), "coll_samples")] == [None]
    assert [r["elapsed_us"] for r in rows(sniffed("t", "\n".join(inside)), "coll_samples")] == [5.0]


@settings(max_examples=100, deadline=None)
@given(seed=st.sampled_from([STATUS + CHANGE, TOPOLOGY, PROMETHEUS]), number=st.integers(0, 2**32))
def test_damaged_files_are_read_without_an_exception(seed: str, number: int) -> None:
    chance = random.Random(number)
    raw = bytearray(seed.encode())
    for _ in range(chance.randrange(1, 6)):
        raw[chance.randrange(len(raw))] = chance.choice(b'{}[]<>"0,-\xff')
    for decoder in ("nccl_ras", "nccl_topology", "nccl_graphs", "nccl_inspector_prom"):
        run(decoder, "x", bytes(raw), host="h")
