"""Problems: every constructor, loss and readout, files, and what is measured at a point."""

import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

KEYS, SCORES = f.draw(3, 4, 5, seed=1)
P = np.linspace(-1.0, 1.0, 5)


@pytest.mark.parametrize("loss", f.LOSSES)
def test_loss_and_gradient_are_the_formulas(loss):
    problem = n.problem(KEYS, SCORES, loss=loss)
    assert n.loss(problem, P) == pytest.approx(f.loss(KEYS, SCORES, P, loss), rel=1e-13)
    assert f.close(n.gradient(problem, P).vector, f.gradient(KEYS, SCORES, P, loss))
    assert all(map(f.close, n.attention(problem, P), [f.softmax(k @ P) for k in KEYS]))


def test_hessian_is_the_derivative_of_the_gradient():
    step = 1e-5
    by_differences = [
        (f.gradient(KEYS, SCORES, P + e) - f.gradient(KEYS, SCORES, P - e)) / (2 * step)
        for e in step * np.eye(5)
    ]
    assert f.close(n.hessian(n.problem(KEYS, SCORES), P), by_differences, rtol=1e-6, atol=1e-9)


def test_a_saturated_gradient_has_the_right_direction():
    g = n.gradient(n.problem([[[1.0, 2.0], [0.0, 0.0]]], [[1.0, 0.0]]), [5000.0, 0.0])
    assert f.close(g.direction, np.array([1.0, 2.0]) / math.sqrt(5.0))
    slope = -math.log1p(math.e)  # log |l'(1)|
    assert g.log_norm == pytest.approx(slope - 5000.0 + math.log(5.0) / 2, rel=1e-12)


def test_inputs_may_differ_in_length():
    problem = n.problem([KEYS[0][:2], KEYS[1]], [SCORES[0][:2], SCORES[1]])
    assert [*n.lengths(problem)] == [2, 4]
    assert n.loss(problem, P) == pytest.approx(f.loss([KEYS[0][:2], KEYS[1]], [SCORES[0][:2], SCORES[1]], P))


def test_values_tokens_and_a_matrix_make_scores_and_keys():
    labels, v, W = np.array([1, -1, 1]), np.arange(5.0), np.arange(25.0).reshape(5, 5) / 10
    values = KEYS + 1.0
    problem = n.problem_from_values(KEYS, values, labels, v)
    assert f.close(problem.scores.reshape(3, 4), labels[:, None] * (values @ v))
    problem = n.problem_from_tokens(KEYS, labels, v, W=W)
    assert f.close(problem.keys.reshape(3, 4, 5), KEYS @ W.T)
    scores = labels[:, None] * (KEYS @ v)
    assert n.loss(problem, P) == pytest.approx(f.loss(KEYS @ W.T, scores, P), rel=1e-13)
    mean = sum(
        f.LOSSES["logistic"][1](f.softmax(k @ W.T @ P) @ s) * y * (f.softmax(k @ W.T @ P) @ k)
        for k, s, y in zip(KEYS, scores, labels, strict=True)
    )
    assert f.close(n.gradient(problem, P, "v").vector, mean / 3)


def test_queries_make_a_matrix_problem():
    queries = np.random.default_rng(2).normal(size=(3, 2))
    problem = n.problem_from_queries(KEYS, queries, SCORES)
    W = np.arange(10.0).reshape(5, 2) / 10
    assert problem.shape == (5, 2)
    assert all(
        map(
            f.close,
            n.attention(problem, W.ravel()),
            [f.softmax(x @ W @ q) for x, q in zip(KEYS, queries, strict=True)],
        )
    )


def test_inner_products_are_enough():
    flat = KEYS.reshape(12, 5)
    problem = n.problem_from_gram(flat @ flat.T, np.arange(12).reshape(3, 4), SCORES)
    run, same = (
        n.train(each, n.optimizer("normalized", 0.1), 50) for each in (problem, n.problem(KEYS, SCORES))
    )
    assert all(map(f.close, run.attention(), same.attention()))
    assert n.p_norm(run) == pytest.approx(n.p_norm(same), rel=1e-9)


def test_a_readout_may_be_any_function():
    def psi(z):
        return np.tanh(z[:, 0]) + z[:, 1] ** 2

    def slope(z):
        return np.stack([np.cosh(z[:, 0]) ** -2, 2 * z[:, 1]], axis=1)

    keys, values = KEYS[:1], KEYS[:1, :, :2]
    problem = n.problem_from_psi(keys, values, [1], psi, slope)

    def loss(p):
        return f.LOSSES["logistic"][0](psi((f.softmax(keys[0] @ p) @ values[0])[None]))[0]

    assert n.loss(problem, P) == pytest.approx(loss(P), rel=1e-13)
    by_differences = [(loss(P + e) - loss(P - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    assert f.close(n.gradient(problem, P).vector, by_differences, rtol=1e-6, atol=1e-9)


def test_a_readout_of_ones_own():
    class Square(n.readout_class):  # u = z^2, z the attended value
        loss = n.problem([[[0.0]]], [[0.0]]).loss
        values = np.array([[1.0], [0.5]])

        def attend(self, at):
            x = at.rows(self.values)
            z = at.mean(x)
            return (2.0 * at.per_slot(z) * x)[:, 0], z[:, 0] ** 2

    problem = n.problem_from_readout([[[1.0], [0.0]]], Square())
    assert n.loss(problem, [0.0]) == pytest.approx(math.log1p(math.exp(-(0.75**2))), rel=1e-13)
    assert n.gradient(problem, [0.0]).direction.tolist() == [1.0]


def test_the_built_in_readouts():
    keys = KEYS[:, :, :2]
    made = {
        n.readout_scores: n.problem(keys, SCORES),
        n.readout_linear: n.problem_from_tokens(keys, [1, 1, -1], [1.0, 0.0]),
        n.readout_psi: n.problem_from_psi(
            keys, keys, [1, 1, -1], lambda z: z[:, 0], lambda z: [1.0, 0.0] + 0 * z
        ),
        n.readout_next_token: n.samples(["a b b", "b a"]).problem(np.eye(2)),
    }
    assert all(isinstance(n.readout_of(problem), kind) for kind, problem in made.items())
    assert n.loss(made[n.readout_linear], [0.0, 0.0]) == pytest.approx(
        n.loss(made[n.readout_psi], [0.0, 0.0])
    )


def test_a_loss_of_ones_own():
    cauchy = n.loss_function("cauchy", lambda u: np.pi / 2 - np.arctan(u), lambda u: -np.log1p(u * u))
    problem = n.problem(KEYS[:1], SCORES[:1], loss=cauchy)
    s = f.softmax(KEYS[0] @ P)
    u = s @ SCORES[0]
    assert n.loss(problem, P) == pytest.approx(np.pi / 2 - np.arctan(u))
    assert f.close(n.gradient(problem, P).vector, -1 / (1 + u * u) * (s * (SCORES[0] - u)) @ KEYS[0])


def test_weights_and_counts():
    problem = n.problem(KEYS, SCORES).weighted(weights=[2.0, 1.0, 0.5], counts=[3] + [1] * 11)
    repeated = np.concatenate([KEYS[0][:1], KEYS[0][:1], KEYS[0]])
    scores = np.concatenate([SCORES[0][:1], SCORES[0][:1], SCORES[0]])
    expected = sum(
        w * f.loss([k], [g], P)
        for w, k, g in zip([2.0, 1.0, 0.5], [repeated, *KEYS[1:]], [scores, *SCORES[1:]], strict=True)
    )
    assert n.loss(problem, P) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", ["mine.json", "mine.npz"])
def test_a_problem_survives_its_file(name, tmp_path):
    n.problem(KEYS, SCORES, loss="exponential").save(tmp_path / name)
    again = n.load_problem(tmp_path / name)
    assert (again.keys.reshape(3, 4, 5) == KEYS).all()
    assert n.loss(again, P) == n.loss(n.problem(KEYS, SCORES, loss="exponential"), P)


def test_measures_far_out():
    problem = n.problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    assert n.off_top_attention(problem, [60.0]) == pytest.approx(math.exp(-60.0), rel=1e-12)
    excess = n.excess_loss(problem, [3000.0], [0])  # |l'(1)| e^-3000
    assert excess.sign == 1
    assert excess.log == pytest.approx(-3000.0 - math.log1p(math.e), abs=1e-9)
    assert float(n.signed_log(-1, math.log(2.0))) == pytest.approx(-2.0)
    assert float(n.signed_log_sum([n.signed_log(1, 0.0), n.signed_log(-1, math.log(3.0))])) == pytest.approx(
        -2.0
    )
    assert n.cosine_distance([1.0, 0.0], [1.0, 1e-10]) == pytest.approx(5e-21, rel=1e-9)
    assert n.effective_tokens([0.25] * 4) == 4.0  # 1 / sum of squares
    assert n.effective_tokens([0.5, 0.25, 0.25]) == pytest.approx(1 / 0.375)


def test_smoothness_bounds_the_hessian():
    problem = n.problem(KEYS, SCORES)
    found = n.smoothness(problem)
    curved = max(np.linalg.norm(n.hessian(problem, P * c), 2) for c in np.linspace(-3, 3, 13))
    assert curved <= found.tight <= found.L_p


def test_which_tokens():
    problem = n.problem([[[1.0], [0.0]], [[2.0], [0.0]]], [[1.0, 0.0], [3.0, 3.0]])
    assert n.best_tokens(problem) == (0, (0, 1))
    assert n.is_best(problem, (0, 1))
    assert not n.is_best(problem, (1, 0))
    assert n.selected_tokens(problem, [-1.0]) == (1, 1)
    tied = n.problem([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]], [[1.0, 0.0, 0.5]])
    assert n.selected_tokens(tied, [1.0, 0.0]) == ((0, 2),)


def test_data():
    assert n.example("B-FIG-8").keys.tolist() == [[1.0, 0.0], [0.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]
    for draw in (n.sphere, n.gaussian):
        one, same, other = draw(2, 3, 4, rng=5), draw(2, 3, 4, rng=5), draw(2, 3, 4, rng=6)
        assert (one.keys == same.keys).all()
        assert not np.allclose(one.keys, other.keys)
    assert np.allclose(np.linalg.norm(n.sphere(2, 3, 4, rng=5).keys, axis=1), 1.0)
    # the oracle file of paper B holds the scores of these trials
    assert [round(float(each.scores[0]), 6) for each in n.random_trials(2, 2)] == [-0.884893, -0.643423]
