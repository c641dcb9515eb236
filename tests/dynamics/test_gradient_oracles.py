"""Gradients, Hessian, risk and constants against the 60- and 12,000-digit oracles of paper B."""

import numpy as np
import pytest

import hardmax as hm

DATA = {"fig1a": "B-FIG-1a", "fig1b": "B-FIG-1b", "fig8": "B-FIG-8"}


def numbers(x):
    return np.array(x, dtype=float)


@pytest.fixture
def tiny(oracles):
    return oracles["b"]["tiny_losses_gradients"]


def tiny_problem(tiny, loss):
    i = tiny["instance"]
    return hm.Problem.from_tokens(i["X"], i["Y"], i["v"], W=i["W"], loss=loss)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
def test_tiny_losses_gradients(tiny, loss):
    problem, p, expected = tiny_problem(tiny, loss), tiny["instance"]["p"], tiny["losses"][loss]
    assert hm.loss(problem, p) == pytest.approx(float(expected["risk"]), rel=1e-12)
    for by in "pvW":
        gradient = hm.gradient(problem, p, wrt=by)
        np.testing.assert_allclose(gradient.vector, numbers(expected[f"grad_{by}"]), rtol=1e-12)
    q = np.array([0.6, 0.8])
    second = q @ hm.dynamics.hessian(problem, p) @ q
    assert second == pytest.approx(float(expected["d2_along_(0.6,0.8)"]), rel=1e-12)


def test_nonlinear_head(oracles, tiny):
    i, expected = tiny["instance"], oracles["b"]["nonlinear_head"]
    v, X = np.array(i["v"]), np.array(i["X"])

    def psi(z):
        return np.tanh(z @ v) + 0.3 * z[:, 0] * z[:, 1]

    def psi_gradient(z):
        return v / np.cosh(z @ v)[:, None] ** 2 + 0.3 * z[:, ::-1]

    problem = hm.Problem.from_psi(X, X, i["Y"], psi, psi_gradient, W=i["W"])
    assert hm.loss(problem, i["p"]) == pytest.approx(float(expected["risk"]), rel=1e-12)
    for by in "pW":
        gradient = hm.gradient(problem, i["p"], wrt=by)
        np.testing.assert_allclose(gradient.vector, numbers(expected[f"grad_{by}"]), rtol=1e-12)


def saturated_cases(b):
    s = b["saturated_gradient_direction"]
    for c in s["cases"]:
        yield s["K"], s["gamma"], c["loss"], c, 1e-12
    for key, tolerance in (("saturated_tie_across_inputs", 1e-9), ("saturated_tied_scores", 1e-10)):
        s = b[key]
        yield s["K"], s["gamma"], s["loss"], s, tolerance
    for s in b["saturated_within_input"]:
        for c in s["cases"]:
            yield s["K"], s["gamma"], s["loss"], c, 1e-10


def test_saturated_directions(oracles):
    seen = 0
    for K, gamma, loss, case, tolerance in saturated_cases(oracles["b"]):
        gradient = hm.gradient(hm.Problem(K, gamma, loss=loss), case["p"])
        np.testing.assert_allclose(
            gradient.direction, numbers(case["neg_grad_direction"]), rtol=0, atol=tolerance
        )
        assert gradient.log_norm == pytest.approx(float(case["log_grad_norm"]), rel=1e-12)
        seen += 1
    assert seen >= 12


def test_log_excess_risk(oracles):
    for case in oracles["b"]["log_excess_risk"]["cases"]:
        problem = hm.data.example(DATA[case["data"]], loss=case["loss"])
        excess = hm.dynamics.excess_loss(problem, case["p"], case["reference_selection"])
        assert excess.sign == case["sign"]
        assert excess.log == pytest.approx(float(case["log_abs_excess"]), rel=1e-12)


def with_score_coordinate(name):
    """The paper's own form of figure 1: the score is a third coordinate that the keys do not see."""
    flat = hm.data.example(name)
    tokens = np.concatenate([flat.keys, flat.scores[:, None]], axis=1)[None]
    return hm.Problem.from_tokens(tokens, [1], [0, 0, 1], W=np.diag([1.0, 1.0, 0.0]))


def test_smoothness_constants(oracles, tiny):
    expected = oracles["b"]["L_p"]
    for loss, key in (
        ("logistic", "(M0=1/4,M1=1)"),
        ("exponential", "(M0=M1=e^B)"),
        ("correlation", "(M0=0,M1=1)"),
    ):
        assert hm.dynamics.smoothness(tiny_problem(tiny, loss)).L_p == pytest.approx(
            expected[loss + key], rel=1e-12
        )
    for figure in ("1a", "1b"):
        bound = hm.dynamics.smoothness(with_score_coordinate(f"B-FIG-{figure}"))
        assert bound.L_p == pytest.approx(expected[f"fig{figure}_logistic"], rel=1e-12)
        # The tight constant does not see how keys and scores are represented.
        assert bound.tight == pytest.approx(
            hm.dynamics.smoothness(hm.data.example(f"B-FIG-{figure}")).tight, rel=1e-12
        )


def test_soft_sparsity(oracles):
    for case in oracles["b"]["soft_sparsity"]:
        assert hm.dynamics.soft_sparsity(case["s"]) == pytest.approx(case["nnz"], rel=1e-14)


def test_gradient_by_W_where_tokens_share_a_key():
    """At W = 0 every key is zero; the gradient by W still tells the tokens apart."""
    rng = np.random.default_rng(0)
    X, Y, v, u = rng.normal(size=(3, 4, 5)), [1, -1, 1], rng.normal(size=5), rng.normal(size=5)
    gradient = hm.gradient(hm.Problem.from_tokens(X, Y, v, W=np.zeros((5, 5))), u, wrt="W")
    h, E = 1e-6, rng.normal(size=(5, 5))
    up, down = (hm.loss(hm.Problem.from_tokens(X, Y, v, W=s * h * E), u) for s in (1, -1))
    assert (gradient.vector * E).sum() == pytest.approx((up - down) / (2 * h), rel=1e-7)
