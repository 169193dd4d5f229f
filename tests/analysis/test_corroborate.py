"""The index of candidates finds what a comparison of all pairs finds."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.analysis.candidates import Candidate
from postmortem.analysis.corroborate import APART_S, FAMILY, Others

START = datetime(2026, 2, 3, 15, 59, 30)
HOSTS = st.sampled_from([None, "a", "b"])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["link_flap", "nic_fault", "gpu_fault", "host_oom"]),
        st.sampled_from(["direct", "own", "victim", "lifecycle"]),
        st.sampled_from(
            ["link.down", "nic.health", "nccl.ib_completion_error", "torch.exception", "nccl.ib_async_event"]
        ),
        HOSTS,
        HOSTS,
        st.one_of(st.none(), st.integers(0, 200)),
        st.sampled_from([0.05, 0.5]),
    ),
    max_size=8,
)


def candidate(row: tuple[Any, ...]) -> Candidate:
    episode, cause, tier, event, host, port_host, second, _ = row
    blank = {f.name: None for f in fields(Candidate)}
    first = None if second is None else START + timedelta(seconds=second)
    values = {"episode": episode, "cause": cause, "tier": tier, "event": event, "host": host, "port_host": port_host}
    return cast(
        Candidate, SimpleNamespace(**{**blank, **values, "first": first, "blamed": 0, "blamed_total": 0, "weight": 0.8})
    )


def by_pairs(c: Candidate, others: list[Candidate], signs: dict[int, float]) -> float:
    if c.tier == "own" and any(o.tier == "victim" and o.episode != c.episode for o in others):
        return 1.0
    if c.first is None or c.tier in {"victim", "lifecycle"}:
        return 0.0
    for o in others:
        is_same_family = FAMILY.get(o.cause, o.cause) == FAMILY.get(c.cause, c.cause)
        is_same_source = o.event == c.event and o.host == c.host
        if o.episode == c.episode or o.first is None or signs[id(o)] < 0.1 or not is_same_family or is_same_source:
            continue
        programs = {"nccl.ib_completion_error", "torch.exception"}
        if c.event in programs and o.event in programs:
            continue
        is_there = o.host == c.host or o.port_host == c.host or c.port_host == o.host
        if is_there and abs((o.first - c.first).total_seconds()) <= APART_S:
            return 1.0
    return 0.0


@settings(max_examples=400, deadline=None)
@given(rows=ROWS)
def test_the_index_finds_what_all_pairs_find(rows: list[tuple[Any, ...]]) -> None:
    candidates = [candidate(row) for row in rows]
    signs = {id(c): row[-1] for c, row in zip(candidates, rows, strict=True)}
    others = Others(candidates, signs)
    assert [others.corroborated(c) for c in candidates] == [by_pairs(c, candidates, signs) for c in candidates]
