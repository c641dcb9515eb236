"""Next tokens with soft labels: log-odds, conditional entropy, and the max margin next to them."""

import math

import mpmath
import numpy as np
import pytest

import hardmax as hm


def finite_part(problem):
    return hm.decompose(problem).p_fin.reshape(problem.shape)


def test_three_to_one_has_log_three():
    problem = hm.nexttoken.linear(["the", "the", "a"], ["cat", "dog", "sun"], [3, 1, 2])
    W = finite_part(problem)
    truth = float(mpmath.log(3))
    assert truth == pytest.approx(1.098612, abs=1e-6)
    assert W[0, 1] - W[1, 1] == pytest.approx(truth, rel=1e-13)
    entropy = (math.log(4) - 0.75 * math.log(3)) * 4 / 6
    assert hm.decompose(problem).inf_risk == pytest.approx(entropy, rel=1e-13)


def test_pairs_that_repeat_add_up():
    once = hm.nexttoken.linear([0, 0], ["a", "b"], [3, 1])
    apart = hm.nexttoken.linear([0, 0, 0, 0], ["a", "b", "a", "a"])
    assert once.n == apart.n == 2
    assert hm.loss(once, [[0.3], [-0.2]]) == pytest.approx(hm.loss(apart, [[0.3], [-0.2]]), rel=1e-15)


def test_features_by_row_and_by_name_agree():
    rows = [[1.0, 0.0], [0.5, 1.0]]
    by_row = hm.nexttoken.linear([0, 0, 1], ["cat", "dog", "sun"], [3, 1, 2], features=rows)
    by_name = hm.nexttoken.linear(
        ["x", "x", "y"], ["cat", "dog", "sun"], [3, 1, 2], features={"x": rows[0], "y": rows[1]}
    )
    assert hm.decompose(by_row).p_mm.tolist() == hm.decompose(by_name).p_mm.tolist()
    W = finite_part(by_row)
    assert (W[0] - W[1]) @ rows[0] == pytest.approx(math.log(3), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_diverging_part_equals_a_quadratic_program(seed):
    cvxopt = pytest.importorskip("cvxopt", reason="cvxopt is not installed")
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, size=(3, 4)) * (rng.random((3, 4)) < 0.6)
    counts[np.arange(3), np.arange(3)] += 1
    counts[0, 1] += 1
    counts[:, 3] += counts.sum(axis=0)[3] == 0  # the fourth token follows something
    pairs = np.argwhere(counts)
    features = rng.normal(size=(3, 3))
    problem = hm.nexttoken.linear(
        pairs[:, 0].tolist(), pairs[:, 1].tolist(), counts[counts > 0].tolist(), features=features
    )
    ties, wins = [], []
    for i in range(3):
        inside, outside = np.flatnonzero(counts[i]), np.flatnonzero(counts[i] == 0)
        basis = [np.outer(np.eye(4)[t], features[i]).ravel() for t in range(4)]
        ties += [basis[inside[0]] - basis[t] for t in inside[1:]]
        wins += [basis[t] - basis[o] for t in inside for o in outside]
    cvxopt.solvers.options.update(show_progress=False, abstol=1e-12, reltol=1e-12, feastol=1e-12)
    found = cvxopt.solvers.qp(
        cvxopt.matrix(np.eye(12)),
        cvxopt.matrix(np.zeros(12)),
        cvxopt.matrix(-np.array(wins)),
        cvxopt.matrix(-np.ones(len(wins))),
        cvxopt.matrix(np.array(ties)),
        cvxopt.matrix(np.zeros(len(ties))),
    )
    truth = np.array(found["x"]).ravel()
    assert hm.decompose(problem).p_mm == pytest.approx(truth, abs=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([], []), {}, ["contexts", "at least one"]),
        ((["x", "y"], ["a", "a"]), {}, ["next_tokens", "two classes"]),
        ((["x", "y"], ["a"]), {}, ["next_tokens", "one length"]),
        ((["x", "y"], ["a", "b"], [1, 0]), {}, ["counts", "positive"]),
        ((["x", "y"], ["a", "b"]), {"features": {"x": [1.0]}}, ["features", "'y'"]),
        (([0, 5], ["a", "b"]), {"features": [[1.0]]}, ["contexts", "row numbers"]),
        ((["x"], ["a"]), {"features": "no"}, ["next_tokens"]),
        ((["x", "y"], ["a", "b"]), {"features": "no"}, ["features"]),
    ],
)
def test_bad_input_is_refused_by_name(arguments, options, words):
    with pytest.raises(ValueError, match=words[0]) as refusal:
        hm.nexttoken.linear(*arguments, **options)
    assert all(word in str(refusal.value) for word in words)
