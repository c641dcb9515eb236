"""The pages for newcomers: their examples run as printed, and every word of the glossary occurs once."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.compiled
@pytest.mark.parametrize("page", ["quickstart", pytest.param("pytorch-users", marks=pytest.mark.extra)])
def test_examples_run_as_printed(page):
    tried = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False)
    assert tried.attempted > 5
    assert tried.failed == 0


def test_glossary_is_sorted_and_without_doubles():
    words = re.findall(r"^\| (\w[^|]*?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(words) > 25
    assert words == sorted(set(words), key=str.lower)
