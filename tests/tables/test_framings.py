"""The same line in every framing that logs are found in gives the same event, with the host and time that the framing states."""

from __future__ import annotations

import json
import struct
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

XID: Final = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
WHEN: Final = datetime(2026, 3, 4, 5, 6, 7)
EPOCH: Final = 1772600767
ISO: Final = "2026-03-04T05:06:07"
_LINE: Final = {"host": "node-07", "ts": WHEN}


def _json(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


def _journal(**fields: str) -> bytes:
    return "".join(f"{k}={v}\n" for k, v in fields.items()).encode() + b"\n"


def _binary(key: str, value: bytes) -> bytes:
    return key.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"


_JOURNAL: Final = {
    "__CURSOR": "s=1",
    "__REALTIME_TIMESTAMP": f"{EPOCH}000000",
    "_BOOT_ID": "b0",
    "_HOSTNAME": "node-07",
}

# What the file holds -> columns of the one event that must come of it, `line` among them.
FRAMINGS: Final[dict[str, tuple[str | bytes, dict[str, Any]]]] = {
    "dmesg": (f"[12345.678901] {XID}\n", {"uptime_s": 12345.678901}),
    "dmesg, caller": (f"[   32.298491][  T896] {XID}\n", {"uptime_s": 32.298491}),
    "dmesg -T": (f"[Wed Mar  4 05:06:07 2026] {XID}\n", {"ts": WHEN}),
    "dmesg -T, Portuguese": (f"[Qua Mar 4 05:06:07 2026] {XID}\n", {"ts": WHEN}),
    "dmesg -T, Chinese": (f"[三 3月  4 05:06:07 2026] {XID}\n", {"ts": WHEN}),
    "dmesg -x, iso": (f"kern  :err   : {ISO},000000+00:00 {XID}\n", {"ts": WHEN}),
    "dmesg, iso": (f"{ISO},000000+00:00 {XID}\n", {"ts": WHEN}),
    "dmesg -r": (f"<3>[ 3098.275474] {XID}\n", {"uptime_s": 3098.275474}),
    "dmesg -t": (f"{XID}\n", {}),
    "dmesg --json": (
        json.dumps({"dmesg": [{"pri": 6, "time": 1.5, "msg": "x"}, {"pri": 3, "time": 98.275474, "msg": XID}]}, indent=3),
        {"uptime_s": 98.275474, "line": 11},
    ),
    "kmsg": (f"3,3973,227996636,-;{XID}\n SUBSYSTEM=pci\n", {"uptime_s": 227.996636}),
    "RFC 3164": (f"Mar  4 05:06:07 node-07 kernel: {XID}\n", _LINE),
    "RFC 3164 with uptime": (f"Mar  4 05:06:07 node-07 kernel: [261.273227] {XID}\n", {"host": "node-07"}),
    "RFC 3164 with priority": (f"<3>Mar  4 05:06:07 node-07 kernel: {XID}\n", _LINE),
    "RFC 3164 without host": (f"Mar  4 05:06:07 kernel: {XID}\n", {"ts": WHEN, "host": None}),
    "RFC 3164, German": (f"Mär 04 05:06:07 node-07 kernel: {XID}\n", _LINE),
    "RFC 5424": (f"<4>1 {ISO}.000Z node-07 kernel - - - {XID}\n", _LINE),
    "RFC 5424 with data": (f'<4>1 {ISO}.000Z node-07 kernel - - [meta a="b"] {XID}\n', _LINE),
    "RFC 5424 without priority": (f"1 {ISO}.000Z node-07 kernel - - - {XID}\n", _LINE),
    "rsyslog": (f"2026-03-04T01:06:07.000000-04:00 node-07 kernel: [261.273227] {XID}\n", _LINE),
    "rsyslog with priority": (f"<3>2026-03-04T10:36:07.000000+05:30 node-07 kernel: {XID}\n", _LINE),
    "short-iso": (f"2026-03-04T01:06:07-0400 node-07 kernel: {XID}\n", _LINE),
    "short-iso without zone": (f"{ISO} node-07 kernel:[75215.928881] {XID}\n", _LINE),
    "short-monotonic": (f"[12345.678901] node-07 kernel: {XID}\n", {"host": "node-07", "uptime_s": 12345.678901}),
    "journal, json": (
        _json(MESSAGE=XID, __REALTIME_TIMESTAMP=f"{EPOCH}000000", _HOSTNAME="node-07", _TRANSPORT="kernel"), _LINE),
    "journal, json of bytes": (
        _json(MESSAGE=list(XID.encode()), __REALTIME_TIMESTAMP=f"{EPOCH}000000", _HOSTNAME="node-07", _TRANSPORT="kernel"),
        {"host": "node-07", "ts": WHEN},
    ),
    "journal, json-pretty": (
        json.dumps({"__REALTIME_TIMESTAMP": f"{EPOCH}000000", "_HOSTNAME": "node-07", "MESSAGE": XID}, indent=8) + "\n",
        {**_LINE, "line": 4},
    ),
    "journal, export": (
        _journal(**_JOURNAL, MESSAGE="all is well")
        + _journal(**_JOURNAL, PRIORITY="3", MESSAGE=XID, _TRANSPORT="kernel", _SOURCE_MONOTONIC_TIMESTAMP="5000000"),
        {**_LINE, "line": 12},
    ),
    "journal, export of bytes": (
        _journal(**_JOURNAL)[:-1] + _binary("MESSAGE", b"\xfftwo\n\nlines\n") + b"_TRANSPORT=stdout\n\n"
        + _journal(**_JOURNAL)[:-1] + _binary("MESSAGE", XID.encode()) + b"\n",
        {**_LINE, "line": 16},
    ),
    "docker": (_json(log=XID + "\n", stream="stderr", time=f"{ISO}.5Z"), {"ts": WHEN.replace(microsecond=500000)}),
    "CRI": (f"{ISO}.123456789Z stderr F {XID}\n", {"ts": WHEN.replace(microsecond=123456)}),
    "kubectl logs --timestamps": (f"{ISO}.123456789Z {XID}\n", {"ts": WHEN.replace(microsecond=123456)}),
    "talosctl": (f"10.0.0.1: kern: warning: [{ISO}.870495804Z]: {XID}\n", {"host": "10.0.0.1"}),
    "pdsh": (f"n1360: [14280.445226] {XID}\n", {"host": "n1360", "uptime_s": 14280.445226}),
    "logread": (f"Wed Mar  4 05:06:07 2026 kern.crit kernel: [ 7013.909286] {XID}\n", {"uptime_s": 7013.909286}),
    "serial console": (f"node:/$ [12508.408576] {XID}\n", {"uptime_s": 12508.408576}),
    "repeated": (
        f"Mar  4 05:06:07 node-07 kernel: message repeated 9 times: [ {XID}]\n", {**_LINE, "value": "9"}),
    "repeated, program first": (f"Mar  4 05:06:07 node-07 message repeated 9 times: [ {XID}]\n", {**_LINE, "value": "9"}),
    "collector first": (f"{ISO}.000Z relay-1 Mar  4 05:06:07 node-07 kernel: {XID}\n", _LINE),
    "ANSI": (f"\x1b[32m[12345.678901] \x1b[0m\x1b[31m{XID}\x1b[0m\n", {"uptime_s": 12345.678901}),
    "progress bar": (f"\r 10%|#   | 1/10\r[12345.678901] {XID}\r\n", {"uptime_s": 12345.678901}),
    "vector": (_json(message=f"Mar  4 05:06:07 node-07 kernel: {XID}", host="collector", timestamp=f"{ISO}Z"), _LINE),
    "fluent bit of Kubernetes": (
        _json(log=XID, time=f"{ISO}Z", kubernetes={"pod_name": "job-0", "host": "node-07", "labels": {"a": "b"}}),
        {**_LINE, "pod": "job-0"},
    ),
    "Elasticsearch, lines": (
        _json(_index="k", _source={"@timestamp": f"{ISO}.000Z", "message": XID, "host": {"name": "node-07"}}), _LINE),
    "Elasticsearch, search": (
        json.dumps({"took": 3, "hits": {"total": {"value": 2}, "hits": [
            {"_index": "k", "_source": {"@timestamp": f"{ISO}Z", "message": "all is well"}},
            {"_index": "k", "_source": {"@timestamp": f"{ISO}Z", "message": XID, "agent": {"hostname": "node-07"}}}]}}),
        _LINE,
    ),
    "Elasticsearch, search, indented": (
        json.dumps({"hits": {"hits": [{"_source": {"@timestamp": f"{ISO}Z", "host": {"name": "node-07"}, "message": XID}}]}},
                   indent=2),
        {**_LINE, "line": 10},
    ),
    "Loki, query": (
        json.dumps({"status": "success", "data": {"resultType": "streams", "result": [
            {"stream": {"host": "node-01"}, "values": [[f"{EPOCH}000000000", "all is well"]]},
            {"stream": {"host": "node-07"}, "values": [[f"{EPOCH}000000000", "x"], [f"{EPOCH}000000000", XID]]}]}}),
        _LINE,
    ),
    "Loki, query, indented": (
        json.dumps({"status": "success", "data": {"resultType": "streams", "result": [
            {"stream": {"node_name": "node-07"}, "values": [[f"{EPOCH}000000000", XID]]}]}}, indent=1),
        {**_LINE, "line": 13},
    ),
    "logcli": (_json(labels={"hostname": "node-07"}, line=XID, timestamp=f"{ISO}Z"), _LINE),
    "Grafana Explore": (
        json.dumps([{"line": XID, "timestamp": f"{EPOCH}000000000", "date": f"{ISO}Z", "fields": {"host": "node-07"}}]), _LINE),
    "Splunk, JSON": (
        _json(preview=False, result={"_raw": f"Mar  4 05:06:07 node-07 kernel: {XID}", "_time": f"{ISO}.000+00:00",
                                     "host": "collector"}), _LINE),
    "Splunk, raw": (f"2026-03-04T05:06:07.000+00:00 node-07 kernel: {XID}\n", _LINE),
    "Splunk, CSV": (
        f'"_time","host","_raw"\n"{ISO}.000+0000","node-01","two\nlines, ""quoted"""\n"{ISO}.000+0000","node-07","{XID}"\n',
        {**_LINE, "line": 4},
    ),
    "Kibana, CSV": (f'"@timestamp","host.name",message\n"{ISO}.000Z",node-07,"{XID}"\n', {**_LINE, "line": 2}),
    "CloudWatch": (
        json.dumps({"events": [{"logStreamName": "node-07/kern", "timestamp": EPOCH * 1000, "message": XID}]}, indent=4),
        {"ts": WHEN, "line": 6},
    ),
    "Cloud Logging": (
        json.dumps([{"textPayload": XID, "timestamp": f"{ISO}Z", "resource": {"labels": {"node_name": "node-07"}}}], indent=2),
        {**_LINE, "line": 3},
    ),
    "Cloud Logging, payload": (
        json.dumps([{"jsonPayload": {"message": XID}, "timestamp": f"{ISO}Z", "resource": {"labels": {"node_name": "node-07"}}}]),
        _LINE,
    ),
    "Datadog": (
        json.dumps({"data": [{"id": "1", "attributes": {"message": XID, "timestamp": f"{ISO}Z", "host": "node-07"}}]}), _LINE),
    "GELF": (_json(version="1.1", host="node-07", short_message=XID, timestamp=EPOCH + 0.0), _LINE),
    "JSON with escapes": (
        _json(log=XID.replace("Xid", 'Xid').replace("GPU has", "\tGPU has"), time=f"{ISO}Z", host="node-07"), _LINE),
    "damaged record between": (
        '[\n{"message": "x", "host": "node-01"},\n{"message": "cut\n,\n' + _json(message=XID, host="node-07", ts=f"{ISO}Z") + "]\n",
        {**_LINE, "line": 5},
    ),
}  # fmt: skip


ECC: Final = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
# What a launcher or collector puts before a line of one rank -> columns of the event.
PREFIXES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "torch": ("[rank12]: ", {"rank": 12}),
    "torchrun --tee": ("[default3]:[rank12]: ", {"rank": 12, "local_rank": 3}),
    "torchrun --tee, role": ("[trainer1]:", {"local_rank": 1}),
    "monarch": ("[trainer0|2]:", {}),
    "torchx": ("trainer/0 [1]:", {"local_rank": 1}),
    "srun --label": ("3: ", {"rank": None}),
    "srun --label, torchrun": (" 3: [default1]:[rank9]: ", {"rank": 9, "local_rank": 1}),
    "mpirun --tag-output": ("[1,3]<stderr>:", {"rank": 3}),
    "mpirun, another job": ("[2,13]<stdout>: ", {"rank": 13}),
    "mpirun 5, tag-detailed": ("[1,3][node-07:4711]<stderr>: ", {"rank": 3, "host": "node-07", "pid": 4711}),
    "mpirun 5, tag-fullname": ("[prterun-node-07-81@1,3]<stderr>: ", {"rank": 3}),
    "Metaflow": ("2026-03-04 05:06:07.227 [177/train/578 (pid 28936)] [rank12]: ", {"rank": 12, "pid": 28936, "ts": WHEN.replace(microsecond=227000)}),
    "identity of a run": ("[09c561ee-a44c-4795-967c-7183a83b3160] [rank12]: ", {"rank": 12}),
    "Ray": ("(RayTrainWorker pid=615, ip=10.72.7.6) ", {"pid": 615}),
    "Ray, nested": ("(EngineCore_DP0 pid=1088) (RayWorkerWrapper pid=285, ip=10.72.7.6) ", {"pid": 285}),
    "pdsh": ("node-07: [rank12]: ", {"rank": 12, "host": "node-07"}),
    "kubectl logs --prefix": ("[pod/job-0/pytorch] [rank12]: ", {"rank": 12, "pod": "job-0"}),
    "kubectl logs --prefix --timestamps": (f"[pod/job-0/pytorch] {ISO}.5Z [rank12]: ", {"rank": 12, "pod": "job-0"}),
    "docker compose": ("trainer-0  | [rank12]: ", {"rank": 12}),
    "stern": ("job-0 pytorch [rank12]: ", {"rank": 12, "pod": "job-0"}),
    "CRI": (f"{ISO}.123456789Z stdout F [rank12]: ", {"rank": 12, "ts": WHEN.replace(microsecond=123456)}),
    "site logger": (f"{ISO}.884Z: [rank12]: ", {"rank": 12, "ts": WHEN.replace(microsecond=884000)}),
    "site logger with zone": ("2026-03-04 13:06:07.043 +08:00 [rank12]: ", {"rank": 12, "ts": WHEN.replace(microsecond=43000)}),
    "site logger without zone": ("2026-03-04 05:06:07.227 [rank12]: ", {"rank": 12, "ts": WHEN.replace(microsecond=227000)}),
    "grep": ("rank_604.host.log:[rank12]: ", {"rank": 12}),
    "grep -n": ("logs/node-07/train.log:123:[rank12]: ", {"rank": 12}),
    "colours lost": ("[0m [rank12]: ", {"rank": 12}),
    "colours": ("\x1b[36m[rank12]:\x1b[0m ", {"rank": 12}),
}  # fmt: skip


def _events(folder: Path, table: dict[str, tuple[str | bytes, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Events by entry of `table`; each stands in a file of its own, whose name tells nothing."""
    from postmortem.incident import Options, open_incident

    files = {}
    for number, (name, (content, _)) in enumerate(table.items()):
        path = folder / f"{number:03}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        files[path.name] = name
    (folder / "dated").write_text("2026-03-05T00:00:00+00:00 other-1 kernel: Linux version 6.1.0\n")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in table}
    with open_incident([folder], Options(workers=1, context=False)) as incident:
        relation = incident.con.sql("SELECT * FROM events WHERE file <> 'dated' ORDER BY file, line")
        for row in relation.fetchall():
            fields = dict(zip(relation.columns, row, strict=True))
            found[files[fields["file"]]].append(fields)
    return found


@pytest.fixture(scope="module")
def framed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    return _events(tmp_path_factory.mktemp("framings"), FRAMINGS)


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    lines: dict[str, tuple[str | bytes, dict[str, Any]]] = {n: (f"{p}{ECC}\n", e) for n, (p, e) in PREFIXES.items()}
    return _events(tmp_path_factory.mktemp("prefixes"), lines)


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_framed_line_is_read(framed: dict[str, list[dict[str, Any]]], name: str) -> None:
    _, expected = FRAMINGS[name]
    assert [(e["event"], e["xid"], e["pci"]) for e in framed[name]] == [("gpu.xid", 79, "0000:3b:00.0")]
    (event,) = framed[name]
    assert {key: event[key] for key in expected} == expected


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefixed_line_is_read(prefixed: dict[str, list[dict[str, Any]]], name: str) -> None:
    _, expected = PREFIXES[name]
    assert [e["event"] for e in prefixed[name]] == ["torch.cuda_error"]
    (event,) = prefixed[name]
    assert {key: event[key] for key in expected} == expected
