"""Documents that wrap log lines: where records begin, what is damaged, and that nothing depends on how the bytes arrive."""

from __future__ import annotations

import io
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.lines import record_blocks
from postmortem.lines.blocks import MAX_LINE
from postmortem.lines.documents import document_shape, read_document

TEXTS = ["plain", 'with "quotes" and \\ backslash', "two\nlines", "Größe 三", "tab\there", "{not json}"]
LIST = [{"message": t, "host": f"node-{i}", "tags": ["a", {"b": 1}]} for i, t in enumerate(TEXTS)]
LOKI = {
    "status": "success",
    "data": {
        "resultType": "streams",
        "result": [{"stream": {"host": f"node-{i}"}, "values": [["1", t], ["2", t]]} for i, t in enumerate(TEXTS)],
    },
}


def _field(key: str, value: str) -> bytes:
    raw = value.encode()
    return (
        f"{key}=".encode() + raw + b"\n"
        if "\n" not in value
        else key.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n"
    )


JOURNAL = b"".join(
    _field("__CURSOR", f"s={i}")
    + _field("__REALTIME_TIMESTAMP", str(i))
    + _field("MESSAGE", t)
    + _field("_HOSTNAME", "node-1")
    + b"\n"
    for i, t in enumerate(TEXTS)
)
CSV = b"_time,host,_raw\r\n" + b"".join(
    f'{i},node-{i},"{t.replace(chr(34), chr(34) * 2)}"\r\n'.encode() for i, t in enumerate(TEXTS)
)
VERBOSE = "".join(
    f"Tue 2026-02-03 17:02:11.{i:06} UTC [s=ab{i};i=12;b=cd;m=ef;t={i + 10:x};x=23]\n"
    "    _HOSTNAME=node-1\n"
    f"    MESSAGE={t.replace(chr(10), chr(10) + 12 * ' ')}\n"
    "    _PID=7\n"
    for i, t in enumerate(TEXTS)
).encode()
DOCUMENTS = {
    "list": (json.dumps(LIST, ensure_ascii=False).encode(), "list", 1),
    "list, indented": (json.dumps(LIST, indent=2).encode(), "list", 1),
    "hits": (json.dumps({"took": 1, "hits": {"hits": [{"_source": r} for r in LIST]}}, indent=1).encode(), "list", 1),
    "Redfish": (json.dumps({"Name": "Log", "Members": LIST, "Members@odata.count": len(LIST)}).encode(), "list", 1),
    "objects": ("\n".join(json.dumps(r, indent=2) for r in LIST).encode(), "objects", 1),
    "loki": (json.dumps(LOKI).encode(), "loki", 2),
    "loki, indented": (json.dumps(LOKI, indent=2, ensure_ascii=False).encode(), "loki", 2),
    "journal": (JOURNAL, "journal", 1),
    "verbose": (VERBOSE, "verbose", 1),
    "verbose, with its head": (b"-- Logs begin at Tue 2026-02-03 10:00:00 UTC. --\n" + VERBOSE, "verbose", 1),
    "csv": (CSV, "csv", 1),
}  # fmt: skip


def records(content: bytes) -> list[tuple[int, int, str, str]]:
    """(line, offset, shown, framed) of all records."""
    shape = document_shape(content[: 64 << 10])
    assert shape is not None
    return [
        row
        for block in read_document(shape, io.BytesIO(content))
        if block.framed is not None
        for row in zip(block.numbers.tolist(), block.offsets.tolist(), block.text, block.framed, strict=True)
    ]


def text_of(framed: str) -> str:
    """The program's text in a framed record."""
    doc = json.loads(framed)
    doc = doc.get("_source", doc)
    return str(next(doc[k] for k in ("message", "line", "MESSAGE") if k in doc))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_record_is_framed(name: str) -> None:
    content, shape, times = DOCUMENTS[name]
    assert document_shape(content) == shape
    found = [text_of(framed).replace("\r\n", "\n") for *_, framed in records(content)]
    assert found == [t for t in TEXTS for _ in range(times)]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_line_and_offset_are_those_of_the_text_that_is_shown(name: str) -> None:
    content, _, _ = DOCUMENTS[name]
    for line, offset, shown, _ in records(content):
        assert content.count(b"\n", 0, offset) + 1 == line
        first = shown.split("\n", 1)[0].encode()
        assert first in content[offset : offset + len(first) + 40]


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_nothing_depends_on_how_the_bytes_arrive(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content, _, _ = DOCUMENTS[name]
    whole = records(content)
    monkeypatch.setattr(record_blocks, "CHUNK", size)
    assert records(content) == whole


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lines_and_bytes_are_counted(name: str) -> None:
    content, shape, _ = DOCUMENTS[name]
    blocks = list(read_document(shape, io.BytesIO(content)))
    assert sum(b.lines for b in blocks) == content.count(b"\n")
    assert sum(b.byte_count for b in blocks) == len(content)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_cut_document_gives_its_whole_records(name: str) -> None:
    content, _, times = DOCUMENTS[name]
    found = [text_of(framed).replace("\r\n", "\n") for *_, framed in records(content[: len(content) * 2 // 3])]
    assert len(found) >= 2
    assert found[:-1] == [t for t in TEXTS for _ in range(times)][: len(found) - 1]


@pytest.mark.parametrize(
    "name", [n for n in DOCUMENTS if n not in {"csv", "journal", "verbose", "verbose, with its head"}]
)
def test_a_record_without_end_is_odd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_blocks, "MAX_RECORD", 4096)
    monkeypatch.setattr(record_blocks, "CHUNK", 512)
    content, shape, _ = DOCUMENTS[name]
    cut = content[: len(content) // 2].rstrip(b"\\") + b'", "x": "' + b"y" * 20_000
    blocks = list(read_document(shape, io.BytesIO(cut)))
    assert sum(b.odd_count for b in blocks) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[rank0]: hello\n",
        "{not json}\n",
        '{"message": "a"}\n{"message": "b"}\n',
        '{"message": "a", "events": [{"x": 1}]}\n{"message": "b"}\n',
        "step,loss,time\n1,2,3\n",
        "a message, a time, a host\n",
        "[2026-01-01 00:00:00] [INFO] hits: [{}]\n",
        "",
    ],
)
def test_lines_are_no_document(text: str) -> None:
    assert document_shape(text.encode()) is None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(DOCUMENTS)), st.integers(0, 2000), st.binary(max_size=12))
def test_damage_raises_nothing(name: str, at: int, noise: bytes) -> None:
    content, shape, _ = DOCUMENTS[name]
    list(read_document(shape, io.BytesIO(content[:at] + noise + content[at:])))


def test_a_field_of_a_verbose_record_that_never_ends_is_cut() -> None:
    head, _, rest = VERBOSE.partition(b"\n    _PID=7\n")
    more = b"\n            more of it" * 20_000
    blocks = list(read_document("verbose", io.BytesIO(head + more + b"\n    _PID=7\n" + rest)))
    framed = [text for block in blocks for text in (block.framed if block.framed is not None else [])]
    assert len(framed) == len(TEXTS)
    assert max(map(len, framed)) < 2 * MAX_LINE
