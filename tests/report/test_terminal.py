"""The terminal summary: order, last line, harmless text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_samples import ONSET, crash, quiet, unknown

from postmortem.analysis.model import Analysis, Culprit, Evidence, Job, Loss, Span, Verdict
from postmortem.analysis.naming import cause_words
from postmortem.report.terminal import plain, summary
from postmortem.report.words import BIN_WORDS, what_happened
from postmortem.schema import CAUSES


def print_summary(analysis: Analysis, width: int = 100) -> str:
    return summary(analysis, colour=False, width=width)


def test_the_verdict_comes_first_and_the_sentence_last() -> None:
    lines = print_summary(crash()).splitlines()
    assert lines[0] == "Device left the PCIe bus: almost certain (0.93)"
    assert lines[-1] == (
        "postmortem: GPU 0000:1b:00.0 of node-7 left the PCIe bus at 03:04:05 UTC (pcie_drop, almost certain); "
        "302 GPU-hours lost."
    )


def test_everything_a_reader_needs_is_there_in_order() -> None:
    text = print_summary(crash())
    wanted = (
        "Times (UTC)", "last progress", "Evidence", "node-7/dmesg:12", "NVRM: Xid (PCI:0000:1b:00): 79", "Chosen over",
        "Host crash: node-7 kept logging", "Also considered", "GPU fault (0.20)", "What it cost", "* lost_work",
        "16 min 40 s", "33 min 20 s", "302 GPU-hours lost on 528 GPUs", "Next steps", "Drain node-7.", "To collect",
        "What the data covered", "missing: switch logs", "postmortem: ",
    )  # fmt: skip
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)


def test_an_unknown_cause_lists_what_is_possible_and_what_to_collect() -> None:
    text = print_summary(unknown())
    assert text.startswith("Cause not established")
    assert "Possible: Hung collective (0.36)" in text
    assert "- dumps" in text
    assert text.splitlines()[-1] == (
        "postmortem: what ended the job is not established (best guess collective_hang, 0.36); "
        "10.7 GPU-hours lost (2.53 to 18.8)."
    )


def test_a_quiet_run_says_so() -> None:
    text = summary(quiet(), colour=True, width=80)
    assert plain(text).splitlines()[-1] == "postmortem: nothing went wrong: the job completed after step 1,200."
    assert "\x1b[1;31m" not in text


def test_an_empty_analysis_prints() -> None:
    empty = Analysis("b", Job(), Verdict("unknown", 0.0, Culprit(), ""))
    lines = print_summary(empty).splitlines()
    assert "  no time is known" in lines
    assert lines[-1] == "postmortem: what ended the job is not established."


def test_colour_changes_nothing_but_colour() -> None:
    assert plain(summary(crash(), colour=True, width=100)) == print_summary(crash())
    assert "\x1b" not in print_summary(crash())


def test_a_log_line_cannot_drive_the_terminal() -> None:
    analysis = crash()
    line = Evidence("x\x1b]0;t\x07", 1, "\x1b[2Jgone\r\nfake\x00 \u202eabc" + "y" * 9000, "cause", ONSET)
    finding = replace(analysis.findings[0], evidence=(line,), summary="a\nb\x1b[1m")
    verdict = replace(analysis.verdict, culprit=Culprit(host="h\x1b[31m"), summary="a\x1b[31m")
    text = print_summary(replace(analysis, findings=(finding,), verdict=verdict))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "␛[2Jgone␍␊fake␀" in text
    assert len(text) < 6000


def test_prose_keeps_to_the_width() -> None:
    for width in (10, 40, 80, 1000):
        lines = print_summary(crash(), width).splitlines()
        prose = [line for line in lines if line.startswith("  - ") or line.startswith("    ")]
        assert prose
        assert all(len(line) <= max(40, min(width, 110)) for line in lines if line.startswith("  - "))


def test_bounds_are_shown_unless_they_agree() -> None:
    wide = replace(crash(), loss=Loss(gpu_hours=Span(200, 302.13, 410)))
    assert print_summary(wide).endswith("302 GPU-hours lost (200 to 410).")


@pytest.mark.parametrize("cause", [*CAUSES, "none"])
def test_every_cause_has_words_with_and_without_a_culprit(cause: str) -> None:
    assert cause in cause_words()
    full = Culprit("h", "p", 1, "0000:1b:00.0", 2, (2,), 0, 7, "mlx5_0", "1", "ib0", 9, 3, "leaf", "Eth1", "10.0.0.1")
    for culprit in (full, Culprit()):
        words = what_happened(cause, culprit)
        assert words
        assert "None" not in words


def test_every_bin_of_the_partition_has_words() -> None:
    kept = "init ckpt_load productive degraded data_wait ckpt_stall eval"
    lost = "lost_work partial_step detection teardown queue restart other"
    assert list(BIN_WORDS) == f"{kept} {lost}".split()


@pytest.mark.parametrize(
    ("cause", "culprit", "expected"),
    [
        ("link_flap", Culprit(host="n7", dev="mlx5_3", switch="leaf-3", switch_port="Et1/17"),
         "the link mlx5_3 of n7 to leaf-3 Et1/17 went down"),
        ("link_flap", Culprit(host="n7"), "a link of n7 went down"),
        ("nic_fault", Culprit(pod="llm-0"), "a network adapter of llm-0 failed"),
        ("gpu_fault", Culprit(host="n7"), "a GPU of n7 failed"),
        ("pcie_drop", Culprit(host="n7", dev="mlx5_3"), "mlx5_3 of n7 left the PCIe bus"),
        ("pcie_drop", Culprit(host="n7", gpu=3), "GPU 3 of n7 left the PCIe bus"),
        ("software_exception", Culprit(ranks=(1, 2, 3, 4, 5, 6)), "ranks 1, 2, 3, 4 and 2 more raised an exception"),
        ("rank_straggler", Culprit(host="n7", ranks=(0, 1)), "ranks 0, 1 on n7 slowed the job down"),
        ("storage_stall", Culprit(peer="nfs01"), "storage nfs01 stalled"),
        ("qp_straggler", Culprit(host="n7", dev="mlx5_4", qpn=1032, peer="n9"),
         "queue pair 1032 on mlx5_4 of n7 to n9 was slow"),
        ("cancelled", Culprit(host="n7"), "the job was cancelled"),
    ],
)  # fmt: skip
def test_the_culprit_is_named_as_its_cause_sees_it(cause: str, culprit: Culprit, expected: str) -> None:
    assert what_happened(cause, culprit) == expected
