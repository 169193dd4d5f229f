"""The host that a file belongs to, as folder and file names say.

A wrong host is worse than none: it blames a machine that is sound. So a name counts by how much it looks like a host
and by where it stands: `dmesg-athena.log` names a host, `athena.log` does not, `node-3.log` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from postmortem.bundle.host_shape import Shape, shape_of
from postmortem.bundle.host_words import (
    DUMP_KINDS,
    HOST_FOLDERS,
    MACHINE_KINDS,
    PROGRAM_KINDS,
    SOURCES,
    SWITCH_FOLDERS,
    SYSTEM_KINDS,
    WEAK_KINDS,
)
from postmortem.bundle.names import ARCHIVE_SEPARATOR
from postmortem.patterns import later

_EXTENSION = later(
    r"\.(?:log|txt|out|err|json|jsonl|ndjson|csv|tsv|dump|html|xml|ya?ml|pkl|pickle|trace"
    r"|gz|zst|xz|bz2|tgz|tbz2|txz|tar|zip|old|bak|orig|lldp|[0-9]{1,3}|20[0-9]{6}(?:[0-9]{2,6})?)$",
    re.IGNORECASE,
)
_DATE = later(r"[-_.]20[0-9]{2}[-_.]?[01][0-9][-_.]?[0-3][0-9](?:[-_.T]?[0-9]{2,6}Z?)*$")
_SOSREPORT = later(
    r"^(?:sosreport|sos)-(?P<host>.+?)(?:[-.][0-9]{7,10})?"
    r"-(?:20[0-9]{2}-[0-9]{2}-[0-9]{2}-[a-z]{7}|20[0-9]{12})(?:-obfuscated)?$"
)
# sonic_dump_leaf-3_20260304_050607 (SONiC's `show techsupport`), cl_support_leaf-3_20260304_050607 (Cumulus).
_SWITCH_DUMP = later(r"^(?:sonic_dump|cl_support)_+(?P<host>.+?)_20[0-9]{6}_[0-9]{6}$")
_NCCL_DEBUG_FILE = later(r"^(?:nccl|rccl)[._](?P<host>[A-Za-z][A-Za-z0-9.-]*)[._][0-9]+$")
_COMMAND_OUTPUT = later(r"^(?P<host>.+?)[-_.](?:show|display|get)[-_][a-z0-9_-]+$", re.IGNORECASE)
_PID = later(r"-[0-9]{2,}$")
_IPV4 = later(r"^(?:[0-9]{1,3}\.){3}[0-9]{1,3}$")


@dataclass(frozen=True, slots=True)
class HostHint:
    """A host, and whether the file's own name or a folder (or archive) above it says so."""

    host: str
    basis: Literal["name", "folder"]


def host_hint(name: str) -> HostHint | None:
    """What the file's own name says or, if it says nothing, the nearest folder; None when neither names a host."""
    return next(iter(host_hints(name)), None)


@lru_cache(maxsize=256)
def host_hints(name: str) -> tuple[HostHint, ...]:
    """All hosts named along the path `name`, nearest first: a container's in the file, its node's in the folder."""
    folders = name.replace(ARCHIVE_SEPARATOR, "/").split("/")
    file = folders.pop()
    hints = _hints(folders, file)
    if not hints and "_" in file:
        # No host has an underscore in its name, but files get one for each slash when folders are flattened: node-3_dmesg.txt.
        *flat, file = file.split("_")
        hints = [h for h in _hints(flat, file) if shape_of(h.host) is Shape.NAMED]
    return tuple(dict.fromkeys(hints))


def _hints(folders: list[str], file: str) -> list[HostHint]:
    hints = []
    host = _host_of_file(file, folders[-1].lower() if folders else "")
    if host is not None:
        hints.append(HostHint(host, "name"))
    is_system_log = _leading_kind(_stem(file).lower(), SYSTEM_KINDS) is not None
    for at in range(len(folders) - 1, -1, -1):
        host = _host_of_folder(folders[at], folders[at - 1].lower() if at else "", is_system_log)
        if host is not None:
            hints.append(HostHint(host, "folder"))
    return hints


def _stem(file: str) -> str:
    """`file` without extensions, rotation numbers and dates."""
    while (shorter := _DATE.sub("", _EXTENSION.sub("", file))) != file and shorter:
        file = shorter
    return file


def _host_of_folder(folder: str, parent: str, holds_system_log: bool) -> str | None:
    bare = _without_archive_extension(folder)
    sos = _SOSREPORT.match(bare) or _SWITCH_DUMP.match(bare)
    if sos:
        return _accept(sos["host"], Shape.WORD)
    stem = _without_archive_extension(folder)
    if parent in HOST_FOLDERS and _IPV4.match(stem):
        return stem
    if parent in HOST_FOLDERS or parent in SWITCH_FOLDERS:
        return _accept(stem, Shape.WORD if parent in HOST_FOLDERS else Shape.LOOSE)
    if stem != folder:
        # An archive in the bundle is named like a file: worker5.tar.gz, logs-worker5.tgz.
        return _host_of_file(folder, parent)
    return _accept(stem, Shape.NUMBERED if holds_system_log else Shape.NAMED)


def _without_archive_extension(folder: str) -> str:
    return re.sub(r"\.(?:tar|tgz|tbz2|txz|zip|tar\.[a-z0-9]{2,4})$", "", folder)


def _host_of_file(file: str, parent: str) -> str | None:
    for host, least in _candidates(file, parent):
        accepted = _accept(host, least)
        if accepted is not None:
            return accepted
    return None


def _candidates(file: str, parent: str) -> Iterator[tuple[str, Shape]]:
    """Parts of a file's name that may be a host, and how much they must look like one where they stand."""
    stem = _stem(file)
    sos = _SOSREPORT.match(_without_archive_extension(re.sub(r"\.(?:md5|sha256)$", "", file)))
    if sos:
        yield sos["host"], Shape.WORD
        return
    debug_file = _NCCL_DEBUG_FILE.match(re.sub(r"(?:\.(?:log|txt|out|gz|zst|xz|bz2))+$", "", file))
    if debug_file:
        yield debug_file["host"], Shape.WORD
        return
    lowered = stem.lower()
    if lowered.startswith(tuple(f"{source}-" for source in SOURCES)) and stem.split("-", 1)[1].isdigit():
        return
    yield from _after_kind(stem)
    yield from _before_kind(stem)
    command = _COMMAND_OUTPUT.match(stem)
    if command:
        yield command["host"], Shape.NUMBERED
    yield stem, Shape.LOOSE if parent in HOST_FOLDERS | SWITCH_FOLDERS else Shape.NAMED


def _after_kind(stem: str) -> Iterator[tuple[str, Shape]]:
    """`dmesg-node3`, `host-ibstatus-node045`, `kern.log.node3`, `ncclprof-node-03-1533`."""
    for kinds, least in (
        (MACHINE_KINDS, Shape.WORD),
        (SYSTEM_KINDS, Shape.LOOSE),
        (PROGRAM_KINDS, Shape.NUMBERED),
        (DUMP_KINDS, Shape.NAMED),
        (WEAK_KINDS, Shape.NAMED),
    ):
        kind = _leading_kind(stem.lower(), kinds)
        if kind is None:
            continue
        rest = re.sub(r"^\.log(?=[-_.])", "", stem[len(kind) :])[1:]
        if kinds is DUMP_KINDS:
            without_pid = _PID.sub("", rest)
            if without_pid != rest and shape_of(without_pid) is Shape.NAMED:
                rest = without_pid
        yield rest, least
        # A second word of kind may follow: host-ibstatus-node045, torchrun-stderr-node3.
        if shape_of(rest) is Shape.NONE or kinds is WEAK_KINDS:
            yield from _after_kind(rest)
        return


def _leading_kind(lowered: str, kinds: frozenset[str]) -> str | None:
    """The longest of `kinds` that `lowered` is or begins with, a separator after it."""
    best = None
    for kind in _by_letter(kinds).get(lowered[:1], ()):
        if lowered == kind or (lowered.startswith(kind) and lowered[len(kind)] in "-_."):
            best = kind if best is None or len(kind) > len(best) else best
    return best


@lru_cache(maxsize=16)
def _by_letter(kinds: frozenset[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind in kinds:
        found.setdefault(kind[0], []).append(kind)
    return found


def _before_kind(stem: str) -> Iterator[tuple[str, Shape]]:
    """`node-3.dmesg`, `gpu12_kern`: the kind comes last."""
    lowered = stem.lower()
    for kind in SYSTEM_KINDS | PROGRAM_KINDS | MACHINE_KINDS:
        if lowered.endswith(kind) and len(stem) > len(kind) + 1 and stem[-len(kind) - 1] in "-_.":
            yield stem[: -len(kind) - 1], Shape.NAMED


def _accept(token: str, least: Shape) -> str | None:
    return token if least is not Shape.NONE and shape_of(token) >= least else None
