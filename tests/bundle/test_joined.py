"""Texts that were put together in one file, and texts behind a margin."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from archive_samples import read_all
from hypothesis import given
from hypothesis import strategies as st

from postmortem.bundle import Limits
from postmortem.bundle.joined import MOST_PARTS, _mark_of, _Splitter, is_joined, parts
from postmortem.bundle.margin import MARGIN_LOOK, without_margin
from postmortem.bundle.streams import MemberStream


def split(data: bytes) -> list[tuple[str, bytes]]:
    """(name, bytes) of all parts."""
    stream = MemberStream(io.BytesIO(data), [])
    return [(name, MemberStream(source, []).read()) for name, source in parts(stream)]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"==> a/x.log <==\nl1\nl2\n\n==> y <==\nm1\n", [("a/x.log", b"l1\nl2\n"), ("y", b"m1\n")]),
        (b"==> a <==\r\nl1\r\n\r\n==> b <==\r\nm1\r\n", [("a", b"l1\r\n"), ("b", b"m1\r\n")]),
        (b"n1/kern.log:a\nn1/kern.log:b\n--\nn2/kern.log:7:c\nn2/kern.log:8:d", [("n1/kern.log", b"a\nb\n--\n"), ("n2/kern.log", b"c\nd")]),
        (b"--------\nnode1\n--------\na\n--------\nnode2\n--------\nb\n", [("hosts/node1/output.txt", b"a\n"), ("hosts/node2/output.txt", b"b\n")]),
        (b"node-1 | CHANGED | rc=0 >>\na\nnode-2 | FAILED | rc=1 >>\nb\n", [("hosts/node-1/output.txt", b"a\n"), ("hosts/node-2/output.txt", b"b\n")]),
        (b"=== node-1 ===\na\n=== step 1 ===\n== node-9 ==\n=== node-2 ===\nb\n", [("hosts/node-1/output.txt", b"a\n=== step 1 ===\n== node-9 ==\n"), ("hosts/node-2/output.txt", b"b\n")]),
        (b"Host: 10.0.0.7\na\nHost: 10.0.0.8\nb\n", [("hosts/10.0.0.7/output.txt", b"a\n"), ("hosts/10.0.0.8/output.txt", b"b\n")]),
    ],
)  # fmt: skip
def test_the_parts_of_a_text(data: bytes, found: list[tuple[str, bytes]]) -> None:
    assert is_joined(data)
    assert split(data) == found


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"==> /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error <==\n0\n",
        b"===== rank0 =====\nx\n",
        b"=== Loading model ===\nx\n",
        b"=== resnet50 ===\nx\n",
        b"----------\nMegatron\n----------\nx\n",
        b"----------\nnot a host\n----------\n",
        b"train.log:1:a\nplain line\ntrain.log:3:b\n",
        b"/opt/lib/python3.11/x.py:12: UserWarning: a\n/opt/lib/python3.11/x.py:13: UserWarning: b\n/opt/lib/x.py:1: c\n",
        b"[12.3] ==> a <==\n",
    ],
)
def test_other_texts_are_left_whole(data: bytes) -> None:
    assert not is_joined(data)
    assert split(data) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["a.log", "node-1/b.log", "c/kern.log"]), st.lists(st.text("xy =>-:", max_size=12), min_size=1)),
        min_size=2, max_size=30,
    ),
    st.sampled_from(["tail", "grep"]),
)  # fmt: skip
def test_nothing_is_lost(texts: list[tuple[str, list[str]]], kind: str) -> None:
    """What comes out, part by part, is what was put in; files of one name in a row are one."""
    given: list[tuple[str, str]] = []
    for name, lines in texts:
        body = "".join(f"{line}.\n" for line in lines)
        if kind == "grep" and given and given[-1][0] == name:
            given[-1] = (name, given[-1][1] + body)
        else:
            given.append((name, body))
    if kind == "tail":
        data = "\n".join(f"==> {name} <==\n{body}" for name, body in given)
    else:
        data = "".join(f"{name}:{line}\n" for name, body in given for line in body.splitlines())
    found = split(data.encode())
    if kind == "grep" and data.count("\n") < 3:
        assert found == []
    else:
        assert found == [(name, body.encode()) for name, body in given]


def test_large_parts_and_long_lines_come_whole() -> None:
    first, second = b"a" * 3_000_000 + b"\nend\n", b"b\n" * 700_000
    assert split(b"==> one.log <==\n" + first + b"\n==> two.log <==\n" + second) == [
        ("one.log", first),
        ("two.log", second),
    ]
    greped = b"".join(b"one.log:" + line + b"\n" for line in (b"c" * 2_000_000, b"d", b"e"))
    assert split(b"one.log:x\none.log:y\none.log:z\n" * 200 + greped)[0][1].endswith(b"d\ne\n")


def test_what_follows_too_many_parts_stays_in_the_last() -> None:
    mark = b"==> a.log <==\nx\n\n"
    kind = _mark_of(mark)
    assert kind is not None
    splitter = _Splitter(MemberStream(io.BytesIO(mark * 3), []), *kind, count=MOST_PARTS - 1)
    assert splitter.next() == "a.log"
    assert b"".join(iter(splitter.take, b"")) == b"x\n\n" + mark * 2


def test_members_of_a_joined_file_know_their_hosts(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_bytes(
        b"==> node-3/dmesg.txt <==\n[1.0] a\n\n==> rank_7.log <==\nb\n\n==> rank_7.log <==\nc\n"
    )
    read = read_all(tmp_path)
    assert read.data == {
        "all.txt!/node-3/dmesg.txt": b"[1.0] a\n",
        "all.txt!/rank_7.log": b"b\n",
        "all.txt!/rank_7.log (2)": b"c\n",
    }
    assert read.hosts["all.txt!/node-3/dmesg.txt"] == "node-3"
    assert list(read_all(tmp_path, limits=Limits(depth=0)).data) == ["all.txt"]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (b"  a\n    b\n\n  c\n", b"a\n  b\n\nc\n"),
        (b"> a\n>\n> b\n>   c\n", b"a\n\nb\n  c\n"),
        (b"\ta\n\t b\n\tc", b"a\n b\nc"),
        (b"  a\nb\n  c\n", None),
        (b" iteration 1\n iteration 2\n iteration 3\n", None),
        (b"  a\n  b\n", None),
        (b" a\n" * (MARGIN_LOOK // 2), None),
    ],
)
def test_a_margin_comes_off(text: bytes, bare: bytes | None) -> None:
    assert without_margin(text) == bare


def test_a_margin_is_noted(tmp_path: Path) -> None:
    (tmp_path / "issue.txt").write_bytes(b"    Traceback\n      File x\n    ValueError: y\n")
    read = read_all(tmp_path)
    assert read.data == {"issue.txt": b"Traceback\n  File x\nValueError: y\n"}
    assert read.notes["issue.txt"] == ["each line stands behind the same margin: offsets count its text without it"]
