"""The picture of a plane: what is drawn, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from hardmax.data import example, sphere
from hardmax.directions.display import PANELS, PlaneDisplay
from hardmax.directions.enumerate import attractors, selections
from hardmax.dynamics.optim import Normalized
from hardmax.dynamics.train import train
from hardmax.problem import Problem


def test_a_panel_of_directions_and_one_per_selection() -> None:
    problem = example("B-FIG-8")
    path = train(problem, Normalized(0.1), steps=50)
    display = PlaneDisplay.of(problem, list(selections(problem)), path)
    assert [f.attracts.verdict for f in display.found] == [True, True, False, False]
    assert display.found[0].is_best
    assert len(display.paths) == 1
    assert (np.linalg.norm(display.paths[0], axis=1) < 1).all()
    assert len(display.plot().axes) == 5


def test_many_selections_and_inputs() -> None:
    problem = sphere(n=8, T=6, d=2, rng=0)
    figure = PlaneDisplay.of(problem, list(selections(problem))).plot()
    assert len(figure.axes) == 1 + PANELS
    title = figure.axes[1].get_title() or figure.axes[1].get_title("left")  # a style may put it there
    assert title.endswith("attracts") or "optimal" in title
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any("input 7" in label for label in labels)


def test_nothing_attracts_and_nothing_competes() -> None:
    opposed = Problem([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]] * 2)
    figure = PlaneDisplay.of(opposed, list(attractors(opposed))).plot()
    assert len(figure.axes) == 1
    assert not figure.legends
    alone = Problem([[[1.0, 0.0]]], [[1.0]])
    assert len(PlaneDisplay.of(alone, list(selections(alone))).plot().axes) == 2
    four = list(selections(sphere(n=3, T=4, d=2, rng=0)))[:4]
    assert len(PlaneDisplay.of(sphere(n=3, T=4, d=2, rng=0), four).plot().axes) == 5


def test_only_the_plane_is_drawn() -> None:
    with pytest.raises(ValueError, match="2 dimensions"):
        PlaneDisplay.of(sphere(n=2, T=2, d=3, rng=0), [])


def test_several_paths_and_titles_that_are_whole() -> None:
    """A picture as the README's: eight starts, two basins; no title is cut off at an edge."""
    problem = example("B-FIG-8")
    starts = [(0.0, 2.0), (-1.0, 1.0), (2.0, -2.0), (4.0, 0.0)]
    paths = [train(problem, Normalized(0.1), steps=300, start=start) for start in starts]
    display = PlaneDisplay.of(problem, list(selections(problem)), paths)
    assert [path[0].tolist() for path in display.paths] == [
        (np.array(start) / (1 + np.linalg.norm(start))).tolist() for start in starts
    ]
    many = sphere(n=8, T=6, d=2, rng=0)
    for picture in (display, PlaneDisplay.of(many, list(selections(many)))):
        figure = picture.plot()
        figure.draw_without_rendering()
        page = figure.bbox
        for panel in figure.axes:
            box = (panel.title if panel.get_title() else panel._left_title).get_window_extent()
            assert page.x0 < box.x0 < box.x1 < page.x1
            assert page.y0 < box.y0 < box.y1 < page.y1 - 4
