"""The official arithmetic of B-FIG-9a: right while rounding is harmless, and what it spoils later."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.max_margin.official import OFFICIAL, Arithmetic, official_end
from hardmax.papers.max_margin.random_data import DAMPED, SINGLE, STRONGLY_DAMPED, UNDAMPED
from hardmax.trials.experiments import outcomes

pytestmark = pytest.mark.compiled


def by_hand(problem, arithmetic, steps):
    """The usual backward written with arrays of one precision."""
    number = np.dtype(arithmetic.precision).type
    X = problem.keys.reshape(problem.n, -1, problem.d).astype(number)
    gamma = problem.scores.reshape(problem.n, -1).astype(number)
    p = np.zeros(problem.d, number)
    for _ in range(steps):
        logits = X @ p
        s = np.exp(logits - logits.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        u = (s * gamma).sum(axis=1, keepdims=True)
        g = -gamma / (1 + np.exp(u)) / number(problem.n)
        gradient = np.einsum("it,itd->d", s * (g - (s * g).sum(axis=1, keepdims=True)), X)
        assert gradient.dtype == number
        p = p - gradient / (np.sqrt((gradient * gradient).sum()) + number(arithmetic.epsilon))
    return p


@pytest.mark.parametrize("arithmetic", OFFICIAL, ids=lambda each: each.name)
@pytest.mark.parametrize("d", [10, 30])
def test_official_steps(arithmetic, d):
    """Before rounding rules, all kinds of arithmetic take the exact steps; each rounds in its precision."""
    problems = list(hm.data.fig9_oracle(d, 20))
    ends = official_end(problems, arithmetic, steps=8)
    digits = 1e-4 if arithmetic.precision == "float32" else 1e-9
    hand = [by_hand(problem, arithmetic, 8) for problem in problems]
    exact = [path.p for path in hm.train(problems, hm.optim.Normalized(1.0), steps=8)]
    assert np.abs(ends - hand).max() < digits
    assert np.abs(ends - exact).max() < max(digits, 1e-6)
    if arithmetic.precision == "float32":
        assert (ends == ends.astype(np.float32)).all()


@pytest.mark.slow
def test_where_0997_comes_from():
    """At d = 100: an epsilon stalls p near |p| = 77, and without it plain float64 loses the direction."""
    problems = list(hm.data.fig9_oracle(100, 100))
    found = {
        kind.name: outcomes(problems, steps=0, starts=list(official_end(problems, kind))) for kind in OFFICIAL
    }
    mean = {name: 1 - np.mean([row["misalignment"] for row in rows]) for name, rows in found.items()}
    assert mean[DAMPED] == pytest.approx(0.9953, abs=5e-4)
    assert mean[STRONGLY_DAMPED] == pytest.approx(0.9935, abs=5e-4)
    assert mean[UNDAMPED] == pytest.approx(0.44, abs=0.04)
    assert 0.6 < mean[SINGLE] < 0.9
    assert np.median([row["norm"] for row in found[DAMPED]]) == pytest.approx(76.3, abs=1)
    assert np.median([row["norm"] for row in found[STRONGLY_DAMPED]]) == pytest.approx(48.7, abs=1)


def test_a_gradient_of_exactly_zero_moves_nothing():
    alone = hm.Problem([[[1.0, 2.0]]], [[1.0]])
    assert official_end([alone], Arithmetic("float64", 0.0)).tolist() == [[0.0, 0.0]]
