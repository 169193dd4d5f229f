"""The parts that line headers are made of, and the record that describes one header.

A header is an anchored pattern (Rust dialect) with named groups out of a fixed set; `rest` is what
is left of the line. Groups: `y mo mon d hms frac zone md epoch` (parts of a printed time), `up`
(uptime, seconds) or `upus` (microseconds), `host pid tid rank lrank gpu tag src lvl pod`, `times` (how often syslog saw the line).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

HMS: Final = r"(?P<hms>[0-9]{2}:[0-9]{2}:[0-9]{2})"
FRAC: Final = r"(?:[.,:](?P<frac>[0-9]{1,9}))?"
ZONE: Final = r"(?: ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?"
DATE: Final = r"(?P<y>(?:19|20)[0-9]{2})[-/.](?P<mo>[0-9]{1,2})[-/.](?P<d>[0-9]{1,2})"
ISO: Final = DATE + r"[T _]" + HMS + r"(?:[.,](?P<frac>[0-9]{1,9}))?" + ZONE
MON: Final = r"(?P<mon>[^\W\d_]{3,4})\.?"
BSD: Final = MON + r" +(?P<d>[0-9]{1,2}) " + HMS + r"(?:\.(?P<frac>[0-9]{1,9}))?"
REST: Final = r"(?P<rest>.*)$"
HOST: Final = r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*)"
TAG: Final = r"(?P<tag>[A-Za-z_/(][A-Za-z0-9_./()#@-]*?)(?:\[(?P<pid>[0-9]+)\])?: ?"


@dataclass(frozen=True, slots=True)
class Header:
    """One header that can be taken off the front of a line.

    `kind` is what definitions may require; several headers may share a kind. `first` is a literal
    that every such line holds within its header, where there is one; it only saves time.
    """

    kind: str
    pattern: str


_REST_OF_LINE: Final = ".*)$"
_REST: Final = "(?P<rest>"
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]|.", re.DOTALL)


@lru_cache(maxsize=1024)
def begin(pattern: str) -> str | None:
    """The pattern of a header without the `.*)$` of its `rest`, whose group holds then only what `rest` must begin with.

    In a text without a line feed it matches where `pattern` does, and the real `rest` goes from there to the end of the text: what comes
    last takes any text, so nothing before it is matched in another way. None where the pattern is of another form.
    """
    if not (pattern.startswith("^") and pattern.endswith(_REST_OF_LINE)):
        return None
    opened: list[int] = []
    before = last = ""
    for token in _TOKEN.finditer(pattern, 0, len(pattern) - len(")$")):
        if token[0] == "(":
            opened.append(token.start())
        elif token[0] == ")" and opened:
            opened.pop()
        elif token[0] == "|" and (not opened or pattern.startswith(_REST, opened[-1])):
            return None
        before, last = last, token[0]
    if (before, last) != (".", "*") or len(opened) != 1 or not pattern.startswith(_REST, opened[0]):
        return None
    return pattern[: -len(_REST_OF_LINE)] + ")"


_NAMED: Final = re.compile(r"\(\?P<[a-z0-9_]+>")
_LETTER: Final = r"[^\W\d_]"
_LETTER_OR_MORE: Final = r"[A-Za-z\x{80}-\x{10FFFF}]"
_LONG_REPEAT: Final = re.compile(r"\{[0-9]*,?[0-9]{3,}\}")


def any_of(patterns: Iterable[str]) -> str:
    """One pattern that matches wherever one of these headers does (in texts without a line feed), and hardly elsewhere.

    It takes about as long as one of them: letters of all scripts become all characters beyond ASCII, which makes it small.
    """
    parts = (_NAMED.sub("(?:", begin(p) or p).replace(_LETTER, _LETTER_OR_MORE) for p in patterns)
    return "|".join(f"(?:{part})" for part in parts)


def is_small(pattern: str) -> bool:
    """No long counted repeat, which would make `any_of` slow."""
    return _LONG_REPEAT.search(pattern) is None
