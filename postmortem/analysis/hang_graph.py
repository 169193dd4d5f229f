"""Who waits for whom in a stuck job, and where the waiting ends (rules H2, H2b, H2c, H6, H7).

Pure functions over what flight recorders say; no database. Ranks are global. A rank that is `idle` has nothing open: whatever
it was asked for is done, so those that wait for it wait for its host. A rank that `lags` has a collective open whose end most others
have seen: its GPU stopped, and what it seems to wait for is no guide. Both are where chains end; in a cycle it is those
that most others wait for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

Verdict = Literal["lags", "missing", "absent", "differs"]
MIN_LAG: Final = 2
"""Collectives that a rank must be behind in completion: one is what any two ranks differ by while a job runs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A rank in one group: last enqueued and completed collective, the first open one (None: none), and the line of its entry."""

    enqueued: int | None
    completed: int | None
    waits: int | None
    file: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """`rank` has something open in `pg`: collective `seq`, or a transfer with `peer` (global rank). `line` is its place in the order
    of calls."""

    rank: int
    pg: str
    seq: int
    peer: int | None = None
    line: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: description and global ranks, in the order in which its own numbers count them."""

    name: str
    description: str
    members: tuple[int, ...]


@dataclass(slots=True)
class Found:
    """Who is at fault: rank -> (how, group, sequence number); whether only a missing dump says so."""

    guilty: dict[int, tuple[Verdict, str, int]] = field(default_factory=dict)
    by_absence: bool = False


@dataclass
class Picture:
    """All that the dumps say. `standings` by (group, rank); a rank without a dump has none."""

    groups: Mapping[str, Group]
    standings: Mapping[tuple[str, int], Standing]
    waits: tuple[Wait, ...]
    ranks: frozenset[int]
    _wanted: dict[tuple[str, int], dict[int, bool]] = field(default_factory=dict)

    @cached_property
    def waits_of(self) -> dict[int, list[Wait]]:
        """Waits of each rank, earliest call first."""
        out: dict[int, list[Wait]] = defaultdict(list)
        for wait in sorted(self.waits, key=lambda w: (w.rank, w.line, w.pg, w.seq)):
            out[wait.rank].append(wait)
        return out

    @cached_property
    def done(self) -> dict[str, int]:
        """The last collective of each group whose end somebody has seen."""
        out: dict[str, int] = {}
        for (pg, _), s in self.standings.items():
            if s.completed is not None:
                out[pg] = max(out.get(pg, -1), s.completed)
        return out

    @cached_property
    def top(self) -> dict[str, int]:
        """The last collective of each group that somebody has enqueued."""
        out: dict[str, int] = {}
        for (pg, _), s in self.standings.items():
            if s.enqueued is not None:
                out[pg] = max(out.get(pg, -1), s.enqueued)
        return out

    def members(self, pg: str) -> tuple[int, ...]:
        """Members of a group; where no dump says, those that have it in their dump."""
        known = self.groups.get(pg)
        return known.members if known else tuple(sorted(r for p, r in self.standings if p == pg))

    def is_idle(self, rank: int) -> bool:
        """A dump in which nothing is open."""
        return rank in self.ranks and rank not in self.waits_of

    @cached_property
    def gone(self) -> dict[str, list[int]]:
        """Members without a dump, of each group."""
        return {name: [r for r in g.members if r not in self.ranks] for name, g in self.groups.items()}

    def absent(self, wait: Wait) -> list[int]:
        """Ranks without a dump that `wait` may be for."""
        if wait.peer is not None:
            return [] if wait.peer in self.ranks else [wait.peer]
        return [] if self.done.get(wait.pg, -1) >= wait.seq else self.gone.get(wait.pg, [])

    def blocking(self, rank: int) -> list[Wait]:
        """What holds `rank` up: its first open call; transfers are posted ahead of time, so where that is one all the others too."""
        waits = self.waits_of.get(rank, [])
        return waits[:1] if waits and waits[0].peer is None else waits

    def lagging(self, is_confirmed: bool) -> dict[int, tuple[str, int]]:
        """Rank -> (group, open collective) of those behind at least half of the others of a group in what is done.

        One collective is too little unless something else says that the job hung (H5).
        """
        least = 1 if is_confirmed else MIN_LAG
        out: dict[int, tuple[str, int]] = {}
        by_group: dict[str, list[tuple[int, Standing]]] = defaultdict(list)
        for (pg, rank), s in self.standings.items():
            if s.completed is not None and rank in self.ranks:
                by_group[pg].append((rank, s))
        for pg, listed in sorted(by_group.items()):
            best = self.done[pg]
            if all(s.waits is None for _, s in listed):
                continue
            ends = sorted(s.completed for _, s in listed if s.completed is not None)
            for rank, s in listed:
                if s.waits is None or s.completed is None or best - s.completed < least:
                    continue
                # Its own end lies before what it has open, so only others are counted.
                if (len(ends) - bisect_left(ends, s.waits)) * 2 >= len(ends) - 1:
                    out.setdefault(rank, (pg, s.waits))
        return out

    def wanted(self, wait: Wait) -> dict[int, bool]:
        """Ranks with a dump that `wait` is for -> True where they have not even enqueued it."""
        if wait.peer is not None:
            return {wait.peer: self.is_idle(wait.peer)} if wait.peer in self.ranks else {}
        found = self._wanted_in(wait.pg, wait.seq)
        return {m: v for m, v in found.items() if m != wait.rank} if wait.rank in found else found

    def _wanted_in(self, pg: str, seq: int) -> dict[int, bool]:
        key = pg, seq
        if key not in self._wanted:
            self._wanted[key] = {}
            for m in self.members(pg) if self.done.get(pg, -1) < seq else ():
                s = self.standings.get((pg, m))
                if m not in self.ranks:
                    continue
                if self.is_idle(m) or (s is not None and s.enqueued is not None and s.enqueued < seq):
                    self._wanted[key][m] = True
                elif s is not None and s.waits == seq and self.waits_of[m][0].line < s.line:
                    self._wanted[key][m] = False
        return self._wanted[key]


def shown_guilty(picture: Picture, *, is_confirmed: bool = False) -> Found:
    """The ranks with a dump that a stuck job waits for in the end; nobody where all that is open has been joined by all."""
    found = Found()
    lags = picture.lagging(is_confirmed)
    edges, missing = _edges(picture, lags)
    for part in _ends(edges):
        ranks = [r for r in part if r >= 0]
        if len(ranks) > 1:
            found.guilty.update(_in_cycle(picture, ranks))
        elif ranks and ranks[0] in lags:
            found.guilty[ranks[0]] = ("lags", *lags[ranks[0]])
        elif ranks and picture.is_idle(ranks[0]) and ranks[0] in missing:
            found.guilty[ranks[0]] = ("missing", *missing[ranks[0]])
    return found


def _edges(picture: Picture, lags: Mapping[int, object]) -> tuple[dict[int, set[int]], dict[int, tuple[str, int]]]:
    """(who waits for whom, rank -> (group, collective) that it has not called).

    A collective that is waited in is a node of its own, below 0: in a group of 10,000 the ranks do not have 10,000 edges each.
    """
    edges: dict[int, set[int]] = {rank: set() for rank in lags}
    nodes: dict[tuple[str, int], int] = {}
    missing: dict[int, tuple[bool, int, str, int]] = {}
    for rank in picture.waits_of:
        edges.setdefault(rank, set())
        for wait in picture.blocking(rank) if rank not in lags else ():
            at = rank
            if wait.peer is None:
                at = nodes.setdefault((wait.pg, wait.seq), -len(nodes) - 1)
                edges[rank].add(at)
                if at in edges:
                    continue
            wanted = picture.wanted(replace(wait, rank=-1))
            edges.setdefault(at, set()).update(picture.absent(wait), wanted)
            for m in (m for m, is_missing in wanted.items() if is_missing):
                # A collective that many wait in says more than one transfer.
                key = (wait.peer is not None, -len(picture.members(wait.pg)), wait.pg, wait.seq)
                missing[m] = min(missing.get(m, key), key)
    return edges, {m: key[2:] for m, key in missing.items()}


def _ends(edges: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Strongly connected parts without a way out (Tarjan, iterative)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    part_of: dict[int, int] = {}
    parts: list[list[int]] = []
    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, following = work[-1]
            for n in following:
                if n not in index:
                    index[n] = low[n] = len(index)
                    stack.append(n)
                    on.add(n)
                    work.append((n, iter(sorted(edges.get(n, ())))))
                    break
                if n in on:
                    low[node] = min(low[node], index[n])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part: list[int] = []
                    while True:
                        n = stack.pop()
                        on.discard(n)
                        part_of[n] = len(parts)
                        part.append(n)
                        if n == node:
                            break
                    parts.append(sorted(part))
    return [p for i, p in enumerate(parts) if all(part_of[m] == i for n in p for m in edges.get(n, ()))]


def _in_cycle(picture: Picture, part: list[int]) -> dict[int, tuple[Verdict, str, int]]:
    """Ranks that wait for each other in collectives called in another order: those that one misses, where they are at most half of its
    members (H3)."""
    inside = set(part)
    out: dict[int, tuple[Verdict, str, int]] = {}
    fronts = {rank: picture.waits_of[rank][0] for rank in part}
    if any(wait.peer is not None for wait in fronts.values()):
        return out
    for wait in fronts.values():
        late = [m for m, is_missing in picture.wanted(wait).items() if is_missing and m in inside]
        if late and len(late) * 2 <= len(picture.members(wait.pg)):
            for m in late:
                out.setdefault(m, ("missing", wait.pg, wait.seq))
    return out
