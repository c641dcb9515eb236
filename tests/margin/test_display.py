"""The picture of a plane: what is drawn, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from hardmax.data import named, sphere
from hardmax.dynamics.descent import descend
from hardmax.margin.display import PANELS, PlaneDisplay
from hardmax.margin.enumerate import feasible_selections, locally_optimal
from hardmax.problem import Problem


def test_a_panel_of_directions_and_one_per_selection() -> None:
    problem = named("B-FIG-8")
    path = descend(problem, steps=50, rate=0.1)
    display = PlaneDisplay.of(problem, list(feasible_selections(problem)), path)
    assert [f.locally_optimal for f in display.found] == [True, True, False, False]
    assert display.found[0].globally_optimal
    assert display.path is not None
    assert (np.linalg.norm(display.path, axis=1) < 1).all()
    assert len(display.plot().axes) == 5


def test_many_selections_and_inputs() -> None:
    problem = sphere(n=8, T=6, d=2, rng=0)
    figure = PlaneDisplay.of(problem, list(feasible_selections(problem))).plot()
    assert len(figure.axes) == 1 + PANELS
    assert figure.axes[1].get_title().endswith("attracts") or "optimal" in figure.axes[1].get_title()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any("input 7" in label for label in labels)


def test_nothing_attracts_and_nothing_competes() -> None:
    opposed = Problem.from_scores([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]] * 2)
    figure = PlaneDisplay.of(opposed, list(locally_optimal(opposed))).plot()
    assert len(figure.axes) == 1
    assert not figure.legends
    alone = Problem.from_scores([[[1.0, 0.0]]], [[1.0]])
    assert len(PlaneDisplay.of(alone, list(feasible_selections(alone))).plot().axes) == 2
    four = list(feasible_selections(sphere(n=3, T=4, d=2, rng=0)))[:4]
    assert len(PlaneDisplay.of(sphere(n=3, T=4, d=2, rng=0), four).plot().axes) == 5


def test_only_the_plane_is_drawn() -> None:
    with pytest.raises(ValueError, match="2 dimensions"):
        PlaneDisplay.of(sphere(n=2, T=2, d=3, rng=0), [])
