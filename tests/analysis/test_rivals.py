"""What a finding was chosen over: why each rival lost, and that nothing above a finding is called worse than it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from postmortem.analysis.candidates import Candidate, Edge
from postmortem.analysis.model import Culprit, Finding, Rival
from postmortem.analysis.rivals import in_order, rivals_of

NOON = datetime(2026, 1, 2, 12)
LINK = Candidate(
    episode=1, cause="link_flap", tier="direct", weight=0.8, event_id=1, event="link.down", host="node-1", entity="mlx5_0",
    code=None, severity="error", first=NOON, last=NOON, count=1, in_job=True, back=None, is_switch=False, leads_to_job=None,
    port_host=None, port_dev=None, cables=0, is_back=None, knows_back=False, blamed=0, blamed_total=0, is_deliberate=False,
    knows_cables=False, is_borrowed=False, file="a.log", is_log_start=False, knows_job=True, steps_below=None, relevance=1.0,
)  # fmt: skip
OTHER = replace(
    LINK,
    episode=2,
    cause="network_config",
    event="nccl.ib_completion_error",
    host="node-2",
    tier="told",
    first=NOON + timedelta(seconds=12),
)
EDGE = Edge(cause=1, effect=2, rule="F1 link down, retries exceeded", lag_s=12.0, strength=0.9)


def said(loser: Candidate, edges: list[Edge]) -> str:
    (rival,) = rivals_of(LINK, [loser], edges, [LINK, loser])
    assert rival.cause == loser.cause
    return rival.why


def test_what_an_edge_explains_says_by_what_and_when() -> None:
    assert said(OTHER, [EDGE]) == "link.down on node-1 12 s before explains it (link down, retries exceeded)"


def test_an_edge_the_other_way_or_a_weak_one_explains_nothing() -> None:
    for edge in (replace(EDGE, cause=2, effect=1), replace(EDGE, strength=0.1)):
        assert said(OTHER, [edge]) == "its first sign, nccl.ib_completion_error, came 12 s later"


def test_survived_hearsay_and_weaker_signs_have_reasons_of_their_own() -> None:
    assert said(replace(OTHER, why_not="the job made progress after it"), [EDGE]) == "the job made progress after it"
    assert (
        said(replace(OTHER, tier="victim"), [])
        == "nccl.ib_completion_error only says that somebody else was late or gone"
    )
    assert (
        said(replace(OTHER, first=NOON, weight=0.3), [])
        == "its sign, nccl.ib_completion_error, says less: 0.30 against 0.80"
    )
    assert said(replace(OTHER, first=NOON, tier="direct"), []) == "fewer lines of other kinds say the same"


def test_within_the_error_of_the_clocks_nothing_came_later() -> None:
    assert "later" not in said(replace(OTHER, first=NOON + timedelta(seconds=4)), [])


def test_a_finding_is_chosen_over_those_below_it_only() -> None:
    def finding(cause: str, p: float, *over: str) -> Finding:
        rivals = tuple(Rival(one, "why") for one in over)
        return Finding(cause=cause, confidence=p, culprit=Culprit(), summary="", evidence=(), chosen_over=rivals)

    found = in_order(
        [
            finding("link_flap", 0.9, "collective_hang"),
            finding("collective_hang", 0.3, "link_flap"),
            finding("gpu_fault", 0.2),
        ]
    )
    assert [[r.cause for r in f.chosen_over] for f in found] == [["collective_hang", "gpu_fault"], ["gpu_fault"], []]
    assert found[0].chosen_over[1].why == "less likely: 0.04 against 0.90"


def test_what_the_first_finding_leaves_is_shared_among_the_others() -> None:
    found = in_order(
        [
            Finding("link_flap", 0.9, Culprit(), "", ()),
            Finding("nic_fault", 0.8, Culprit(), "", ()),
            Finding("congestion", 0.2, Culprit(), "", ()),
        ]
    )
    assert [f.confidence for f in found] == [0.9, 0.08, 0.02]
    # Weak ones are not made stronger.
    weak = in_order([Finding("link_flap", 0.5, Culprit(), "", ()), Finding("nic_fault", 0.1, Culprit(), "", ())])
    assert [f.confidence for f in weak] == [0.5, 0.1]
