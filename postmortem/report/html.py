"""The HTML report: one file that needs no network and nothing beside it, and can be read where no script runs."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import duckdb
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from postmortem.analysis.model import Analysis
from postmortem.errors import UsageError
from postmortem.report.compiled import Compiled
from postmortem.report.figures import visible
from postmortem.report.view import build
from postmortem.resources import data_folder

BRAND_LIMIT: Final = 1_000_000

Theme = Literal["auto", "light", "dark"]
"""Colours of the page on a screen: as the reader's system has them, or always the same. Paper is white."""

_DARK: Final = "@media (prefers-color-scheme: dark)"
_SCHEMES: Final = "color-scheme: light dark;"

UPLOT: Final = "vendor/uplot-1.6.32"
"""The plot library, unchanged from its npm package; reports/vendor/SHA256SUMS holds its hashes."""


@dataclass(frozen=True, slots=True)
class Inline:
    """A style sheet or script of ours: its text, and the hash by which the page's policy allows it."""

    text: Markup
    hash: str


def inline(*paths: Path) -> Inline:
    """The files as one element."""
    return _element("\n".join(map(_text, paths)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip("\n")


def _themed(style: str, theme: Theme) -> str:
    """Our style sheet for one theme: what holds for dark systems holds on every screen, or on none."""
    if theme == "auto":
        return style
    everywhere = style.replace(_DARK, "@media screen" if theme == "dark" else "@media not all")
    return everywhere.replace(_SCHEMES, f"color-scheme: {theme};")


def _element(text: str) -> Inline:
    # Ours or the company's, not the bundle's: autoescape must not turn its quotes into entities.
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return Inline(Markup(text), f"sha256-{digest}")


@dataclass(frozen=True, slots=True)
class Brand:
    """A company's own head of the page (HTML) and style sheet, as they are in its files."""

    head: str = ""
    style: str = ""


def brand(folder: Path) -> Brand:
    """The files `head.html` and `style.css` of a folder, one of which may be missing.

    They are put into the page as they are and are no templates; the page's policy forbids scripts and requests of theirs. Raises UsageError when the folder has neither, or
    one is too large or no text.
    """
    found = {}
    for name in ("head.html", "style.css"):
        try:
            if (folder / name).is_file():
                found[name] = (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{folder / name} can't be read as UTF-8 text: {error}") from error
        if len(found.get(name, "")) > BRAND_LIMIT:
            raise UsageError(f"{folder / name} is larger than {BRAND_LIMIT:,} characters: make it smaller")
    if "</style" in found.get("style.css", "").lower():
        raise UsageError(f"{folder / 'style.css'} holds the end of a style element: write style rules only")
    if not found:
        raise UsageError(f"{folder} has neither head.html nor style.css: give a folder with one of them")
    return Brand(found.get("head.html", ""), found.get("style.css", ""))


NO_BRAND: Final = Brand()


def render(
    analysis: Analysis, con: duckdb.DuckDBPyConnection, version: str, company: Brand = NO_BRAND, theme: Theme = "auto"
) -> str:
    """The report as text; the same analysis and tables give the same bytes.

    `con` holds the public tables, any of which may be empty. Bulk is cut (the page says how much),
    so that the file stays below 10 MB whatever the bundle holds. `company` comes first on the page and last in the style sheet.
    Raises UsageError for a theme that does not exist.
    """
    if theme not in get_args(Theme):
        raise UsageError(f"{theme!r} is no theme: give {', '.join(get_args(Theme)[:-1])} or {get_args(Theme)[-1]}")
    folder = data_folder("reports")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        bytecode_cache=Compiled(Path(__file__).read_bytes()),
    )
    page = build(analysis, con, version)
    styles, scripts = [_element(_themed(_text(folder / "report.css"), theme))], [inline(folder / "report.js")]
    if page.step_data is not None:
        styles.append(inline(folder / UPLOT / "uPlot.min.css"))
        scripts.insert(0, inline(folder / UPLOT / "uPlot.iife.min.js"))
    if company.style:
        styles.append(_element(company.style))
    head = Markup(company.head)
    template = environment.get_template("report.html")
    return template.render(page=page, styles=styles, scripts=scripts, head=head, theme=theme)


def _printable(value: object) -> object:
    # The net under the view model: no string reaches the page with a control or bidi character in it.
    return visible(value) if type(value) is str else value
