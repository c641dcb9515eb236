"""A token that occurs several times in an input is one token with a multiplicity."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.problem.problem import slots_of

THREE = [[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
seeds = st.integers(0, 2**32 - 1)


def exact_pull(keys, scores, p):
    """Minus the gradient for the logistic loss, from the plain formula at 300 digits."""
    with mpmath.workdps(300):
        k = mpmath.matrix(keys)
        e = [mpmath.exp(x) for x in k * mpmath.matrix(p)]
        s = [x / mpmath.fsum(e) for x in e]
        u = mpmath.fdot(s, map(mpmath.mpf, scores))
        w = [a * (mpmath.mpf(g) - u) / (1 + mpmath.exp(u)) for a, g in zip(s, scores, strict=True)]
        V = k.T * mpmath.matrix(w)
        norm = mpmath.norm(V)
        return [float(x / norm) for x in V], float(mpmath.log(norm))


def test_copies_keep_their_score():
    """The mean of three copies of .1 is not .1 in floats: it made a direction of (.707, -.707)."""
    scores = [0.1, 0.1, 0.1, 0.1, 0.0]
    ours = hm.gradient(hm.Problem(THREE, [scores]), [50.0, 50.0])
    direction, log_norm = exact_pull(THREE[0], scores, [50.0, 50.0])
    np.testing.assert_allclose(ours.direction, direction, atol=1e-14)
    np.testing.assert_allclose(ours.direction, [0.949, 0.316], atol=5e-4)
    assert ours.log_norm == pytest.approx(log_norm, rel=1e-14)
    assert ours.log_norm == pytest.approx(-54.7, abs=0.05)


def test_equal_scores_pull_nowhere():
    problem = hm.Problem(THREE, [[0.1] * 5])
    assert hm.gradient(problem, [50.0, 50.0]).is_stationary
    for coordinates in ("primal", "gram", "qr"):
        path = hm.train(
            problem, hm.optim.Normalized(0.1), steps=50, start=[3.0, 1.0], coordinates=coordinates
        )
        assert path.event == "no competing token"
        np.testing.assert_array_equal(path.p, [3.0, 1.0])
    assert hm.flow(problem, start=[3.0, 1.0]).event == "no competing token"


@pytest.mark.parametrize("copies", range(2, 60))
def test_values_of_copies_score_alike(copies):
    """Through a linear head too, where BLAS may sum equal rows of a table in different orders."""
    rng = np.random.default_rng(copies)
    x, v = rng.normal(size=7), rng.normal(size=7)
    tokens = [np.vstack([np.tile(x, (copies, 1)), x + 1.0])]
    problem = hm.Problem.from_tokens(tokens, [1], v)
    assert problem.groups.tolist() == [0] * copies + [copies]
    assert len(set(problem.scores[:copies].tolist())) == 1


@pytest.mark.parametrize(
    "scores, balance", [((0.1, 0.3, 0.5, 0.7), None), ((1.0, 4.0, -2.0), 1.0), ((1e16, 3.0, -1e16), 1.0)]
)
def test_twins_have_the_mean_of_their_scores(scores, balance):
    """Exactly, where the mean is a float: then scores that balance have no gradient at all."""
    balance = float(mpmath.fsum(map(mpmath.mpf, scores)) / len(scores)) if balance is None else balance
    problem = hm.Problem([[[1.0]] * len(scores) + [[0.0]]], [[*scores, balance]])
    assert slots_of(problem).merge(problem.scores)[0] == balance
    assert hm.gradient(problem, [2.0]).is_stationary
    assert problem.groups.tolist() == list(range(len(scores) + 1))


def test_a_repeated_winner_is_no_tie():
    keys = [[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]
    problem = hm.Problem(keys, [[0.0, 1.0, 1.0, 0.5]])
    path = hm.flow(problem, until_norm=1e4)
    assert path.event is None
    assert path.selection == (1,)
    assert path.off_top_attention() == 0.0
    twins = hm.Problem(keys, [[0.0, 1.0, 0.9, 0.5]])
    path = hm.flow(twins, until_norm=1e4)
    assert path.event == "tie"
    assert path.selection.sets == ((1, 2),)


def test_the_head_of_the_snapshot_tells_copies_from_twins():
    """Before v is trained all scores are zero; afterwards tokens with one key and two values differ."""
    problem = hm.Problem.from_values([[[1.0], [1.0], [0.0]]], [[[2.0], [1.0], [-1.0]]], [1], [0.0])
    assert problem.groups.tolist() == [0, 0, 2]
    path = hm.train(problem.joint(), hm.optim.Normalized(0.1), steps=50)
    assert path.selection.sets == ((0, 1),)


@given(seeds, st.sampled_from(["logistic", "exponential", "correlation"]))
def test_copies_are_a_multiplicity(seed, loss):
    """m copies of a token act as one with its logit raised by log m, however the slots are ordered."""
    rng = np.random.default_rng(seed)
    T, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    keys, scores = rng.normal(size=(T, d)), rng.normal(size=T)
    copies = rng.integers(1, 8, size=T)
    order = rng.permutation(np.repeat(np.arange(T), copies))
    problem = hm.Problem([keys[order]], [scores[order]], loss=loss)
    first = {t: int(np.flatnonzero(order == t)[0]) for t in range(T)}
    assert problem.groups.tolist() == [first[t] for t in order.tolist()]
    p = rng.normal(size=d) * 10.0 ** rng.uniform(-1, 3)
    lifted = hm.Problem([np.column_stack([keys, np.log(copies)])], [scores], loss=loss)
    whole = hm.gradient(lifted, np.append(p, 1.0))
    ours = hm.gradient(problem, p)
    pull = whole.direction[:-1]
    np.testing.assert_allclose(ours.direction, pull / np.linalg.norm(pull), atol=1e-9)
    assert ours.log_norm == pytest.approx(whole.log_norm + math.log(np.linalg.norm(pull)), rel=1e-9, abs=1e-9)
