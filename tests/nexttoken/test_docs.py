"""The page about next-token prediction: its examples run, and its files exist."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_examples_run():
    found = doctest.testfile(str(DOCS / "nexttoken.md"), module_relative=False)
    assert found.attempted > 20
    assert found.failed == 0


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (DOCS / "nexttoken.md").read_text())
    assert [target for target in targets if not (DOCS / target).exists()] == []
