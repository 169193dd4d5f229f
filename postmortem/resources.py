"""The one place that finds the data folders parsers/ and reports/.

In a wheel they lie inside the package, in a checkout beside it; the package is looked at first.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from postmortem.errors import PostmortemError


def data_folder(name: str) -> Path:
    """Path of the data folder `name` (`parsers` or `reports`).

    Raises PostmortemError when the installation lacks it.
    """
    package = Path(str(files("postmortem")))
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise PostmortemError(f"the installation lacks its folder {name}/: install postmortem again")
