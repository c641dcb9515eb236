"""The tools of the documentation site, as modules."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True, scope="module")
def _tools():
    """docs/_tools on the path, as Sphinx and `make docs` have it."""
    sys.path.insert(0, str(DOCS / "_tools"))
    yield
    sys.path.remove(str(DOCS / "_tools"))
