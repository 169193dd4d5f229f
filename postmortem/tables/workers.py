"""What must be alike on all machines that parse one bundle: version, definitions, and sight of bundle and spool."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from postmortem import __version__
from postmortem.bundle.remote import is_url, shown, unreachable
from postmortem.errors import UsageError
from postmortem.resources import data_folder
from postmortem.tables.spool import probe, probed


@dataclass(frozen=True, slots=True)
class Place:
    """One machine: version, digest of the definitions, what it lacks of the bundle, the file it put into the spool, its complaint."""

    version: str
    definitions: str
    missing: str | None
    probe: str
    complaint: str | None


def look(parsers: tuple[str, ...], paths: tuple[str, ...], spool: str) -> Place:
    """How this process sees what it shall work with; runs on every worker."""
    name = f"probe-{uuid.uuid4().hex[:12]}"
    complaint = None
    try:
        probe(spool, name)
    except OSError as error:
        complaint = error.strerror or str(error)
    missing = next((why for p in paths if (why := _missing(p))), None)
    return Place(__version__, definitions_digest(parsers), missing, name, complaint)


def _missing(path: str) -> str | None:
    """`path`, with the reason, when it cannot be read here."""
    if not is_url(path):
        return None if os.path.exists(path) else path  # noqa: PTH110 - may hold bytes that are no text
    why = unreachable(path)
    return why and f"{shown(path)} ({why})"


def definitions_digest(parsers: Sequence[str]) -> str:
    """Digest of the definitions in the folders, the empty one being ours; `absent` when one is not there."""
    digest = hashlib.sha256()
    for folder in (Path(p) if p else data_folder("parsers") for p in parsers):
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.toml"))
        if not files:
            return "absent"
        for file in files:
            digest.update(file.relative_to(folder).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def check(
    ask_all: Callable[..., dict[str, Place]], parsers: tuple[str, ...], paths: tuple[str, ...], spool: str
) -> None:
    """Ask every worker to `look`. Raises UsageError with what differs and where."""
    places = ask_all(look, parsers, paths, spool)
    seen = probed(spool)
    own = definitions_digest(parsers)
    for worker, place in sorted(places.items()):
        if place.version != __version__:
            raise UsageError(
                f"worker {worker} runs postmortem {place.version}, here is {__version__}: install the same"
            )
        if place.definitions != own:
            raise UsageError(
                f"worker {worker} has other definitions than this machine: --parsers must be on shared storage"
            )
        if place.missing is not None:
            raise UsageError(
                f"worker {worker} does not see {place.missing}: the bundle must be on storage that all workers see"
            )
        if place.complaint is not None or place.probe not in seen:
            why = place.complaint or "it sees another folder of that name"
            raise UsageError(f"worker {worker} cannot write where the spool is ({why}): give --spool on shared storage")
