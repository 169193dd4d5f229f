"""Which definition a line goes to, in which order rows come, and what is made of the captured text."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from postmortem.catalogue.definition import Message
from postmortem.catalogue.matcher import HIT_SCHEMA, Matcher
from postmortem.lines.captures import MANY


def message(number: int, pattern: str, literal: str = "FROB", **more: Any) -> Message:
    """A definition that is `code = number` on its rows."""
    about: dict[str, Any] = {
        "file": "frob.toml",
        "number": number,
        "id": f"frob.toml#{number}",
        "is_fact": False,
        "severity": "error",
        "source": "kernel",
        "event": "gpu.xid",
        "contains": (literal,),
        "patterns": (pattern,),
        "constants": {"code": str(number)},
    }
    return Message(**(about | more))


def hits(lines: list[str], file: str = "a.log") -> pl.DataFrame:
    columns = {"file": file, "line": range(1, len(lines) + 1), "offset": [100 * n for n in range(len(lines))]}
    return pl.DataFrame({**columns, "text": lines}, schema=HIT_SCHEMA)


def codes(messages: list[Message], *lines: str) -> list[tuple[int, str]]:
    return Matcher(messages).recognise(hits(list(lines))).select("line", "code").rows()


@pytest.mark.parametrize(
    ("messages", "winner"),
    [
        ([message(1, "FROB"), message(2, "FROB", priority=60)], ["2"]),
        ([message(1, "FROB"), message(2, "FROB", literal="FROB ")], ["2"]),
        ([message(1, "FROB"), message(2, "FROB")], ["1"]),
        ([message(1, "FROB"), message(2, "FROX", priority=60)], ["1"]),
        ([message(1, "FROB"), message(2, "FROB", priority=60, also=True)], ["1", "2"]),
        ([message(1, "FROB", also=True), message(2, "FROB"), message(3, "FROB", also=True)], ["1", "2", "3"]),
        ([message(1, "FROB"), message(2, "FROB", priority=60, requires=("kmsg",))], ["1"]),
        ([message(1, "FROB"), message(2, "FROB", priority=60, event="none")], []),
        ([message(1, "FROB"), message(2, "FROB", priority=60, each="XX")], ["1"]),
    ],
)
def test_the_strongest_definition_that_matches_takes_the_line(messages: list[Message], winner: list[str]) -> None:
    assert codes(messages, "FROB 1") == [(1, code) for code in winner]


def test_lines_that_one_definition_leaves_are_for_the_next() -> None:
    strong = message(1, "FROB [0-4]", priority=60, patterns=("FROB [01]", "FROB [34]"))
    assert codes([strong, message(2, "FROB")], *(f"FROB {n}" for n in range(6))) == [
        (1, "1"),
        (2, "1"),
        (3, "2"),
        (4, "1"),
        (5, "1"),
        (6, "2"),
    ]


def test_rows_come_in_the_order_of_lines_however_hits_come(matcher: Matcher) -> None:
    """The last calls of a file come after all its other lines."""
    lines = [
        "node-01:1000:1002 [2] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/RoCE ; OOB eth0:10.0.0.5<0>",
        "[Tue Feb  3 14:02:11 2026] NVRM: Xid (PCI:0000:9d:00): 79, pid=1, GPU has fallen off the bus.",
        "node-01:1000:1002 [2] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
    ]
    every = pl.concat([hits(lines * 4, "b.log"), hits(lines * 3, "a.log")])
    whole = matcher.recognise(every)
    assert whole.select("file", "line", "offset", "sub", "definition").equals(
        whole.select("file", "line", "offset", "sub", "definition").sort(pl.all())
    )
    assert whole.height > 3 * 7
    assert_frame_equal(matcher.recognise(every.sample(fraction=1, shuffle=True, seed=3)), whole)


def values(texts: list[str]) -> pl.DataFrame:
    numbers = message(
        1, "^FROB (?P<rank>[^|]*)[|](?P<loss>[^|]*)[|](?P<value>[^|]*)[|](?P<host>.*)$", constants={"value": "none"}
    )
    return Matcher([numbers]).recognise(hits([f"FROB {t}" for t in texts])).select("rank", "loss", "value", "host")


ODD = {
    "12|1.5|x|h": (12, 1.5, "x", "h"),
    " 1,234 |1,000.5|x|h": (1234, 1000.5, "x", "h"),
    "1e3|nan|x|": (1000, None, "x", None),
    "x|inf||h": (None, None, None, "h"),
    "99999999999999999999|-1e-3|x|h": (None, -0.001, "x", "h"),
}


def test_numbers_are_read_in_every_spelling() -> None:
    assert values(list(ODD)).rows() == list(ODD.values())


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_number_among_plain_ones(odd: str) -> None:
    plain = "7|2.5|y|k"
    assert values([plain, odd, plain]).rows() == [(7, 2.5, "y", "k"), ODD[odd], (7, 2.5, "y", "k")]


@pytest.mark.parametrize("share", [2, 3, MANY])
def test_thousands_of_lines_are_read_as_a_few(share: int) -> None:
    """Whether most lines match a pattern or hardly any."""
    lines = [f"FROB {n}" if n % share == 1 else f"FROB x{n}" for n in range(MANY + 10)]
    found = codes([message(1, "^FROB [0-9]+$")], *lines)
    assert found == [(n + 1, "1") for n in range(MANY + 10) if n % share == 1]
