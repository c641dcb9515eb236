"""The commands a contributor types: what needs an extra is marked, skipped with its reason, and run apart."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_waits_for_pytorch_or_a_browser_is_marked():
    """What is only skipped would never be run by make test-extras."""
    waits = re.compile(r"importorskip\(\s*\"(?:torch|playwright)|^import torch|NEEDS\[", re.MULTILINE)
    found = [file for file in (ROOT / "tests").rglob("test_*.py") if waits.search(file.read_text("utf-8"))]
    assert len(found) >= 5
    unmarked = [file.name for file in found if "pytest.mark.extra" not in file.read_text("utf-8")]
    assert unmarked == []


def test_the_tests_that_matter_most_are_there():
    """Those of make check, named in the Makefile."""
    named = re.search(r"^matter := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    places = named.group(1).replace("\\", " ").split()
    assert "tests/margin" in places
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_continuous_integration_begins_with_the_command_of_the_readme():
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith(("#", "set ", "cd ", "export "))
    ]
    assert (commands[0], commands[-1]) == ("make test", "make test-extras")
    assert "    make test " in (ROOT / "README.md").read_text("utf-8")
