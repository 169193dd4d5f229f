"""Pods and nodes of Kubernetes as objects -> where pods ran, how their containers ended, what was wrong with nodes.

    "metadata": {"name": "llm-worker-3", "namespace": "training"}, "spec": {"nodeName": "node-17", …},
    "status": {"phase": "Failed", "reason": "Evicted", "startTime": "2025-06-01T03:00:00Z", "containerStatuses": [{"name": "pytorch",
      "restartCount": 1, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2025-06-01T03:20:11Z"}}, …}]}

(kubernetes/kubernetes staging/src/k8s.io/api/core/v1/types.go.) Times are UTC. Conditions of nodes other than Ready come from
kubernetes/node-problem-detector (config/*.json).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from postmortem.decoders.base import Row, stamp
from postmortem.decoders.schedulers.json_lists import number, part, text_of
from postmortem.patterns import later

Evidence = Callable[[re.Pattern[str] | None], Row]
"""The columns of evidence of the first place in the object that a pattern matches."""

STATUS_REASONS: Final[dict[str, tuple[str, str]]] = {
    "Evicted": ("pod.evicted", "error"),
    "Terminated": ("pod.evicted", "error"),
    "NodeShutdown": ("pod.evicted", "error"),
    "Shutdown": ("pod.evicted", "error"),
    "Preempting": ("job.preempted", "error"),
    "DeadlineExceeded": ("job.timeout", "error"),
    "NodeLost": ("node.down", "fatal"),
    "PreemptionByScheduler": ("job.preempted", "error"),
    "PreemptionByKubeScheduler": ("job.preempted", "error"),
    "EvictionByEvictionAPI": ("pod.evicted", "error"),
    "DeletionByTaintManager": ("pod.evicted", "error"),
    "DeletionByPodGC": ("pod.evicted", "error"),
    "TerminationByKubelet": ("pod.evicted", "error"),
}
"""`status.reason` of a pod (kubelet, node controller before 1.13) and the reason of its condition DisruptionTarget (1.25 and later)."""

EXIT_REASONS: Final[dict[str, tuple[str, str]]] = {
    "OOMKilled": ("pod.oom_killed", "error"),
    "Error": ("process.exit", "error"),
    "ContainerStatusUnknown": ("process.exit", "warning"),
    "StartError": ("process.exit", "error"),
    "ContainerCannotRun": ("process.exit", "error"),
    "DeadlineExceeded": ("process.exit", "error"),
}
"""`terminated.reason` of a container; 137 with `Error` is a kill, but no proof of a lack of memory."""

NODE_CONDITIONS: Final[dict[str, tuple[str, str]]] = {
    "KernelDeadlock": ("host.hung_task", "error"),
    "ReadonlyFilesystem": ("host.fs_error", "error"),
    "XfsShutdown": ("host.fs_error", "error"),
    "CperHardwareErrorFatal": ("host.mce", "fatal"),
    "DiskBadBlock": ("host.disk_error", "error"),
}
"""Conditions that are bad when they are true."""

_SERVICES: Final = frozenset({"DaemonSet", "ReplicaSet", "Deployment", "Node"})
_ACCELERATORS: Final = later(
    r"(?:nvidia|amd|habana|intel)\.(?:com|ai)/(?:gpu|gaudi|mig-.*)|aws\.amazon\.com/neuron.*|google\.com/tpu"
)
SYSTEM_NAMESPACE: Final = later(
    r"kube-.*|.*-(?:operator|operators|system)|monitoring|prometheus|logging|cert-manager|ingress-.*|istio-.*|calico-.*|cilium.*|tigera.*"
)
_JOB_LABELS: Final = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)


def pod_time(value: object) -> datetime | None:
    """A time of the API, RFC 3339; null when it is none."""
    try:
        when = datetime.fromisoformat(text_of(value))
    except ValueError:
        return None
    return when if when.utcoffset() is not None else None


def is_of_a_job(pod: dict[str, Any]) -> bool:
    """Whether the pod may be one of the job: it asks for GPUs, or no service or part of the cluster owns it."""
    containers = part(pod, "spec", "containers")
    for container in containers if isinstance(containers, list) else []:
        limits = part(container, "resources", "limits")
        if isinstance(limits, dict) and any(_ACCELERATORS.fullmatch(key) for key in limits):
            return True
    owners = part(pod, "metadata", "ownerReferences")
    kinds = {text_of(part(owner, "kind")) for owner in (owners if isinstance(owners, list) else [])}
    return not kinds & _SERVICES and not SYSTEM_NAMESPACE.fullmatch(text_of(part(pod, "metadata", "namespace")))


def pod_fact(pod: dict[str, Any], where: Evidence) -> Row | None:
    """`pod.node` with the time of the pod's start; None for a pod that no node was found for."""
    node, name = text_of(part(pod, "spec", "nodeName")), text_of(part(pod, "metadata", "name"))
    if not node or not name:
        return None
    base = where(re.compile(r'"nodeName"\s*:'))
    when = stamp(pod_time(part(pod, "status", "startTime")))
    return {"fact": "pod.node", **base, **when, "severity": "info", "host": node, "pod": name, "job_id": _job(pod)}


def pod_address(pod: dict[str, Any], where: Evidence) -> Row | None:
    """The pod's address; one that it shares with its node is the node's."""
    status = part(pod, "status")
    address, name = text_of(part(status, "podIP")), text_of(part(pod, "metadata", "name"))
    if not address or not name:
        return None
    host = text_of(part(pod, "spec", "nodeName")) if address == part(status, "hostIP") else name
    row = where(re.compile(r'"podIP"\s*:'))
    return {"address": address, "host": host or name, "file": row["file"], "line": row["line"]}


def pod_events(pod: dict[str, Any], where: Evidence) -> list[Row]:
    """How the pod and its containers ended, in the order of the document's keys; `host` is the node."""
    place = {
        "host": text_of(part(pod, "spec", "nodeName")) or None,
        "pod": text_of(part(pod, "metadata", "name")) or None,
        "job_id": _job(pod),
    }
    rows = [{**row, **place} for row in _containers(pod, where)]
    ended = _disrupted(pod, where)
    return [*rows, {**ended, **place}] if ended else rows


def _job(pod: dict[str, Any]) -> str | None:
    labels = part(pod, "metadata", "labels")
    return next((name for key in _JOB_LABELS if (name := text_of(part(labels, key)))), None)


def _disrupted(pod: dict[str, Any], where: Evidence) -> Row | None:
    """The event of `status.reason`, else of the condition DisruptionTarget, whose time it has in both cases."""
    conditions = part(pod, "status", "conditions")
    target = next(
        (c for c in (conditions if isinstance(conditions, list) else []) if part(c, "type") == "DisruptionTarget"), None
    )
    target = target if part(target, "status") == "True" else None
    reason = text_of(part(pod, "status", "reason"))
    message = text_of(part(pod, "status", "message")) or text_of(part(target, "message"))
    if reason not in STATUS_REASONS:
        reason = text_of(part(target, "reason"))
    if reason not in STATUS_REASONS:
        return None
    event, severity = STATUS_REASONS[reason]
    when = pod_time(part(target, "lastTransitionTime"))
    base = where(re.compile(rf'"reason"\s*:\s*"{reason}"'))
    return {
        **base,
        **stamp(when),
        "event": event,
        "severity": severity,
        "reason": reason,
        "value": message or None,
        "sub": 9,
    }


def _containers(pod: dict[str, Any], where: Evidence) -> Iterator[Row]:
    for key in ("initContainerStatuses", "containerStatuses"):
        listed = part(pod, "status", key)
        for status in listed if isinstance(listed, list) else []:
            for state in ("lastState", "state"):
                ended = part(status, state, "terminated")
                row = _ended(ended, where) if isinstance(ended, dict) else None
                if row is not None:
                    yield {**row, "process": text_of(part(status, "name")) or None}
            yield from _restarted(status, where)


def _ended(ended: dict[str, Any], where: Evidence) -> Row | None:
    """The event of a container that did not end well."""
    reason, code = text_of(ended.get("reason")), number(ended.get("exitCode"))
    event, severity = EXIT_REASONS.get(reason, ("", ""))
    if not event or (event == "process.exit" and code == 0):
        return None
    finished = text_of(ended.get("finishedAt"))
    at = rf'"finishedAt"\s*:\s*"{re.escape(finished)}"' if finished else rf'"reason"\s*:\s*"{reason}"'
    return {
        **where(re.compile(rf'"reason"\s*:\s*"{reason}"(?=[^{{}}]*{at})|{at}' if finished else at)),
        **stamp(pod_time(finished)),
        "event": event,
        "severity": severity,
        "exit_code": code,
        "signal": number(ended.get("signal")) or None,
        "reason": reason,
        "value": text_of(ended.get("message")).strip()[-400:] or None,
        "sub": 1,
    }


def _restarted(status: object, where: Evidence) -> Iterator[Row]:
    count = number(part(status, "restartCount")) or 0
    is_looping = part(status, "state", "waiting", "reason") == "CrashLoopBackOff"
    when = pod_time(part(status, "state", "running", "startedAt"))
    if count > 0 and (is_looping or when):
        base = where(re.compile(rf'"restartCount"\s*:\s*{count}\b'))
        yield {**base, **stamp(when), "event": "pod.restarted", "severity": "warning", "value": str(count), "sub": 2}


def node_address(node: dict[str, Any], where: Evidence) -> list[Row]:
    """The node's own addresses."""
    name, listed = text_of(part(node, "metadata", "name")), part(node, "status", "addresses")
    rows: list[Row] = []
    for one in listed if isinstance(listed, list) else []:
        address = text_of(part(one, "address"))
        if name and address and part(one, "type") in {"InternalIP", "ExternalIP"}:
            row = where(re.compile(rf'"address"\s*:\s*"{re.escape(address)}"'))
            rows.append({"address": address, "host": name, "file": row["file"], "line": row["line"]})
    return rows


def node_events(node: dict[str, Any], where: Evidence) -> list[Row]:
    """`node.down` of a node that is not ready, `node.drain` of one that takes no pods, and what the problem detector found.

    `ts` is when the condition or taint came; those that have passed are not in the object.
    """
    name, rows = text_of(part(node, "metadata", "name")), []
    conditions = part(node, "status", "conditions")
    for one in conditions if isinstance(conditions, list) else []:
        kind, status = text_of(part(one, "type")), part(one, "status")
        event, severity = NODE_CONDITIONS.get(kind, ("", "")) if status == "True" else ("", "")
        if kind == "Ready" and status in {"False", "Unknown"}:
            event, severity = "node.down", "fatal"
        if event:
            rows.append({
                **where(re.compile(rf'"type"\s*:\s*"{kind}"')),
                **stamp(pod_time(part(one, "lastTransitionTime"))),
                "event": event,
                "severity": severity,
                "status": f"{kind}={status}",
                "reason": ": ".join(t for k in ("reason", "message") if (t := text_of(part(one, k)))) or None,
            })  # fmt: skip
    if part(node, "spec", "unschedulable") is True:
        taints = part(node, "spec", "taints")
        when = next(
            (part(t, "timeAdded") for t in (taints if isinstance(taints, list) else []) if part(t, "key") == "node.kubernetes.io/unschedulable"),
            None,
        )  # fmt: skip
        base = where(re.compile(r'"unschedulable"\s*:'))
        rows.append(
            {**base, **stamp(pod_time(when)), "event": "node.drain", "severity": "warning", "status": "unschedulable"}
        )
    return [{**row, "host": name or None, "sub": 0} for row in rows]
