"""Kubernetes: objects as JSON, dumps of a cluster, tables of kubectl; events and error files in documents."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from functools import cache
from typing import Any

import polars as pl
import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.catalogue.definition import load_folders
from postmortem.catalogue.matcher import Matcher
from postmortem.catalogue.records import merge_records
from postmortem.decoders import Decoded, sniff
from postmortem.decoders.schedulers import kubectl_describe
from postmortem.resources import data_folder


def us(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc,arg-type]


@cache
def catalogue() -> Matcher:
    return Matcher(load_folders([data_folder("parsers")]))


def recognised(decoded: Decoded) -> list[dict[str, Any]]:
    """What the catalogue makes of the blocks that a decoder hands on."""
    hits = [
        pl.DataFrame({"line": block.numbers, "offset": block.offsets, "text": block.text}).with_columns(
            file=pl.lit("dump"), framed=block.framed if block.framed is not None else pl.lit(None, dtype=pl.String)
        )
        for block in decoded.blocks
    ]
    return merge_records(catalogue().recognise(pl.concat(hits))).sort("line", "sub").to_dicts() if hits else []


def dumped(text: str) -> Decoded:
    return sniffed("cluster-info.txt", text)


# ---- pods: fields of k8s.io/api/core/v1 types.go


def ended(reason: str, code: int, at: str = "2025-06-01T03:20:11Z", **more: object) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": "2025-06-01T03:00:00Z",
            "finishedAt": at,
            **more,
        }
    }


def container(state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0) -> dict[str, Any]:
    return {
        "name": "pytorch",
        "state": state,
        "lastState": last or {},
        "ready": False,
        "restartCount": restarts,
        "image": "x",
    }


def pod(
    name: str, *containers: dict[str, Any], owner: str = "PyTorchJob", namespace: str = "training", **status: object
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "labels": {"training.kubeflow.org/job-name": "llm"},
            "ownerReferences": [{"kind": owner, "name": "llm"}],
        },
        "spec": {"nodeName": "node-17", "containers": [{"name": "pytorch", "image": "x"}]},
        "status": {
            "phase": "Failed", "hostIP": "10.20.55.12", "podIP": "10.244.3.17", "startTime": "2025-06-01T03:00:00Z",
            "containerStatuses": list(containers), **status,
        },
    }  # fmt: skip


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """What `kubectl get -o json` prints: keys are sorted, so `kind` comes last."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_pods(indent: int | None, is_sorted: bool) -> None:
    document = listing(
        pod("w-0", container(ended("OOMKilled", 137))),
        pod("w-1", container({"running": {"startedAt": "2025-06-01T03:30:00Z"}}, ended("Error", 1, message="ValueError: x"), restarts=2)),
        pod("w-2", container(ended("Completed", 0))),
    )  # fmt: skip
    text = json.dumps(document, indent=indent, sort_keys=is_sorted)
    decoded = sniffed("pods.json", text)
    found = rows(decoded, "events")
    assert pick(found, "event", "severity", "pod", "host", "job_id", "stamp_us", "exit_code", "value") == [
        ("pod.oom_killed", "error", "w-0", "node-17", "llm", us(2025, 6, 1, 3, 20, 11), 137, None),
        ("process.exit", "error", "w-1", "node-17", "llm", us(2025, 6, 1, 3, 20, 11), 1, "ValueError: x"),
        ("pod.restarted", "warning", "w-1", "node-17", "llm", us(2025, 6, 1, 3, 30), None, "2"),
    ]
    assert pick(rows(decoded, "facts"), "fact", "pod", "host", "stamp_us") == [
        ("pod.node", f"w-{n}", "node-17", us(2025, 6, 1, 3)) for n in range(3)
    ]
    assert pick(rows(decoded, "addresses"), "address", "host") == [("10.244.3.17", f"w-{n}") for n in range(3)]
    lines = text.split("\n")
    for row in [*found, *rows(decoded, "facts")]:
        assert row["text"] in lines[row["line"] - 1]
    if indent:
        said = [lines[row["line"] - 1] for row in found]
        assert [any(key in line for key in ("OOMKilled", "Error", "finishedAt", "restartCount")) for line in said] == [
            True
        ] * 3


def test_one_pod() -> None:
    found = rows(
        sniffed("w-0.json", json.dumps(pod("w-0", container(ended("Error", 137, signal=9))), indent=2)), "events"
    )
    assert pick(found, "event", "exit_code", "signal") == [("process.exit", 137, 9)]


TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "lastTransitionTime": "2025-06-01T04:00:00Z",
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, ("pod.evicted", None)),
        ({"reason": "NodeLost"}, ("node.down", None)),
        ({"reason": "Preempting", "conditions": [TARGET]}, ("job.preempted", us(2025, 6, 1, 4))),
        ({"conditions": [TARGET]}, ("job.preempted", us(2025, 6, 1, 4))),
        ({"conditions": [{**TARGET, "reason": "DeletionByTaintManager"}]}, ("pod.evicted", us(2025, 6, 1, 4))),
        ({"reason": "DeadlineExceeded"}, ("job.timeout", None)),
        ({"conditions": [{**TARGET, "status": "False"}]}, None),
        ({"reason": "UnexpectedAdmissionError"}, None),
    ],
)
def test_pods_that_were_put_to_an_end(status: dict[str, Any], expected: tuple[str, int | None] | None) -> None:
    found = rows(sniffed("p", json.dumps(listing(pod("w-0", **status)))), "events")
    assert pick(found, "event", "stamp_us") == ([expected] if expected else [])
    assert {row["host"] for row in found} <= {"node-17"}


@pytest.mark.parametrize(
    ("one", "is_read"),
    [
        (pod("dns-1", container(ended("Error", 1)), owner="ReplicaSet", namespace="tools"), False),
        (pod("exporter", container(ended("Error", 1)), owner="DaemonSet", namespace="tools"), False),
        (pod("x", container(ended("Error", 1)), owner="Job", namespace="kube-system"), False),
        (pod("x", container(ended("Error", 1)), owner="StatefulSet"), True),
    ],
)
def test_pods_of_the_cluster_s_services_are_passed_over(one: dict[str, Any], is_read: bool) -> None:
    decoded = sniffed("p", json.dumps(listing(one, pod("w-0"))))
    assert len(rows(decoded, "facts")) == 1 + is_read
    assert len(rows(decoded, "events")) == is_read
    one["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    assert len(rows(sniffed("p", json.dumps(listing(one, pod("w-0")))), "facts")) == 2


def node(name: str, *conditions: dict[str, str], **spec: object) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": "1"},
        "spec": {"podCIDR": "10.244.0.0/24", **spec},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                *conditions,
            ],
            "addresses": [{"type": "InternalIP", "address": "10.20.55.12"}, {"type": "Hostname", "address": name}],
        },
    }


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    at = "2025-06-01T03:24:40Z"
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": "m",
    }


def test_nodes() -> None:
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2025-06-01T05:00:00Z"}]
    items = [
        node("node-1", condition("Ready", "True", "KubeletReady")),
        node("node-2", condition("Ready", "Unknown", "NodeStatusUnknown")),
        node(
            "node-3", condition("ReadonlyFilesystem", "True", "FilesystemIsReadOnly"), unschedulable=True, taints=taints
        ),
        node("node-4", condition("KernelDeadlock", "False", "KernelHasNoDeadlock")),
    ]
    text = json.dumps(
        {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}, indent=4
    )
    decoded = sniffed("nodes.json", text)
    assert pick(rows(decoded, "events"), "event", "severity", "host", "stamp_us", "reason") == [
        ("node.down", "fatal", "node-2", us(2025, 6, 1, 3, 24, 40), "NodeStatusUnknown: m"),
        ("host.fs_error", "error", "node-3", us(2025, 6, 1, 3, 24, 40), "FilesystemIsReadOnly: m"),
        ("node.drain", "warning", "node-3", us(2025, 6, 1, 5), None),
    ]
    assert pick(rows(decoded, "addresses"), "address", "host")[0] == ("10.20.55.12", "node-1")


# ---- kubectl cluster-info dump: what its lists look like was seen in a dump of Kubernetes 1.31 (minikube)


def event(
    reason: str, message: str, name: str = "llm-worker-3", namespace: str = "training", kind: str = "Pod"
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.1808ba323d34c8e8", "namespace": namespace},
        "involvedObject": {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "v1"},
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": "node-17"},
        "firstTimestamp": "2025-06-01T03:20:12Z",
        "lastTimestamp": "2025-06-01T03:20:12Z",
        "count": 1,
        "type": "Warning",
        "eventTime": None,
    }


EVENTS = [
    event("Scheduled", "Successfully assigned training/llm-worker-3 to node-17"),
    event("Evicted", "The node was low on resource: memory."),
    event("Killing", "Stopping container coredns", "coredns-1", "kube-system"),
    event("NodeNotReady", "Node node-17 status is now: NodeNotReady", "node-17", "default", "Node"),
]


def typed(kind: str, items: list[dict[str, Any]] | None) -> str:
    stripped = (
        [{k: v for k, v in one.items() if k not in {"kind", "apiVersion"}} for one in items]
        if items is not None
        else None
    )
    return (
        json.dumps(
            {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": stripped}, indent=4
        )
        + "\n"
    )


LOG = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
DUMP = (
    typed("NodeList", [node("node-17", condition("Ready", "Unknown", "NodeStatusUnknown"))])
    + typed("EventList", EVENTS)
    + typed("ServiceList", [])
    + typed("DaemonSetList", None)
    + typed("PodList", [pod("llm-worker-3", container(ended("OOMKilled", 137)))])
    + "==== START logs for container coredns of pod kube-system/coredns-1 ====\n"
    + LOG
    + "==== END logs for container coredns of pod kube-system/coredns-1 ====\n"
    + "==== START logs for container pytorch of pod training/llm-worker-3 ====\n"
    + "step 1\n"
    + LOG
    + "==== END logs for container pytorch of pod training/llm-worker-3 ====\n"
    + typed("EventList", [event("Preempted", "Preempted by pod 8f2e on node node-17")])
)


def test_a_dump_of_a_cluster() -> None:
    decoded = dumped(DUMP)
    assert pick(rows(decoded, "events"), "event", "host") == [("node.down", "node-17"), ("pod.oom_killed", "node-17")]
    assert pick(rows(decoded, "facts"), "fact", "pod", "host") == [("pod.node", "llm-worker-3", "node-17")]
    found = recognised(decoded)
    assert pick(found, "event", "pod", "host", "rank") == [
        ("pod.node", "llm-worker-3", "node-17", None),
        ("pod.evicted", "llm-worker-3", None, None),
        ("node.down", None, "node-17", None),
        ("torch.oom", None, None, 3),
        ("job.preempted", "llm-worker-3", None, None),
    ]
    assert found[1]["stamp_us"] == us(2025, 6, 1, 3, 20, 12)
    lines = DUMP.split("\n")
    for row in found:
        assert row["text"].strip() == lines[row["line"] - 1].strip()
    assert DUMP.encode()[found[3]["offset"] :].startswith(LOG.encode()[:60])


def test_events_json_of_a_dump_folder() -> None:
    found = recognised(dumped(typed("EventList", EVENTS)))
    assert pick(found, "event") == [("pod.node",), ("pod.evicted",), ("node.down",)]


def test_a_dump_that_is_cut_in_a_list_goes_on_behind_it() -> None:
    whole = typed("PodList", [pod("w-0", container(ended("OOMKilled", 137))), pod("w-1")])
    cut = whole[: whole.index('"w-1"')] + "\n" + DUMP[DUMP.index("==== START logs for container pytorch") :]
    decoded = dumped(cut)
    assert pick(rows(decoded, "events"), "event") == [("pod.oom_killed",)]
    assert pick(recognised(decoded), "event") == [("torch.oom",), ("job.preempted",)]
    assert "damaged or cut" in decoded.notes[0]


def test_a_log_without_an_end() -> None:
    found = recognised(dumped(DUMP[: DUMP.rindex("==== END logs")]))
    assert found[-1]["event"] == "torch.oom"


def test_offsets_count_bytes() -> None:
    text = typed("PodList", [pod("w-0")]) + "==== START logs for container c of pod t/w-0 ====\nü: größer\n" + LOG
    found = recognised(dumped(text.replace('"w-0"', '"w-0", "x": "ü"', 1)))
    raw = text.replace('"w-0"', '"w-0", "x": "ü"', 1).encode()
    assert raw[found[0]["offset"] :].startswith(b"[rank3]: torch.OutOfMemoryError")


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "Event", "reason": "Evicted", "involvedObject": {"kind": "Pod", "name": "w"}},
        {
            "apiVersion": "v1",
            "count": 1,
            "involvedObject": {"kind": "Pod", "name": "w"},
            "kind": "Event",
            "reason": "Evicted",
        },
        listing(
            {
                "apiVersion": "v1",
                "count": 1,
                "involvedObject": {"kind": "Pod", "name": "w"},
                "kind": "Event",
                "reason": "Evicted",
            }
        ),
        listing(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"ownerReferences": [{"kind": "Node"}]},
            }
        ),
        {"type": "ADDED", "object": pod("w-0")},
        {"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1634039992"}}},
        {"apiVersion": "v1", "message": "a log line that says kind Pod"},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_no_list_of_pods(document: dict[str, Any], indent: int | None) -> None:
    assert sniff("x", json.dumps(document, indent=indent).encode()) is None


# ---- tables

PODS = """\
NAME           READY   STATUS                   RESTARTS        AGE     IP            NODE      NOMINATED NODE   READINESS GATES
llm-worker-0   1/1     Running                  0               3h      10.244.3.16   node-16   <none>           <none>
llm-worker-1   0/1     Evicted                  0               3h      <none>        node-17   <none>           <none>
llm-worker-2   0/1     OOMKilled                0               3h7m    10.244.3.18   node-18   <none>           <none>
llm-worker-3   1/1     Running                  7 (2m30s ago)   3h      10.20.55.19   node-19   <none>           <none>
llm-worker-4   0/1     Pending                  0               3h      <none>        <none>    <none>           <none>
llm-worker-5   0/1     Error                    0               3h      10.244.3.20   node-20   <none>           <none>
"""
ALL_PODS = """\
NAMESPACE     NAME                       READY   STATUS      RESTARTS   AGE
kube-system   coredns-6f6b679f8f-5m7kq   0/1     Error       3          5m
tools         web-6f6b679f8f-rgq7r       0/1     OOMKilled   3          5m
training      llm-worker-0               0/1     OOMKilled   0          5m
"""
NODES = """\
NAME      STATUS                        ROLES           AGE    VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE             KERNEL-VERSION      CONTAINER-RUNTIME
node-16   Ready                         control-plane   120d   v1.29.4   10.20.55.11   <none>        Ubuntu 22.04.4 LTS   5.15.0-102-generic  containerd://1.7.12
node-17   NotReady                      <none>          120d   v1.29.4   10.20.55.12   <none>        Ubuntu 22.04.4 LTS   5.15.0-102-generic  containerd://1.7.12
node-18   NotReady,SchedulingDisabled   <none>          120d   v1.29.4   10.20.55.13   <none>        Ubuntu 22.04.4 LTS   5.15.0-102-generic  containerd://1.7.12
"""


def test_kubectl_get_pods() -> None:
    decoded = sniffed("pods.txt", PODS)
    assert pick(rows(decoded, "events"), "event", "severity", "pod", "host", "value", "line") == [
        ("pod.evicted", "error", "llm-worker-1", "node-17", None, 3),
        ("pod.oom_killed", "error", "llm-worker-2", "node-18", None, 4),
        ("pod.restarted", "warning", "llm-worker-3", "node-19", "7", 5),
        ("process.exit", "error", "llm-worker-5", "node-20", None, 7),
    ]
    assert pick(rows(decoded, "facts"), "pod", "host") == [(f"llm-worker-{n}", f"node-1{n + 6}") for n in range(4)] + [
        ("llm-worker-5", "node-20")
    ]
    assert len(rows(decoded, "addresses")) == 4


def test_pods_of_all_namespaces() -> None:
    assert pick(rows(sniffed("pods.txt", ALL_PODS), "events"), "event", "pod") == [("pod.oom_killed", "llm-worker-0")]


def test_kubectl_get_nodes() -> None:
    decoded = sniffed("nodes.txt", NODES)
    assert pick(rows(decoded, "events"), "event", "severity", "host", "line") == [
        ("node.down", "warning", "node-17", 3),
        ("node.down", "warning", "node-18", 4),
        ("node.drain", "warning", "node-18", 4),
    ]
    assert pick(rows(decoded, "addresses"), "address", "host")[0] == ("10.20.55.11", "node-16")


def test_a_table_with_other_lines_is_left_to_the_line_pass() -> None:
    assert sniff("x", (PODS + "Status:         Failed\n").encode()) is None
    assert sniff("x", (PODS + "\n" + NODES).encode()) == "kubectl_table"


MESSAGES = {
    "OOMKilling": "Memory cgroup out of memory: Killed process 8812 (python) total-vm:412000kB, anon-rss:399000kB, file-rss:0kB",
    "SystemOOM": "System OOM encountered, victim process: python, pid: 8812",
    "NodeNotReady": "Node node-17 status is now: NodeNotReady",
}


@pytest.mark.parametrize("reason", kubectl_describe._EVENTS)
def test_describe_reads_reasons_as_the_catalogue_does(reason: str) -> None:
    line = json.dumps({**event(reason, MESSAGES.get(reason, "a message")), "kind": "Event"})
    found = catalogue().recognise(pl.DataFrame({"file": ["x"], "line": [1], "offset": [0], "text": [line]}))
    assert found["event"].to_list() == [kubectl_describe._EVENTS[reason][0]]


@pytest.mark.parametrize(
    ("reason", "expected"), [("NodeLost", "node.down"), ("Preempting", "job.preempted"), ("Weird", None)]
)
def test_describe_reads_states_of_pods_as_objects_are_read(reason: str, expected: str | None) -> None:
    text = f"Name:   w-0\nNode:   node-1/10.0.0.1\nStatus:   Failed\nReason:   {reason}\nContainers:\n  c:\n"
    found = rows(sniffed("p", text), "events")
    assert pick(found, "event", "host") == ([(expected, "node-1")] if expected else [])


SEEDS = [DUMP, PODS, ALL_PODS, NODES, json.dumps(listing(pod("w-0", container(ended("OOMKilled", 137)))), indent=1)]


@settings(max_examples=100, deadline=None)
@given(seed=st.sampled_from(SEEDS), number=st.integers(0, 2**32))
def test_damaged_documents_are_read_without_an_exception(seed: str, number: int) -> None:
    chance = random.Random(number)
    raw = bytearray(seed.encode())
    for _ in range(chance.randrange(1, 8)):
        raw[chance.randrange(len(raw))] = chance.choice(b'\x00\xff\n\t |[]{}"0129=:,')
    for decoder in ("kubernetes", "kubectl_table"):
        run(decoder, "x", bytes(raw[: chance.randrange(len(raw) + 1)]))
    sniff("x", bytes(raw))


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "Pod", "metadata": 5, "spec": [], "status": {"containerStatuses": {"a": 1}, "conditions": "x"}},
        {"kind": "Pod", "metadata": {"name": "a", "ownerReferences": 3}, "spec": {"nodeName": "n", "containers": [None]},
         "status": {"reason": ["Evicted"], "containerStatuses": [1, {"restartCount": 10**400, "state": {"terminated": {"reason": "Error", "exitCode": "x", "finishedAt": 5}}}]}},
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True, "taints": [5]}, "status": {"conditions": [None, 1], "addresses": 4}},
        {"kind": "Event", "involvedObject": [1], "reason": None},
    ],
)  # fmt: skip
def test_odd_values_are_no_exception(value: object) -> None:
    run("kubernetes", "x", json.dumps({"apiVersion": "v1", "items": [value, 5, None]}))
    run("kubernetes", "x", json.dumps(value))
    run("kubernetes", "x", '{"apiVersion": "v1", "items": [' + '{"a":' * 5000)
