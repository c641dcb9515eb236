"""The late phase, regularization paths, basins, and data that do not separate."""

import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

FIG1B, FIG8 = n.example("B-FIG-1b"), n.example("B-FIG-8")
OFFSET = [-0.254189358116161084, 0.0847297860387203614]  # paper B's oracle


@pytest.mark.parametrize(
    "name, finite, diverging, inf_loss",
    [  # part D's oracles
        ("cycle", [0.5493061443341, -0.5493061443341, 0.0], [1 / 3, 1 / 3, -2 / 3], 0.56233514461881),
        ("dependent", [0.6931471805599, 0.0], [0.0, 1.0], 0.47738562622111),
        ("plane-plus", [0.119356780327, 0.4774271213079, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], 0.50504852224673),
    ],
)
def test_decompositions(name, finite, diverging, inf_loss):
    found = n.decompose(n.example(name))
    assert f.close(found.p_fin, finite, rtol=1e-10)
    assert f.close(found.p_mm, diverging, rtol=1e-10)
    assert found.inf_risk == pytest.approx(inf_loss, rel=1e-12)


def test_separable_data_have_no_finite_part():
    found = n.decompose(FIG8)
    assert found.kind == "separable"
    assert f.close(found.p_mm, [1.0, 3.0])


def test_survivors():
    found = n.survivors(n.example("cycle"), [7.0, 6.0, -14.0])
    assert n.tokens(found.sets) == ((0, 1),) * 4
    assert found.verdict == "consistent"


def test_late_phase():
    best = n.max_margin(FIG8, [0, 0])
    late = n.late_residual(FIG8, best)
    assert f.close(late.w, OFFSET, rtol=1e-12)
    assert f.close(n.path_offset(FIG8, best), OFFSET, rtol=1e-12)
    # p(t) = log(t) p_mm + w + ...: what is off p_mm's line at a large norm is w's part beside it
    p = n.flow(FIG8, until_norm=1e5).p
    unit = np.array([1.0, 3.0]) / math.sqrt(10.0)
    assert f.close(p - (p @ unit) * unit, np.array(OFFSET) - (OFFSET @ unit) * unit, rtol=1e-3, atol=1e-4)
    assert late.eta_c == pytest.approx(n.critical_rate(best), rel=1e-9)


def test_regularization_path():
    path = n.regularization_path(FIG8, [3.0, 10.0, 100.0])
    angles = np.degrees(path.angle([1.0, 3.0]))
    assert f.close(angles, [7.42263249237, 1.58457266928, 0.153287215493], rtol=1e-6)  # paper B's oracle
    assert f.close(np.linalg.norm(path.points, axis=1), [3.0, 10.0, 100.0], rtol=1e-9)


def test_local_path():
    path = n.local_path(FIG1B, [1.0, 0.0], mu=2e-4, R0=20.0, radii=[50.0, 200.0])
    assert path.tends_to_q
    behind = n.local_path(FIG1B, [-1.0, -1.1], mu=2e-4, R0=20.0, radii=[50.0, 1000.0])
    assert f.close(behind.norms, [20.0, 20.0], rtol=1e-6)  # its neighbors score higher: it stays behind


def test_joint_path():
    path = n.joint_path(n.example("B-FIG-3b"), [10.0, 20.0, 30.0], rho=1.5)
    angles = np.degrees(path.angle([1.0, 0.0]))  # B-THM-6: the relaxed direction
    assert angles[0] > angles[1] > angles[2]
    assert angles[2] < 0.01


def test_basin_boundary():
    x, y = n.basin_boundary(FIG1B, [20.0, 1.5], [20.0, 2.0], tolerance=1e-4)
    assert y == pytest.approx(0.1 * x + math.log(90 / 111), abs=1e-4)
