"""Commands are made from functions: help, option tables and messages agree with the signatures."""

import inspect
import json
import re
import sys
from pathlib import Path

import pytest

import hardmax
from hardmax.app import cli
from hardmax.app.cli.commands import COMMANDS, SECTIONS
from hardmax.app.cli.options import kind_of

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "docs" / "_tools"))
try:
    import command_pages
finally:
    sys.path.pop(0)


@pytest.fixture
def page(capsys, monkeypatch):
    """Return the help page of a command, at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def read(*words):
        assert cli.run([*words, "-h"]) == 0
        return capsys.readouterr().out

    return read


@pytest.mark.parametrize("name", ["", "ntp", "text", *COMMANDS])
def test_help_pages_fit_80_columns_and_are_complete(name, page):
    text = page(*name.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in re.sub(r"[A-Z]+\.\.\.", "", text).replace("|p| = 1e6", "")
    assert "`" not in text
    assert "-h, --help" in text
    for parameter in COMMANDS[name].parameters if name in COMMANDS else ():
        assert parameter.help.endswith((".", ")")), parameter.name
        assert parameter.flags.split()[0] in text


def test_the_first_page_has_every_command_on_one_line(page):
    text = page()
    names = [name for section in SECTIONS.values() for name in section]
    for name in names:
        summary = re.escape(COMMANDS[name].summary) if name in COMMANDS else ".*[.]"
        assert re.search(rf"(?m)^  {name} +{summary}$", text), name
    assert {name.split()[0] for name in COMMANDS} == set(names)


SHORT = ["-h", "-V", "solve -h", "solve -V", "ntp -h", "ntp -V", "ntp check -V", "help", "help ntp check"]


@pytest.mark.parametrize("words", SHORT)
def test_short_options(words, capsys):
    assert cli.run(words.split()) == 0
    assert capsys.readouterr().err == ""


def test_the_documented_options_are_those_of_the_program():
    """To write them again: python docs/_tools/command_pages.py."""
    made = command_pages.pages()
    folder = ROOT / "docs" / "reference" / "cli"
    assert {path.name for path in folder.iterdir()} == set(made)
    assert {name: (folder / name).read_text(encoding="utf-8") for name in made} == made


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_are_options_that_exist(name):
    command = COMMANDS[name]
    known = {each.option for each in command.parameters} | {f"--{flag}" for flag in command.instead}
    for line in command.examples:
        assert line.startswith(f"hardmax {name}")
        assert set(re.findall(r"--[\w-]+", line)) <= known | {"--json"}


def test_every_parameter_has_a_help_and_every_choice_is_known():
    for name, command in COMMANDS.items():
        documented = {each.name for each in command.parameters}
        signature = inspect.signature(command.call).parameters
        left = {each for each in signature if each not in documented}
        assert left <= {"progress", "ready", "tokenizer", "options", "more"}, name
    assert kind_of("Literal['a', 'b'] | None") == ("str", False, ("a", "b"))


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        ("`start` requires `flow=True`", "--start requires --flow"),
        ("limit must be an integer of at least 1, got 0", "--limit must be an integer of at least 1, got 0"),
        ("pass `limit=5` or more", "pass --limit 5 or more"),
        ("`plot` a.svg: no", "--plot a.svg: no"),
        ("problem must be a file", "FILE must be a file"),
        ("the limit was reached", "the limit was reached"),
    ],
)
def test_messages_speak_of_options(message, spoken):
    assert COMMANDS["solve"].spoken(message) == spoken


def test_lists(capsys, validated):
    assert cli.run(["verify", "--list", "theorem", "3", "--json"]) == 0
    found = validated(capsys.readouterr().out)
    assert [item["id"] for item in found["items"]][:2] == ["B-THM-3", "C-THM-3"]
    assert cli.run(["reproduce", "--list", "--paper", "D", "--json"]) == 0
    found = validated(capsys.readouterr().out)
    assert {item["paper"] for item in found["items"]} == {"D"}
    assert cli.run(["verify", "--list", "--on", "x.json"]) == 2
    assert "--on cannot be combined with --list" in capsys.readouterr().err
    assert cli.run(["verify", "--list"]) == 0
    assert re.search(r"(\d+) statements", capsys.readouterr().out)


def test_solve_accepts_the_name_of_an_example(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["solve", "three-inputs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] == 11


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"audit"}))
def test_python_has_every_option(name):
    """The twin in Python is the function of the command; that of `audit` needs PyTorch."""
    found = hardmax
    for part in command_pages.twin(COMMANDS[name]).split(".")[1:]:
        found = getattr(found, part)
    assert found is COMMANDS[name].call


def test_the_page_of_the_command_line_lists_every_function():
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(hm\.[\w.]+)`", text.split("## In Python")[1]))
    assert {command_pages.twin(command) for command in COMMANDS.values()} - listed == set()


@pytest.mark.parametrize("words", ["-q ntp check", "ntp -q check", "ntp check -q"])
def test_quiet_works_before_and_behind_the_command(words, capsys, tmp_path):
    file = tmp_path / "long.txt"
    file.write_text("a b\nb a\n" + "c " * 100)
    assert cli.run([*words.split(), str(file)]) in (0, 1, 3)
    assert capsys.readouterr().err == ""
