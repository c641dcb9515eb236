"""Descent: oracle trajectories, the three coordinate systems, batches, losses, events, bad input."""

import math

import numpy as np
import pytest
from numba import njit

import hardmax as hm

DATA = {"fig1a": "B-FIG-1a", "fig1b": "B-FIG-1b", "fig8": "B-FIG-8"}
COORDINATES = ("primal", "gram", "qr")


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_ngd_oracles(oracles, coordinates):
    for c in oracles["b"]["ngd_trajectories"]["cases"]:
        problem = hm.data.example(DATA[c["data"]], loss=c["loss"])
        path = hm.train(
            problem,
            hm.optim.Normalized(c["lr"]),
            steps=c["iterations"],
            start=c["p0"],
            coordinates=coordinates,
        )
        np.testing.assert_allclose(path.p, np.array(c["p"], float), rtol=0, atol=1e-10)
        assert path.event is None


def test_joint_oracles(oracles):
    for c in oracles["b"]["joint_ngd_fig3"]["cases"]:
        problem = hm.data.example(f"B-FIG-{c['figure']}")
        path = hm.train(
            problem.joint(),
            (hm.optim.Normalized(c["lr_p"]), hm.optim.Normalized(c["lr_v"])),
            steps=c["iterations"],
            start=c["p0"],
        )
        np.testing.assert_allclose(path.p, np.array(c["p"], float), rtol=0, atol=1e-10)
        np.testing.assert_allclose(path.v_points[-1], np.array(c["v"], float), rtol=0, atol=1e-10)


@pytest.mark.parametrize("normalized", [True, False])
def test_coordinates_agree(normalized):
    """B-DEF-7's check: n=4, T=6, d=300, 300 steps."""
    problem = hm.data.sphere(4, 6, 300, rng=7)
    start = np.random.default_rng(1).normal(size=300)
    paths = [
        hm.train(
            problem,
            (hm.optim.Normalized if normalized else hm.optim.GD)(0.5),
            steps=300,
            start=start,
            coordinates=c,
            record=100,
        )
        for c in COORDINATES
    ]
    for other in paths[1:]:
        np.testing.assert_allclose(other.points, paths[0].points, rtol=0, atol=1e-12)


def test_shared_table_equals_its_dense_copy():
    """Inputs that share tokens take the one-reference Gram form; the path is that of separate copies."""
    rng = np.random.default_rng(3)
    table, inputs = rng.normal(size=(6, 8)), [[0, 1, 2], [2, 3, 4, 5], [5, 0, 3], [1, 4]]
    scores = [rng.normal(size=len(i)) for i in inputs]
    shared = hm.Problem.from_gram(table @ table.T, inputs, scores)
    dense = hm.Problem([table[i] for i in inputs], scores)
    for coordinates in COORDINATES:
        a = hm.train(shared, hm.optim.Normalized(0.3), steps=200, coordinates=coordinates)
        b = hm.train(dense, hm.optim.Normalized(0.3), steps=200, coordinates=coordinates)
        np.testing.assert_allclose(a.p_norms, b.p_norms, rtol=1e-11)
        np.testing.assert_allclose(a.losses, b.losses, rtol=1e-10)


@pytest.mark.compiled
def test_batch_is_the_same_to_the_bit_for_any_workers_and_the_single_run_to_rounding():
    problems = [*hm.data.fig9_oracle(5, 6), *hm.data.fig9_oracle(100, 6), *hm.data.fig9_oracle(10, 6)]
    alone = [hm.train(p, hm.optim.Normalized(1.0), steps=200) for p in problems]
    first = hm.train(problems, hm.optim.Normalized(1.0), steps=200, workers=1)
    for a, b in zip(alone, first, strict=True):
        np.testing.assert_allclose(a.p, b.p, rtol=0, atol=1e-9 * a.p_norm)
    for workers in (2, 3):
        again = hm.train(problems, hm.optim.Normalized(1.0), steps=200, workers=workers)
        for a, b in zip(first, again, strict=True):
            assert (a.p == b.p).all()


def test_gram_gives_way_near_a_stationary_point():
    """At a finite minimizer inner products cancel; the run is finished in coordinates and stays there."""
    keys = np.zeros((2, 2, 40))
    keys[0, 0, 0], keys[1, 0, 0] = 1.0, -1.0  # B-ERR-01: both first tokens are best, and opposed
    keys[:, :, 1] = 3.0
    problem = hm.Problem(keys, [[1.0, 0.0], [1.0, 0.0]])
    path = hm.train(
        problem, hm.optim.Normalized(1e-3), steps=100, coordinates="gram", start=np.eye(40)[0] * 1e-9
    )
    assert np.abs(path.p[0]) <= 2e-3
    assert np.abs(path.p[1:]).max() <= 1e-12


def test_gd_with_one_over_L_descends():
    problem = hm.data.sphere(4, 6, 10, rng=3)
    path = hm.train(problem, hm.optim.GD("1/L_p"), steps=300)
    rate = 1.0 / hm.dynamics.smoothness(problem).L_p
    for k in range(0, 200, 10):
        squared = math.exp(2 * hm.gradient(problem, path.points[k]).log_norm)
        step = path.times[k + 1] - path.times[k]
        if step == 1:
            assert path.losses[k + 1] - path.losses[k] <= -0.5 * rate * squared + 1e-15
    assert (np.diff(path.losses) <= 1e-15).all()


def test_vanilla_gd_grows_logarithmically():
    """B-THM-2 on B-FIG-1a with step 1: norms and cosines at t = 1e3, 1e4."""
    path = hm.train(hm.data.example("B-FIG-1a"), hm.optim.GD(1.0), steps=10_000, record=[1000])
    np.testing.assert_allclose(path.p_norms[1:], [3.47, 5.89], atol=0.005)
    np.testing.assert_allclose(1 - path.cosine_distances([-0.1, 1.0])[1:], [0.9547, 0.9711], atol=5e-5)


def test_steps_may_vary():
    problem = hm.data.example("B-FIG-8")
    varied = hm.train(problem, hm.optim.Normalized([0.1, 0.2, 0.3]), steps=3, record=1)
    lengths = np.linalg.norm(np.diff(varied.points, axis=0), axis=1)
    np.testing.assert_allclose(lengths, [0.1, 0.2, 0.3], rtol=1e-14)


@pytest.mark.compiled
def test_own_loss_plain_and_compiled_agree():
    def slope(u):
        return -1.5 * math.log1p(u * u)

    def value(u):
        return -u / np.sqrt(1 + u * u)

    keys, scores = (
        np.random.default_rng(0).normal(size=(3, 4, 5)),
        np.random.default_rng(1).normal(size=(3, 4)),
    )
    plain = hm.Problem(keys, scores, loss=hm.LossFunction("mine", value, slope))
    fast = hm.Problem(keys, scores, loss=hm.LossFunction("mine", value, njit(slope)))
    assert fast.loss.is_compiled
    assert not plain.loss.is_compiled
    for normalized in (True, False):
        a = hm.train(plain, (hm.optim.Normalized if normalized else hm.optim.GD)(0.2), steps=60)
        b = hm.train(
            fast, (hm.optim.Normalized if normalized else hm.optim.GD)(0.2), steps=60, coordinates="primal"
        )
        np.testing.assert_allclose(a.points, b.points, rtol=0, atol=1e-13)


def test_joint_plain_path_equals_compiled():
    built_in = hm.LossFunction("copy", lambda u: np.logaddexp(0, -u), lambda u: -float(np.logaddexp(0, u)))
    fast, slow = hm.data.example("B-FIG-3a"), hm.data.example("B-FIG-3a")
    slow = hm.Problem.from_tokens(slow.split(slow.keys), slow.readout.labels, slow.readout.v, loss=built_in)
    a = hm.train(fast.joint(), (hm.optim.Normalized(0.1), hm.optim.Normalized(0.05)), steps=50, start=[0, -1])
    b = hm.train(slow.joint(), (hm.optim.Normalized(0.1), hm.optim.Normalized(0.05)), steps=50, start=[0, -1])
    np.testing.assert_allclose(a.points, b.points, atol=1e-13)
    np.testing.assert_allclose(a.v_points, b.v_points, atol=1e-13)


@pytest.mark.parametrize("nonlinear", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_weights_follow_p(nonlinear, normalized):
    """B-THM-L1 by explicit steps on W with its own gradient, against the mapped path."""
    rng = np.random.default_rng(5)
    X, Y, u, v = rng.normal(size=(3, 4, 5)), [1, -1, 1], rng.normal(size=5), rng.normal(size=5)
    W = rng.normal(size=(5, 5))

    def make(W):
        if nonlinear:
            return hm.Problem.from_psi(
                X, X, Y, lambda z: np.tanh(z @ v), lambda z: v / np.cosh(z @ v)[:, None] ** 2, W=W
            )
        return hm.Problem.from_tokens(X, Y, v, W=W)

    mapped = hm.train(
        make(W).matrix(prompt=u),
        (hm.optim.Normalized if normalized else hm.optim.GD)(0.3),
        steps=50,
        record=1,
    )
    for k in range(50):
        assert np.abs(W - mapped.W_at(k)).max() <= 1e-12 * (1 + np.linalg.norm(W))
        g = hm.gradient(make(W), u, wrt="W")
        W = W + (0.3 * g.direction if normalized else -0.3 * g.vector)


def test_epsilon_stalls_the_path():
    """B-ERR-11: a damped normalization stops where the gradient reaches epsilon."""
    problem = next(hm.data.fig9_oracle(100, 1))
    exact = hm.train(problem, hm.optim.Normalized(1.0), steps=1000)
    damped = hm.train(problem, hm.optim.Normalized(1.0, 2.2e-16), steps=1000)
    assert damped.p_norm < 100 < 500 < exact.p_norm


def test_events():
    tied = hm.Problem([[[1.0], [0.0]], [[2.0]]], [[1.0, 1.0], [3.0]])
    assert hm.train(tied, hm.optim.Normalized(0.1), steps=5).event == "no competing token"
    opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    for coordinates in ("primal", "qr"):
        path = hm.train(opposed, hm.optim.Normalized(0.1), steps=5, coordinates=coordinates)
        assert path.event == "stationary point"
        assert path.p_norm == 0.0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"steps": -1}, "steps must be an integer"),
        ({"lr": 0.0}, "lr must be a positive number, got 0"),
        ({"lr": -0.1}, "lr must be a positive number"),
        ({"lr": "fast"}, "lr must be"),
        ({"lr": [0.1, 0.2]}, r"lr must be one number or one for each of the 10 steps, got 2"),
        ({"start": [1.0]}, r"start must have shape \(2,\), got \(1,\)"),
        ({"start": [1.0, math.nan]}, "start must be finite"),
        ({"record": [11]}, "record must be step numbers from 0 to 10"),
        ({"eps": -1}, "eps must be a number of at least 0, got -1"),
        ({"coordinates": "polar"}, "coordinates must be"),
    ],
)
def test_bad_input_is_named(arguments, message):
    options = {"steps": 10} | arguments
    rule = {"lr": 0.1} | {name: options.pop(name) for name in ("lr", "eps") if name in options}
    with pytest.raises(ValueError, match=message):
        hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(**rule), **options)
    with pytest.raises(TypeError, match=r"no default; choose one of hm\.optim"):
        hm.train(hm.data.example("B-FIG-8"))
    with pytest.raises(ValueError, match="give a list of problems"):
        hm.train(hm.data.example("B-FIG-8"), hm.optim.GD(0.1), workers=2)
