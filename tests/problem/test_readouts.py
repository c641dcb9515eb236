"""Heads as a protocol: what attracts and what is best are two questions; no verb asks for a head's class."""

import re
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.nexttoken import Samples
from hardmax.problem.keys import OneHot
from hardmax.problem.readouts import CrossEntropy, OutputValue

SOURCE = Path(hm.__file__).parent

# Next token 0. Alone, token 0 predicts it best (u = 1.5 against 1.3); but with all attention on token 0 the
# rival output 1 is what hurts, and token 1 has less of it: there the score of token 1 is the larger one.
TABLE = np.array([[2.0, 1.2, 0.0], [0.5, -2.0, 0.0], [-4.0, -0.1, 0.0]])


def one_input(table, target=0):
    V = len(table)
    W_ov = OutputValue(np.full(V, -1), None, np.asarray(table))
    head = CrossEntropy(W_ov, np.arange(V), np.array([target]))
    return hm.Problem._flat(OneHot(V), np.arange(V), np.array([0, V]), head, weights=np.ones(1))


def plain(table, y):
    """u and h at every vertex, by the formulas as they stand."""
    V = len(table)
    others = [v for v in range(V) if v != y]
    u = [table[y, t] - np.log(np.exp(table[others, t]).sum()) for t in range(V)]
    h = np.empty((V, V))
    for c in range(V):
        r = np.exp(table[others, c]) / np.exp(table[others, c]).sum()
        h[c] = table[y] - r @ table[others]
    return np.array(u), h


def test_best_and_attracting_are_ordered_differently():
    u, h = plain(TABLE, 0)
    assert u[0] > u[1]
    assert h[0, 1] > h[0, 0]  # at the vertex of token 0, token 1 has the larger score
    problem = one_input(TABLE)
    assert hm.best_tokens(problem).sets == ((0,),)
    assert hm.directions.is_best(problem, [0])
    assert not hm.attracts(problem, [0]).verdict  # h decides: attention moves on to token 1
    found = problem.readout.vertex_gaps(problem.tokens, problem.offsets, np.array([0]))
    np.testing.assert_allclose(found, h[0, 0] - h[0], atol=1e-15)
    path = hm.flow(problem, start=10.0 * np.array([1.0, -0.5, -0.5]), until_log_time=20.0)
    assert path.event is None
    assert path.attention()[0].round(6).tolist() == [0.455771, 0.544229, 0.0]  # between the two, forever
    attracting = [each.selection for each in hm.attractors(problem)]
    assert attracting == [(c,) for c in range(3) if all(h[c, c] > h[c, t] for t in range(3) if t != c)]


def test_how_often_the_two_orders_differ():
    """Some 15 % of random tables, as the two methods must show."""
    draw, differ = np.random.default_rng(0), 0
    for _ in range(400):
        table = draw.normal(size=(4, 4))
        problem = one_input(table)
        u, h = plain(table, 0)
        alone = problem.readout.vertex_predictions(problem.tokens, problem.offsets)
        np.testing.assert_allclose(alone, u, atol=1e-14)
        c = int(np.argmax(u))
        gaps = problem.readout.vertex_gaps(problem.tokens, problem.offsets, np.array([c]))
        np.testing.assert_allclose(gaps, h[c, c] - h[c], atol=1e-13)
        differ += not np.array_equal(np.argsort(h[c]), np.argsort(u))
    assert 0.05 < differ / 400 < 0.6


def test_the_aligned_form_is_the_table():
    n = np.array([1, 2, 0, 2, -1])  # not injective, and one token without a next one
    draw = np.random.default_rng(2)
    words, targets = draw.integers(0, 5, 40), draw.integers(0, 5, 8)
    offsets = np.arange(0, 41, 5)
    W_ov = OutputValue.aligned(n, 3.0)
    heads = [CrossEntropy(each, words, targets) for each in (W_ov, OutputValue.of_table(n, W_ov.table))]
    for size in (0.0, 2.0, 800.0):
        p = size * draw.normal(size=40)
        a, b = (
            hm.gradient(
                hm.Problem._flat(OneHot(40), np.arange(40), offsets, head, weights=np.full(8, 0.1)), p
            )
            for head in heads
        )
        np.testing.assert_allclose(a.direction, b.direction, atol=1e-13)
        assert a.log_norm == pytest.approx(b.log_norm, abs=1e-11)


def test_twins_of_a_cross_entropy_share_their_attention():
    """Two tokens with one key and different outputs are one slot with the mean of their scores."""
    draw = np.random.default_rng(3)
    keys, table = draw.normal(size=(1, 4, 2)), draw.normal(size=(3, 3))
    keys[0, 2] = keys[0, 0]
    head = CrossEntropy(OutputValue(np.full(3, -1), None, table), np.array([0, 1, 2, 1]), np.array([1]))
    problem = hm.Problem.from_readout(keys, head)
    p, h = draw.normal(size=2), 1e-6

    def risk(q):
        logits = keys[0] @ q
        s = np.exp(logits) / np.exp(logits).sum()
        z = table[:, head.words] @ s
        return np.log(np.exp(z).sum()) - z[1]

    assert hm.loss(problem, p) == pytest.approx(risk(p), rel=1e-14)
    slope = [(risk(p + h * e) - risk(p - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(hm.gradient(problem, p).vector, slope, atol=1e-9)


def test_no_verb_asks_for_the_class_of_a_head():
    pattern = re.compile(r"isinstance\([^)]*\b(Scores|LinearReadout|NonlinearReadout|CrossEntropy)\b")
    asking = [str(file) for file in SOURCE.rglob("*.py") if pattern.search(file.read_text("utf-8"))]
    assert asking == []


def test_what_a_head_cannot_do_is_said(tmp_path):
    problem = Samples.from_sentences(["a b b", "b a"]).problem(np.eye(2))
    for act in (lambda: problem.scores, lambda: hm.dynamics.smoothness(problem)):
        with pytest.raises(ValueError, match="no fixed scores"):
            act()
    with pytest.raises(ValueError, match="Hessian"):
        hm.dynamics.hessian(problem, None)
    with pytest.raises(ValueError, match=r"readout must be a hardmax\.readouts\.Readout, got str"):
        hm.Problem.from_readout([[[1.0]]], "linear")
    with pytest.raises(ValueError, match="v needs a linear readout"):
        hm.gradient(problem, None, wrt="v")
