"""Names that users know their switches by, for the names that one source or another prints.

Subnet managers print a GUID or a node description, a switch its management name, LLDP a name with a domain. A rule says by what name such a
switch goes: a printed name, or a pattern that matches it as a whole, and the name, in which `$1` or `${rack}` is what a group matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from postmortem.errors import UsageError

_REFERENCE: Final = re.compile(r"\$(?:\$|\{([^}]*)\}|(\w+))")
LONGEST: Final = 200
"""Characters of a name; a longer text in its place is none."""


@dataclass(frozen=True, slots=True)
class SwitchName:
    """One rule: `pattern` in Rust's dialect, as in definitions of formats."""

    pattern: str
    name: str

    def __str__(self) -> str:
        return f"{self.pattern}={self.name}"


def switch_name(pattern: str, name: str) -> SwitchName:
    """A rule that can be used. Raises UsageError for a pattern that is none, or a name with a group that the pattern lacks."""
    import polars as pl

    if not pattern or not name or len(name) > LONGEST:
        raise UsageError(
            f"{pattern!r} = {name!r} is no switch name: give a printed name or a pattern, and the name for it"
        )
    try:
        groups = pl.Series([""]).str.extract_groups(f"(?:{pattern})()").struct.fields
    except pl.exceptions.ComputeError as error:
        why = str(error).strip().splitlines()[-1].removeprefix("error: ")
        raise UsageError(f"{pattern!r} is no pattern of switch names: {why}") from error
    known = {*groups[:-1], *map(str, range(len(groups)))}
    for found in _REFERENCE.finditer(name):
        asked = found[1] if found[1] is not None else found[2]
        if asked is not None and asked not in known:
            raise UsageError(
                f"{name!r} takes the group {asked}, which {pattern!r} has not: write ${{1}} for its first one"
            )
    return SwitchName(pattern, name)


def switch_names(rules: Mapping[str, str]) -> tuple[SwitchName, ...]:
    """The rules of a mapping, in its order. Raises UsageError for one that is none."""
    return tuple(switch_name(pattern, name) for pattern, name in rules.items())


def known_names(printed: Iterable[str], rules: Sequence[SwitchName]) -> dict[str, str]:
    """Printed name → name of those that a rule is for: the rule that is the printed name, else the first whose pattern matches all of it."""
    import polars as pl

    exact = {rule.pattern: rule.name for rule in reversed(rules)}
    names = sorted({name for name in printed if 0 < len(name) <= LONGEST})
    found = {name: exact[name] for name in names if name in exact and "$" not in exact[name]}
    left = pl.Series([name for name in names if name not in found], dtype=pl.String)
    for rule in rules:
        whole = f"^(?:{rule.pattern})$"
        hit = left.str.contains(whole)
        given = left.filter(hit).str.replace(whole, rule.name)
        found |= {old: new for old, new in zip(left.filter(hit), given, strict=True) if new}
        left = left.filter(~hit)
    return {old: new for old, new in found.items() if new != old}
