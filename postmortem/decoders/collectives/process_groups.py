"""Process groups of a flight-recorder dump: which name a rank's own number of a group stands for.

`pg_status` and `pg_id` count the groups of one process, `pg_config` and `process_group` give names that all ranks share; only
names may be compared over ranks. gloo writes its configuration under an empty name while its entries say ("0", "default_pg").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from postmortem.decoders.base import Row, whole

MAX_GROUPS: Final = 100_000
MAX_MEMBERS: Final = 1_000_000
_MAX_TEXT: Final = 300


def group_name(entry: dict[str, Any]) -> str | None:
    """Name of the group of an entry; of version 1 its number within the process."""
    pair = entry.get("process_group")
    if isinstance(pair, list | tuple) and pair and isinstance(pair[0], str):
        return pair[0][:_MAX_TEXT]
    return _key(entry.get("pg_name", entry.get("pg_id")))


def group_rows(document: dict[str, Any], entries: list[dict[str, Any]], counts: Mapping[str, int]) -> list[Row]:
    """One row per group of the dump without `rank` and `file`, by name; `counts` are the entries of each."""
    names: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    for entry in entries:
        name = group_name(entry)
        if name is not None:
            names.setdefault(_key(entry.get("pg_id")) or name, name)
            pair = entry.get("process_group")
            if isinstance(pair, list | tuple) and len(pair) > 1 and isinstance(pair[1], str):
                descriptions.setdefault(name, pair[1][:_MAX_TEXT])
    status = _children(document.get("pg_status"))
    members: dict[str, str | None] = {}
    read: dict[int, str | None] = {}
    for key, body in _children(document.get("pg_config")).items():
        found = body.get("name")
        name = _own_name(found[:_MAX_TEXT] if isinstance(found, str) else key, counts, status)
        ranks = body.get("ranks")
        # A hostile dump may hold one huge list in every group: each list is read once.
        if id(ranks) not in read:
            read[id(ranks)] = _members(ranks)
        members[name] = read[id(ranks)]
        if isinstance(body.get("desc"), str) and body["desc"]:
            descriptions.setdefault(name, body["desc"][:_MAX_TEXT])
    states = _named(status, names, members)
    return [
        {
            "pg": name,
            "description": descriptions.get(name),
            "members": members.get(name),
            "last_enqueued": whole(states.get(name, {}).get("last_enqueued_collective")),
            "last_started": whole(states.get(name, {}).get("last_started_collective")),
            "last_completed": whole(states.get(name, {}).get("last_completed_collective")),
            "entries": counts.get(name, 0),
        }
        for name in sorted({*counts, *members, *states})
    ]


def own_rank(document: Any, named: int | None, number: int | None) -> int | None:
    """The rank of the process that wrote `document`; `named` is what the file's name says, `number` the last number in it.

    A process lists the groups it is a member of, so the one rank that is in all of them wins over a name, which may change when
    files are copied together. Where several are in all (data parallel alone) the name decides; a number that the name does not call a rank
    counts only if it is one of them.
    """
    config = _children(document.get("pg_config")) if isinstance(document, dict) else {}
    lists = {id(body.get("ranks")): body.get("ranks") for body in config.values()}
    texts = {text for ranks in lists.values() if (text := _members(ranks)) not in (None, "[]")}
    common: set[int] = set.intersection(*(set(json.loads(text)) for text in texts)) if texts else set()
    if len(common) == 1 and (len(texts) > 1 or named is None):
        return common.pop()
    return number if named is None and number in common else named


def _own_name(name: str, counts: Mapping[str, int], status: Mapping[str, Any]) -> str:
    """`name`, or what entries and status call the group whose configuration has none (gloo): the only one there is."""
    others = list(counts) or list(status)
    return others[0] if not name and len(others) == 1 else name


def _named(
    status: dict[str, dict[str, Any]], names: Mapping[str, str], members: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Status by name of the group.

    Entries tell the name of a number. For groups without entries: a process numbers its groups in the order of their
    names, which count all groups of the job; that order is used when it fits every number that entries name. A status
    that remains without a name is dropped: a wrong name would accuse a rank.
    """
    known = dict(names)
    ids = sorted(n for k in status if (n := whole(k)) is not None)
    order = sorted(n for k in members if (n := whole(k)) is not None)
    if len(ids) == len(order) == len(status) == len(members):
        pairs = {str(i): str(n) for i, n in zip(ids, order, strict=True)}
        if all(pairs.get(i, name) == name for i, name in names.items()):
            known = {**pairs, **names}
    elif not members:
        known = {**{k: k for k in status}, **names}
    return {known[key]: body for key, body in status.items() if key in known}


def _children(value: Any) -> dict[str, dict[str, Any]]:
    """The dictionaries of a dictionary, keys as text."""
    if not isinstance(value, dict) or len(value) > MAX_GROUPS:
        return {}
    return {k: v for key, v in value.items() if isinstance(v, dict) and (k := _key(key)) is not None}


def _key(value: Any) -> str | None:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    number = whole(value)
    return None if number is None else str(number)


def _members(value: Any) -> str | None:
    """Ranks as a JSON list; they are printed as text, in early versions as a list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or len(value) > MAX_MEMBERS or any(whole(v) is None for v in value):
        return None
    return json.dumps([whole(v) for v in value])
