"""Whole documents that the line pass reads: error files of torchrun, lists of Kubernetes events."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

import pytest

from postmortem.decoders import sniff

CUDA: Final = (
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported at some"
    " other API call, so the stacktrace below might be incorrect.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
OOM: Final = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.62 GiB is free."
VALUE: Final = "ValueError: Found nan in loss"
STACK: Final = 'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    step()\nValueError: Found nan in loss\n'
WHEN: Final = datetime(2021, 10, 12, 11, 59, 52)


def raised(text: str, **more: object) -> dict[str, Any]:
    """What `record_exception` of torch/distributed/elastic/multiprocessing/errors/error_handler.py writes."""
    return {"message": {"message": text, "extraInfo": {"py_callstack": STACK, "timestamp": "1634039992"}, **more}}


FILES: Final = {
    "exception": (json.dumps(raised(VALUE)), "torch.exception"),
    "CUDA error": (json.dumps(raised(CUDA)), "torch.cuda_error"),
    "out of memory": (json.dumps(raised(OOM)), "torch.oom"),
    "with an error code": (json.dumps(raised(CUDA, errorCode=1)), "torch.cuda_error"),
    "indented": (json.dumps(raised(CUDA), indent=2), "torch.cuda_error"),
    "indented, a line feed at the end": (json.dumps(raised(OOM), indent=4) + "\n", "torch.oom"),
    "the message is text": (json.dumps({"message": VALUE, "timestamp": 1634039992}), "torch.exception"),
    "the message is text, indented": (json.dumps({"message": CUDA, "timestamp": 1634039992}, indent=2), "torch.cuda_error"),
    "keys in another order": (json.dumps({"message": {"extraInfo": {"timestamp": "1634039992", "py_callstack": STACK}, "message": CUDA}}, indent=1),
                              "torch.cuda_error"),
}  # fmt: skip


def event(reason: str, message: str, kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "count": 1, "eventTime": None, "firstTimestamp": "2021-10-12T11:59:52Z",
        "involvedObject": {"apiVersion": "v1", "kind": kind, "name": name, "namespace": "training"}, "kind": "Event",
        "lastTimestamp": "2021-10-12T11:59:52Z", "message": message, "metadata": {"name": f"{name}.17a", "namespace": "training"},
        "reason": reason, "source": {"component": "kubelet", "host": "node-17"}, "type": "Warning",
    }  # fmt: skip


EVENTS: Final = {
    "apiVersion": "v1",
    "items": [
        event("Scheduled", "Successfully assigned training/w-3 to node-17", "Pod", "w-3"),
        event("NodeNotReady", "Node node-17 status is now: NodeNotReady", "Node", "node-17"),
        event("Pulled", "Container image already present on machine", "Pod", "w-3"),
        event("Evicted", "The node was low on resource: memory.", "Pod", "w-3"),
        event("BackOff", "Back-off restarting failed container pytorch in pod w-3_training(5b2c)", "Pod", "w-3"),
    ],
    "kind": "List",
    "metadata": {"resourceVersion": ""},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Rows of `events` by file, of one bundle."""
    from postmortem.incident import Options, open_incident

    root = tmp_path_factory.mktemp("bundle")
    for number, (content, _) in enumerate(FILES.values()):
        path = root / f"run_{number}/attempt_1/{number}/error.json"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    (root / "events.json").write_text(json.dumps(EVENTS, indent=4))
    (root / "events-line.json").write_text(json.dumps(EVENTS))
    rows: dict[str, list[dict[str, Any]]] = {}
    with open_incident([root], Options(workers=1, context=False)) as incident:
        relation = incident.con.sql("SELECT * FROM events ORDER BY file, line, event_id")
        for row in relation.fetchall():
            fields = dict(zip(relation.columns, row, strict=True))
            rows.setdefault(fields["file"], []).append(fields)
    return rows


@pytest.mark.parametrize("name", FILES)
def test_an_error_file_gives_what_the_traceback_would(found: dict[str, list[dict[str, Any]]], name: str) -> None:
    number = list(FILES).index(name)
    (row,) = found[f"run_{number}/attempt_1/{number}/error.json"]
    content, event = FILES[name]
    assert (row["event"], row["ts"], row["ts_kind"]) == (event, WHEN, "exact")
    assert '"message":' in content.split("\n")[row["line"] - 1]


@pytest.mark.parametrize("name", FILES)
def test_no_decoder_takes_an_error_file(name: str) -> None:
    assert sniff("run/attempt_0/3/error.json", FILES[name][0].encode()) is None


@pytest.mark.parametrize("file", ["events.json", "events-line.json"])
def test_a_list_of_events(found: dict[str, list[dict[str, Any]]], file: str) -> None:
    rows = found[file]
    assert [(r["event"], r["host"], r["pod"]) for r in rows] == [
        ("node.down", "node-17", None),
        ("pod.evicted", None, "w-3"),
        ("pod.restarted", None, "w-3"),
    ]
    assert {r["ts"] for r in rows} == {WHEN}
    lines = json.dumps(EVENTS, indent=4).split("\n")
    if file == "events.json":
        assert all('"message":' in lines[r["line"] - 1] for r in rows)
