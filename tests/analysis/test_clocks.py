"""One clock: zones by shared events, offsets between hosts, steps of a clock, and what stays open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)
XID79 = "NVRM: Xid (PCI:0000:d1:00): 79, pid=4242, GPU has fallen off the bus."
HOUR = 3600.0


def at(second: float, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return (BEGIN + timedelta(seconds=second)).strftime(form)


def steps(host: str, rank: int, clock: float = 0.0, count: int = 12) -> str:
    """The output of a rank whose clock is `clock` seconds ahead: its set-up, then a step every ten seconds. No zone is printed."""
    init = f"{host}:{100 + rank}:{200 + rank} [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank {rank} nranks 3 cudaDev 0 nvmlDev 0 busId 9d000 commId 0x5f1d - Init COMPLETE"
    lines = [f"[{at(clock)}] {init}"]
    for n in range(1, count):
        step = f"iteration {n:8}/    9000 | consumed samples: {n * 128:12} | elapsed time per iteration (ms): 10000.0"
        lines.append(
            f" [{at(10.0 * n + clock)}] {step} | global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |"
        )
    return "\n".join(lines) + "\n"


def syslog(host: str, second: float, text: str, program: str = "kernel:") -> str:
    """A line of a syslog without year and zone."""
    return f"{at(second, '%b %e %H:%M:%S')} {host} {program} {text}\n"


def rows(incident: Incident, sql: str) -> list[tuple[Any, ...]]:
    return incident.con.execute(sql).fetchall()


def offsets(incident: Incident) -> dict[str, float | None]:
    return {c.host: None if c.offset_ms is None else c.offset_ms / 1000 for c in incident.analysis.clocks}


def test_steps_that_all_ranks_print_tell_the_offsets(analyse: Analyse) -> None:
    files = {f"node-{n}.log": steps(f"node-{n}", n, skew) for n, skew in ((0, 0.0), (1, 3.5), (2, -2.0))}
    incident = analyse(files)
    assert offsets(incident) == pytest.approx({"node-0": 0.0, "node-1": 3.5, "node-2": -2.0}, abs=0.01)
    assert all(c.uncertainty_ms is not None and c.uncertainty_ms <= 200 for c in incident.analysis.clocks)
    assert "steps" in incident.analysis.clocks[1].basis
    spread = rows(
        incident,
        "SELECT step, max(ts_aligned) - min(ts_aligned), max(ts) - min(ts) FROM events WHERE event = 'train.step' GROUP BY step",
    )
    assert len(spread) == 11
    assert all(
        aligned < timedelta(milliseconds=20) and printed == timedelta(seconds=5.5) for _, aligned, printed in spread
    )


def test_the_offset_holds_for_the_other_logs_of_the_host(analyse: Analyse) -> None:
    files = {f"node-{n}.log": steps(f"node-{n}", n, skew) for n, skew in ((0, 0.0), (1, 3.0), (2, 0.0))}
    files["node-1/kern.log"] = f"{at(200 + 3.0, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 node-1 kernel: [ 900.5] {XID79}\n"
    ((when, low, high),) = rows(analyse(files), "SELECT ts_aligned, ts_lo, ts_hi FROM events WHERE event = 'gpu.xid'")
    assert when == BEGIN + timedelta(seconds=200)
    assert low < when < high
    assert high - low < timedelta(seconds=0.5)


def test_two_shared_moments_are_too_few_for_an_offset(analyse: Analyse) -> None:
    incident = analyse(
        {f"node-{n}.log": steps(f"node-{n}", n, skew, count=2) for n, skew in ((0, 0.0), (1, 3.0), (2, 0.0))}
    )
    assert set(offsets(incident).values()) == {None}


def test_a_clock_that_shares_nothing_keeps_a_wide_error_bar(analyse: Analyse) -> None:
    files = {f"node-{n}.log": steps(f"node-{n}", n) for n in range(3)}
    files["node-9/kern.log"] = f"{at(50, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 node-9 kernel: [ 900.5] {XID79}\n"
    incident = analyse(files)
    assert offsets(incident)["node-9"] is None
    ((when, aligned, low, high),) = rows(
        incident, "SELECT ts, ts_aligned, ts_lo, ts_hi FROM events WHERE event = 'gpu.xid'"
    )
    assert aligned == when
    assert (low, high) == (when - timedelta(seconds=5, microseconds=1), when + timedelta(seconds=5, microseconds=1))


@pytest.mark.parametrize("hours", [-8, 1, 9])
def test_steps_of_one_host_hours_apart_are_a_zone(analyse: Analyse, hours: int) -> None:
    incident = analyse(
        {f"node-{n}.log": steps(f"node-{n}", n, skew) for n, skew in ((0, 0.0), (1, hours * HOUR + 2.0), (2, 0.0))}
    )
    zones = {c.host: c.zone for c in incident.analysis.clocks}
    assert zones == {"node-0": "+00:00", "node-1": f"{hours:+03}:00", "node-2": "+00:00"}
    assert offsets(incident)["node-1"] == pytest.approx(2.0, abs=0.01)
    last = rows(incident, "SELECT max(ts) FROM events WHERE host = 'node-1' OR file = 'node-1.log'")
    assert last == [(BEGIN + timedelta(seconds=112),)]


def test_a_start_an_hour_apart_alone_is_no_zone(analyse: Analyse) -> None:
    files = {f"node-{n}.log": steps(f"node-{n}", n) for n in range(2)}
    files["node-2.log"] = f"[{at(HOUR)}] node-2:102:202 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    incident = analyse(files)
    assert {c.zone for c in incident.analysis.clocks} == {"+00:00"}
    assert rows(incident, "SELECT ts FROM events WHERE file = 'node-2.log'") == [(BEGIN + timedelta(seconds=HOUR),)]


LLDP = """\
leaf-1# show lldp neighbors
Last table change time   : 0:10:01 ago
Number of table inserts  : 2
Number of table deletes  : 0
Number of table drops    : 0
Number of table age-outs : 0

Port          Neighbor Device ID       Neighbor Port ID    TTL
---------- ------------------------ ---------------------- ---
Et1/1         node-1                   enp25s0np0          120
Et1/2         node-2                   enp25s0np0          120
"""


def flap(host: str, down: float, up: float) -> str:
    """A host's link going down and coming back, by a clock that prints its zone."""
    lines = [(down, "Link down"), (up, "Link up")]
    return "".join(
        f"{at(s, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 {host} kernel: [{1000 + s:.6f}] mlx5_core 0000:19:00.0 enp25s0np0: {text}\n"
        for s, text in lines
    )


def port(switch: str, name: str, down: float, up: float, clock: float) -> str:
    return "".join(
        syslog(
            switch,
            s + clock,
            f"%LINEPROTO-5-UPDOWN: Line protocol on Interface {name}, changed state to {state}",
            "Ebra:",
        )
        for s, state in ((down, "down"), (up, "up"))
    )


def test_both_ends_of_a_known_cable_tell_the_zone_of_the_switch(analyse: Analyse) -> None:
    incident = analyse(
        {
            "node-1/kern.log": flap("node-1", 100, 147),
            "node-2/kern.log": flap("node-2", 130, 171),
            "leaf-1/lldp.txt": LLDP,
            "leaf-1/syslog": port("leaf-1", "Ethernet1/1", 100, 147, -5 * HOUR + 2)
            + port("leaf-1", "Ethernet1/2", 130, 171, -5 * HOUR + 2),
        }
    )
    (clock,) = [c for c in incident.analysis.clocks if c.host == "leaf-1"]
    assert (clock.zone, clock.basis.split(";")[0]) == ("-05:00", "zone: events shared with other clocks")
    assert rows(incident, "SELECT min(ts) FROM events WHERE host = 'leaf-1' AND event = 'link.down'") == [
        (BEGIN + timedelta(seconds=102),)
    ]


def test_the_same_outage_at_both_ends_needs_no_cable_list(analyse: Analyse) -> None:
    incident = analyse(
        {
            "node-1/kern.log": flap("node-1", 100, 147),
            "leaf-1/syslog": port("leaf-1", "Ethernet1/1", 101, 148, 2 * HOUR),
        }
    )
    assert rows(incident, "SELECT min(ts) FROM events WHERE host = 'leaf-1'") == [(BEGIN + timedelta(seconds=101),)]


@pytest.mark.parametrize("length", [60.0, 40.0])
def test_outages_of_another_or_of_a_timer_s_length_join_nothing(analyse: Analyse, length: float) -> None:
    incident = analyse(
        {
            "node-1/kern.log": flap("node-1", 100, 160),
            "leaf-1/syslog": port("leaf-1", "Ethernet1/1", 101, 101 + length, 2 * HOUR),
        }
    )
    assert rows(incident, "SELECT min(ts) FROM events WHERE host = 'leaf-1'") == [
        (BEGIN + timedelta(seconds=101 + 2 * HOUR),)
    ]


def test_a_killed_process_joins_the_kernel_s_log_to_the_launcher_s(analyse: Analyse) -> None:
    killed = "Memory cgroup out of memory: Killed process 101 (python3) total-vm:2002280kB, anon-rss:1326132kB, file-rss:97748kB, shmem-rss:0kB, UID:0 pgtables:3128kB oom_score_adj:0"
    found = "torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 101) of binary: /opt/python3"
    files = {f"node-{n}.log": steps(f"node-{n}", n) for n in range(2)}
    files["node-1.log"] += f"E0203 14:03:21.302000 99 {found}\n"
    files["node-1/kern.log"] = syslog("node-1", 200 + 7 * HOUR, f"[ 900.5] {killed}")
    incident = analyse(files)
    assert rows(incident, "SELECT ts FROM events WHERE event = 'host.oom_kill'") == [(BEGIN + timedelta(seconds=200),)]


def test_a_step_splits_the_time_of_its_host(analyse: Analyse) -> None:
    lines = [
        (100 - 16.0, "kernel:", f"[ 900.5] {XID79}"),
        (150.0, "chronyd[754]:", "System clock was stepped by 16.044301 seconds"),
        (200.0, "kernel:", f"[ 1016.5] {XID79}"),
    ]
    files = {f"node-{n}.log": steps(f"node-{n}", n) for n in (0, 2)}
    files["node-1/syslog"] = "".join(syslog("node-1", s, text, program) for s, program, text in lines)
    incident = analyse(files)
    spans = rows(
        incident,
        "SELECT offset_ms, valid_from, valid_to FROM clocks WHERE host = 'node-1' ORDER BY valid_from NULLS FIRST",
    )
    edge = BEGIN + timedelta(seconds=150)
    assert spans == [(-16044.301, None, edge), (0.0, edge, None)]
    first, second = rows(incident, "SELECT ts_aligned FROM events WHERE event = 'gpu.xid' ORDER BY line")
    assert first[0] == BEGIN + timedelta(seconds=100, milliseconds=44, microseconds=301)
    assert second[0] == BEGIN + timedelta(seconds=200)


def test_a_step_shows_in_dates_and_uptimes_of_the_kernel(analyse: Analyse) -> None:
    moments = [(100.0, 1000.0), (110.0, 1010.0), (160.0, 1020.0), (170.0, 1030.0), (180.0, 1040.0)]
    log = "".join(f"{at(s, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 node-1 kernel: [{up:.6f}] {XID79}\n" for s, up in moments)
    incident = analyse({"node-1/kern.log": log})
    spans = rows(
        incident,
        "SELECT round(offset_ms), valid_from FROM clocks WHERE host = 'node-1' ORDER BY valid_from NULLS FIRST",
    )
    assert spans == [(-40000.0, None), (0.0, BEGIN + timedelta(seconds=160))]


def test_what_shuffles_the_files_changes_no_clock(analyse: Analyse) -> None:
    files = {f"node-{n}.log": steps(f"node-{n}", n, skew) for n, skew in ((0, 0.0), (1, 3.5), (2, -2.0))}
    one, other = analyse(files), analyse(dict(reversed(files.items())))
    assert one.analysis.clocks == other.analysis.clocks
