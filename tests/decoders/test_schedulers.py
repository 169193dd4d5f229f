"""Schedulers' tables: sacct, kubectl describe, host lists, checkpoint trackers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from decoder_samples import pick, rows, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import expand_hostlist, sniff
from postmortem.decoders.schedulers.hostlist import MAX_HOSTS

HEADER = "JobID|State|ExitCode|DerivedExitCode|NodeList|Start|End|Elapsed|Timelimit|AllocTRES"
TIMES = "2026-04-20T20:57:05|2026-04-20T21:06:30|00:09:25|2-00:00:00"


def us(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc,arg-type]


START, END = us(2026, 4, 20, 20, 57, 5), us(2026, 4, 20, 21, 6, 30)


def table(*lines: str) -> str:
    return "\n".join([HEADER, *lines]) + "\n"


def test_a_failed_job() -> None:
    decoded = sniffed("sacct.txt", table(
        f"89|FAILED|1:0|0:0|node-[06,08-09]|{TIMES}|billing=576,gres/gpu=24,node=3",
        f"89.batch|FAILED|1:0|0:0|node-06|{TIMES}|gres/gpu=8,node=1",
    ))  # fmt: skip
    assert pick(
        rows(decoded, "events"), "event", "severity", "job_id", "stamp_us", "stamp_zone_s", "exit_code", "value", "line"
    ) == [
        ("job.start", "info", "89", START, None, None, None, 2),
        ("job.end", "error", "89", END, None, 1, "FAILED", 2),
    ]
    assert pick(rows(decoded, "facts"), "fact", "value") == [
        ("job.gpus", "24"),
        ("job.nodes", "node-06,node-08,node-09"),
    ]


@pytest.mark.parametrize(
    ("state", "code", "event", "exit_code", "signal"),
    [
        ("COMPLETED", "0:0", "job.end", 0, None),
        ("CANCELLED by 1007", "0:0", "job.cancelled", None, None),
        ("CANCELLED+", "0:15", "job.cancelled", None, 15),
        ("TIMEOUT", "0:0", "job.timeout", None, None),
        ("NODE_FAIL", "0:0", "job.node_fail", None, None),
        ("PREEMPTED", "0:0", "job.preempted", None, None),
        ("OUT_OF_MEMORY", "0:125", "host.oom_kill", None, None),
        ("FAILED", "134:0", "job.end", 134, None),
    ],
)
def test_states(state: str, code: str, event: str, exit_code: int | None, signal: int | None) -> None:
    found = rows(sniffed("s", table(f"89|{state}|{code}|0:0|node-[1-2]|{TIMES}|")), "events")
    assert pick(found[1:2], "event", "exit_code", "signal") == [(event, exit_code, signal)]
    assert found[-1]["event"] == "job.end"
    assert found[-1]["value"] == state.split(" ")[0].rstrip("+")


def test_a_running_job_has_no_end() -> None:
    row = "89|RUNNING|0:0|0:0|node-1|2026-04-20T20:57:05|Unknown|00:09:25||"
    assert pick(rows(sniffed("s", table(row)), "events"), "event") == [("job.start",)]


def test_without_a_time_the_state_is_the_only_event() -> None:
    found = rows(sniffed("s", "JobID|State|ExitCode|NodeList\n1234|OUT_OF_MEMORY|0:125|node-03\n"), "events")
    assert pick(found, "event", "host", "stamp_us") == [("host.oom_kill", "node-03", None)]


def test_steps_count_when_their_job_is_missing() -> None:
    decoded = sniffed(
        "s", table(f"89.0|FAILED|1:0|0:0|node-1|{TIMES}|", f"89.extern|COMPLETED|0:0|0:0|node-1|{TIMES}|")
    )
    assert pick(rows(decoded, "events"), "event", "job_id", "value") == [
        ("job.start", "89", None),
        ("job.end", "89", "FAILED"),
    ]


def test_a_trailing_bar_other_fields_and_kinds_of_gpus() -> None:
    text = f"JobIDRaw|JobName|State|FailedNode|End|AllocTRES|\n89|x|NODE_FAIL|node-7|{TIMES.split('|')[1]}|gres/gpu:h100=8|\n90|cut"
    decoded = sniffed("s", text)
    assert pick(rows(decoded, "events")[:1], "event", "host", "stamp_us") == [("job.node_fail", "node-7", END)]
    assert pick(rows(decoded, "facts"), "value") == [("8",)]
    assert decoded.notes == ["1 rows with too few fields"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-[01-03,07]", ["node-01", "node-02", "node-03", "node-07"]),
        ("a,b[1-2]c,a", ["a", "b1c", "b2c"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("", []),
        ("node-[", ["node-["]),
        ("node-[3-1]", []),
        ("node-[a-b]", ["node-a-b"]),
    ],
)
def test_host_lists(text: str, expected: list[str]) -> None:
    assert expand_hostlist(text) == expected


@pytest.mark.parametrize(
    "text", ["n[1-999999999]", "n[0-999999]" * 9, "n[0-9]" * 3000, "n[" + "1-9999999," * 3000 + "]"]
)
def test_host_lists_are_bounded(text: str) -> None:
    assert len(expand_hostlist(text)) <= MAX_HOSTS


@settings(deadline=None)
@given(st.text(alphabet="ab[]-,0123456789", max_size=40))
def test_any_text_is_a_host_list(text: str) -> None:
    expand_hostlist(text)


def pod(name: str, node: str, reason: str, code: int = 137) -> str:
    return f"""Name:             {name}
Namespace:        training
Node:             {node}/10.20.55.12
Start Time:       Tue, 28 Jul 2026 07:57:00 +0000
Status:           Failed
Containers:
  pytorch:
    State:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Tue, 28 Jul 2026 07:57:58 +0000
      Finished:     Tue, 28 Jul 2026 08:42:58 +0800
    Ready:          False
Conditions:
  Type              Status
  Ready             False
Events:
  Type     Reason     Age                From     Message
  ----     ------     ----               ----     -------
  Normal   Scheduled  50m                default  Successfully assigned training/{name} to {node}
  Warning  BackOff    3m (x5 over 10m)   kubelet  Back-off restarting failed container pytorch in pod {name}
"""


def test_pods_that_follow_each_other() -> None:
    decoded = sniffed("pods.txt", pod("w-0", "node-1", "OOMKilled") + "\n\n" + pod("w-1", "node-2", "Error", 1))
    assert pick(rows(decoded, "facts"), "fact", "pod", "host", "line", "stamp_us") == [
        ("pod.node", "w-0", "node-1", 3, us(2026, 7, 28, 7, 57)),
        ("pod.node", "w-1", "node-2", 26, us(2026, 7, 28, 7, 57)),
    ]
    found = rows(decoded, "events")
    assert pick(found, "event", "severity", "pod", "host", "exit_code", "line") == [
        ("pod.oom_killed", "error", "w-0", "node-1", 137, 9),
        ("pod.restarted", "warning", "w-0", "node-1", None, 21),
        ("process.exit", "error", "w-1", "node-2", 1, 32),
        ("pod.restarted", "warning", "w-1", "node-2", None, 44),
    ]
    assert pick(found[:1], "stamp_us", "stamp_zone_s") == [(us(2026, 7, 28, 8, 42, 58), 28800)]


def test_pods_sorted_by_key() -> None:
    heads = "".join(f"Name:   w-{n}\nNode:   node-{n}/10.0.0.{n}\nContainers:\n  pytorch:\n" for n in range(2))
    states = "    State:   Terminated\n" * 2
    reasons = "      Reason:   Error\n      Reason:   OOMKilled\n"
    ends = "".join(f"      Exit Code:   {c}\n      Finished:   Tue, 28 Jul 2026 08:42:58 +0000\n" for c in (1, 137))
    found = rows(sniffed("p", heads + states + reasons + ends), "events")
    assert pick(found, "event", "pod", "exit_code") == [("process.exit", "w-0", 1), ("pod.oom_killed", "w-1", 137)]
    # One value is missing: nobody can say whose.
    found = rows(sniffed("p", heads + states + reasons + ends.partition("\n")[2]), "events")
    assert {row["pod"] for row in found} == {None}


def test_an_evicted_pod() -> None:
    text = "Name:   w-0\nNode:   node-1/10.0.0.1\nStatus:   Failed\nReason:   Evicted\nMessage:   low on memory\nContainers:\n  c:\n"
    assert pick(rows(sniffed("p", text), "events"), "event", "host", "pod", "value") == [
        ("pod.evicted", "node-1", "w-0", "low on memory")
    ]


def test_a_tracker_shows_a_durable_checkpoint() -> None:
    found = rows(sniffed("ckpt/latest_checkpointed_iteration.txt", "500\n"), "events")
    assert pick(found, "event", "step", "durable") == [("train.checkpoint_done", 500, True)]
    assert sniff("ckpt/latest", b"global_step500") == "tracker"
    assert sniff("ckpt/latest", b"no step here") is None
