"""The log loss of labels (D-DEF-7): gradient, risk, excess and Hessian against mpmath."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.problem.losses import LOG

KEYS = [[[0.5, -1], [0.25, 1], [-0.75, 0.5]], [[1.25, 0.25], [-0.5, -0.5]], [[0, 0.25], [0.5, -0.25]]]
ONE = [[1, 0, 0], [0, 1], [1, 0]]
SEVERAL = [[1, 0, 1], [0, 1], [1, 0]]


def by_60_digits(problem, p, naive):
    """Risk, direction and log of the length of minus its gradient, log of the risk.

    As written, the mean key of the label minus the mean key of all; or by D-DEF-7, which does not cancel.
    """
    with mpmath.workdps(60):
        keys = problem.keys[problem.tokens].tolist()
        risk, pull = mpmath.mpf(0), [mpmath.mpf(0)] * problem.d
        for i in range(problem.n):
            slots = range(problem.offsets[i], problem.offsets[i + 1])
            mass = {t: problem.counts[t] * mpmath.exp(mpmath.fdot(keys[t], p)) for t in slots}
            own = [t for t in slots if problem.scores[t] == 1]
            other = [t for t in slots if t not in own]
            label, rest = sum(mass[t] for t in own), sum(mass[t] for t in other)
            risk += problem.weights[i] * mpmath.log1p(rest / label)
            for k in range(problem.d):
                mean = sum(mass[t] * keys[t][k] for t in own) / label
                if naive:
                    force = mean - sum(mass[t] * keys[t][k] for t in slots) / (label + rest)
                else:
                    force = sum(mass[t] * (mean - keys[t][k]) for t in other) / (label + rest)
                pull[k] += problem.weights[i] * force
        length = mpmath.sqrt(mpmath.fdot(pull, pull))
        unit = np.array([float(a / length) for a in pull])
        return float(risk), unit, float(mpmath.log(length)), float(mpmath.log(risk))


@pytest.mark.parametrize("scores", [ONE, SEVERAL], ids=["one label", "several"])
@pytest.mark.parametrize("p", [[0, 0], [3, -2], [20, 45], [-9e3, 1.3e4], [2e4, -1e4], [-1e4, -2e4]])
def test_risk_and_gradient_at_any_size(scores, p):
    """Labels that win and lose by more than 1e4 nats."""
    problem = hm.Problem(KEYS, scores, loss="log")
    problem = problem.weighted(weights=[0.5, 2.0, 1.0], counts=[1, 3, 2, 1, 1, 5, 1])
    risk, direction, log_norm, log_risk = by_60_digits(problem, p, naive=np.abs(p).max() < 50)
    gradient = hm.gradient(problem, p)
    np.testing.assert_allclose(gradient.direction, direction, rtol=0, atol=1e-14)
    assert gradient.log_norm == pytest.approx(log_norm, rel=1e-14, abs=1e-13)
    assert hm.loss(problem, p) == pytest.approx(float(risk), rel=1e-14, abs=1e-300)
    excess = hm.dynamics.excess_loss(problem, p, [0, 1, 0])
    assert (excess.sign, excess.log) == (1, pytest.approx(log_risk, rel=1e-13, abs=1e-13))


def test_an_easy_and_a_lost_label():
    """One input: u is one to the last digit, or far below every float."""
    problem = hm.Problem([[[1.0], [0.0]]], [[1, 0]], loss="log")
    won, lost = hm.gradient(problem, [1e4]), hm.gradient(problem, [-1e4])
    assert (won.direction.tolist(), won.log_norm) == ([1.0], -1e4)
    assert (lost.direction.tolist(), lost.log_norm) == ([1.0], 0.0)
    assert hm.dynamics.excess_loss(problem, [1e4], [0]).log == -1e4
    assert hm.loss(problem, [700.0]) == pytest.approx(math.exp(-700.0), rel=1e-13)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=2), st.sampled_from([ONE, SEVERAL]))
def test_hessian_is_the_derivative(p, scores):
    problem, h = hm.Problem(KEYS, scores, loss="log"), 1e-5
    q = np.array([0.6, 0.8])
    up, down = (hm.gradient(problem, p + s * h * q).vector for s in (1, -1))
    H = hm.dynamics.hessian(problem, p)
    np.testing.assert_allclose(H @ q, (up - down) / (2 * h), rtol=1e-5, atol=1e-9)
    if scores is ONE:  # one label token per input: convex
        assert np.linalg.eigvalsh(H)[0] >= -1e-16
    assert np.linalg.norm(H, 2) <= hm.dynamics.smoothness(problem).tight


@pytest.mark.parametrize("coordinates", ["primal", "gram", "qr"])
def test_compiled_steps_are_the_plain_ones(coordinates):
    problem = hm.Problem(KEYS, SEVERAL, loss="log").weighted(weights=[1, 2, 3])
    own = hm.optim.Normalized(0.3)
    run = hm.train(problem, own, steps=50, start=[500.0, -700.0], coordinates=coordinates)
    p = np.array([500.0, -700.0])
    for _ in range(50):
        p = p + 0.3 * hm.gradient(problem, p).direction
    np.testing.assert_allclose(run.p, p, rtol=1e-12)


@pytest.mark.compiled  # trial points of a step overflow, which plain Python's exp refuses
def test_flow_from_far_on_the_wrong_side():
    """The label loses by 1e4 at the start; the flow comes back and ends at p_fin."""
    problem = hm.Problem([[[1.0], [0.0]]] * 3, [[1, 0], [1, 0], [0, 1]], loss="log")
    run = hm.flow(problem, start=[-1e4])
    assert run.event == "stationary point"
    assert run.p[0] == pytest.approx(math.log(2.0), abs=1e-12)


def test_a_twin_of_the_label_is_a_constant():
    """A token with the label's key and another score takes half of its attention forever."""
    problem = hm.Problem([[[1.0], [1.0], [0.0]]], [[1, 0, 0]], loss="log")
    assert hm.loss(problem, [1e3]) == pytest.approx(math.log(2.0), rel=1e-14)
    assert hm.gradient(problem, [1e3]).log_norm == pytest.approx(-1e3 - math.log(2.0), rel=1e-14)


def test_saved_and_loaded(tmp_path):
    problem = hm.Problem(KEYS, ONE, loss="log").weighted(weights=[1, 2, 3])
    for file in (tmp_path / "a.json", tmp_path / "a.npz"):
        problem.save(file)
        again = hm.Problem.load(file)
        assert again.loss is LOG
        assert hm.loss(again, [-900.0, 1.0]) == hm.loss(problem, [-900.0, 1.0])


@pytest.mark.parametrize(
    "scores, words",
    [
        ([[1, 0.5]], "must be 1 on the tokens of the label and 0 elsewhere .*, got 0.5 in input 0"),
        ([[0, 0]], "must be 1 on some token of every input .*, got none in input 0"),
    ],
)
def test_scores_that_are_no_labels(scores, words):
    with pytest.raises(ValueError, match=words):
        hm.Problem([[[1.0], [0.0]]], scores, loss="log")


def test_log_loss_elsewhere_and_of_other_tokens():
    with pytest.raises(ValueError, match="make the problem with Problem"):
        hm.Problem.from_tokens([[[1.0], [0.0]]], [1], [1.0], loss="log")
    problem = hm.Problem([[[1.0], [0.0]]], [[1, 0]], loss="log")
    with pytest.raises(ValueError, match="selection must be of label tokens"):
        hm.dynamics.excess_loss(problem, [0.0], [1])
