"""`postmortem config`: the settings of a run and where each comes from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from postmortem.cli.examples import examples
from postmortem.cli.forms import text_or_json
from postmortem.cli.settings import BY_KEY, VARIABLE, config_of, settings, user_file
from postmortem.tables.switch_names import SwitchName


@click.command(
    "config",
    epilog=examples(
        "postmortem config",
        "postmortem config --example > ~/.config/postmortem/config.toml",
        "POSTMORTEM_CONFIG=team.toml postmortem config --format json",
    ),
)
@settings()
@text_or_json
@click.option("--example", is_flag=True, help="Print a config file with every key, commented out.")
@click.pass_context
def command(ctx: click.Context, /, form: str, example: bool, **values: object) -> None:
    """Print each setting, its value, and where the value comes from: option, environment, config file or default.

    The config file is TOML; its keys are the long options below. POSTMORTEM_CONFIG names the file, else it is
    postmortem/config.toml in the user's config folder. A setting's variable is POSTMORTEM_ and its name, such as
    POSTMORTEM_GPU_HOUR_PRICE.
    """
    if example:
        click.echo(_example(), nl=False)
        return
    rows = [(key, values[one.name or ""], one.origin(ctx)) for key, one in BY_KEY.items()]
    if form == "json":
        found = [{"key": key, "value": _plain(value), "from": origin} for key, value, origin in rows]
        click.echo(json.dumps(found, ensure_ascii=False, indent=1))
        return
    from postmortem.report.figures import visible

    texts = [(key, visible(_text(value)), visible(origin)) for key, value, origin in rows]
    widths = [max(len(row[at]) for row in texts) for at in (0, 1)]
    for key, text, origin in texts:
        click.echo(f"{key:<{widths[0]}}  {text:<{widths[1]}}  {origin}")
    config = config_of(ctx)
    click.echo(f"config file: {config.path or f'none ({user_file()} does not exist, {VARIABLE} is not set)'}", err=True)


def _plain(value: object) -> object:
    if isinstance(value, SwitchName):
        return {"pattern": value.pattern, "name": value.name}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


_SHOWN = {
    "parsers": '["formats"]',
    "template": '"brand"',
    "theme": '"dark"',
    "workers": "8",
    "scheduler": '"tcp://head:8786"',
    "spool": '"/scratch/spool"',
    "zone": '"+08:00"',
    "switch-names": """{ '(leaf-[0-9]+)\\.dc1\\.example' = "$1", '0xb8599f0300aa0001' = "spine-2" }""",
    "gpu-hour-price": "2.5",
    "mtbf-hours": "48",
    "energy": "true",
    "gpu-watts": "650",
    "pue": "1.2",
    "redact": "true",
    "limit": '["size=500G"]',
    "cache": "false",
    "cache-folder": '"/scratch/postmortem"',
}


def _example() -> str:
    """A config file in which every key is a comment."""
    head = "# Settings of postmortem; paths are relative to this file. `postmortem config` prints what holds.\n"
    return head + "".join(f"\n# {one.help}\n# {key} = {_SHOWN[key]}\n" for key, one in BY_KEY.items())
