"""postmortem: tells what killed a GPU training job, from the logs it left behind.

`analyze` and `open_incident` give an Incident; they are imported when they are first asked for, so that `import postmortem` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postmortem.errors import DefinitionError, NothingReadableError, PostmortemError, RedactionError, UsageError

if TYPE_CHECKING:
    from postmortem.api import Incident, analyze, open_incident

__version__ = "0.1.0"
__all__ = [
    "DefinitionError",
    "Incident",
    "NothingReadableError",
    "PostmortemError",
    "RedactionError",
    "UsageError",
    "analyze",
    "open_incident",
]


def __getattr__(name: str) -> Any:
    if name in ("Incident", "analyze", "open_incident"):
        from postmortem import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
