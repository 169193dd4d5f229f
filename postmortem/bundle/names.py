"""Names of bundle members: safe to print, with `/`, one for each member."""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAME = 1000
ARCHIVE_SEPARATOR = "!/"


def sanitise(name: str) -> str:
    """`name` as a relative path without `.`, `..`, control characters or bytes that are no text.

    For naming only: nothing is ever written to such a path.
    """
    text = name.encode("utf-8", "surrogateescape" if _has_escapes(name) else "replace").decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    if "/" not in text and "\\" in text:
        text = text.replace("\\", "/")
    parts = [("_" if part == ".." else part) for part in text.split("/") if part not in ("", ".")]
    joined = "/".join(parts)
    return joined[:MAX_NAME] or "unnamed"


def _has_escapes(name: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in name)


def join_member(archive: str, inner: str) -> str:
    """Name of the member `inner` of `archive`, which is empty when it is the bundle itself."""
    return f"{archive}{ARCHIVE_SEPARATOR}{inner}" if archive else inner


class UniqueNames:
    """Gives every member of one archive, or of one bundle, a name of its own: the second `a` becomes `a (2)`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}
        self.renamed = 0
        """How many names were not the first of their kind."""

    def unique(self, name: str) -> str:
        """`name`, or `name (n)` with the first free n."""
        result = name
        count = self._next.get(name, 2)
        while result in self._taken:
            result = f"{name} ({count})"
            count += 1
        if result != name:
            self._next[name] = count
            self.renamed += 1
        self._taken.add(result)
        return result
