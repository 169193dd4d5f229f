"""Headers come off, one after the other: what each framing says of host, time, rank and process."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from postmortem.catalogue.definition import load_folders
from postmortem.lines.captures import MANY
from postmortem.lines.headers import HEADERS, Header
from postmortem.lines.headers.grammar import any_of, begin
from postmortem.lines.peel import HEADER_SCHEMA, peel

PARSERS = Path(__file__).parents[2] / "parsers"


def fields(text: str) -> dict[str, Any]:
    """What is known of one line, without what is not."""
    frame = peel(pl.Series("t", [text]))
    assert frame.columns == list(HEADER_SCHEMA)
    return {k: v for k, v in frame.to_dicts()[0].items() if v is not None}


def micros(text: str) -> int:
    when = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(when.timestamp()) * 1_000_000 + when.microsecond


FRAMINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("no header at all", "no header at all", {"headers": "|"}),
    ("[  12.500000] x", "x", {"uptime_s": 12.5}),
    (
        "Feb  3 14:02:11 node-7 kernel: [  12.500000] x",
        "x",
        {"host": "node-7", "uptime_s": 12.5, "stamp_has_year": False},
    ),
    (
        "2026-02-03T14:02:11.318000+02:00 node-7 kernel: x",
        "x",
        {"host": "node-7", "stamp_us": micros("2026-02-03T14:02:11.318"), "stamp_zone_s": 7200, "stamp_res_us": 1},
    ),
    ("[Tue Feb  3 14:02:11 2026] x", "x", {"stamp_us": micros("2026-02-03T14:02:11"), "stamp_has_year": True}),
    ("6,1234,98765432,-;x", "x", {"uptime_s": 98.765432}),
    ("kern  :err   : [ 5.000001] x", "x", {"uptime_s": 5.000001}),
    ("Feb  3 14:02:11 node-7 systemd[1]: x", "x", {"host": "node-7", "tag": "systemd", "pid": 1}),
    ("[rank12]: x", "x", {"rank": 12}),
    ("[default3]:x", "x", {"local_rank": 3}),
    ("[1,5]<stderr>: x", "x", {"rank": 5}),
    ("7: x", "x", {"headers": "|srun|"}),
    ("(Worker pid=321, ip=10.0.0.1) x", "x", {"pid": 321, "ip": "10.0.0.1"}),
    (
        "2026-02-03T14:02:11.123456789Z stderr F x",
        "x",
        {"stamp_us": micros("2026-02-03T14:02:11.123456"), "stamp_zone_s": 0, "headers": "|cri|"},
    ),
    (
        "node-7:100:200 [3] NCCL INFO x",
        "x",
        {"host": "node-7", "pid": 100, "tid": 200, "gpu": 3, "lvl": "INFO", "headers": "|nccl|"},
    ),
    ("node-7:100:200 [3] transport/net_ib.cc:12 NCCL WARN x", "x", {"src": "transport/net_ib.cc:12", "lvl": "WARN"}),
    (
        "[rank3]:[E203 14:02:11.318 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught x",
        "Watchdog caught x",
        {"rank": 3, "lvl": "E", "src": "ProcessGroupNCCL.cpp:632", "stamp_has_year": False},
    ),
    (
        "E20260203 14:02:11.318652  4504 py_executor.cc:240] x",
        "x",
        {"lvl": "E", "tid": 4504, "stamp_us": micros("2026-02-03T14:02:11.318652"), "stamp_has_year": True},
    ),
    ("^CW0203 14:02:11.318 99 agent/api.py:739] x", "x", {"lvl": "W", "headers": "|typed|glog|"}),
    ("[2026-02-03 14:02:11,318] [INFO] [engine.py:12:f] x", "x", {"lvl": "INFO", "stamp_res_us": 1000}),
    ("2026-02-03 14:02:11.5 x", "x", {"stamp_us": micros("2026-02-03T14:02:11.5"), "stamp_res_us": 100_000}),
    (
        "2026 Feb  3 14:02:11.591170 leaf-2 NOTICE swss#orchagent: :- x",
        ":- x",
        {"host": "leaf-2", "tag": "swss#orchagent", "stamp_us": micros("2026-02-03T14:02:11.591170")},
    ),
    (
        "2026 Feb  3 14:02:11 leaf-2 %ETHPORT-5-IF_DOWN_LINK_FAILURE: x",
        "%ETHPORT-5-IF_DOWN_LINK_FAILURE: x",
        {"host": "leaf-2", "headers": "|nxos|"},
    ),
    ("<6>Feb  3 14:02:11 node-7 kernel: x", "x", {"host": "node-7"}),
    ("node-7: [  12.500000] x", "x", {"host": "node-7", "uptime_s": 12.5}),
    ("LAUNCH ERROR 2026-02-03 14:02:11,318 x", "x", {"lvl": "ERROR", "headers": "|pylog|"}),
    ("2026-02-03 14:02:11,318\tWARNING worker.py:1829 -- x", "x", {"lvl": "WARNING", "src": "worker.py:1829"}),
    ("[2026-02-03T14:02:11.318Z] 8de2ca81 [rank=5] || x", "x", {"rank": 5, "stamp_zone_s": 0, "headers": "|flow|"}),
    ("<info> [2026-02-03 14:02:11] [2b9091c2] || x", "x", {"stamp_us": micros("2026-02-03T14:02:11")}),
    (
        "[2026-02-03 14:02:11] INFO     [olmo_core.train.trainer:764, node-7, rank=3] x",
        "x",
        {"host": "node-7", "local_rank": 3, "src": "olmo_core.train.trainer:764"},
    ),
    # As people paste them: dmesg -d, callers, busybox, journalctl's other outputs, grep -n, quotations, consoles, Loki, octet counts.
    ("[   12.500000 <    0.000012>] x", "x", {"uptime_s": 12.5}),
    ("[   12.500000] [   T4321] x", "x", {"uptime_s": 12.5}),
    ("Feb  3 14:02:11 node-7 kern.err kernel: x", "x", {"host": "node-7", "headers": "|syslog_kernel|"}),
    ("Feb  3 14:02:11 node-7 daemon.info dhcpd[7]: x", "x", {"host": "node-7", "tag": "dhcpd", "pid": 7}),
    (
        "Tue 2026-02-03 14:02:11 CET node-7 kernel: x",
        "x",
        {
            "host": "node-7",
            "stamp_us": micros("2026-02-03T14:02:11"),
            "stamp_zone_s": 3600,
            "headers": "|syslog_kernel|",
        },
    ),
    ("Tue 2026-02-03 14:02:11 UTC node-7 systemd[1]: x", "x", {"host": "node-7", "tag": "systemd", "stamp_zone_s": 0}),
    (
        "1770127331.123456 node-7 kernel: x",
        "x",
        {"host": "node-7", "stamp_us": micros("2026-02-03T14:02:11.123456"), "stamp_zone_s": 0, "stamp_res_us": 1},
    ),
    ("1042:[   12.500000] x", "x", {"uptime_s": 12.5}),
    ("> [   12.500000] x", "x", {"uptime_s": 12.5}),
    ("messages:Feb  3 14:02:11 node-7 kernel: x", "x", {"host": "node-7", "headers": "|grep|syslog_kernel|"}),
    ("> x", "> x", {"headers": "|"}),
    ("node-7 login: [   12.500000] x", "x", {"uptime_s": 12.5}),
    (
        '2026-02-03T14:02:11Z {job="kernel", host="node-7"} x',
        "x",
        {"host": "node-7", "stamp_us": micros("2026-02-03T14:02:11")},
    ),
    ("1770127331123\t2026-02-03T14:02:11.123Z\tx", "x", {"stamp_us": micros("2026-02-03T14:02:11.123")}),
    ("83 <3>1 2026-02-03T14:02:11.5Z node-7 kernel - - - x", "x", {"host": "node-7", "tag": "kernel"}),
    # A container's supervisord stamps its lines itself, and its level is no host.
    (
        "Mar 17 05:40:04.883349 leaf-1 INFO swss#supervisord 2020-03-17 05:39:55,585 INFO exited: orchagent (x)",
        "exited: orchagent (x)",
        {"host": "leaf-1", "tag": "swss#supervisord", "stamp_us": micros("2020-03-17T05:39:55.585")},
    ),
    ("2020-03-17 05:39:55,585 INFO exited: orchagent (x)", "exited: orchagent (x)", {"headers": "|supervisord|"}),
    # Junos with `explicit-priority`: with and without a year, a daemon, a name of the message.
    (
        "Jan 18 02:59:24.466 2026  mx-1 chassisd[27847]: %DAEMON-3-CHASSISD_FPC_ASIC_ERROR: x",
        "CHASSISD_FPC_ASIC_ERROR: x",
        {"host": "mx-1", "tag": "chassisd", "headers": "|junos|junos|"},
    ),
    (
        "chassisd:Jul 30 17:48:57 CHASSISD_TEMP_HOT_NOTICE: x",
        "CHASSISD_TEMP_HOT_NOTICE: x",
        {"headers": "|daemon|junos|", "stamp_has_year": False},
    ),
    (
        "[2025-04-13T07:18:58.223072746+00:00 hf3fs_fuse_main:235453 StorageClientImpl.cc:1173 ERROR] x",
        "x",
        {"tag": "hf3fs_fuse_main", "tid": 235453, "lvl": "ERROR", "stamp_us": micros("2025-04-13T07:18:58.223072")},
    ),
    ("Mar 11 23:52:28  mx-1 : %PFE-3: fpc10 x", "fpc10 x", {"host": "mx-1", "headers": "|junos|junos|"}),
]


@pytest.mark.parametrize(("line", "rest", "known"), FRAMINGS, ids=[f[0][:40] for f in FRAMINGS])
def test_framing(line: str, rest: str, known: dict[str, Any]) -> None:
    found = fields(line)
    assert found["rest"] == rest
    assert {k: found.get(k) for k in known} == known


def test_the_inner_header_wins_and_the_outer_time_is_kept() -> None:
    line = "2026-02-03T14:02:11.000000Z stdout F [2026-02-03 15:02:10,500] [INFO] x"
    found = fields(line)
    assert found["headers"].startswith("|cri|")
    assert found["stamp_us"] == micros("2026-02-03T15:02:10.5")
    assert "stamp_zone_s" not in found
    assert (found["stamp2_us"], found["stamp2_zone_s"]) == (micros("2026-02-03T14:02:11"), 0)


def test_a_rank_of_a_group_does_not_replace_the_global_one() -> None:
    assert fields("[rank9]:[E203 14:02:11.3 P.cpp:1] [PG ID 0 PG GUID 0 Rank 1] x")["rank"] == 9


@pytest.mark.parametrize("word", ["kernel", "localhost", "-"])
def test_words_that_are_no_host(word: str) -> None:
    assert fields(f"Feb  3 14:02:11 {word} kernel: x").get("host") is None


@pytest.mark.parametrize("stamp", ["[99999999999999.000000]", "6,1,99999999999999999999,-;"])
def test_an_impossible_uptime_is_none(stamp: str) -> None:
    found = fields(f"{stamp} x")
    assert (found["rest"], found.get("uptime_s")) == ("x", None)


def test_an_impossible_date_is_no_header() -> None:
    assert fields("Feb 31 14:02:11 node-7 kernel: x")["rest"] == "Feb 31 14:02:11 node-7 kernel: x"


def test_blanks_before_the_message_are_told_but_not_kept() -> None:
    found = fields("[rank0]:    RuntimeError: boom")
    assert (found["rest"], found["headers"]) == ("RuntimeError: boom", "|rank|indent|")


def test_headers_do_not_go_on_for_ever() -> None:
    assert fields("[rank1]: " * 30 + "x")["rest"].startswith("[rank1]: ")


def test_many_lines_are_as_each_by_itself() -> None:
    lines = [f[0] for f in FRAMINGS]
    together = peel(pl.Series("t", lines)).to_dicts()
    assert together == [peel(pl.Series("t", [line])).to_dicts()[0] for line in lines]


SAMPLES = [
    line
    for m in load_folders([PARSERS])[::5]
    for sample in m.samples
    for line in sample.line.splitlines()
    if line.strip()
]


@pytest.mark.parametrize("usual", [FRAMINGS[12][0], "no header at all"])
def test_thousands_of_lines_are_as_each_by_itself(usual: str) -> None:
    """Most lines alike, and one of each of the catalogue's samples among them: what is rare is looked for together."""
    lines = [f[0] for f in FRAMINGS] + SAMPLES
    many = [usual] * (2 * MANY)
    many[:: 2 * MANY // len(lines)] = (lines * 2)[: len(many[:: 2 * MANY // len(lines)])]
    assert set(many) >= set(lines)
    few = peel(pl.Series("t", [*lines, usual])).with_columns(t=pl.Series([*lines, usual])).unique("t")
    together = peel(pl.Series("t", many)).with_columns(t=pl.Series(many)).unique("t")
    assert_frame_equal(together.sort("t"), few.sort("t"))


@pytest.mark.parametrize("begin", [FRAMINGS[12][0], FRAMINGS[3][0], "Feb  3 14:02:11 node-7 kernel: [  12.500000] x"])
def test_a_line_feed_ends_no_header(begin: str) -> None:
    """No header takes what stands behind a line feed, so none is taken off."""
    assert fields(f"{begin}\nmore") == {"rest": f"{begin}\nmore", "headers": "|"}


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.kind)
def test_a_header_without_the_rest_of_the_line_is_the_same(header: Header) -> None:
    short = begin(header.pattern)
    if short is None:
        assert not header.pattern.endswith("(?P<rest>.*)$")
        return
    lines = pl.Series("t", [f[0] for f in FRAMINGS] + SAMPLES)
    whole = lines.str.extract_groups(f"(?P<whole>{header.pattern})").struct.unnest()
    parts = lines.str.extract_groups(f"(?P<whole>{short})").struct.unnest()
    names = [c for c in whole.columns if c not in {"rest", "whole"}]
    assert_frame_equal(parts.select(names), whole.select(names))
    for line, got, want in zip(lines, parts.to_dicts(), whole.to_dicts(), strict=True):
        assert (got["whole"] is None) == (want["whole"] is None)
        if got["whole"] is not None:
            assert line[len(got["whole"]) - len(got["rest"]) :] == want["rest"]


@pytest.mark.parametrize(
    "pattern",
    [
        r"^a: (?P<rest>.*?)$",
        r"^a: (?P<rest>b|c.*)$",
        r"^a|(?P<rest>.*)$",
        r"^a(?: (?P<rest>.*)$",
        r"^a(?P<rest>b\.*)$",
        r"a(?P<rest>.*)$",
        r"^(?:a(?P<rest>.*)$",
    ],
)
def test_patterns_of_another_form_have_no_begin(pattern: str) -> None:
    assert begin(pattern) is None


def test_one_pattern_for_many_headers_takes_what_any_takes() -> None:
    lines = pl.Series("t", [f[0] for f in FRAMINGS] + SAMPLES + ["März 3 14:02:11 node-7 kernel: x"])
    single = [lines.str.contains(h.pattern) for h in HEADERS]
    for a, b in ((0, 20), (20, 90), (90, len(HEADERS))):
        together = lines.str.contains(any_of(h.pattern for h in HEADERS[a:b]))
        assert (pl.DataFrame([s.alias(str(n)) for n, s in enumerate(single[a:b])]).max_horizontal() <= together).all()


WORDS = st.sampled_from(
    "[ ] rank 1 : Feb 31 23:59:60 99:99:99 kernel 2026-13-40T +99:99 <6> %A-1-B: [E203 0.000001] ü 月 T00:00:00 .999999999999".split()
) | st.sampled_from([" ", "\t", "NCCL INFO", "stdout F"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=12).map("".join), min_size=1, max_size=4))
def test_no_text_raises(lines: list[str]) -> None:
    frame = peel(pl.Series("t", lines, dtype=pl.String))
    assert frame.height == len(lines)
    for line, rest in zip(lines, frame["rest"], strict=True):
        assert rest in line
