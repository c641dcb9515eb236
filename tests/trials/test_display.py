"""Phase diagrams count what the sweep holds; the worked example draws; the pages run as printed."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.trials.plan import read_plan

ROOT = Path(__file__).parents[2]


def small(parameters: dict, seed: int) -> dict:
    return {"small": seed % 60 < parameters["a"] * parameters["b"] * parameters["c"], "size": 1.5}


@pytest.fixture(scope="module")
def found() -> hm.Sweep:
    return hm.sweep(small, {"a": [10, 1, 2], "b": [1, 3], "c": [1, 2]}, trials=40, workers=0)


def test_shares_are_those_of_the_rows(found: hm.Sweep) -> None:
    phases = hm.trials.PhaseDisplay.of(found, ["small"], x="a", y="b", across="c")
    assert phases.values == {"c": [1, 2], "b": [1, 3], "a": [1, 2, 10]}
    assert phases.shares.shape == (1, 2, 2, 3)
    rows = list(found.rows())
    for (_, c, b, a), share in np.ndenumerate(phases.shares):
        at = {name: phases.values[name][i] for name, i in (("a", a), ("b", b), ("c", c))}
        own = [row["small"] for row in rows if all(row[name] == value for name, value in at.items())]
        assert len(own) == 40
        assert share == np.mean(own)
    together = hm.trials.PhaseDisplay.of(found, ["small"], x="a", y="b").shares
    np.testing.assert_allclose(together[:, 0], phases.shares.mean(axis=1))


def test_a_panel_for_each_result_and_value(found: hm.Sweep) -> None:
    figure = hm.trials.PhaseDisplay.of(found, ["small", "small"], x="a", y="b", across="c").plot()
    panels, scales = figure.axes[:4], figure.axes[4:]
    assert [panel.get_title(loc="left") for panel in panels[:2]] == ["$c$ = 1", "$c$ = 2"]
    assert [label.get_text() for label in panels[2].get_xticklabels()] == ["1", "2", "10"]
    assert [scale.get_ylabel() for scale in scales] == ["P(small)", "P(small)"]


def test_numbers_have_no_share(found: hm.Sweep) -> None:
    with pytest.raises(ValueError, match="results must be true or false in every trial, 'size' is not"):
        hm.trials.PhaseDisplay.of(found, ["size"], x="a", y="b")


def test_cells_that_were_not_run_stay_open() -> None:
    cells = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    some = hm.sweep(lambda at, seed: {"yes": True}, cells, 3, workers=0)
    phases = hm.trials.PhaseDisplay.of(some, ["yes"], x="a", y="b")
    np.testing.assert_array_equal(phases.shares[0, 0], [[1, np.nan], [np.nan, 1]])


@pytest.mark.slow
def test_the_worked_example_draws(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("phase_diagram", ROOT / "examples" / "phase_diagram.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    plan = read_plan(ROOT / "examples" / "phase-diagram.toml")
    grid = plan.grid | {"d": [2, 5], "n": [1, 3], "T": [2, 3], "steps": [50]}
    few = hm.sweep(plan.function, grid, 2, batched=plan.batched, workers=0)
    example.draw(few, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_files_on_the_page_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "sweeps.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.toml"
        file.write_text(block)
        read_plan(file)


def test_the_file_on_the_page_is_the_example() -> None:
    block, *_ = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs" / "how-to" / "sweeps.md").read_text(), flags=re.DOTALL
    )
    example = read_plan(ROOT / "examples" / "phase-diagram.toml")
    file = (ROOT / "examples" / "phase-diagram.toml").read_text()
    stripped = "\n".join(line.partition("#")[0].rstrip() for line in file.splitlines()).strip()
    assert stripped == block.strip()
    assert example.trials == 100
