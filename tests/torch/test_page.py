"""The pages about PyTorch: their examples run."""

import doctest
import json
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


def test_the_page_quotes_the_stored_result_of_low_precision():
    stored = json.loads((DOCS.parent / "benchmarks" / "low_precision.json").read_text())
    page = (DOCS / "torch.md").read_text(encoding="utf-8")
    for arm in ("math", "flash", "hardmax"):
        runs = [run for run in stored["runs"] if run["arm"] == arm]
        last = [run["rows"][-1] for run in runs]
        cells = [", ".join(f"{run['loss']:.4f}" for run in runs)]
        cells += [
            ", ".join(f"{row[key]:.2g}" for row in last)
            for key in ("whole_error", "whole_bias", "attention_error")
        ]
        cells.append(f"{max(row['attention_bias'] for run in runs for row in run['rows']):.2g}")
        assert f"| {arm} | {' | '.join(cells)} |" in page
    losses, starts = {}, {}
    for run in stored["runs"]:
        losses.setdefault(run["seed"], []).append(run["loss"])
        starts.setdefault(run["seed"], []).append(run["rows"][0]["max_logit"])
    assert max(max(each) - min(each) for each in losses.values()) <= 4.01e-4
    assert all(max(each) <= 1.01 * min(each) for each in starts.values())  # the same weights and batches
    assert max(row["attention_bias"] for run in stored["runs"] for row in run["rows"]) < 0.5
