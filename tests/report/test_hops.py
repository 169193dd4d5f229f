"""The chain from switch port to step, as the report and the terminal print it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import VERSION, crash, tables

from postmortem.analysis.model import Analysis, Finding, Hop, Network
from postmortem.report.html import render
from postmortem.report.terminal import summary
from postmortem.report.view_hops import chain, network_sentence

HOPS = (
    Hop("port", "leaf-3 Ethernet1/17", "enp188s0np0 on node-7", "cable", "leaf-3/lldp.txt", 7, "", 1.0),
    Hop("netdev", "enp188s0np0 on node-7", "mlx5_5 on node-7", "one device", "node-7/ibdev2netdev.txt", 2, "", 1.0),
    Hop("pci", "mlx5_5 on node-7", "0000:bc:00.0", "its PCI address", "node-7/dmesg", 12, "", 1.0),
    Hop(
        "gpu",
        "0000:bc:00.0",
        "GPU 5 (0000:bb:00.0)",
        "nearest GPU",
        "nccl.log",
        40,
        "inferred: nearest by PCI bus number",
        0.6,
    ),
    Hop("pod", "node-7", "llm-worker-2", "what runs there", "events.jsonl", 3, "", 1.0),
    Hop("rank", "GPU 5 (0000:bb:00.0)", "rank 21", "process 77 on llm-worker-2", "nccl.log", 9, "", 1.0),
    Hop("step", "rank 21", "step 3,632", "last step of the job", "train.log", 900, "", 1.0),
)
CHAIN = "leaf-3 Ethernet1/17 → enp188s0np0 on node-7 → mlx5_5 → 0000:bc:00.0 → GPU 5 (0000:bb:00.0) (inferred) → rank 21 → step 3,632"


def with_hops(*hops: Hop, network: Network | None = None) -> Analysis:
    analysis = crash()
    best = replace(analysis.findings[0], hops=hops, network=network)
    return replace(analysis, findings=(best, *analysis.findings[1:]))


def best(analysis: Analysis) -> Finding:
    return analysis.findings[0]


def test_the_chain_is_one_line() -> None:
    assert chain(best(with_hops(*HOPS))) == CHAIN
    assert chain(best(with_hops())) == ""


def test_cables_of_a_switch_are_no_chain() -> None:
    cables = [Hop("port", f"leaf-3 {n}", f"mlx5_0 on node-{n}", "cable", "fabric.txt", n, "", 1.0) for n in (1, 2)]
    assert chain(best(with_hops(*cables))) == "2 cables to hosts of the job: mlx5_0 on node-1, mlx5_0 on node-2"


@pytest.mark.parametrize(
    ("which", "words"), [("back", "back-end network, which carries"), ("front", "front-end network, not on")]
)
def test_the_network_is_named_with_its_line(which: str, words: str) -> None:
    network = Network("back" if which == "back" else "front", "mlx5_5", "nccl.log", 4)
    sentence = network_sentence(best(with_hops(network=network)))
    assert words in sentence
    assert "nccl.log:4" in sentence


def test_the_report_shows_every_hop_with_its_line() -> None:
    page = render(with_hops(*HOPS, network=Network("back", "mlx5_5", "nccl.log", 4)), tables(), VERSION)
    assert CHAIN in page
    for hop in HOPS:
        assert f"{hop.file}:{hop.line}" in page
        assert hop.target in page
    assert "inferred: nearest by PCI bus number" in page
    assert "back-end network" in page


def test_a_hop_whose_line_is_evidence_leads_there() -> None:
    analysis = crash()
    line = analysis.findings[0].evidence[0]
    page = render(with_hops(replace(HOPS[2], file=line.file, line=line.line)), tables(), VERSION)
    assert f'<a href="#e1-1">{line.file}:{line.line}</a></li>' in page


def test_names_of_the_bundle_are_escaped() -> None:
    page = render(with_hops(replace(HOPS[0], source="<img onerror=x>", file="</script>")), tables(), VERSION)
    assert "<img" not in page
    assert "&lt;img onerror=x&gt;" in page
    assert "&lt;/script&gt;:7" in page


def test_the_terminal_has_the_chain() -> None:
    text = summary(with_hops(*HOPS, network=Network("front", "eth0", "nccl.log", 4)), colour=False, width=100)
    assert CHAIN in " ".join(text.split())
    assert "front-end network" in text
    assert "Where it sits" not in summary(crash(), colour=False, width=100)
