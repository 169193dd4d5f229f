"""What is to be read: a walk over the given paths that follows nothing out of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from postmortem.bundle.model import Plan, Problem, Unit
from postmortem.bundle.names import UniqueNames, sanitise
from postmortem.bundle.reading import looks_like_archive
from postmortem.bundle.remote import base_name, is_url, list_units, path_parts, shown
from postmortem.bundle.streams import describe
from postmortem.errors import UsageError

_KINDS = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def plan(paths: Sequence[Path | str]) -> Plan:
    """The units below `paths`, ordered by name; a string may be a URL that fsspec knows.

    Names are relative to the one folder given; several paths are told apart by their last part, or by as many more as
    it takes. Raises UsageError for no path at all, for one that does not exist and for a store that cannot be asked.
    """
    if not paths:
        raise UsageError("no bundle was given: name a folder, a file or an archive")
    roots = [_resolve(path) for path in paths]
    walk = _Walk(roots=tuple(dict.fromkeys(roots)))
    if len(walk.roots) == 1:
        walk.add_only(walk.roots[0])
    else:
        for root, prefix in zip(walk.roots, _prefixes(walk.roots), strict=True):
            walk.add(root, prefix)
    return walk.result()


def _resolve(path: Path | str) -> str:
    if isinstance(path, str) and is_url(path):
        if not path.lower().startswith("file://"):
            return path
        path = unquote(path[len("file://") :])
    try:
        return os.path.realpath(path, strict=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({describe(error)}): name a folder, a file or an archive") from None


def _prefixes(roots: Sequence[str]) -> list[str]:
    """The shortest ends of `roots`, one length for all that share a last part, which tell them apart."""
    parts = [path_parts(root) if is_url(root) else Path(root).parts[1:] or ("root",) for root in roots]
    prefixes = []
    for own in parts:
        alike = [other for other in parts if other[-1] == own[-1] and other != own]
        length = 1
        while length < len(own) and any(other[-length:] == own[-length:] for other in alike):
            length += 1
        prefixes.append("/".join(own[-length:]))
    return prefixes


@dataclass(slots=True)
class _Walk:
    """Collects units; a file reached twice, by overlapping paths, counts once."""

    roots: tuple[str, ...]
    found: dict[str, Unit] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add_only(self, root: str) -> None:
        """The bundle is `root` alone: names are relative to it, and an archive's are the inner paths."""
        if is_url(root):
            self._add_url(root, "")
            return
        if os.path.isdir(root):  # noqa: PTH112 - paths may hold bytes that are no text
            self._add_folder(root, "")
            return
        name = os.path.basename(root)  # noqa: PTH119
        self.add(root, name)
        unit = self.found.get(root)
        if unit is not None and unit.is_archive:
            self.found[root] = Unit(unit.fs_path, "", unit.size, is_archive=True)

    def add(self, path: str, name: str) -> None:
        """A file or a folder with all below it, called `name`."""
        if is_url(path):
            self._add_url(path, name)
            return
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                self._add_link(path, name)
            elif stat.S_ISDIR(status.st_mode):
                self._add_folder(path, f"{name}/")
            elif stat.S_ISREG(status.st_mode):
                if path not in self.found:
                    self.found[path] = Unit(path, name, status.st_size, looks_like_archive(path))
            else:
                kind = next((text for test, text in _KINDS if test(status.st_mode)), "no file")
                self._problem(name, f"{kind}: not read")
        except OSError as error:
            self._problem(name, f"cannot be read: {describe(error)}")

    def result(self) -> Plan:
        units = []
        names = UniqueNames()
        for unit in sorted(self.found.values(), key=lambda unit: (sanitise(unit.name), unit.name)):
            name = names.unique(sanitise(unit.name)) if unit.name else ""
            units.append(replace(unit, name=name))
        problems = sorted(self.problems, key=lambda problem: (problem.name, problem.what))
        return Plan(tuple(sorted(units, key=lambda unit: unit.name)), tuple(problems))

    def _add_url(self, root: str, name: str) -> None:
        """What lies at or below a URL. Whether files are archives is known once they are read: a look costs a request each."""
        units, problems, is_file = list_units(root, name)
        self.problems += problems
        if is_file and not name:
            try:
                is_archive = looks_like_archive(root)
            except OSError as error:
                raise UsageError(f"{shown(root)}: cannot be read: {describe(error)}") from None
            units = [replace(units[0], name="" if is_archive else base_name(root), is_archive=is_archive)]
        for unit in units:
            self.found.setdefault(unit.fs_path, unit)

    def _add_folder(self, path: str, prefix: str) -> None:
        # A stack, since a hostile tree may be deeper than Python's recursion.
        pending = [(path, prefix)]
        while pending:
            folder, prefix = pending.pop()
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self._problem(prefix.rstrip("/") or ".", f"the folder cannot be read: {describe(error)}")
                continue
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{name}/"))
                else:
                    self.add(entry.path, name)

    def _add_link(self, path: str, name: str) -> None:
        """Links are never followed: what they lead to inside the bundle is read under its own name."""
        try:
            target = os.path.realpath(path, strict=True)
        except OSError:
            self._problem(name, "a link that leads nowhere")
            return
        if not any(target == root or target.startswith(root.rstrip(os.sep) + os.sep) for root in self.roots):
            self._problem(name, "a link that leads out of the bundle: not followed")

    def _problem(self, name: str, what: str) -> None:
        self.problems.append(Problem(sanitise(name) if name != "." else name, what))
