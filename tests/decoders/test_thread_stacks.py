"""Stacks of threads: py-spy as text and JSON, gdb, eu-stack, faulthandler, pystack."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import sniff

PY_SPY = """Process 14653: /usr/bin/python3 train.py --rank=3 --local_rank 1
Python v3.11.7 (/usr/bin/python3.11)

Thread 14653 (idle): "MainThread"
    clock_nanosleep (libc.so.6)
    all_reduce (torch/distributed/distributed_c10d.py:2501)
        Arguments:
            tensor: <Tensor at 0x7f794647d590>
    <module> (train.py:9)
    0x7f7946a4524a (libc.so.6)
Thread 14696 (active+gil): "Thread-1 (busy)"
    busy (train.py:7)
    _run_code (<frozen runpy>:88)
"""
JSON = """[
  {
    "pid": 14653,
    "thread_id": 140158837741248,
    "thread_name": "MainThread",
    "os_thread_id": 14696,
    "active": true,
    "owns_gil": true,
    "frames": [
      {
        "name": "busy",
        "filename": "/srv/train.py",
        "module": null,
        "short_filename": "train.py",
        "line": 7,
        "locals": null
      }
    ],
    "process_info": {"pid": 14653, "command_line": "python train.py --rank 5", "parent": null}
  },
  {
    "pid": 14653,
    "thread_id": 140158837741250,
    "thread_name": null,
    "os_thread_id": null,
    "active": false,
    "owns_gil": false,
    "frames": [],
    "process_info": null
  }
]
"""
GDB = """[New LWP 14696]
[Thread debugging using libthread_db enabled]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
0x00007f7946aed545 in __GI___clock_nanosleep (clock_id=clock_id@entry=1) at ../sysdeps/unix/sysv/linux/clock_nanosleep.c:48

Thread 2 (Thread 0x7f7945bc56c0 (LWP 14696) "python3"):
#0  _PyEval_EvalFrameDefault (tstate=<optimized out>, frame=<optimized out>) at Python/ceval.c:4202
#1  0x00007f7946b278ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81

Thread 1 (Thread 0x7f79463c66c0 (LWP 14653) "python3"):
#0  0x00007f7946aed545 in ncclProxyProgress () from /lib/libnccl.so.2
[Inferior 1 (process 14653) detached]
"""
COLUMNS = ("pid", "rank", "thread", "name", "state", "function", "line")


def test_a_dump_of_py_spy_gives_a_row_per_thread() -> None:
    found = rows(sniffed("pyspy.txt", PY_SPY, host="node-1"), "stacks")
    assert pick(found, *COLUMNS) == [
        (14653, 3, "14653", "MainThread", "idle", "clock_nanosleep", 4),
        (14653, 3, "14696", "Thread-1 (busy)", "active+gil", "busy", 11),
    ]
    assert found[0]["frames"].split("\n") == [
        "clock_nanosleep (libc.so.6)",
        "all_reduce (torch/distributed/distributed_c10d.py:2501)",
        "<module> (train.py:9)",
        "0x7f7946a4524a (libc.so.6)",
    ]
    assert {row["host"] for row in found} == {"node-1"}


def test_a_local_rank_is_no_rank() -> None:
    text = PY_SPY.replace("--rank=3 ", "").replace("--local_rank 1", "--local_rank=1 --node_rank=2 --local-rank 1")
    assert {row["rank"] for row in rows(sniffed("x", text), "stacks")} == {None}
    assert {row["rank"] for row in rows(sniffed("x", text, rank=9), "stacks")} == {9}


@pytest.mark.parametrize("between", ["\n", "\n\n" + "-" * 80 + "\n\n"])
def test_processes_one_after_another_have_their_own_ranks(between: str) -> None:
    second = (
        PY_SPY.replace("14653", "20001")
        .replace("--rank=3", "")
        .replace("Python v", "Parent Process 1: torchrun\nPython v")
    )
    found = rows(sniffed("x", PY_SPY + between + second), "stacks")
    assert pick(found, "pid", "rank") == [(14653, 3), (14653, 3), (20001, None), (20001, None)]


def test_a_heading_says_the_rank_of_the_process_below_it() -> None:
    plain = PY_SPY.replace("--rank=3", "")
    text = f"==== host: node-4 rank 6 ====\n{plain}\n==== rank 7 ====\n{plain}"
    assert pick(rows(sniffed("x", text), "stacks"), "host", "rank") == [
        ("node-4", 6), ("node-4", 6), ("node-4", 7), ("node-4", 7),
    ]  # fmt: skip


def test_colours_are_taken_off() -> None:
    text = PY_SPY.replace("14653", "\x1b[33m\x1b[1m14653\x1b[0m").replace("all_reduce", "\x1b[32mall_reduce\x1b[0m")
    assert pick(rows(sniffed("x", text), "stacks"), *COLUMNS) == pick(rows(sniffed("x", PY_SPY), "stacks"), *COLUMNS)


def test_json_of_py_spy() -> None:
    decoded = sniffed("dump.json", JSON, rank=2)
    assert pick(rows(decoded, "stacks"), *COLUMNS, "frames") == [
        (14653, 5, "14696", "MainThread", "active+gil", "busy", 2, "busy (train.py:7)"),
        (14653, 2, "140158837741250", None, "idle", None, 21, None),
    ]
    cut = run("py_spy_json", "x", JSON[:-60])
    assert len(rows(cut, "stacks")) == 1
    assert cut.notes == ["1 stacks that are cut off or damaged"]


def test_gdb_numbers_the_process_by_its_main_thread() -> None:
    found = rows(sniffed("gdb.txt", GDB), "stacks")
    assert pick(found, "pid", "thread", "name", "frames") == [
        (14653, "14696", "python3", "_PyEval_EvalFrameDefault (Python/ceval.c:4202)\nclone3 (../sysdeps/unix/sysv/linux/x86_64/clone3.S:81)"),
        (14653, "14653", "python3", "ncclProxyProgress (/lib/libnccl.so.2)"),
    ]  # fmt: skip


def test_other_programs() -> None:
    eu_stack = (
        "PID 59731 - process\nTID 59731:\n#0  0x00007f7946aed545 __clock_nanosleep\n#1  0x00007f7946f15ada time_sleep\n"
    )
    assert pick(rows(sniffed("x", eu_stack), "stacks"), "pid", "thread", "frames") == [
        (59731, "59731", "__clock_nanosleep\ntime_sleep")
    ]
    faulthandler = (
        'Thread 0x00007f43724046c0 (most recent call first):\n  File "a.py", line 3 in f\n\n'
        'Current thread 0x00007f4373248b80 (most recent call first):\n  File "a.py", line 5 in <module>\n'
    )
    assert pick(rows(sniffed("x", faulthandler), "stacks"), "thread", "state", "frames") == [
        ("0x00007f43724046c0", None, "f (a.py:3)"),
        ("0x00007f4373248b80", "Current", "<module> (a.py:5)"),
    ]
    pystack = (
        "Traceback for thread 2175 (python3.12) [Has the GIL] (most recent call last):\n"
        '    (Python) File "/srv/a.py", line 1032, in outer\n        inner()\n    (Python) File "/srv/a.py", line 7, in inner\n'
    )
    assert pick(rows(sniffed("x", pystack), "stacks"), "thread", "state", "function", "frames") == [
        ("2175", "Has the GIL", "inner", "inner (/srv/a.py:7)\nouter (/srv/a.py:1032)")
    ]


@pytest.mark.parametrize(
    "text",
    [
        'Fatal Python error: Aborted\n\nThread 0x00007f43724046c0 (most recent call first):\n  File "a.py", line 3 in f\n',
        "[rank0]: step 1\n" * 20 + PY_SPY,
        PY_SPY + "2026-03-01 10:11:12 step 17: loss 2.1\n" * 60,
        "Thread 5 started\nThread 6 started\n",
    ],
)
def test_logs_with_stacks_in_them_stay_logs(text: str) -> None:
    assert sniff("rank0.log", text.encode()) is None


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='Thread 0x(LWP)#:"\n\x1b[]idle active+gil.py,File line in', max_size=300))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    run("thread_stacks", "x", text)
    run("thread_stacks", "x", PY_SPY + text)
    run("py_spy_json", "x", JSON[:-100] + text)
