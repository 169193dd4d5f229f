"""What to do next, in words: with the culprit's names, and readable without them."""

from __future__ import annotations

import re

import pytest

from postmortem.analysis.model import Culprit
from postmortem.analysis.naming import culprit_name, opened, what_happened
from postmortem.analysis.wording import cause_texts, next_steps


@pytest.mark.parametrize(
    ("cause", "culprit", "words"),
    [
        ("gpu_fault", Culprit(), "Drain the host; reset the GPU, reboot"),
        ("gpu_fault", Culprit(host="a", gpu=3), "Drain a; reset GPU 3, reboot"),
        ("gpu_fault", Culprit(host="a", gpu=3, pci="0000:5e:00.0"), "reset GPU 0000:5e:00.0, reboot"),
        ("nic_fault", Culprit(host="a", pci="0000:5e:00.0"), "firmware version of NIC 0000:5e:00.0."),
        ("nic_fault", Culprit(host="a", pci="0000:5e:00.0", dev="mlx5_1"), "firmware version of mlx5_1."),
        ("data_stall", Culprit(), "data loader of the late rank:"),
        ("data_stall", Culprit(rank=0), "data loader of rank 0:"),
        ("collective_hang", Culprit(), "Find the rank that did not print"),
        ("collective_hang", Culprit(rank=9, ranks=(9,)), "Look at what rank 9 did in place"),
        ("collective_hang", Culprit(rank=9, ranks=(9, 14)), "Look at what ranks 9, 14 did in place"),
        ("collective_hang", Culprit(rank=0, ranks=tuple(range(10))), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more did"),
    ],
)
def test_next_steps_name_what_is_known(cause: str, culprit: Culprit, words: str) -> None:
    assert words in next_steps(cause, culprit)[0]


def test_no_step_repeats_a_word_or_shows_a_gap_when_nobody_is_named() -> None:
    for cause in cause_texts():
        for step in next_steps(cause, Culprit()):
            assert not re.search(r"\b(\w+) \1\b|\bthe \w+ the |None|[{}]|  ", step), step


def test_a_nic_known_by_its_address_alone_is_named_by_it() -> None:
    assert culprit_name(Culprit(host="a", pci="0000:5e:00.0"), "nic_fault") == "NIC 0000:5e:00.0 of a"


@pytest.mark.parametrize(
    ("cause", "culprit", "words"),
    [
        ("link_flap", Culprit(host="n7", dev="mlx5_5", switch="leaf-3", switch_port="Et6/1"), "The link mlx5_5 of n7 to leaf-3 Et6/1 went down"),
        ("host_crash", Culprit(host="n7"), "n7 crashed"),
        ("host_crash", Culprit(), "A host crashed"),
        ("pcie_drop", Culprit(host="n7", pci="0000:9d:00.0", gpu=4), "GPU 0000:9d:00.0 of n7 left the PCIe bus"),
        ("gpu_oom", Culprit(host="n7", rank=3, ranks=(3,)), "Rank 3 on n7 ran out of GPU memory"),
    ],
)  # fmt: skip
def test_a_sentence_keeps_the_small_letter_of_a_name(cause: str, culprit: Culprit, words: str) -> None:
    assert opened(what_happened(cause, culprit), culprit) == words
