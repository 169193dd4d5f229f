"""Plain data worked out from files that seldom change, kept as JSON beside Python's own compiled files.

Like those it can be removed at any time, is made again when its inputs change, and is done without where it can't be written.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any


def _folder() -> Path:
    """Where Python keeps the compiled form of this module (PYTHONPYCACHEPREFIX is heeded)."""
    return Path(cache_from_source(__file__)).parent


def place(name: str) -> Path:
    """The file `name` among those that can be removed at any time."""
    return _folder() / name


def prepared(name: str, inputs: bytes, make: Callable[[], Any]) -> Any:
    """What `make` gives (JSON types only), from the file of an earlier call with the same `inputs` if there is one."""
    digest = hashlib.sha256(inputs).hexdigest()[:24]
    path = _folder() / f"{name}-{digest}.json"
    with suppress(OSError, ValueError):
        return json.loads(path.read_bytes())
    made = make()
    with suppress(OSError, TypeError, ValueError):
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
        for old in path.parent.glob(f"{name}-*.json"):
            if old != path:
                old.unlink()
    return made


def prepared_toml(package: str, name: str) -> Any:
    """The TOML file `name` of a package, which must hold no dates: reading it as JSON takes a tenth of the time."""
    text = files(package).joinpath(name).read_bytes()
    return prepared(name.removesuffix(".toml"), text, lambda: tomllib.loads(text.decode("utf-8")))
