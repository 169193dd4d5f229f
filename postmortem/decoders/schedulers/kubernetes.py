"""`kubectl get pods|nodes -o json` and `kubectl cluster-info dump` -> pods, nodes, and the events and logs among them.

    {"kind": "NodeList", "apiVersion": "v1", "metadata": {…}, "items": [{"metadata": {"name": "node-17", …}, …}]}
    {"kind": "EventList", …}
    {"kind": "PodList", …}
    ==== START logs for container pytorch of pod training/llm-worker-3 ====
    …
    ==== END logs for container pytorch of pod training/llm-worker-3 ====

(kubernetes/kubectl pkg/cmd/clusterinfo/clusterinfo_dump.go, which writes the same as nodes.json, <namespace>/events.json,
<namespace>/pods.json and <namespace>/<pod>/logs.txt with `--output-directory`.) Elements of such a list do not say their kind, those of
`kubectl get -o json`, whose list is of kind `List`, do. Events and logs are lines, which the catalogue reads: they are handed on as blocks.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, read_text
from postmortem.decoders.schedulers.json_lists import Document, Element, text_of
from postmortem.decoders.schedulers.kubernetes_objects import (
    SYSTEM_NAMESPACE,
    is_of_a_job,
    node_address,
    node_events,
    pod_address,
    pod_events,
    pod_fact,
)
from postmortem.lines.blocks import Block, read_blocks
from postmortem.patterns import later

MAX_DUMP_BYTES: Final = 128 << 20
"""A dump of a cluster holds the logs of its pods."""

MAX_OBJECTS: Final = 200_000
MAX_PREAMBLE: Final = 400
"""Characters before which the first object of a list says what it is."""

_KIND: Final = later(r'"kind"\s*:\s*"(?P<kind>[A-Za-z]+)"')
_ABOUT: Final = later(r'"(?:involvedObject|regarding)"\s*:')
_LIST_KIND: Final = later(r'"kind"\s*:\s*"(?P<kind>[A-Za-z]+)List"\s*,\s*"apiVersion"')
_API: Final = later(r'"apiVersion"\s*:\s*"')
_ITEMS: Final = later(r'"items"\s*:\s*\[')
_LOGS: Final = later(
    r"==== START logs for container (?P<container>[^ ]+) of pod (?P<namespace>[^/ ]+)/(?P<pod>[^ ]+) ====\r?\n"
)
_NEXT: Final = later(r"^(?:\{\s*$|==== START logs )", re.MULTILINE)


@dataclass(slots=True)
class _Read:
    """What has been read of a member."""

    member: MemberLike
    document: Document
    events: list[Row] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    addresses: list[Row] = field(default_factory=list)
    framed: list[tuple[Row, str]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    objects: int = 0

    def take(self, element: Element, kind: str) -> None:
        """Rows of one object; `kind` is what its list says, where the object itself says none."""
        self.objects += 1
        value = element.value
        kind = text_of(value.get("kind")) or kind
        if self.objects > MAX_OBJECTS or kind not in {"Pod", "Node", "Event"}:
            return

        def where(pattern: re.Pattern[str] | None) -> Row:
            return self.document.evidence(self.member, element, pattern)

        if kind == "Event":
            self._event(value, where(re.compile(r'"(?:message|note)"\s*:')))
        elif kind == "Node":
            self.events += node_events(value, where)
            self.addresses += node_address(value, where)
        elif is_of_a_job(value):
            self.events += pod_events(value, where)
            self.facts += [row for row in [pod_fact(value, where)] if row]
            self.addresses += [row for row in [pod_address(value, where)] if row]

    def _event(self, value: dict[str, Any], base: Row) -> None:
        about = value.get("involvedObject") or value.get("regarding")
        about = about if isinstance(about, dict) else {}
        if not SYSTEM_NAMESPACE.fullmatch(text_of(about.get("namespace"))):
            self.framed.append((base, json.dumps({**value, "kind": "Event"}, ensure_ascii=False)))


def looks_like_objects(head: str) -> bool:
    """An object of the API that is a pod or node, a list of them, or a typed list of events, whose elements say no kind.

    Events that say what they are go to the line pass, alone or in a list.
    """
    text = head.lstrip("\ufeff \t\r\n")
    if not re.match(r'\{\s*"(?:kind|apiVersion|items|metadata)"\s*:', text) or not _API.search(text):
        return False
    typed = _LIST_KIND.match(text.removeprefix("{").lstrip())
    if typed:
        return typed["kind"] in {"Pod", "Node", "Event"}
    kinds = [found for found in _KIND.finditer(text) if found["kind"] != "List"][:1]
    if not kinds or _ABOUT.search(text, 0, kinds[0].start()):
        return False
    return kinds[0]["kind"] in {"Pod", "Node"} and kinds[0].start() < MAX_PREAMBLE


def decode_objects(member: MemberLike) -> Decoded:
    """Facts `pod.node`, addresses, and events of pods and nodes; blocks of events and logs.

    Pods of the cluster's own services are passed over (`is_of_a_job`), events and logs of system namespaces too.
    """
    decoded = Decoded()
    document = Document(read_text(member, decoded, MAX_DUMP_BYTES))
    read = _Read(member, document)
    at = document.skip(0)
    while at < len(document.text):
        at = _part(read, at)
    decoded.notes += read.odd[:20]
    if read.objects > MAX_OBJECTS:
        decoded.notes.append(f"only the first {MAX_OBJECTS} of {read.objects} objects were read")
    decoded.put("events", read.events)
    decoded.put("facts", read.facts)
    decoded.put("addresses", read.addresses)
    decoded.blocks = [*([_framed(read.framed)] if read.framed else []), *read.blocks]
    return decoded


def _part(read: _Read, at: int) -> int:
    """Read the document or section of logs at `at`; where the next one begins."""
    document = read.document
    logs = _LOGS.match(document.text, at)
    if logs:
        return _logs(read, logs)
    if document.text[at] == "{":
        end = _document(read, at)
        if end is not None:
            return document.skip(end)
        read.odd.append(f"a document is damaged or cut: {document.damage}")
    following = _NEXT.search(document.text, at + 1)
    return following.start() if following else len(document.text)


def _document(read: _Read, at: int) -> int | None:
    """Objects of the document at `at`; its end, None when it is damaged, after the objects before the damage."""
    document = read.document
    found = document.value(at)
    items = _ITEMS.search(document.text, at, found[1] if found else len(document.text))
    is_list = isinstance(found[0], dict) and "items" in found[0] if found else items is not None
    if not is_list:
        if found is not None and isinstance(found[0], dict):
            read.take(Element(found[0], at, found[1]), "")
        return found[1] if found else None
    if items is not None:
        kind = _LIST_KIND.search(document.text, at, items.start())
        for element in document.elements(items.end()):
            read.take(element, kind["kind"] if kind else "")
    return found[1] if found else None


def _logs(read: _Read, logs: re.Match[str]) -> int:
    """The lines of a container's log as blocks; where they end. The next section ends a log without an end of its own."""
    document = read.document
    closing = f"==== END logs for container {logs['container']} of pod {logs['namespace']}/{logs['pod']} ===="
    end = document.text.find(closing, logs.end())
    if end < 0:
        following = document.text.find("==== START logs for container ", logs.end())
        end = following if following >= 0 else len(document.text)
        after = end
    else:
        after = document.skip(end + len(closing))
    if not SYSTEM_NAMESPACE.fullmatch(logs["namespace"]):
        offset, first = document.offset(logs.end()), document.line(logs.end()) - 1
        content = document.text[logs.end() : end].encode("utf-8", "replace")
        read.blocks += [
            replace(block, first_line=block.first_line + first, offsets=block.offsets + offset)
            for block in read_blocks(io.BytesIO(content))
        ]
    return after


def _framed(found: list[tuple[Row, str]]) -> Block:
    """Events as a block of records."""
    lines = np.array([row["line"] for row, _ in found], dtype=np.int64)
    return Block(
        pl.Series("text", [str(row["text"]) for row, _ in found], dtype=pl.String),
        np.array([row["offset"] for row, _ in found], dtype=np.int64),
        1,
        0,
        (),
        0,
        lines,
        pl.Series("framed", [text for _, text in found], dtype=pl.String),
        0,
    )


FORMATS: Final = (
    Format(
        "kubernetes",
        "kubectl get pods|nodes -o json, kubectl cluster-info dump: nodes of pods, how containers ended, events and logs",
        "Kubernetes 1.12 and later",
        "kubernetes/kubernetes staging/src/k8s.io/api/core/v1/types.go; kubernetes/kubectl pkg/cmd/clusterinfo",
        lambda head: looks_like_objects(head.text),
        lambda member, hints: decode_objects(member),
        in_section=True,
    ),
)
