"""The type of arguments that name a bundle: a path of this machine or a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _Type = click.ParamType[Path | str]
else:
    _Type = click.ParamType  # takes no parameter in older versions


class BundlePath(_Type):
    """A Path, or a string where it is a URL (`s3://bucket/job`): pathlib would fold its two slashes into one."""

    name = "path"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        return value if isinstance(value, str) and "://" in value and not Path(value).exists() else Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Shells complete paths themselves."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


BUNDLE = BundlePath()
