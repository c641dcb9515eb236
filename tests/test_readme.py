"""The README's Python and its quick commands run as printed, and its files and pages exist."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.app import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = list(dict.fromkeys(re.findall(r"^    (hardmax .*)$", README, flags=re.MULTILINE)))


@pytest.mark.slow
def test_python_blocks_run():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, object] = {}
        exec(block, names)
        assert names["path"].cosine_distance(names["best"]) == pytest.approx(1.5e-11, rel=0.1)


def test_commands_are_shown():
    shown = {line.split()[1] for line in COMMANDS}
    assert shown == {"doctor", "solve", "verify", "reproduce", "ntp", "sweep"}


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = [sys.executable, "-m", "hardmax", *shlex.split(line)[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.compiled
def test_the_first_command_prints_what_the_readme_shows(capsys, monkeypatch):
    line, shown = re.search(
        r"^    hardmax (.*)\n\n```text\n(.*?)```$", README, re.MULTILINE | re.DOTALL
    ).groups()
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(shlex.split(line)) == 0
    rounding = re.compile(r"kkt \S+|1 - cos = \S+|log t = \S+")  # the last digits are the machine's own
    printed = capsys.readouterr().out
    assert [rounding.sub("", each).split() for each in printed.splitlines()] == [
        rounding.sub("", each).split() for each in shown.splitlines()
    ]


def test_an_outsider_is_told_what_goes_in_and_out_before_anything_else():
    opening = README.split("## Two commands")[0]
    for words in ("*keys*", "*scores*", "**Out:**", "two-basins-desktop.png", "B-THM-3 is Theorem 3"):
        assert words in opening


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(targets) > 5
    missing = [t for t in targets if not (ROOT / t).exists()]
    assert not missing
