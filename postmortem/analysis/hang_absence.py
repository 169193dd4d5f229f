"""Ranks that left no dump: which of them the others wait for (rules H2 and H7).

A dump goes missing for many reasons, so absence alone names nobody: the others must show it. Where nobody with a dump is at fault, the
ranks that all others wait for first are named. Beside a guilty rank another one is named on two grounds only: nothing else explains what
others wait in, or its group stands as only groups with a guilty rank do.
"""

from __future__ import annotations

from postmortem.analysis.hang_graph import Found, Group, Picture, Verdict, shown_guilty

Named = dict[int, tuple[Verdict, str, int]]


def judge(picture: Picture, *, is_confirmed: bool = False) -> Found:
    """The ranks that a stuck job waits for in the end, with a dump or without; nobody where all that is open has been joined by all."""
    found = shown_guilty(picture, is_confirmed=is_confirmed)
    if found.guilty:
        guilty = frozenset(found.guilty)
        found.guilty.update(_accused(picture, guilty) or _unlike_likes(picture, guilty))
        return found
    found.guilty.update(_by_absence(picture))
    found.by_absence = bool(found.guilty)
    return found


def _by_absence(picture: Picture) -> Named:
    """Ranks without a dump for whom the others wait first of all: in a collective that all others have joined, else in a transfer.

    A group of the same kind that stands at the same place, all its members there, shows that its likes wait for something else.
    """
    joint: Named = {}
    single: Named = {}
    fronts = {(w[0].pg, w[0].seq, w[0].peer): w[0] for w in picture.waits_of.values()}
    for wait in fronts.values():
        gone = picture.absent(wait)
        if wait.peer is None and gone:
            gone = [] if _is_joined_elsewhere(picture, wait.pg, wait.seq) or picture.wanted(wait) else gone
        for r in gone:
            (single if wait.peer is not None else joint).setdefault(r, ("absent", wait.pg, wait.seq))
    return joint or single


def _likes(picture: Picture, pg: str) -> list[Group]:
    """The other groups of the same kind and size."""
    group = picture.groups.get(pg)
    if group is None or not group.description:
        return []
    return [
        g
        for g in picture.groups.values()
        if g.name != pg and g.description == group.description and len(g.members) == len(group.members)
    ]


def _is_joined_elsewhere(picture: Picture, pg: str, seq: int) -> bool:
    """A like group at the same place in the program, all its members there, waits in collective `seq` all the same."""
    for other in _likes(picture, pg):
        if picture.top.get(other.name) != picture.top.get(pg):
            continue
        there = [s for m in other.members if m in picture.ranks and (s := picture.standings.get((other.name, m)))]
        if len(there) == len(other.members) and all(s.waits == seq for s in there):
            return True
    return False


def _accused(picture: Picture, guilty: frozenset[int]) -> Named:
    """The one rank without a dump that a collective lacks in which all others wait first of all, none of them guilty.

    It may be held up itself by somebody in whose group none of the others is; not where the ranks beside it there stand as their
    counterparts do, for those have let the others pass.
    """
    out: Named = {}
    fronts = {(w[0].pg, w[0].seq): w[0] for r, w in picture.waits_of.items() if r not in guilty and w[0].peer is None}
    for wait in fronts.values():
        members = set(picture.members(wait.pg))
        gone = picture.absent(wait)
        if len(gone) != 1 or guilty & members or picture.wanted(wait) or _may_be_held(picture, gone[0], wait.pg):
            continue
        out.setdefault(gone[0], ("absent", wait.pg, wait.seq))
    return out


def _may_be_held(picture: Picture, rank: int, pg: str) -> bool:
    """Some group of `rank` with none of the other members of `pg` holds a rank that stands elsewhere than its counterparts do."""
    fellows = [m for m in picture.members(pg) if m != rank]
    for group in picture.groups.values():
        if rank not in group.members or len(group.members) < 2 or not set(fellows).isdisjoint(group.members):
            continue
        at = group.members.index(rank)
        theirs = [g for g in _likes(picture, group.name) if len(g.members) > at and g.members[at] in fellows]
        for place, other in enumerate(group.members):
            counterparts = {_place_of(picture, g.members[place]) for g in theirs}
            if other != rank and (other not in picture.ranks or _place_of(picture, other) not in counterparts):
                return True
    return False


def _place_of(picture: Picture, rank: int) -> tuple[str, int, bool] | None:
    """Where a rank stands, as far as it can be compared between groups of one kind: what it waits in first; None when it is idle."""
    waits = picture.waits_of.get(rank)
    if not waits:
        return None
    group = picture.groups.get(waits[0].pg)
    return group.description if group else waits[0].pg, waits[0].seq, waits[0].peer is not None


def _fronts(picture: Picture, group: Group, guilty: frozenset[int]) -> set[str]:
    """Kinds of what the members that are there and not guilty wait in first: descriptions of groups, nothing for a transfer."""
    firsts = (picture.waits_of[m][0] for m in group.members if m not in guilty and m in picture.waits_of)
    return {
        "" if w.peer is not None or w.pg not in picture.groups else picture.groups[w.pg].description for w in firsts
    }


def _unlike_likes(picture: Picture, guilty: frozenset[int]) -> Named:
    """The rank without a dump whose group stands behind the same kind of collective as its likes do, where each of those has a guilty rank.

    A group without any guilty rank that stands so, or one that lacks a dump, shows that it need not have one: then nobody is named. Groups
    whose members wait before that for something in which the rank has no part (an earlier stage of the pipeline) say nothing.
    """
    out: Named = {}
    for pg, group in picture.groups.items():
        gone = [m for m in group.members if m not in picture.ranks]
        here = [(m, s) for m in group.members if m in picture.ranks and (s := picture.standings.get((pg, m)))]
        seqs = {s.waits for _, s in here}
        if len(gone) != 1 or len(seqs) != 1 or guilty & set(group.members):
            continue
        (seq,) = seqs
        if seq is None or picture.done.get(pg, -1) >= seq:
            continue
        ahead = {w.pg if w.peer is None else "" for m, s in here for w in picture.waits_of[m] if w.line < s.line}
        if any(gone[0] not in picture.members(p) for p in ahead):
            continue
        kinds = _fronts(picture, group, guilty)
        likes = [g for g in _likes(picture, pg) if _stands_so(picture, g, guilty, kinds)]
        if likes and all(guilty & set(g.members) for g in likes) and not _may_wait(picture, gone[0], pg, guilty):
            out[gone[0]] = ("absent", pg, seq)
    return out


def _stands_so(picture: Picture, group: Group, guilty: frozenset[int], kinds: set[str]) -> bool:
    """Some member has a collective of the group open, and they wait first in those kinds; or may have, for no member has left a dump."""
    if picture.ranks.isdisjoint(group.members):
        return True
    standings = (picture.standings.get((group.name, m)) for m in group.members)
    return any(s is not None and s.waits is not None for s in standings) and _fronts(picture, group, guilty) == kinds


def _may_wait(picture: Picture, rank: int, pg: str, guilty: frozenset[int]) -> bool:
    """In a group no larger than `pg` it may wait for another member: a guilty one, or one that is held up first by something in which
    `rank` has no part."""
    for group in picture.groups.values():
        if rank not in group.members or len(group.members) > len(picture.members(pg)):
            continue
        for other in group.members:
            front = picture.waits_of.get(other, [])[:1]
            if other in guilty:
                # A host that stopped holds up all its groups, a GPU that stopped those in which its host went on.
                if other not in picture.waits_of or any(w.pg == group.name for w in picture.waits_of[other]):
                    return True
            elif any(rank not in (picture.members(w.pg) if w.peer is None else (w.peer,)) for w in front):
                return True
    return False
