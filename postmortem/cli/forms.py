"""The option that chooses between a text for people and JSON for scripts."""

from __future__ import annotations

import click

text_or_json = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
