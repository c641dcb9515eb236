"""The pages about theory: their examples run, their commands exist, their table is complete."""

import doctest
import re
from pathlib import Path

import pytest

from hardmax.papers.checking.check import statements
from hardmax.papers.registry import ERRATA

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["errata.md", "theory.md"])
@pytest.mark.no_cover
def test_examples_run(page):
    found = doctest.testfile(str(DOCS / page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0


def test_every_command_names_known_checks():
    text = (DOCS / "errata.md").read_text()
    named = {id for command in re.findall(r"`hardmax verify ([^`]+)`", text) for id in command.split()} - {
        "ID"
    }
    assert named <= set(statements())
    assert len(named) > 20


def test_every_erratum_is_there():
    text = (DOCS / "errata.md").read_text()
    wanted = [f"B-ERR-{n:02d}" for n in range(1, 22)] + ["B-NEW-1", "B-NEW-1b", "B-NEW-2", "B-NEW-3"]
    wanted += [f"C-ERR-{n:02d}" for n in range(1, 21)] + ["C-EXT-1", "C-EXT-2", "C-EXT-3"]
    wanted += [id for id in ERRATA if id.startswith("D-")]
    assert [id for id in wanted if not re.search(rf"(### |\*\*){id}(:|\*\*)", text)] == []


def test_the_table_lists_every_check():
    rows = re.findall(r"^\| ([ABCD]-\S+) \| (.*) \|$", (DOCS / "theory.md").read_text(), flags=re.MULTILINE)
    assert dict(rows) == {each.id: each.title for each in statements().values()}


def test_errata_that_checks_cite_are_documented():
    text = (DOCS / "errata.md").read_text()
    assert [id for each in statements().values() for id in each.errata if id not in text] == []
