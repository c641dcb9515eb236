"""Kinds of keys: stored, known by inner products, one-hot. All give the same numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.dynamics.gradient import settle_at
from hardmax.problem import Problem
from hardmax.problem.keys import Dense, OneHot
from hardmax.problem.readouts import Scores

seeds = st.integers(0, 2**32 - 1)


def both(seed, n=4, N=7):
    """The same problem with one-hot keys and with the identity as a table."""
    rng = np.random.default_rng(seed)
    inputs = [rng.choice(N, size=rng.integers(1, 5), replace=False) for _ in range(n)]
    tokens, offsets = np.concatenate(inputs), np.concatenate([[0], np.cumsum([len(t) for t in inputs])])
    head = Scores(rng.normal(size=len(tokens)), hm.data.example("B-FIG-8").loss)
    return (
        Problem._flat(OneHot(N), tokens, offsets, head),
        Problem._flat(Dense(np.eye(N)), tokens, offsets, head),
        rng,
    )


@given(seed=seeds, size=st.sampled_from([0.0, 1.0, 40.0, 3000.0]))
def test_one_hot_keys_are_the_identity(seed, size):
    one, dense, rng = both(seed)
    p = size * rng.normal(size=one.d)
    a, b = hm.gradient(one, p), hm.gradient(dense, p)
    np.testing.assert_allclose(a.direction, b.direction, atol=1e-15)
    assert a.log_norm == pytest.approx(b.log_norm, rel=1e-14)
    assert hm.loss(one, p) == hm.loss(dense, p)
    assert settle_at(one, p).weights.tolist() == settle_at(dense, p).weights.tolist()
    assert one.groups.tolist() == dense.groups.tolist()
    assert hm.selected_tokens(one, p + 1.0).sets == hm.selected_tokens(dense, p + 1.0).sets
    plus, minus = rng.integers(0, one.d, size=(2, 5))
    assert one.table.differences(plus, minus).tolist() == dense.table.differences(plus, minus).tolist()
    assert one.table.gram(plus, minus).tolist() == dense.table.gram(plus, minus).tolist()


def test_one_hot_keys_are_never_stored():
    """A million tokens: gradient, risk and selection need no table, and the table is refused."""
    size = 1_000_000
    head = Scores(np.array([1.0, 0.0]), hm.data.example("B-FIG-8").loss)
    problem = Problem._flat(OneHot(size), np.array([3, size - 1]), np.array([0, 2]), head)
    p = np.zeros(size)
    p[3] = 5000.0
    found = hm.gradient(problem, p)
    assert found.direction[[3, size - 1]] == pytest.approx([0.5**0.5, -(0.5**0.5)])
    assert found.log_norm == pytest.approx(-5000 - np.log1p(np.e) + np.log(2) / 2, rel=1e-12)
    assert hm.selected_tokens(problem, p).sets == ((0,),)
    with pytest.raises(ValueError, match=r"keys: 1000000 one-hot keys as a table would have 1e\+12 entries"):
        _ = problem.keys


def test_the_same_training_whatever_the_keys():
    one, dense, _ = both(5)
    gram = hm.Problem.from_gram(
        np.eye(7), [part.tolist() for part in one.split(one.tokens)], one.split(one.scores)
    )
    best = hm.max_margin(one, [0] * one.n)
    assert best.is_feasible == hm.max_margin(dense, [0] * one.n).is_feasible
    runs = [hm.train(problem, hm.optim.Normalized(0.1), steps=200) for problem in (one, dense, gram)]
    np.testing.assert_allclose(runs[0].p, runs[1].p, atol=1e-12)
    np.testing.assert_allclose(runs[0].losses, runs[2].losses, rtol=1e-12)
    assert hm.flow(one, until_norm=100.0).cosine_distance(hm.flow(dense, until_norm=100.0)) < 1e-20


def test_a_file_holds_one_hot_keys_by_their_number(tmp_path):
    one, _, rng = both(3)
    weighted = one.weighted(rng.uniform(0.1, 1.0, one.n), rng.integers(1, 5, len(one.tokens)))
    weighted.save(tmp_path / "one.npz")
    again = hm.Problem.load(tmp_path / "one.npz")
    assert isinstance(again.table, OneHot)
    p = rng.normal(size=one.d)
    assert hm.loss(again, p) == hm.loss(weighted, p)
    assert hm.gradient(again, p).log_norm == hm.gradient(weighted, p).log_norm
