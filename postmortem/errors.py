"""The errors that postmortem raises on purpose."""

from __future__ import annotations


class PostmortemError(Exception):
    """Base of all errors meant for the user: one sentence saying what, where and what instead."""

    exit_code = 2


class NoRoomError(PostmortemError):
    """Disk or memory did not suffice for the analysis itself."""


class UsageError(PostmortemError):
    """The user asked for something impossible (a missing path, an output that exists)."""


class DefinitionError(PostmortemError):
    """A file of parsers/ is wrong: names the file, the message and the key."""


class RedactionError(PostmortemError):
    """A name was found in an output that was to have none."""


class NothingReadableError(PostmortemError):
    """No member of the bundle could be read or recognised."""

    exit_code = 3
