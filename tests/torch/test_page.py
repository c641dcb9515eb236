"""The page about PyTorch: its examples run."""

import doctest
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"


def test_examples_run():
    torch.manual_seed(0)
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 10
    assert found.failed == 0
