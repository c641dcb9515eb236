"""Trained embeddings: corpora, the first step, patterns, and all trainings of E, p and v."""

import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

TWO = n.corpus([[0, 2], [1, 2]], [1, -1])


def loss_of(corpus, E, p, v):
    """Return the mean logistic loss and the predictions of one layer with attention softmax(E p)."""
    predictions = np.array([f.softmax(E[s] @ p) @ E[s] @ v for s in corpus.sequences()])
    return f.LOSSES["logistic"][0](corpus.labels * predictions).mean(), predictions


def gradients(corpus, E, p, v):
    by_E, by_p, by_v = np.zeros_like(E), np.zeros_like(p), np.zeros_like(v)
    for tokens, y in zip(corpus.sequences(), corpus.labels, strict=True):
        X = E[tokens]
        s = f.softmax(X @ p)
        slope = f.LOSSES["logistic"][1](y * (s @ X @ v)) * y / corpus.n
        logit = slope * s * (X @ v - s @ X @ v)
        np.add.at(by_E, tokens, np.outer(logit, p) + slope * np.outer(s, v))
        by_p += logit @ X
        by_v += slope * s @ X
    return by_E, by_p, by_v


def test_corpora():
    corpus = n.corpus(["good good film", "bad film film"], [1, -1])
    assert corpus.vocabulary == ("good", "film", "bad")
    assert corpus.matrix.toarray().tolist() == [[2, 1, 0], [0, 2, 1]]
    assert (n.corpus_from_counts([[2, 1, 0], [0, 2, 1]], [1, -1]).matrix != corpus.matrix).nnz == 0
    # alpha_s = mean over sequences of y times the share of s
    assert f.close(corpus.alpha, [1 / 3, -1 / 6, -1 / 6])
    assert corpus.statistics.signed.tolist() == [2, -1, -1]
    assert [corpus.word(s) for s in corpus.completely_positive] == ["good"]


def test_assumption_4():
    assert n.assumption_4(n.corpus(["good film", "bad film"], [1, -1])).important.tolist() == [0, 2]
    witness = n.assumption_4(n.corpus(["good film film", "bad bad film"], [1, -1])).witness
    assert (witness.reason, witness.sequence) == ("relevant", 0)
    drawn = n.assumption_4_corpus(6, 4, important=(2, 3), irrelevant=5, rng=0)
    assert n.assumption_4(drawn).holds
    assert drawn.important.tolist() == [0, 1, 2, 3, 4]


def test_the_k_level_model():
    assert [n.k_level(size).S for size in ("paper", "printed", "small")] == [2048, 1538, 192]
    model = n.k_level("small")
    assert sum(model.probabilities(1)) == 1
    drawn = model.draw(64, rng=0)
    assert (drawn.n, int(drawn.labels.sum())) == (64, 0)
    assert (drawn.lengths == model.T).all()


@pytest.mark.parametrize("blocks", [("p",), ("E", "p"), ("E", "p", "v")])
def test_gradient_descent_on_all_vectors(blocks):
    corpus = n.assumption_4_corpus(4, 3, rng=0)
    E, p, v = n.initial_vectors(corpus.S, 6, rng=1)
    run = n.train_embeddings(n.embeddings(corpus, E, p, v, blocks), lr=0.5, steps=20)
    by_gram = n.train_gram(corpus, n.gram_state(E, p, v), lr=0.5, steps=20, blocks=blocks)
    for _ in range(20):
        moves = dict(zip("Epv", gradients(corpus, E, p, v), strict=True))
        E, p, v = (x - 0.5 * moves[b] * (b in blocks) for b, x in zip("Epv", (E, p, v), strict=True))
    assert f.close(run.p, p, rtol=1e-9)
    assert f.close(run.E[-1] if run.E.ndim == 3 else run.E, E, rtol=1e-9)
    assert run.losses[-1] == pytest.approx(loss_of(corpus, E, p, v)[0], rel=1e-9)
    assert f.close(by_gram.a[-1], E @ p, rtol=1e-8)
    assert f.close(by_gram.c[-1], E @ v, rtol=1e-8)


def test_loss_and_gradients():
    corpus = n.assumption_4_corpus(4, 3, rng=0)
    E, p, v = n.initial_vectors(corpus.S, 6, rng=1)
    found, by_hand = n.one_layer_gradients(corpus, E, p, v), gradients(corpus, E, p, v)
    assert all(f.close(getattr(found, name), g) for name, g in zip("Epv", by_hand, strict=True))
    loss, predictions = loss_of(corpus, E, p, v)
    point = n.one_layer_point(corpus, E @ p, E @ v)
    assert f.close(point.f, predictions)
    assert point.loss == pytest.approx(loss)
    W = np.diag(np.arange(1.0, 7.0))  # attention softmax(E W'p): the chain rule through u = W'p
    found, through = n.key_query_gradients(corpus, E, p, W, v), gradients(corpus, E, W.T @ p, v)[1]
    assert f.close(found.W, np.outer(p, through))
    assert f.close(found.p, W @ through)


def test_flow_keeps_its_spectrum():
    start = n.infinite_gram_state(3)
    run = n.flow_gram(TWO, start, times=[0, 1], blocks="Epv")
    near = n.train_gram(TWO, start, lr=1e-3, steps=1000, blocks="Epv")
    assert f.close(run.state.c, near.state.c, atol=1e-3)
    assert f.close(n.conserved_spectrum(run.state, "Epv"), n.conserved_spectrum(start, "Epv"), atol=1e-8)
    apart = n.gram_state([[3, 0, 0]], [0, 2, 0], [0, 0, 1])
    assert f.close(
        n.conserved_spectrum(apart, "Epv"), [-4.0, -1.0, 9.0]
    )  # E'E - pp' - vv' of orthogonal vectors


def test_two_layers():
    corpus = n.corpus([[0, 1], [1, 2]], [1, -1])
    E, p, v = np.eye(3), np.zeros(3), np.array([1.0, 0.0, -1.0])
    predictions, found = n.two_layer(corpus, E, p, v)
    assert found.loss == pytest.approx(np.log1p(np.exp(-corpus.labels * predictions)).mean())
    for name, x in (("E", E), ("p", p), ("v", v)):
        for k in range(x.size):
            step = np.zeros(x.size)
            step[k] = 1e-5
            moved = [{"E": E, "p": p, "v": v} | {name: x + sign * step.reshape(x.shape)} for sign in (1, -1)]
            plus, minus = (n.two_layer(corpus, **each)[1].loss for each in moved)
            assert getattr(found, name).ravel()[k] == pytest.approx((plus - minus) / 2e-5, abs=1e-7)
    state = n.two_layer_state(E, p, v)
    assert f.close(state.predict(corpus), predictions)
    run = n.train_two_layer_gram(corpus, state, lr=0.5, steps=50)
    assert run.losses[-1] < 0.05 < run.losses[0]
    E1 = {b: x - 0.5 * getattr(found, b) for b, x in (("E", E), ("p", p), ("v", v))}
    assert n.train_two_layer_gram(corpus, state, lr=0.5, steps=1).losses[-1] == pytest.approx(
        n.two_layer(corpus, **E1)[1].loss, rel=1e-9
    )


def test_mini_batches(tmp_path):
    corpus = n.k_level("small").draw(128, rng=0)
    options = {"batch": 32, "rng": 0, "dtype": "float64", "workers": 1}
    run = n.train_minibatch(corpus, 16, n.optimizer("adamw", 0.02), epochs=20, **options)
    assert run.loss < 0.05
    assert run.loss == pytest.approx(loss_of(corpus, run.E, run.p, run.v)[0], rel=1e-6)
    assert run.r_v > 0.5  # the values v.e_s follow the statistics of the labels
    # one batch of everything with plain descent is gradient descent
    E, p, v = n.initial_vectors(corpus.S, 8, rng=3)
    whole = n.train_minibatch(
        corpus, 8, n.optimizer("gd", 0.3), epochs=2, start=(E, p, v), **{**options, "batch": 128}
    )
    for _ in range(2):
        E, p, v = (x - 0.3 * g for x, g in zip((E, p, v), gradients(corpus, E, p, v), strict=True))
    assert f.close(whole.p, p, rtol=1e-9)
    # a checkpoint goes on to the same bits
    kept = {"checkpoint": tmp_path / "half.npz", **options}
    n.train_minibatch(corpus, 16, n.optimizer("adamw", 0.02), epochs=10, **kept)
    assert (n.train_minibatch(corpus, 16, n.optimizer("adamw", 0.02), epochs=20, **kept).p == run.p).all()


def test_the_first_step():
    corpus = n.assumption_4_corpus(4, 3, rng=0)
    E, p, v = n.initial_vectors(corpus.S, 512, rng=1)
    found = n.first_step(corpus, E, p, v, lr=64)
    by_E, by_p, _ = gradients(corpus, E, p, v)
    assert f.close(found.E, E - 64 * by_E, rtol=1e-9)
    assert f.close(found.p, p - 64 * by_p, rtol=1e-9)
    assert f.close(
        found.E - found.err_E, E + 32 * np.outer(corpus.alpha, v), rtol=1e-9
    )  # A-LEM-2: what is learned
    zero = np.zeros(3)
    assert n.first_step_errors(TWO, np.eye(3), zero, zero, 1.0, 0.0, 1.0, lr=64).largest == 0.0
    limit = n.infinite_width(TWO, lr=64)
    assert f.close(limit.c, 32 * TWO.alpha)


def test_the_event_of_a_good_start():
    assert n.initial_event(*n.initial_vectors(20, 256, rng=0), delta=0.1).holds
    assert not n.initial_event([[2.0, 0.0]], [0.0, 2.1], [1.0, 0.0], delta=0.1).holds
    assert n.initial_event_from_gram([1.0], [1e-31], [1e-30], 1.0, 0.0, d=10**60, delta=0.01).holds
    drawn = n.draw_initial(5, 10**60, rng=0)
    assert 0 < abs(drawn.c).max() < 1e-29  # of the order of 1/sqrt(d)


def test_states_of_nearly_orthogonal_vectors():
    state = n.structured_state(np.full((3, 3), 1e-30), np.array([5.0, -5.0]), 0.0)
    assert state.a.tolist() == [2e-30, 2e-30]
    after, errors = n.infinite_structured_state(3).first_step(TWO, first_rate=64)
    assert after.c.tolist() == [8.0, -8.0, 0.0]
    assert errors.largest == 0.0


def test_patterns():
    limit = n.infinite_width(TWO, lr=64)
    E = limit.E
    assert n.token_selection(TWO, np.eye(3), [1e9, 1.0, 1e9]).selected == ((0, 2), (2,))
    chosen = n.score_selection(TWO, [1.0, 1.0, 0.0])
    assert chosen.selected == ((0,), (1,)) == n.important_pattern(TWO)
    assert n.local_gap(TWO, limit.c, chosen) == 8.0
    assert str(n.pattern_max_margin(TWO, [[0], [1]], E, exact=True).exact.norm_squared) == "2/3"
    assert n.realizable(TWO, [[0], [1]])
    assert n.realizable(TWO, [[0], [1]], [[1], [-1], [0]]) is False
    found = n.realizable_patterns(TWO, containing=[0, 1])
    assert found == [((0,), (1,)), ((0,), (1, 2)), ((0, 2), (1,)), ((0, 2), (1, 2))]
    assert n.strong_conditions(TWO.problem(E, limit.v), [0, 0]).holds


def test_theorem_5():
    found = n.theorem_5_thresholds(n=2, T=2, S=3, delta=0.01)
    assert found.least_eta0 == 64
    assert found.allow(found.width)
    assert not found.allow(found.width - 1)
    run = n.run_theorem_5(TWO, rng=0)
    assert run.hypotheses_hold
    assert run.pattern == ((0,), (1,))
    assert run.misalignment_p < 1e-10
    assert math.isfinite(run.loss)
