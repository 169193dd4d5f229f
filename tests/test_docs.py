"""The documentation says what the program does: commands, options, keys of definitions, generated pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from postmortem.analysis.confidence import WEIGHTS
from postmortem.analysis.docs import FEATURE_WORDS, TIER_WORDS, causes_page
from postmortem.analysis.signs import TIERS
from postmortem.catalogue.definition import MESSAGE_KEYS, TYPES, load_folders
from postmortem.cli import cli
from postmortem.cli.manual import manual, roff
from postmortem.cli.settings import BY_KEY
from postmortem.tables.docs import schema_page
from postmortem.tables.formats import formats_page

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _commands(group: click.Group, path: str = "postmortem") -> Iterator[tuple[str, click.Command]]:
    """(words, command) of every command below `group`, groups included."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


COMMANDS = dict(_commands(cli))


def _options() -> Iterator[tuple[str, click.Option]]:
    for words, command in COMMANDS.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield words, parameter


OPTIONS = [pytest.param(words, o, id=f"{words} {o.opts[-1]}") for words, o in _options()]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_and_is_shown_in_readme(words: str) -> None:
    assert COMMANDS[words].help
    if not isinstance(COMMANDS[words], click.Group):
        assert re.search(rf"^\$ (?:.*[|;] )?(?:[A-Z_]+=\S+ )*{words}\b", README, re.MULTILINE), (
            f"no output of {words} in README.md"
        )


@pytest.mark.parametrize(("words", "option"), OPTIONS)
def test_every_option_has_help_and_is_in_readme(words: str, option: click.Option) -> None:
    assert option.help
    for name in (*option.opts, *option.secondary_opts):
        assert f"`{name}" in README, f"README.md does not mention {name} of {words}"


@pytest.mark.parametrize("words", ["postmortem", *COMMANDS])
def test_help_texts_are_current(words: str) -> None:
    done = CliRunner().invoke(cli, [*words.split()[1:], "--help"], prog_name="postmortem", terminal_width=98)
    wanted = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"$ {words} --help\n{wanted}\n```" in page, "run python benchmarks/readme.py"


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for key, setting in BY_KEY.items():
        assert re.search(rf"^\| `{key}` \| [^|]+ \| `{setting.envvar}`", page, re.MULTILINE), key


def test_manual_page_is_current_and_whole() -> None:
    page = (ROOT / "docs" / "man" / "postmortem.1").read_text(encoding="utf-8")
    assert page == manual(), "run python -m postmortem.cli.manual > docs/man/postmortem.1"
    for words in COMMANDS:
        assert f"\n.SS {roff(words)}" in page, words
    for words, option in _options():
        for name in (*option.opts, *option.secondary_opts):
            assert re.search(rf"^\\fB(?:.* )?{re.escape(roff(name))}\b", page, re.MULTILINE), f"{name} of {words}"


def test_roff_prints_text_as_it_is() -> None:
    assert roff("a-b \\ c\n.TH x\n'y") == "a\\-b \\e c\n\\&.TH x\n\\&'y"


def test_the_manual_page_leaves_the_help_texts_as_they_are() -> None:
    """In a process of its own: a command that was asked before keeps its help option."""
    program = (
        "from click.testing import CliRunner; from postmortem.cli import cli; from postmortem.cli.manual import manual; manual()\n"
        "for name in cli.list_commands(None): print(CliRunner().invoke(cli, [name, '--help']).stdout.count('-h, --help'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"1"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on this machine")
def test_groff_has_no_complaint_about_the_manual_page() -> None:
    page = ROOT / "docs" / "man" / "postmortem.1"
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_schema_page_is_current() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    assert page == schema_page(), "run python -m postmortem.tables.docs > docs/schema.md"


def test_causes_page_is_current() -> None:
    page = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    assert page == causes_page(), "run python -m postmortem.analysis.docs > docs/causes.md"


def test_formats_page_is_current() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    wanted = formats_page(load_folders([ROOT / "parsers"]))
    assert page == wanted, "run python -m postmortem.tables.formats > docs/formats.md"


def test_every_message_says_where_it_is_printed() -> None:
    assert [m.id for m in load_folders([ROOT / "parsers"]) if not m.is_noise and not m.reference] == []


def test_tiers_and_features_have_words() -> None:
    assert set(TIER_WORDS) == set(TIERS)
    assert set(FEATURE_WORDS) >= set(WEIGHTS)


def test_every_key_and_type_of_definitions_is_documented() -> None:
    page = (ROOT / "docs" / "adding-a-format.md").read_text(encoding="utf-8")
    assert [k for k in sorted(MESSAGE_KEYS) if f"`{k}`" not in page] == []
    types = re.search(r"converter: `([a-z_ ]+)`", page)
    assert types is not None
    assert sorted(types[1].split()) == sorted(TYPES)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {h.lower().replace("`", "").replace(" ", "-") for h in heads}, f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_quoted_outputs_are_no_failures(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" not in text
    assert "/tmp/" not in text


def test_pictures_are_small_and_shown() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    pictures = {path.resolve() for path in (ROOT / "docs" / "pictures").iterdir()}
    assert pictures == shown, "run python benchmarks/pictures.py, or show what it takes"
    assert [path.name for path in pictures if path.stat().st_size >= 200_000] == []
    assert (ROOT / "docs" / "pictures" / "report.png").resolve() in shown
    assert all(path.read_bytes().startswith((b"\x89PNG", b"<svg ")) for path in pictures)


def test_every_page_is_reached_from_the_readme() -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8"))
        todo += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert set(PAGES) - reached == set()


BASH = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    """Also those that can't be run here: of each `postmortem …` in the text, verb and options are ours."""
    text = page.read_text(encoding="utf-8")
    spans = [
        *re.findall(r"`(postmortem [^`\n]+)`", text),
        *(line for block in BASH.findall(text) for line in block.splitlines()),
    ]
    for span in spans:
        for call in re.findall(r"(?:^|[ /$(\"'])postmortem ((?:[a-z]+ ?)+(?: ?[^|;>#&)]*)?)", span):
            words = call.split()
            name = next((w for w in (" ".join(words[:2]), words[0]) if f"postmortem {w}" in COMMANDS), None)
            assert name is not None, f"{page.name}: {span}"
            ours = {o for p in COMMANDS[f"postmortem {name}"].params for o in (*p.opts, *p.secondary_opts)}
            asked = {w.split("=")[0] for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w.split("=")[0])}
            assert asked <= ours | {"-h", "--help"}, f"{page.name}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_quoted_command_has_its_output(page: Path) -> None:
    """What a mark names stands below it with at least one line of output; `benchmarks/readme.py --check` compares the rest."""
    text = page.read_text(encoding="utf-8")
    for command, block in re.findall(
        r"<!-- output of[^:\n]*: ([^\n]+?) -->\n```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    ):
        first, *rest = block.splitlines() or [""]
        assert first == f"$ {command}", f"{page.name}: run python benchmarks/readme.py"
        assert rest, f"{page.name}: {command}"


def test_readme_holds_the_test_command() -> None:
    block = re.search(r"<!-- test command -->\n```sh\n(.+)\n```\n<!-- end -->", README)
    assert block is not None
    assert block[1].startswith("python3 -m venv .venv-test && ")
    assert block[1].endswith("-m pytest -n auto")
