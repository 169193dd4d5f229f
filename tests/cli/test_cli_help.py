"""Help and completion: examples that parse, scripts that shells can read, values that are offered."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from test_cli_errors import Run, check

from postmortem.cli import cli

ROOT = Path(__file__).resolve().parent.parent.parent


def _commands(group: click.Group, words: str = "postmortem") -> Iterator[tuple[str, click.Command]]:
    yield words, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


COMMANDS = dict(_commands(cli))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_examples_that_parse(words: str) -> None:
    epilog = COMMANDS[words].epilog or ""
    assert epilog.startswith("\b\nExamples:\n  "), "see postmortem.cli.examples"
    lines = [line.strip() for line in epilog.splitlines()[2:]]
    assert any(words in line for line in lines)
    for line in lines:
        # Of what the shell runs: the part that begins with our name.
        found = re.search(r"\bpostmortem (.+?)(?: [|>] .*|\)\".*)?$", line)
        assert found is not None
        if "COMMAND" in line:
            continue
        arguments = shlex.split(found[1])
        command: click.Command = cli
        ctx = cli.make_context("postmortem", list(arguments), resilient_parsing=False)
        while isinstance(command, click.Group):
            _, inner, arguments = command.resolve_command(ctx, arguments)
            assert inner is not None
            command = inner
        command.make_context("x", arguments, parent=ctx)


def offered(*words: str) -> list[str]:
    """What a shell would offer for the last of `words`."""
    *before, last = words
    return [one.value for one in ShellComplete(cli, {}, "postmortem", "_X").get_completions(before, last)]


def test_what_is_offered() -> None:
    assert offered("ex") == ["export", "explain"]
    assert "--gpu-hour-price" in offered("analyze", "--g")
    assert offered("query", "x", "--format", "") == ["table", "csv", "json", "parquet"]
    assert offered("explain", "x") == ["xid"]
    assert offered("explain", "xid", "79") == ["79"]
    assert {"40", "41"} <= set(offered("explain", "xid", "4")), "ranges are taken apart"
    assert offered("explain", "cause", "link_f") == ["link_flap"]
    assert offered("explain", "line", "") == []
    assert offered("explain", "event", "gpu.xi") == ["gpu.xid"]
    assert offered("analyze", "/et") == ["/et"]


def test_a_broken_config_file_does_not_stop_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text("nonsense = 1")
    monkeypatch.setenv("POSTMORTEM_CONFIG", str(tmp_path / "c.toml"))
    assert "--redact" in offered("analyze", "--pue", "1.2", "--r")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_the_shell_can_read(postmortem: Run, tmp_path: Path, shell: str) -> None:
    result = postmortem("completion", shell)
    check(result, 0)
    assert f"_POSTMORTEM_COMPLETE={shell}_complete" in result.stdout
    program = shutil.which(shell)
    if program is not None:
        (tmp_path / "script").write_text(result.stdout)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True, timeout=30)
    check(postmortem("completion", "tcsh"), 2)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_bash_completes(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(postmortem("completion", "bash").stdout)
    launcher = tmp_path / "postmortem"
    launcher.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom postmortem.cli import main\nmain()\n"
    )
    launcher.chmod(0o755)
    line = 'source ./script; COMP_WORDS=(./postmortem expl); COMP_CWORD=1; _postmortem_completion ./postmortem; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "explain\n"
