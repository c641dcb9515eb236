"""The page on text runs as printed."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "text.md"


def test_examples_of_the_page() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0
