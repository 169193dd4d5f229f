"""What DCGM found: dcgmi health -c and dcgmi diag -r, as tables and as JSON.

dcgmi health (DCGM dcgmi/Health.cpp): what is wrong by entity and system; a failure is an event, a warning (replays, pending
retirements) one that is survived. dcgmi diag (dcgmi/Diag.cpp): a row per test and, in newer versions, per GPU.

    | GPU                        |                                                          |
    | -> 3                       | Failure                                                  |
    |    -> Errors               |                                                          |
    |       -> Memory system     | Failure                                                  |
    |                            | GPU 3 had uncorrectable memory errors and row remapping  |
    |                            | failed.                                                  |

Neither says when it happened: the rows have no time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Hints, MemberLike, Row, evidence, read_text, stamp
from postmortem.patterns import later

_CELLS: Final = later(r"^\|(.*?)\|(.*)\|\s*$")
_SYSTEM: Final = later(r"^(PCIe|NVLINK|NVLink|PMU|MCU|Memory|SM|InfoROM|Thermal|Power|ConnectX) system$|^Driver$")
_OLD_SYSTEM: Final = later(
    r"^((?:PCIe|NVLINK|NVLink|PMU|MCU|Memory|SM|InfoROM|Thermal|Power) system|Driver): (Warning|Failure) ?-? ?(.*)$"
)
_RESULT: Final = later(r"^(Pass|Fail|Warn|Skip|Not Run)\b(?: - (.*))?$", re.IGNORECASE)
_PER_GPU: Final = later(r"^GPU ?([0-9]+): (Pass|Fail|Warn|Skip|Not Run)$", re.IGNORECASE)
_XID: Final = later(r"\bXID:? (?:error )?\(?([0-9]{1,3})\b", re.IGNORECASE)
_GPU: Final = later(r"\bGPU:? ?([0-9]{1,2})\b")
_BY_SYSTEM: Final = {
    "PCIe": "pcie.link_degraded",
    "NVLINK": "gpu.nvlink_error",
    "Memory": "gpu.ras_error",
    "SM": "gpu.ras_error",
    "Thermal": "gpu.thermal",
    "ConnectX": "nic.health",
}
_MEMORY_TESTS: Final = later(
    r"memory|memtest|page retirement|row remap|diagnostic|stress|pulse|targeted|eud", re.IGNORECASE
)
_BANDWIDTH_TESTS: Final = later(r"pcie|nvbandwidth", re.IGNORECASE)


@dataclass(slots=True)
class Incident:
    """What was found of an entity: where it stands, system or test, how bad, and DCGM's sentence."""

    line: int
    text: str
    what: str
    is_failure: bool
    gpu: int | None = None
    said: list[str] = field(default_factory=list)


def health_event(incident: Incident) -> tuple[str, str]:
    """(event, severity) of an incident of `dcgmi health`."""
    said = " ".join(incident.said)
    severity = "error" if incident.is_failure else "info"
    if "fallen off the bus" in said:
        return "gpu.fallen_off_bus", "fatal"
    if _XID.search(said):
        return "gpu.xid", severity
    return _BY_SYSTEM.get(incident.what.split(" ")[0], "gpu.driver_error"), severity


def diag_event(incident: Incident) -> tuple[str, str]:
    """(event, severity) of a test of `dcgmi diag` that failed; a test of bandwidth or of the installation proves no broken GPU."""
    said = " ".join(incident.said)
    if "fallen off the bus" in said:
        return "gpu.fallen_off_bus", "fatal"
    if _XID.search(said):
        return "gpu.xid", "error"
    if re.search(r"NvLink|NVSwitch", said, re.IGNORECASE) and "PCIe" not in incident.what:
        return "gpu.nvlink_error", "error"
    if re.search(
        r"faulty memory|double-bit|uncorrectable|row remap|miscompare|retired page|uncontained", said, re.IGNORECASE
    ):
        return "gpu.ras_error", "error"
    if re.search(r"thermal", said, re.IGNORECASE):
        return "gpu.thermal", "warning"
    if _BANDWIDTH_TESTS.search(incident.what) or not _MEMORY_TESTS.search(incident.what):
        return "gpu.driver_error", "warning"
    return "gpu.driver_error", "error"


def _table(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(line number, line, left cell, right cell) of a boxed table's rows."""
    for number, line in enumerate(text.split("\n"), 1):
        found = _CELLS.match(line[:500].rstrip())
        if found and not re.fullmatch(r"[-+= ]*[-+=][-+= ]*", found[1]):
            yield number, line, found[1].strip(), found[2].strip()


def _health_table(text: str) -> Iterator[Incident]:
    now: Incident | None = None
    gpu: int | None = None
    group = ""
    for number, line, left, right in _table(text):
        name = left.removeprefix("->").strip()
        if re.match(r"^(?:GPU|NvSwitch|CPU|ConnectX|NvLink|Switch|Link)s?$", name, re.IGNORECASE):
            group, gpu = name, None
        elif found := re.match(r"^(?:GPU ID: )?([0-9]{1,3})$", name):
            gpu = int(found[1]) if group in {"GPU", ""} or left.startswith("GPU") else None
        if _SYSTEM.match(name) and right in {"Warning", "Failure", "Healthy"}:
            if now:
                yield now
            now = Incident(number, line, name, right == "Failure", gpu) if right != "Healthy" else None
        elif not name and (found := _OLD_SYSTEM.match(right)):
            if now:
                yield now
            now = Incident(number, line, found[1], found[2] == "Failure", gpu, [found[3]] if found[3] else [])
        elif not name and now:
            now.said.append(right)
        elif name:
            if now:
                yield now
            now = None
    if now:
        yield now


def _health_json(document: Any, text: str) -> Iterator[Incident]:
    """Incidents of `dcgmi health -c -j`: nested objects of `value` and `children`, sentences in `overflow`."""
    body = document.get("body") if isinstance(document, dict) else None

    def walk(node: Any, path: tuple[str, ...], at: int) -> Iterator[Incident]:
        if not isinstance(node, dict):
            return
        name = path[-1] if path else ""
        if _SYSTEM.match(name) and node.get("value") in {"Warning", "Failure"}:
            place = max(text.find(f'"{name}"', at), 0)
            gpu = next(
                (int(p) for g, p in pairwise(path) if g == "GPU" and p.isdigit() and len(p) < 4),
                None,
            )
            line = text.count("\n", 0, place)
            said = (
                [s for s in node.get("overflow", []) if isinstance(s, str)]
                if isinstance(node.get("overflow"), list)
                else []
            )
            yield Incident(line + 1, text.split("\n")[line], name, node["value"] == "Failure", gpu, said)
        children = node.get("children")
        for key, child in children.items() if isinstance(children, dict) and len(path) < 8 else []:
            yield from walk(child, (*path, key), max(text.find(f'"{key}"', at), at))

    for key, child in body.items() if isinstance(body, dict) else []:
        yield from walk(child, (key,), max(text.find(f'"{key}"'), 0))


def _diag_table(text: str) -> Iterator[Incident]:
    """Failed tests; where rows of GPUs follow a test, those that failed."""
    test: Incident | None = None
    entities: list[Incident] = []
    last: Incident | None = None

    def done() -> list[Incident]:
        if test is None or not (test.is_failure or entities):
            return []
        return entities or _spread(test)

    for number, line, left, right in _table(text):
        result, entity = _RESULT.match(right), _PER_GPU.match(right)
        if left and result and not left.startswith(("Warning", "Info")):
            yield from done()
            test = Incident(number, line, left, result[1].lower() == "fail", None, [])
            test.said.append(f"({result[2]})" if result[2] and result[2] != "All" else "")
            entities, last = [], test
        elif entity and test:
            last = None
            if entity[2].lower() == "fail":
                last = Incident(number, line, test.what, True, int(entity[1]))
                entities.append(last)
        elif left.startswith("Warning") or (not left and last):
            if last:
                last.said.append(right)
        elif left:
            last = None
    yield from done()


def _spread(test: Incident) -> list[Incident]:
    """A failed test for each GPU that it names as `GPU: 0, 3` or `GPUs: 0, 3`; one without GPU when it names none."""
    named = re.search(r"\((?:GPUs?|Fail): ?([0-9, ]+)\)", " ".join(test.said))
    gpus = [int(g) for g in re.findall(r"[0-9]{1,3}", named[1])] if named else [None]
    return [
        Incident(test.line, test.text, test.what, True, gpu, [s for s in test.said if not s.startswith("(")])
        for gpu in gpus
    ]


def _diag_json(document: Any, text: str) -> Iterator[Incident]:
    root = next(
        (
            document[k]
            for k in ("DCGM Diagnostic", "DCGM GPU Diagnostic")
            if isinstance(document, dict) and k in document
        ),
        None,
    )
    lines, at = text.split("\n"), 0
    for category in _dicts(root.get("test_categories") if isinstance(root, dict) else None):
        for test in _dicts(category.get("tests")):
            name = test.get("name") if isinstance(test.get("name"), str) else "test"
            at = max(text.find(json.dumps(name), at), at)
            for result in _dicts(test.get("results")):
                if str(result.get("status", "")).lower() != "fail":
                    continue
                place = re.compile(r'"status"\s*:\s*"fail"', re.IGNORECASE).search(text, at)
                at = place.end() if place else at
                line = text.count("\n", 0, place.start() if place else at)
                for gpu in _json_gpus(result):
                    yield Incident(line + 1, lines[line], str(name)[:80], True, gpu, _warnings(result.get("warnings")))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _json_gpus(result: dict[str, Any]) -> list[int | None]:
    """GPUs of a result: `entity_id` of the group GPU, `gpu_id`, or `gpu_ids` (one, or several with commas)."""
    if "entity_group" in result and result.get("entity_group") != "GPU":
        return [None]
    given = next((result[k] for k in ("entity_id", "gpu_id", "gpu_ids") if k in result), "")
    found: list[int | None] = [int(g) for g in re.findall(r"[0-9]{1,3}", str(given)[:100])]
    return found or [None]


def _warnings(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = [w.get("warning") if isinstance(w, dict) else w for w in listed]
    return [t[:500] for t in texts if isinstance(t, str)]


def _row(member: MemberLike, incident: Incident, kind: tuple[str, str], host: str | None) -> Row:
    said = " ".join(s for s in incident.said if s)
    xid = _XID.search(said)
    gpu = _GPU.search(said)
    return {
        "event": kind[0],
        **evidence(member, incident.line, incident.text, "host"),
        "message": f"{incident.what}: {said}"[:4096] if said else incident.text.strip(),
        "severity": kind[1],
        "host": host,
        "gpu": incident.gpu if incident.gpu is not None else int(gpu[1]) if gpu else None,
        "xid": int(xid[1]) if xid and kind[0] == "gpu.xid" else None,
        "code": incident.what[:100],
        "reason": said[:200] or None,
        **stamp(None),
    }


def decode_health(member: MemberLike, hints: Hints) -> Decoded:
    """An event per incident of `dcgmi health -c`, table or JSON."""
    decoded = Decoded()
    text = read_text(member, decoded)
    try:
        found = list(_health_json(json.loads(text), text)) if text.lstrip()[:1] == "{" else list(_health_table(text))
    except (ValueError, RecursionError):
        decoded.notes.append("dcgmi health as JSON, cut off or damaged")
        return decoded
    decoded.put("events", [_row(member, i, health_event(i), hints.host) for i in found[:1000]])
    return decoded


def decode_diag(member: MemberLike, hints: Hints) -> Decoded:
    """An event per failed test of `dcgmi diag` and GPU, table or JSON (after whatever lines stand before it)."""
    decoded = Decoded()
    text = read_text(member, decoded)
    start = text.find("{")
    try:
        is_json = '"test_categories"' in text and start >= 0
        found = (
            list(_diag_json(json.JSONDecoder().raw_decode(text, start)[0], text))
            if is_json
            else list(_diag_table(text))
        )
    except (ValueError, RecursionError):
        decoded.notes.append("dcgmi diag as JSON, cut off or damaged")
        return decoded
    decoded.put("events", [_row(member, i, diag_event(i), hints.host) for i in found[:1000]])
    return decoded


FORMATS: Final = (
    Format(
        "dcgm_health", "dcgmi health -c: what DCGM finds wrong with GPUs, NVLinks and PCIe", "DCGM 1.x to 4.x", "NVIDIA/DCGM dcgmi/Health.cpp",
        lambda head: "Health Monitor Report" in head.text[:2000] and "Overall Health" in head.text
        and re.match(r'\s*(?:\+[-=+]+\+|\{|[^\n]{0,200}dcgmi health)', head.text) is not None,
        decode_health, in_section=True,
    ),
    Format(
        "dcgm_diag", "dcgmi diag -r: tests that GPUs passed and failed", "DCGM 1.x to 4.x", "NVIDIA/DCGM dcgmi/Diag.cpp, nvvs/include/NvvsJsonStrings.h",
        lambda head: (re.search(r"^\| Diagnostic +\| Result", head.text[:4000], re.MULTILINE) is not None)
        or re.match(r'[^{}]{0,400}\{\s*"DCGM (?:GPU )?Diagnostic"\s*:', head.text) is not None,
        decode_diag, in_section=True,
    ),
)  # fmt: skip
