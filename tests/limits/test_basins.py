"""The boundary between two basins is a trajectory (B-ERR-21)."""

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits import basin_boundary


@pytest.mark.parametrize("x", [10.0, pytest.param(40.0, marks=pytest.mark.slow)])
@pytest.mark.no_cover
def test_separatrix_of_figure_1b(x: float) -> None:
    line = 0.1 * x + math.log(90 / 111)
    found = basin_boundary(hm.data.example("B-FIG-1b"), [x, line - 0.01], [x, line + 0.02], tolerance=2e-5)
    assert found[0] == x
    assert found[1] == pytest.approx(line, abs=1e-4)


def test_descent_sees_the_same_boundary() -> None:
    problem = hm.data.example("B-FIG-1b")
    line = 0.1 * 20 + math.log(90 / 111)
    ends = [
        hm.train(problem, hm.optim.Normalized(0.01), steps=40000, start=[20.0, line + shift])
        for shift in (-1e-3, 1e-3)
    ]
    assert [path.selection for path in ends] == [(1,), (0,)]


def test_beside_the_boundary_p_first_goes_along_it() -> None:
    problem = hm.data.example("B-FIG-1b")
    path = hm.train(problem, hm.optim.Normalized(0.01), steps=1000, start=[20.0, 2.0 + math.log(90 / 111)])
    heading = path.p - path.points[0]
    np.testing.assert_allclose(heading[1] / heading[0], 0.1, atol=2e-3)


def test_both_starts_in_one_basin_are_refused() -> None:
    with pytest.raises(ValueError, match="different selections"):
        basin_boundary(hm.data.example("B-FIG-1b"), [0.0, 1.0], [0.0, 2.0])
