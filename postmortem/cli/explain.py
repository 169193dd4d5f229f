"""`postmortem explain`: what a code, a cause, an event or a line means."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import click

from postmortem.cli.examples import examples
from postmortem.cli.forms import text_or_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from postmortem.analysis.explain import Explanation

KINDS = ("xid", "sxid", "status", "vendor", "async", "exit", "nccl", "cause", "event", "line")
"""Those of postmortem.analysis.explain; written out so that --help imports nothing."""
WIDTH = 98


def _values(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes or names of the kind at hand, with their meaning."""
    from click.shell_completion import CompletionItem

    from postmortem.analysis.explain import CODE_ROWS, listed, numbers

    kind = ctx.params.get("kind", "line")
    rows = listed(kind) if kind in KINDS and kind != "line" else []
    if kind in CODE_ROWS:  # listed as ranges
        rows = [(str(number), meaning) for text, meaning in rows for number in numbers(text)]
    return [CompletionItem(value, help=meaning or None) for value, meaning in rows if value.startswith(incomplete)]


@click.command(
    "explain",
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "postmortem explain xid 79",
        "postmortem explain exit -9",
        "postmortem explain cause",
        "postmortem explain line 'NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.'",
    ),
)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("value", required=False, shell_complete=_values)
@text_or_json
def command(kind: str, value: str | None, form: str) -> None:
    """Say what a code of a log means, which causes it speaks for and what to do.

    Without VALUE all of KIND are listed. Codes: xid and sxid (NVIDIA driver), status, vendor and async (verbs), exit
    (processes), nccl (results of NCCL). `explain line 'TEXT'` says what a log line is recognised as.
    """
    from dataclasses import asdict

    from postmortem.analysis.explain import explain, listed

    if value is None:
        rows = listed(kind)
        if form == "json":
            click.echo(json.dumps([{"value": v, "meaning": m} for v, m in rows], ensure_ascii=False, indent=1))
            return
        for name, meaning in rows:
            click.echo("\n".join(_wrapped(name, meaning)) if meaning else name)
        return
    found = explain(kind, value)
    if form == "json":
        click.echo(json.dumps(asdict(found), ensure_ascii=False, indent=1))
        return
    for line in lines_of(found):
        click.echo(line)


def _wrapped(name: str, text: str) -> list[str]:
    """`name  text` with the text in a column of its own."""
    if len(name) > 24:
        return [*_filled(name, "", ""), *_filled(text, "    ", "    ")]
    return _filled(text, f"{name}  ", " " * (len(name) + 2)) or [name]


def _filled(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def lines_of(found: Explanation) -> list[str]:
    """The explanation as text, escape characters of a quoted line made visible."""
    from postmortem.analysis.explain import tier_words
    from postmortem.report.figures import visible

    out = [visible(found.heading)]
    for name, text in found.facts:
        out += _wrapped(f"  {name}:", visible(text))
    if found.signs:
        out.append("speaks for")
        for sign in found.signs:
            where = f"; only where {sign.only_where}" if sign.only_where else ""
            out += _wrapped(f"  {sign.cause}", f"weight {sign.weight:g}, {tier_words(sign.tier)}{where}")
    for head, steps in (("what to do", found.steps), ("what to collect", found.collect), ("sources", found.sources)):
        if steps:
            out.append(head)
            for step in steps:
                out += _filled(step, "  - ", "    ")
    return out
