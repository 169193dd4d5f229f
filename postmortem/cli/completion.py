"""`postmortem completion`: the script that makes a shell complete commands, options and values."""

from __future__ import annotations

import click

from postmortem.cli.examples import examples


@click.command(
    "completion",
    epilog=examples(
        "echo 'eval \"$(postmortem completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(postmortem completion zsh)\"' >> ~/.zshrc",
        "postmortem completion fish > ~/.config/fish/completions/postmortem.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print the completion script of SHELL, to be read by its start-up file."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "postmortem", "_POSTMORTEM_COMPLETE").source(), nl=False)
