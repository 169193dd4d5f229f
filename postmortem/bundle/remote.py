"""Bundles on a store that fsspec knows (object stores, HTTP, SSH): one listing, then streams.

fsspec and the client of a protocol are extras of the installation and imported when a URL is met. What a store or its
client raises becomes a StoreError with a sentence that holds neither credentials nor the signature of a URL.
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from postmortem.bundle.model import Problem, Unit
from postmortem.bundle.names import sanitise
from postmortem.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

EXTRAS: Final = {
    "s3": "s3",
    "s3a": "s3",
    "http": "http",
    "https": "http",
    "gs": "gs",
    "gcs": "gs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "sftp": "ssh",
    "ssh": "ssh",
}
"""Protocol → extra of this package that installs its client; other protocols need the client that fsspec names."""

BLOCK_BYTES: Final = 4 << 20
"""Bytes of one request. The next ones are fetched while these are parsed."""
BLOCKS_AHEAD: Final = 4
SMALL_BYTES: Final = 4 << 20
"""Files up to this size are fetched together, without asking for their size again: a request costs tens of milliseconds."""
TOGETHER_BYTES: Final = 32 << 20
MAX_WEB_DEPTH: Final = 32
CONNECT_S: Final = 30
SILENCE_S: Final = 120

_URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*(?:::[A-Za-z][A-Za-z0-9+.-]*)*://")
_SECRETS: Final = re.compile(r"(?<=://)[^/@\s]*@|(?<=[\w/.=%-])\?[^\s'\")]*")
_MTIMES: Final = ("LastModified", "last_modified", "mtime", "updated", "modified")
_MAX_SENTENCE: Final = 300


class StoreError(OSError):
    """A store refused, failed or is not there; the text is one sentence for the user."""


def is_url(text: str) -> bool:
    """`text` is a URL for fsspec; a path of this machine has no scheme."""
    return _URL.match(text) is not None


def shown(url: str) -> str:
    """`url` without user, password and query, which may be a signature."""
    return _SECRETS.sub("", url)


def base_name(url: str) -> str:
    """Last part of the path of `url`, or its host or bucket; empty only for `scheme://`."""
    parts = urlsplit(url)
    return unquote(posixpath.basename(parts.path.rstrip("/"))) or (parts.hostname or "")


def path_parts(url: str) -> tuple[str, ...]:
    """Host or bucket and the parts of the path, for telling URLs apart."""
    parts = urlsplit(url)
    return ((parts.hostname or "root"), *(unquote(p) for p in parts.path.split("/") if p))


def locate(url: str) -> tuple[Any, str]:
    """The fsspec file system of `url` and the path within it.

    Raises StoreError when the client is not installed, the protocol unknown, or the client refuses to start.
    """
    scheme = url.split("://", 1)[0].lower()
    if "::" in scheme:
        raise StoreError("URLs in URLs are not read: name the archive itself, it is unpacked here")
    extra = EXTRAS.get(scheme)
    try:
        import fsspec
    except ImportError:
        raise StoreError(f"needs fsspec: pip install 'postmortem-gpu[{extra or 'cluster'}]'") from None
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        how = f"pip install 'postmortem-gpu[{extra}]'" if extra else _sentence(error)
        raise StoreError(f"{scheme}:// needs a package that is not installed: {how}") from None
    except ValueError:
        raise StoreError(f"fsspec knows no protocol {scheme}://") from None
    with StoreErrors():
        # Not `fsspec.core.url_to_fs`, which takes `::` within a name for a chain of URLs.
        options = kind._get_kwargs_from_urls(url)
        if _is_web(url):
            options |= {"client_kwargs": _client_options(scheme), "encoded": "%" in url}
        return fsspec.filesystem(scheme, **options), str(kind._strip_protocol(url))


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _client_options(scheme: str) -> dict[str, Any]:
    """What the user configured for web clients, with bounds for silence instead of aiohttp's bound of 5 minutes for a whole file."""
    import aiohttp
    from fsspec.config import conf

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    return {"timeout": timeout, **conf.get(scheme, {}).get("client_kwargs", {})}


def unreachable(url: str) -> str | None:
    """Why what lies at `url` cannot be read from this machine, in a sentence; None when it can."""
    try:
        fs, path = locate(url)
        if not _is_web(url):
            with StoreErrors():
                fs.info(path)
    except OSError as error:
        return _sentence(error)
    return None


def list_units(root: str, name: str) -> tuple[list[Unit], list[Problem], bool]:
    """(units, problems, `root` is a single file) of what lies at and below `root`, listed once.

    Names begin with `name`. Raises UsageError when the store cannot be asked or has nothing there.
    """
    try:
        return _list(root, name)
    except OSError as error:
        raise UsageError(f"{shown(root)}: cannot be read: {_sentence(error)}") from None


def _list(root: str, name: str) -> tuple[list[Unit], list[Problem], bool]:
    fs, path = locate(root)
    is_web = _is_web(root)
    with StoreErrors():
        fs.invalidate_cache()
        # A web server tells no folder from a file: the slash at the end does.
        about = {"type": "directory"} if is_web and urlsplit(root).path.endswith("/") else fs.info(path)
        if about.get("type") != "directory":
            return [Unit(root, name, int(about.get("size") or 0), is_archive=False, mtime=_mtime(about))], [], True
        # Listings of the web are whatever a server links to; those of object stores come flat, without folders to go into.
        depth = {"maxdepth": MAX_WEB_DEPTH} if is_web else {}
        found: dict[str, dict[str, Any]] = fs.find(path, detail=True, **depth)
        unsized = [key for key, entry in found.items() if entry.get("size") is None]
        for key, size in zip(unsized, fs.sizes(unsized) if unsized else (), strict=True):
            found[key]["size"] = size
    units, problems = [], []
    base = path.rstrip("/") + "/"
    for key, entry in sorted(found.items()):
        inner = key.removeprefix("/" if not path.strip("/") else base) if key.startswith(base) or base == "/" else ""
        if not inner or inner.endswith("/"):
            continue  # a marker of a folder, or what a prefix without a slash matched beside it
        label = posixpath.join(name, unquote(inner) if is_web else inner)
        if entry.get("type") not in (None, "file"):
            problems.append(Problem(sanitise(label), f"no plain file ({entry.get('type')}): not read"))
            continue
        url = root.split("?", 1)[0].rstrip("/") + "/" + inner if is_web else root.rstrip("/") + "/" + inner
        units.append(Unit(url, label, int(entry.get("size") or 0), is_archive=False, mtime=_mtime(entry)))
    return units, problems, False


def _mtime(entry: dict[str, Any]) -> float | None:
    """Seconds since 1970 UTC, under whatever name and type a client tells it."""
    value = next((entry[key] for key in _MTIMES if entry.get(key) is not None), None)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value) if isinstance(value, int | float) else None


def open_url(url: str) -> RemoteFile:
    """The bytes at `url`, read in blocks while earlier ones are parsed, or as one stream. Raises StoreError."""
    fs, path = locate(url)
    with StoreErrors():
        options = {"maxblocks": BLOCKS_AHEAD}
        file = fs.open(path, "rb", block_size=BLOCK_BYTES, cache_type="background", cache_options=options)
        size = getattr(file, "size", None)
        if not _is_web(url):
            return RemoteFile(file, size)
        if size is not None and (size <= BLOCK_BYTES or _gives_ranges(fs, path, size)):
            return RemoteFile(file, size)
        file.close()
        return RemoteFile(fs.open(path, "rb", block_size=0), size, can_seek=False)


def _gives_ranges(fs: Any, path: str, size: int) -> bool:
    """A web server sends a part of a file when asked for one; many send the whole file each time."""
    with fs.open(path, "rb", block_size=1, cache_type="none", size=size) as file:
        file.seek(size - 1)
        try:
            return len(file.read(1)) == 1
        except ValueError:
            return False


def fetched(units: Sequence[Unit]) -> Iterator[tuple[Unit, bytes | OSError | None]]:
    """Each of `units` in order; small remote ones with their bytes or why there are none, the others with None."""
    group: list[Unit] = []
    size = 0
    for unit in units:
        if is_url(unit.fs_path) and 0 < unit.size <= SMALL_BYTES:  # 0 also stands for unknown
            if group and size + unit.size > TOGETHER_BYTES:
                yield from _together(group)
                group, size = [], 0
            group.append(unit)
            size += unit.size
        else:
            yield from _together(group)
            group, size = [], 0
            yield unit, None
    yield from _together(group)


def _together(units: Sequence[Unit]) -> Iterator[tuple[Unit, bytes | OSError | None]]:
    """`units`, all small, with as few waits as the client allows."""
    for_one: dict[int, tuple[Any, dict[str, Unit]]] = {}
    got: dict[str, bytes | OSError] = {}
    for unit in units:
        try:
            fs, path = locate(unit.fs_path)
        except OSError as error:
            got[unit.fs_path] = error
            continue
        for_one.setdefault(id(fs), (fs, {}))[1][path] = unit
    for fs, by_path in for_one.values():
        try:
            with StoreErrors():
                # `cat` of one path gives bytes, of a list a dict.
                answers: dict[str, bytes | Exception] = fs.cat(list(by_path), on_error="return")
        except OSError as error:
            got.update((unit.fs_path, error) for unit in by_path.values())
            continue
        for path, unit in by_path.items():
            answer = answers.get(path, FileNotFoundError())
            got[unit.fs_path] = answer if isinstance(answer, bytes) else StoreError(_sentence(answer))
    for unit in units:
        yield unit, got[unit.fs_path]


class RemoteFile(io.RawIOBase):
    """A file of fsspec whose errors are StoreErrors; `size` is None where the server does not tell it."""

    def __init__(self, inner: Any, size: int | None, can_seek: bool = True) -> None:
        super().__init__()
        self._inner = inner
        self.size = size
        self._can_seek = can_seek and size is not None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._can_seek

    def read(self, count: int = -1, /) -> bytes:
        with StoreErrors():
            return bytes(self._inner.read(count))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with StoreErrors():
            return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None:
        if not self.closed:
            with StoreErrors():
                self._inner.close()
        super().close()


@dataclass(slots=True)
class StoreErrors:
    """Whatever the client of a store raises inside comes out as a StoreError: each client has exceptions of its own."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, StoreError):
            raise StoreError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """What `error` says, in one line without secrets."""
    if isinstance(error, StoreError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        # For fsspec a web server that is away or refuses is a file that is not there.
        cause = error.__cause__
        status = getattr(cause, "status", None)
        if status not in (None, 404, 410):
            return f"the server answers {status}"
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            return f"the server cannot be reached: {_sentence(cause)}"
        return "there is no such file or folder"
    if isinstance(error, PermissionError):
        return "access denied: credentials of this machine do not allow it"
    if isinstance(error, TimeoutError):
        return "the store did not answer in time"
    lines = str(error).strip().splitlines()
    return _SECRETS.sub("", lines[0])[:_MAX_SENTENCE] if lines else type(error).__name__
