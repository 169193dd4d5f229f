"""Regular expressions that are compiled when they are first used.

Compiling the five hundred patterns of all modules takes longer than reading a small bundle, which uses a handful of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Later:
    """Stands for a compiled pattern; becomes one on the first use of a method."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = re.compile(self.pattern, self._flags)
        for method in (
            "match",
            "search",
            "fullmatch",
            "findall",
            "finditer",
            "sub",
            "subn",
            "split",
            "groups",
            "flags",
        ):
            setattr(self, method, getattr(made, method))
        return getattr(made, name)


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile(pattern, flags)`, put off until it is needed. Its methods are those of a pattern; it can't be given to `re.sub` and its like."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))
