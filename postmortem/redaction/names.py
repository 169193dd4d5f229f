"""Which names a bundle holds: read off columns that hold nothing else, and found in text by their form or by what stands before them.

A name has no blank in it, begins and ends with a letter or digit, and is not digits alone. Forms that are found: IPv4, IPv6, MAC, GUID,
mail, URL, absolute path, domain name, node list, key=secret, and the sentences in which programs name users.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import polars as pl

from postmortem.decoders import expand_hostlist
from postmortem.redaction.words import (
    ACCOUNTS,
    FOLDERS,
    PACKAGES,
    SUFFIXES,
    SYSTEM_FOLDERS,
    is_plain,
    is_public,
    own_words,
)

KINDS: Final = ("token", "mail", "addr", "switch", "host", "pod", "hosts", "user", "serial", "domain", "name")
"""Kinds of masks; what is found as two kinds is of the first."""

_EDGES: Final = re.compile(r"^[\W_]+|[\W_]+$")
_LETTERS: Final = re.compile(r"[^\W\d_]")

# Rust's dialect, also valid in Python; the group is the name.
_IPV4: Final = r"\b((?:[0-9]{1,3}\.){3}[0-9]{1,3})\b"
_IPV6: Final = r"([0-9A-Za-z:.]*(?:::|(?:[0-9A-Fa-f]{1,4}:){7})[0-9A-Za-z:.]*)"
_MAC: Final = r"\b([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})\b"
_GUID: Final = r"(?i:(?:guid|gid)[^0-9a-z]{1,4}((?:0x)?[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3}))\b"
_MAIL: Final = r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
_LOGIN: Final = r"([A-Za-z_][\w.-]*@[A-Za-z][\w.-]*)"
_URL: Final = r"""([A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s"'<>`|\\]+)"""
_PATH: Final = r"""(?:^|[\s"'=(\[{,:;|`@]|-[A-Z])((?:~[\w.-]*)?/[\w.+@%~-]+(?:/[\w.+@%~-]*)*)"""
_WINDOWS: Final = r"\b([A-Za-z]:\\[\w.+@%~-]+(?:\\[\w.+@%~-]+)*)"
_DOTTED: Final = r"([A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+)"
_LIST: Final = r"([A-Za-z][\w.-]*\[[0-9][0-9,-]*\][\w.-]*)"
_USER: Final = (
    r"""\b(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER|SLURM_JOB_ACCOUNT|user|username|User|UserId|GroupId|Account|owner)["']?[=:]\s*["']?([A-Za-z_][\w.-]*)"""
    r"|\b(?:Accepted|Failed) \w+ for (?:invalid user )?([A-Za-z_][\w.-]*) from"
    r"|\bfor user ([A-Za-z_][\w.-]*)|\bsudo(?:\[[0-9]+\])?:\s+([A-Za-z_][\w.-]*) :|\bCMD: \(([A-Za-z_][\w.-]*)\)|\bCRON\[[0-9]+\]: \(([A-Za-z_][\w.-]*)\)"
    r"|/(?:home|Users|users|user)/([A-Za-z_][\w.-]*)|[A-Za-z]:\\Users\\([\w.-]+)|~([A-Za-z_][\w.-]*)/"
)
_SECRET: Final = (
    r"""(?i:(?:^|[^a-z])(?:[a-z0-9]+[_-])*(?:password|passwd|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|secret[_-]?key|private[_-]?key|"""
    r"""credentials?|signature|sig)["']?\s*[=:]\s*["']?([^\s"'&,;<>(){}\[\]]{6,}))"""
    r"""|(?i:\b(?:bearer|basic) ([a-z0-9+/=._~-]{12,}))"""
    r"""|\b(hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|"""
    r"""AIza[\w-]{30,}|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"""
)
_DOMAINS: Final = frozenset(
    "local internal lan corp intra localdomain svc com net org edu gov mil cloud io ai dev cn de fr uk eu jp kr in ch nl".split()
)
_SHORT_DOMAINS: Final = frozenset("com org edu gov local internal lan corp localdomain".split())
_WORTHLESS: Final = frozenset("true false none null required missing expired invalid disabled enabled".split())


@dataclass(slots=True)
class Names:
    """Names by kind, as printed."""

    by_kind: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, kind: str, name: str | None, least: int = 3) -> None:
        """Add one, unless it is too short, digits alone, or a word that stands in every report."""
        text = _EDGES.sub("", name or "")
        if (
            len(text) < least
            or not (_LETTERS.search(text) or kind in {"addr", "token"})
            or any(c.isspace() for c in text)
        ):
            return
        if text.lower() in own_words() or (kind != "token" and text.lower() in FOLDERS):
            return
        self.by_kind[kind].add(text)

    def merge(self, other: Names) -> None:
        """Add all names of `other`."""
        for kind, found in other.by_kind.items():
            self.by_kind[kind] |= found

    def host(self, name: str | None, kind: str = "host") -> None:
        """Add a host by a column that holds hosts; its domain is a name of its own. An address is none."""
        if not name or name.lower().startswith("localhost") or _is_address(name):
            return
        first, _, rest = name.partition(".")
        self.add(kind, first, 2)
        if rest and not is_public(rest):
            self.add("domain", rest)

    def find(self, texts: pl.Series) -> None:
        """Add what the distinct `texts` hold. The forms are searched for by columns; the loops go over distinct finds."""
        for name in _finds(texts, _IPV4):
            if _is_address(name) and not name.startswith(("127.", "0.", "255.")):
                self.add("addr", name)
        for name in _finds(texts, _IPV6):
            address = name.strip(".").removesuffix(":") if not name.endswith("::") else name
            if len(address) > 5 and _is_address(address):
                self.add("addr", address)
        for name in _finds(texts, _MAC):
            self.add("addr", name)
        for name in _finds(texts, _GUID):
            self.add("addr", name.removeprefix("0x"))
        for name in _finds(texts, _SECRET):
            if (
                not name.replace(".", "").isdigit()
                and name.lower() not in _WORTHLESS
                and not name.startswith(("/", "<", "$"))
            ):
                self.add("token", name, 6)
        for name in _finds(texts, _USER):
            self._user(name)
        for name in _finds(texts, _MAIL):
            self._mail(name)
        for name in _finds(texts, _URL):
            self._url(name)
        for pattern in (_PATH, _WINDOWS):
            for name in _finds(texts, pattern):
                self._path(name.replace("\\", "/"))
        hosts = {name.lower() for kind in ("host", "switch", "pod") for name in self.by_kind[kind]}
        for name in _finds(texts, _LOGIN):
            user, _, place = name.partition("@")
            if place.split(".")[0].lower() in hosts:
                self._user(user)
        for name in _finds(texts, _DOTTED):
            self._dotted(name, hosts)
        for name in _finds(texts, _LIST):
            listed = expand_hostlist(name)
            if any(one.lower() in hosts for one in listed):
                self.add("hosts", name)
                for one in listed:
                    self.host(one)

    def _user(self, name: str) -> None:
        text = name.strip("._-")
        if text.lower() not in ACCOUNTS and not text.lower().startswith("systemd-"):
            self.add("user", text, 2)

    def _mail(self, name: str) -> None:
        user, _, place = name.partition("@")
        if user.lower() == "git" and is_public(place.lower()):
            return
        self.add("mail", name)
        self._user(user)
        if not is_public(place.lower()):
            self.add("domain", place)

    def _url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, user, password = parts.hostname, parts.username, parts.password
        except ValueError:
            return
        for secret in (user, password):
            self.add("token", unquote(secret) if secret else None)
            self.add("token", secret)
        if host and not _is_address(host) and "." in host and not is_public(host):
            self.add("host", host)
        elif host and parts.scheme in {"s3", "gs", "az", "abfs", "hdfs", "nfs"} and not _is_address(host):
            self.add("name", host)
        if host and not is_public(host):
            self._path(parts.path)

    def _path(self, path: str) -> None:
        """Every part of a path below no folder of the system, up to the packages of Python, without a known suffix."""
        if path.startswith(SYSTEM_FOLDERS):
            return
        parts = path.split("/")
        for i, part in enumerate(parts):
            if part in PACKAGES:
                return
            is_home = i and parts[i - 1] in {"home", "Users", "users", "user"}
            stem, dot, suffix = part.rpartition(".")
            text = stem if dot and suffix.lower() in SUFFIXES else part
            if text.startswith("~"):
                self._user(text[1:])
            elif is_home and text.lower() in ACCOUNTS:
                continue
            elif not is_plain(text):
                self.add("name", text)

    def _dotted(self, name: str, hosts: set[str]) -> None:
        """`node-1.rest`, or a name below one of the top-level domains that clusters and sites use."""
        labels = name.lower().split(".")
        if (
            (labels[-1] in SUFFIXES and labels[-1] not in _DOMAINS)
            or is_public(name.lower())
            or name.lower().startswith("localhost")
        ):
            return
        if labels[0] in hosts and _LETTERS.match(labels[-1]) and not all(label in SUFFIXES for label in labels[1:]):
            self.add("domain", name.partition(".")[2])
        elif labels[-1] in (_DOMAINS if len(labels) > 2 else _SHORT_DOMAINS) and not any(
            label in own_words() for label in labels[:1]
        ):
            self.add("host", name)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _finds(texts: pl.Series, pattern: str) -> Iterator[str]:
    """Distinct names that a pattern finds, sorted."""
    whole = texts.str.extract_all(pattern).explode().drop_nulls().unique().sort()
    compiled = re.compile(pattern)
    seen: set[str] = set()
    for text in _strings(whole):
        for found in compiled.finditer(text):
            name = next((g for g in found.groups() if g), None)
            if name and name not in seen:
                seen.add(name)
                yield name


def _strings(values: pl.Series) -> Iterable[str]:
    return (str(value) for value in values)
