"""The pages about PyTorch: their examples run."""

import doctest
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"torch": 10, "tutorial-torch": 5, "audit-a-kernel": 4, "swap-attention": 5, "watch-logits": 4}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page):
    if page == "swap-attention":
        pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
    torch.manual_seed(0)
    found = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False)
    assert found.attempted > PAGES[page]
    assert found.failed == 0
