"""Settings: what wins over what, where a value came from, what is refused, and that a bundle can't set anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_cli_errors import XID, Run, check

from postmortem.cli.settings import BY_KEY, load, user_file


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that POSTMORTEM_CONFIG names, empty."""
    path = tmp_path / "settings" / "team.toml"
    path.parent.mkdir()
    path.write_text("")
    monkeypatch.setenv("POSTMORTEM_CONFIG", str(path))
    return path


def shown(run: Run, *arguments: str) -> dict[str, tuple[Any, str]]:
    """Value and origin of each setting."""
    result = run("config", "--format", "json", *arguments)
    check(result, 0)
    return {row["key"]: (row["value"], row["from"]) for row in json.loads(result.stdout)}


def test_without_anything_all_is_default(postmortem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTMORTEM_CACHE")  # of the tests
    found = shown(postmortem)
    assert set(found) == set(BY_KEY)
    assert {origin for _, origin in found.values()} == {"default"}
    assert (found["pue"][0], found["redact"][0], found["workers"][0]) == (1.0, False, None)


def test_option_environment_file_default(postmortem: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("# ours\npue = 1.1\nworkers = 2\n\nenergy = true\nredact = true\n")
    monkeypatch.setenv("POSTMORTEM_PUE", "1.2")
    monkeypatch.setenv("POSTMORTEM_REDACT", "0")
    found = shown(postmortem, "--workers", "3", "--no-energy")
    assert found["workers"] == (3, "option --workers")
    assert found["energy"] == (False, "option --energy")
    assert found["pue"] == (1.2, "environment, POSTMORTEM_PUE")
    assert found["redact"] == (False, "environment, POSTMORTEM_REDACT")
    found = shown(postmortem)
    assert found["workers"] == (2, f"{config}:3")
    assert found["energy"] == (True, f"{config}:5")
    assert found["spool"] == (None, "default")
    monkeypatch.delenv("POSTMORTEM_PUE")
    assert shown(postmortem)["pue"] == (1.1, f"{config}:2")


def test_lists_paths_and_lines_of_values_over_several_lines(postmortem: Run, config: Path) -> None:
    config.write_text('spool = """\nworkers = 9\n"""\nlimit = [\n  "size=1G",\n  "depth=3",\n]\nparsers = "mine"\n')
    found = shown(postmortem)
    assert found["limit"] == (["size=1G", "depth=3"], f"{config}:4")
    assert found["parsers"] == ([str(config.parent / "mine")], f"{config}:8")
    assert found["workers"] == (None, "default")
    assert shown(postmortem, "--limit", "size=2G")["limit"] == (["size=2G"], "option --limit")


def test_names_of_switches_are_a_table_an_option_and_lines(
    postmortem: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("pue = 1.1\n\n[switch-names]\n'(leaf-[0-9]+)\\.dc1' = '$1'\n'MF0;s=1:MQM8700/U1' = 'spine 1'\n")
    both = [{"pattern": "(leaf-[0-9]+)\\.dc1", "name": "$1"}, {"pattern": "MF0;s=1:MQM8700/U1", "name": "spine 1"}]
    assert shown(postmortem)["switch-names"] == (both, f"{config}:3")
    monkeypatch.setenv("POSTMORTEM_SWITCH_NAMES", "MF0;s=1:MQM8700/U1 = spine 1\nb=c")
    named = [both[1], {"pattern": "b", "name": "c"}]
    assert shown(postmortem)["switch-names"] == (named, "environment, POSTMORTEM_SWITCH_NAMES")
    given = shown(postmortem, "--switch-names", "b=c")["switch-names"]
    assert given == (named[1:], "option --switch-names")
    refused = postmortem("config", "--switch-names", "(b=c")
    check(refused, 2)
    assert "'(b' is no pattern of switch names: unclosed group" in refused.stderr


def test_the_text_form_says_which_file(postmortem: Run, config: Path) -> None:
    config.write_text("gpu-hour-price = 2\n")
    result = postmortem("config")
    assert ["gpu-hour-price", "2", f"{config}:1"] in [line.split() for line in result.stdout.splitlines()]
    assert result.stderr == f"config file: {config}\n"


def test_the_users_own_file(postmortem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTMORTEM_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert user_file() == tmp_path / "home" / "postmortem" / "config.toml"
    assert "does not exist" in postmortem("config").stderr
    user_file().parent.mkdir(parents=True)
    user_file().write_text("workers = 5\n")
    assert shown(postmortem)["workers"] == (5, f"{user_file()}:1")


@pytest.mark.parametrize("name", ["postmortem.toml", ".postmortem.toml", "config.toml", "postmortem/config.toml"])
def test_no_file_of_the_working_folder_is_read(postmortem: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "cwd" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("scheduler = 'tcp://192.0.2.1:1'\nnonsense = 1\n")
    assert shown(postmortem)["scheduler"] == (None, "default")


def test_the_example_is_a_config_file_of_every_key(postmortem: Run, config: Path) -> None:
    config.write_text(postmortem("config", "--example").stdout)
    assert load().values == {}
    config.write_text(config.read_text().replace("\n# ", "\n#~").replace("#~Settings", "# "))
    rows = [line[2:] for line in config.read_text().splitlines() if line.startswith("#~") and " = " in line]
    config.write_text("\n".join(rows))
    assert set(load().values) == set(BY_KEY)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wrkers = 2", ":1: there is no key wrkers: did you mean workers?"),
        ("gpu_hour_price = 2", ":1: there is no key gpu_hour_price: did you mean gpu-hour-price?"),
        ("force = true", ":1: there is no key force: there are parsers, "),
        ("\n[analyze]\nworkers = 2", ":2: there is no key analyze"),
        ('\n\nworkers = "x"', ":3: workers must be a whole number, not 'x'"),
        ("workers = true", ":1: workers must be a whole number, not True"),
        ("workers = 0", ":1: workers: 0 is not in the range x>=1"),
        ("pue = [1.2]", ":1: pue must be a number"),
        ("pue = nan", ":1: pue: nan is no number"),
        ("gpu-hour-price = inf", ":1: gpu-hour-price: inf is no number"),
        ("zone = 'Asia/Shanghai'", ":1: zone: 'Asia/Shanghai' is no zone: give the offset"),
        ("switch-names = ['a=b']", ":1: switch-names must be a table of names, not ['a=b']"),
        ("switch-names = {}\n[x]", ":2: there is no key x"),
        ("[switch-names]\na = 1", ":1: switch-names must be a table of names"),
        (
            "workers = 1\n[switch-names]\n'(a' = 'b'",
            ":2: switch-names: '(a' is no pattern of switch names: unclosed group",
        ),
        ("[switch-names]\na = '$1'", ":1: switch-names: '$1' takes the group 1, which 'a' has not"),
        ("energy = 1", ":1: energy must be true or false, not 1"),
        ("limit = ['size=1G', 2]", ":1: limit must be a text or a list of texts"),
        ("theme = 'blue'", ":1: theme: 'blue' is not one of 'auto', 'light', 'dark'"),
        ("theme = true", ":1: theme must be a text"),
        ("template = ['a']", ":1: template must be a text"),
        ("workers = 1\nworkers = 2", " is no TOML: "),
        ("pue = [", " is no TOML: "),
        ("x = " + "[" * 50_000, " is no TOML: "),
        ("#" * 100_001, " is larger than 100,000 bytes"),
    ],
)
def test_what_is_refused_in_one_sentence(postmortem: Run, config: Path, tmp_path: Path, text: str, why: str) -> None:
    config.write_text(text)
    for verb in (["config"], ["analyze", str(tmp_path)]):
        result = postmortem(*verb)
        check(result, 2)
        assert f"{config}{why}" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert postmortem("analyze", "--help").returncode == 0


def test_files_that_can_not_be_read(postmortem: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_bytes(b"workers = 2 # \xff\n")
    assert "is no TOML" in postmortem("config").stderr
    for name, why in ((config.parent, "can't be read"), (config.parent / "absent", "does not exist")):
        monkeypatch.setenv("POSTMORTEM_CONFIG", str(name))
        result = postmortem("config")
        check(result, 2)
        assert why in result.stderr
    monkeypatch.setenv("POSTMORTEM_CONFIG", os.devnull)
    monkeypatch.setenv("POSTMORTEM_WORKERS", "many")
    result = postmortem("config")
    check(result, 2)
    assert result.stderr.startswith("postmortem: POSTMORTEM_WORKERS: 'many' is not")


def test_a_bundle_does_not_configure_its_own_analysis(
    postmortem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "kern.log").write_text(XID)
    (bundle / "team.toml").write_text("workers = 1\n")
    (tmp_path / "cwd" / "way").symlink_to(bundle)
    for name in (bundle / "team.toml", "way/team.toml"):
        monkeypatch.setenv("POSTMORTEM_CONFIG", str(name))
        for verb in (["analyze"], ["query", "--format", "json"], ["export", "--csv", "x"]):
            result = postmortem(*verb, bundle, *(["SELECT 1"] if verb[0] == "query" else []))
            check(result, 2)
            assert "lies in the bundle" in result.stderr
    monkeypatch.setenv("POSTMORTEM_CONFIG", str(tmp_path / "team.toml"))
    (tmp_path / "team.toml").write_text("workers = 1\n")
    check(postmortem("analyze", bundle, "--format", "json"), 0)


def test_every_command_that_reads_a_bundle_obeys(postmortem: Run, config: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "kern.log").write_text(XID)
    config.write_text('limit = "sizes=1"')
    verbs: list[list[object]] = [
        ["analyze", bundle],
        ["query", bundle, "SELECT 1"],
        ["export", bundle, "--csv", "x"],
        ["formats", "list"],
    ]
    for verb in verbs[:3]:
        result = postmortem(*verb)
        check(result, 2)
        assert "sizes" in result.stderr
    config.write_text("redact = true\n")
    assert "node-7" not in postmortem("analyze", bundle, "--format", "json").stdout
    answer = postmortem("query", bundle, "SELECT DISTINCT host FROM events")
    check(answer, 0)
    assert "node-7" not in answer.stdout
    config.write_text("parsers = 'mine'\n")
    for verb in verbs:
        assert "no such folder" in postmortem(*verb).stderr


def test_numbers_must_be_numbers(postmortem: Run) -> None:
    for option, value in (("--pue", "nan"), ("--gpu-hour-price", "inf"), ("--mtbf-hours", "nan")):
        check(postmortem("config", option, value), 2)
