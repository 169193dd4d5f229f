"""Options that may also stand in the environment or in a config file, and where each value came from.

The option on the command line wins over the environment, that over the config file, that over the default. The config file is the user's own;
none is looked for in the working folder, which may hold logs of unknown origin.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from postmortem.errors import UsageError
from postmortem.tables.switch_names import SwitchName, switch_name
from postmortem.zone import seconds_east

if TYPE_CHECKING:
    from postmortem.incident import Options
    from postmortem.report.html import Theme

VARIABLE: Final = "POSTMORTEM_CONFIG"
LIMIT: Final = 100_000
"""A larger file is no config file."""
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Config:
    """What a config file says: value and line per key. `path` is None where there is no file."""

    path: Path | None
    values: Mapping[str, Any]
    lines: Mapping[str, int]
    is_named: bool = False
    """The environment names it; else it is the user's own."""


class Setting(click.Option):
    """An option whose value is also taken from `POSTMORTEM_<NAME>` and from the config file, under its long name."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.key = max(self.opts, key=len).removeprefix("--")
        self.envvar = "POSTMORTEM_" + self.key.replace("-", "_").upper()

    def consume_value(self, ctx: click.Context, opts: Mapping[str, click.Parameter]) -> tuple[Any, ParameterSource]:
        """As click does it, the config file between environment and default."""
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.DEFAULT and not ctx.resilient_parsing:
            config = config_of(ctx)
            if self.key in config.values:
                return config.values[self.key], ParameterSource.DEFAULT_MAP
        if source is ParameterSource.ENVIRONMENT:
            self.cast(ctx, value, str(self.envvar))
        return value, source

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does it; NaN and infinity, which lie in every open range, are no numbers here."""
        found = super().type_cast_value(ctx, value)
        if isinstance(found, float) and not math.isfinite(found):
            raise click.BadParameter(f"{found} is no number to reckon with", ctx, self)
        return found

    def cast(self, ctx: click.Context, value: Any, place: str) -> Any:
        """The value as the command gets it. Raises UsageError naming `place` where it does not fit."""
        try:
            return self.type_cast_value(ctx, value)
        except click.BadParameter as error:
            raise UsageError(f"{place}: {error.message.rstrip('.')}") from error

    def origin(self, ctx: click.Context) -> str:
        """Where the value of a parsed context came from, in words."""
        assert self.name is not None
        match ctx.get_parameter_source(self.name):
            case ParameterSource.COMMANDLINE:
                return f"option --{self.key}"
            case ParameterSource.ENVIRONMENT:
                return f"environment, {self.envvar}"
            case ParameterSource.DEFAULT_MAP:
                config = config_of(ctx)
                return f"{config.path}:{config.lines[self.key]}"
            case _:
                return "default"


if TYPE_CHECKING:
    _Type = click.ParamType[str]
    _Rule = click.ParamType[SwitchName]
else:
    _Type = _Rule = click.ParamType  # takes no parameter in older versions


class Zone(_Type):
    """An offset from UTC, kept as it is written."""

    name = "offset"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            seconds_east(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return value


class SwitchNames(_Rule):
    """`PATTERN=NAME`, or the two of a TOML table; in the environment one a line."""

    name = "switch name"
    envvar_list_splitter = "\n"

    def convert(
        self, value: str | tuple[str, str] | SwitchName, param: click.Parameter | None, ctx: click.Context | None
    ) -> SwitchName:
        if isinstance(value, SwitchName):
            return value
        pattern, _, known = value.rpartition("=") if isinstance(value, str) else (value[0], "", value[1])
        try:
            return switch_name(pattern.strip(), known.strip())
        except UsageError as error:
            self.fail(str(error), param, ctx)


_PATH: Final = click.Path(path_type=Path)
_MORE_THAN_0: Final = click.FloatRange(min=0, min_open=True)
_OPTIONS: Final[Mapping[str, dict[str, Any]]] = {
    "--parsers": {
        "multiple": True,
        "type": _PATH,
        "help": "Folder of your own format definitions; may be given again.",
    },
    "--template": {
        "type": _PATH,
        "help": "Folder with head.html and style.css of your own for the HTML report.",
    },
    "--theme": {
        "type": click.Choice(["auto", "light", "dark"]),
        "default": "auto",
        "show_default": True,
        "help": "Colours of the HTML report: the reader's system decides, or always the same.",
    },
    "--workers": {"type": click.IntRange(min=1), "help": "Worker processes; default: one per processor."},
    "--scheduler": {
        "metavar": "ADDRESS",
        "help": "Parse on a Dask cluster: tcp://head:8786, or its scheduler file.",
    },
    "--spool": {
        "metavar": "PLACE",
        "help": "Folder or URL for rows between parsing and analysis, seen by all workers; emptied at the end.",
    },
    "--zone": {
        "type": Zone(),
        "help": "Zone of clocks that no line tells it of: an offset such as +08:00; default: UTC.",
    },
    "--switch-names": {
        "multiple": True,
        "type": SwitchNames(),
        "metavar": "PATTERN=NAME",
        "help": "Name that a switch goes by, for a printed name or a pattern of such names; may be given again.",
    },
    "--gpu-hour-price": {
        "type": click.FloatRange(min=0),
        "help": "Price of a GPU-hour; without it no money is printed.",
    },
    "--mtbf-hours": {
        "type": _MORE_THAN_0,
        "help": "Mean time between failures of such jobs, for the advice on checkpoints.",
    },
    "--energy/--no-energy": {
        "default": False,
        "help": "Print the energy of what was lost, too (needs readings or --gpu-watts).",
    },
    "--gpu-watts": {
        "type": _MORE_THAN_0,
        "help": "Power of a busy GPU, where the bundle has no readings; asks for --energy.",
    },
    "--pue": {
        "type": click.FloatRange(min=1),
        "default": 1.0,
        "show_default": True,
        "help": "Power usage effectiveness, for --energy.",
    },
    "--redact/--no-redact": {
        "default": False,
        "help": "Mask hosts, addresses, users, paths, mails and secrets in every output.",
    },
    "--limit": {
        "multiple": True,
        "metavar": "NAME=VALUE",
        "help": "Bound on unpacking a file: size=200G, ratio=1000, members=1M, depth=6, zip=4G (a zip in an archive); may be given again.",
    },
    "--cache/--no-cache": {
        "default": True,
        "help": "Keep the rows of parsed bundles and use them again when the same bundle comes again.",
    },
    "--cache-folder": {"type": _PATH, "help": "Where rows are kept; default: postmortem in the user's cache folder."},
}
BY_KEY: Final = {one.key: one for one in (Setting([names], **attrs) for names, attrs in _OPTIONS.items())}


@dataclass(frozen=True, slots=True)
class Values:
    """The settings of one run."""

    parsers: tuple[Path, ...]
    template: Path | None
    theme: Theme
    workers: int | None
    scheduler: str | None
    spool: str | None
    cache: bool
    cache_folder: Path | None
    zone: str | None
    switch_names: tuple[SwitchName, ...]
    gpu_hour_price: float | None
    mtbf_hours: float | None
    energy: bool
    gpu_watts: float | None
    pue: float
    redact: bool
    limit: tuple[str, ...]

    def options(self, *, context: bool) -> Options:
        """How to analyse. `context`: evidence gets its neighbouring lines. Raises UsageError for a limit that is none."""
        from postmortem.bundle.limits import Limits, raised
        from postmortem.incident import Options, asked

        return Options(
            parsers=self.parsers,
            workers=self.workers,
            scheduler=self.scheduler,
            spool=self.spool,
            cache=self._cache(),
            price=self.gpu_hour_price,
            asked=asked(self.mtbf_hours, self.energy, self.gpu_watts, self.pue),
            context=context,
            limits=raised(Limits(), self.limit),
            zone_s=None if self.zone is None else seconds_east(self.zone),
            switch_names=self.switch_names,
            redact=self.redact,
        )

    def _cache(self) -> Path | None:
        return (self.cache_folder or _user_cache()) if self.cache else None

    def may_be_kept(self) -> bool:
        """The cache holds something, so the rows of the bundle may be there."""
        cache = self._cache()
        try:
            return cache is not None and any(cache.iterdir())
        except OSError:
            return False


def settings(*keys: str) -> Callable[[Command], Command]:
    """A decorator that gives a command the options of `keys`, all without arguments."""

    def add(function: Command) -> Command:
        for key, (names, attrs) in reversed(tuple(zip(BY_KEY, _OPTIONS.items(), strict=True))):
            if not keys or key in keys:
                function = click.option(names, cls=Setting, **attrs)(function)
        return function

    return add


def standing() -> Values:
    """The values that environment and config file give, for commands that analyse a bundle on their way."""
    current = click.get_current_context()
    alone = click.Command("settings", params=list(BY_KEY.values()), add_help_option=False)
    return Values(**alone.make_context("settings", [], parent=current).params)


def config_of(ctx: click.Context) -> Config:
    """The config file of this run, read once.

    Raises UsageError when it can't be read, holds an unknown key or a value of the wrong type.
    """
    root = ctx.find_root()
    if not isinstance(root.obj, Config):
        root.obj = load()
    return root.obj


def load() -> Config:
    """The file that the environment names, else the user's own where it exists."""
    named = os.environ.get(VARIABLE)
    path = Path(named).expanduser() if named else user_file()
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise UsageError(f"{path} is larger than {LIMIT:,} bytes: that is no config file")
        text = data.decode("utf-8")
        found = tomllib.loads(text)
    except FileNotFoundError:
        if named:
            raise UsageError(f"{path} does not exist: {VARIABLE} must name a config file") from None
        return Config(None, {}, {})
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error
    lines = _lines(text, found)
    values = {key: _checked(key, value, path, lines[key]) for key, value in found.items()}
    return Config(path, values, lines, is_named=bool(named))


def user_file() -> Path:
    """Where the user's own config file lies, whether or not it exists."""
    from platformdirs import user_config_path

    return user_config_path("postmortem", appauthor=False) / "config.toml"


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("postmortem", appauthor=False)


def outside(bundles: Iterable[Path | str]) -> None:
    """Refuse a config file that the environment names inside one of `bundles`: what is analysed must not say how."""
    config = config_of(click.get_current_context())
    if config.path is None or not config.is_named:
        return
    for bundle in bundles:
        if isinstance(bundle, Path) and config.path.resolve().is_relative_to(bundle.resolve()):
            raise UsageError(f"{config.path} lies in the bundle {bundle}: keep the config file of {VARIABLE} elsewhere")


def _lines(text: str, found: Mapping[str, Any]) -> dict[str, int]:
    """The line on which each top-level key begins: it follows the longest beginning of the text that is whole without it."""
    lines: dict[str, int] = {}
    rows = text.splitlines(keepends=True)
    whole = 0
    for at in range(1, len(rows) + 1):
        try:
            keys = tomllib.loads("".join(rows[:at]))
        except tomllib.TOMLDecodeError:
            continue
        for key in keys:
            lines.setdefault(key, whole + 1)
        whole = at
    return {key: lines.get(key, 1) for key in found}


def _checked(key: str, value: object, path: Path, line: int) -> Any:
    """The value as click would have it from the command line, before its type is applied; paths are relative to the file."""
    setting = BY_KEY.get(key)
    if setting is None:
        near = difflib.get_close_matches(key.replace("_", "-"), BY_KEY, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY_KEY)}"
        raise UsageError(f"{path}:{line}: there is no key {key}: {hint}")
    wanted, word = _wanted(setting)
    many = value if isinstance(value, list) and setting.multiple else [value]
    if isinstance(setting.type, SwitchNames):
        many = list(value.values()) if isinstance(value, dict) else [None]
    if any(isinstance(one, bool) != (wanted is bool) or not isinstance(one, wanted) for one in many):
        raise UsageError(f"{path}:{line}: {key} must be {word}, not {value!r}")
    if isinstance(value, dict):
        many = list(value.items())
    if isinstance(setting.type, click.Path):
        many = [path.parent / Path(str(one)).expanduser() for one in many]
    given = many if setting.multiple else many[0]
    setting.cast(click.Context(click.Command("config")), given, f"{path}:{line}: {key}")
    return given


def _wanted(setting: Setting) -> tuple[type | tuple[type, ...], str]:
    """The Python type that TOML must give, and its name in words."""
    if setting.is_flag:
        return bool, "true or false"
    if isinstance(setting.type, SwitchNames):
        return str, "a table of names"
    if isinstance(setting.type, click.types.IntParamType):
        return int, "a whole number"
    if isinstance(setting.type, click.types.FloatParamType):
        return (int, float), "a number"
    return str, "a text or a list of texts" if setting.multiple else "a text"
