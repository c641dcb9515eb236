"""The one-layer model against the oracles, the paper's own formulas, and mpmath far beyond underflow."""

import itertools
import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hardmax as hm
from hardmax.embeddings import one_layer

from .conftest import Instance, exact_model, numbers

TIGHT = {"rtol": 1e-12, "atol": 0}


def test_oracle_one_layer(oracles: dict, d1: Instance) -> None:
    """A-ORC-1."""
    want = oracles["a"]["one_layer_D1"]
    corpus, E, p, v = d1
    a, c = E @ p, E @ v
    np.testing.assert_allclose(a, numbers(want["a"]), **TIGHT)
    np.testing.assert_allclose(c, numbers(want["c"]), **TIGHT)
    point = one_layer.evaluate(corpus, a, c)
    for name, key in [("f", "f"), ("g", "g"), ("loss", "loss"), ("A", "A_dL_da"), ("C", "C_dL_dc")]:
        np.testing.assert_allclose(getattr(point, name), numbers(want[key]), **TIGHT)
    found = one_layer.gradients(corpus, E, p, v)
    for name in "Epv":
        np.testing.assert_allclose(getattr(found, name), numbers(want[f"grad_{name}"]), **TIGHT)
    Q = corpus.matrix.astype(float)
    Q.data = one_layer.token_mass(corpus, a)
    np.testing.assert_allclose(Q.toarray(), numbers(want["token_mass_Q"]), **TIGHT)
    phat = numbers(want["lemma8"]["phat"])
    pull = float(want["lemma8"]["minus_phat_dot_grad_p"])
    assert one_layer.pairwise_pull(corpus, a, c, E @ phat) == pytest.approx(pull, rel=1e-12)
    assert -phat @ found.p == pytest.approx(pull, rel=1e-12)


def test_oracle_key_query(oracles: dict, d1: Instance) -> None:
    """A-ORC-2, and training W alone is training u with the step times |p|^2 (A-DEF-2)."""
    want = oracles["a"]["one_layer_WKQ_D1"]
    corpus, E, p, v = d1
    W = numbers(want["W"])
    found = one_layer.key_query_gradients(corpus, E, p, W, v)
    assert found.loss == pytest.approx(float(want["loss"]), rel=1e-12)
    np.testing.assert_allclose(found.u, numbers(want["grad_u"]), rtol=1e-12)
    np.testing.assert_allclose(found.p, numbers(want["grad_p_W_times_grad_u"]), rtol=1e-12)
    np.testing.assert_allclose(found.W, numbers(want["grad_W_p_outer_grad_u"]), rtol=1e-12)
    u = W.T @ p
    for _ in range(20):
        W = W - 0.3 * one_layer.key_query_gradients(corpus, E, p, W, v).W
        u = u - 0.3 * (p @ p) * one_layer.gradients(corpus, E, u, v).p
    np.testing.assert_allclose(W.T @ p, u, rtol=1e-13)


reals = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def points(draw: Any) -> tuple[hm.Corpus, np.ndarray, np.ndarray]:
    sequences = draw(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=4))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sequences), max_size=len(sequences)))
    corpus = hm.Corpus.from_sequences(sequences, labels)
    return (
        corpus,
        draw(arrays(float, corpus.S, elements=reals)),
        draw(arrays(float, corpus.S, elements=reals)),
    )


CANCELLING = hm.Corpus.from_sequences([[0], [0], [0, 0, 1], [0, 0, 1]], [-1, -1, -1, 1])


@settings(max_examples=40)
@given(points(), st.sampled_from([1.0, 60.0, 500.0]))
@example((CANCELLING, np.zeros(2), np.array([0.0, 0.015625])), 1.0)
def test_the_papers_sum_over_positions(
    point: tuple[hm.Corpus, np.ndarray, np.ndarray], steepness: float
) -> None:
    """A-LEM-7 as printed, at 60 digits and more, equals the simplified form at every scale of the logits."""
    corpus, a, c = point
    a = steepness * a
    with mpmath.workdps(60 + int(6 * steepness)):
        want = exact_model(corpus, a, c)
        found = one_layer.evaluate(corpus, a, c)
        assert found.loss == pytest.approx(float(want.loss), rel=1e-12)
        np.testing.assert_allclose(found.f, np.array(want.f, dtype=float), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found.g, np.array(want.g, dtype=float), rtol=1e-11)
        # Relative to the largest sum of terms' sizes, for those of opposite labels may cancel, and after the
        # common exponent: nothing is lost to underflow.
        scale = mpmath.exp(found.log_scale) if found.log_scale > -math.inf else 1
        A = np.array([float(x / scale) for x in want.A])
        alone = [exact_model(one_layer.take(corpus, np.array([k])), a, c).A for k in range(corpus.n)]
        size = max(sum(map(abs, terms)) for terms in zip(*alone, strict=True)) / corpus.n
        tolerance = 1e-15 * (20 + 6 * steepness) * float(size / scale) + 1e-50
        np.testing.assert_allclose(found.A_hat, A, rtol=0, atol=tolerance)
        C = np.array([float(x / mpmath.exp(found.log_scale_C)) for x in want.C])
        np.testing.assert_allclose(found.C_hat, C, rtol=0, atol=1e-15 * (20 + 6 * steepness))


@given(points())
def test_both_ways_of_evaluating_agree(point: tuple[hm.Corpus, np.ndarray, np.ndarray]) -> None:
    corpus, a, c = point
    one, two = one_layer._evaluate_moderate(corpus, a, c), one_layer._evaluate_anywhere(corpus, a, c)
    for name in ("f", "log_g", "loss", "C"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(one.A, two.A, rtol=1e-12, atol=1e-16)


ALMOST_OPPOSITE = hm.Corpus.from_sequences([[0], [0, 1, 2, 2], [1, 2, 2]], [-1, -1, 1])


@given(points(), st.sampled_from([1.0, 300.0]))
@example((ALMOST_OPPOSITE, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])), 300.0)
def test_identities(point: tuple[hm.Corpus, np.ndarray, np.ndarray], steepness: float) -> None:
    corpus, a, c = point
    found = one_layer.evaluate(corpus, steepness * a, c)
    assert found.C.sum() == pytest.approx(-(corpus.signs * found.g).mean(), rel=1e-13, abs=1e-16)
    # Sequence by sequence, then relative to the sum of their sizes: opposite labels may cancel.
    size = 0.0
    for k in range(corpus.n):
        alone = hm.Corpus.from_counts(corpus.matrix[[k]], corpus.labels[[k]])
        one = one_layer.evaluate(alone, steepness * a, c)
        assert abs(one.A_hat.sum()) <= 1e-15 * alone.nnz * np.abs(one.A_hat).max()
        if one.log_scale > -math.inf:
            size += np.abs(one.A_hat).max() * math.exp(one.log_scale - found.log_scale) / corpus.n
    assert abs(found.A_hat.sum()) <= 1e-15 * corpus.nnz * size
    # The softmax is blind to a common shift of the logits.
    moved = one_layer.evaluate(corpus, steepness * a + 7.0, c)
    np.testing.assert_allclose(
        moved.A_hat * math.exp(moved.log_scale - found.log_scale) if size else moved.A_hat,
        found.A_hat,
        rtol=1e-9,
        atol=1e-12 * size,
    )


@given(points(), st.integers(0, 2**32 - 1))
def test_lemma_8(point: tuple[hm.Corpus, np.ndarray, np.ndarray], seed: int) -> None:
    corpus, a, c = point
    a_hat = np.random.default_rng(seed).normal(size=corpus.S)
    pull = one_layer.pairwise_pull(corpus, a, c, a_hat)
    size = float(np.abs(a_hat) @ np.abs(one_layer.evaluate(corpus, a, c).A))
    assert pull == pytest.approx(float(-a_hat @ one_layer.evaluate(corpus, a, c).A), abs=1e-14 * size + 1e-17)


def test_finite_differences(d1: Instance) -> None:
    """Gradients by E, p and v are derivatives of the loss, differentiated at 40 digits."""
    corpus, E, p, v = d1
    S, d = E.shape

    def loss(x: list[Any]) -> Any:
        rows = [x[i * d : (i + 1) * d] for i in range(S)]
        prompt, head = x[S * d : S * d + d], x[S * d + d :]
        total = mpmath.mpf(0)
        for X, y in zip(corpus.sequences(), corpus.labels.tolist(), strict=True):
            e = [mpmath.exp(mpmath.fdot(rows[s], prompt)) for s in X]
            f = mpmath.fsum(w * mpmath.fdot(rows[s], head) for w, s in zip(e, X, strict=True)) / mpmath.fsum(
                e
            )
            total += mpmath.log(1 + mpmath.exp(-y * f))
        return total / corpus.n

    with mpmath.workdps(40):
        at = [mpmath.mpf(x) for x in np.concatenate([E.ravel(), p, v]).tolist()]
        h = mpmath.mpf(10) ** -12
        slopes = []
        for i in range(len(at)):
            up, down = list(at), list(at)
            up[i] += h
            down[i] -= h
            slopes.append(float((loss(up) - loss(down)) / (2 * h)))
    found = one_layer.gradients(corpus, E, p, v)
    np.testing.assert_allclose(np.concatenate([found.E.ravel(), found.p, found.v]), slopes, rtol=1e-12)


@pytest.mark.parametrize("size", [1500.0, 4000.0])
def test_direction_at_huge_logits(d1: Instance, size: float) -> None:
    """Far beyond underflow A_hat has the digits that 1000 and more of them give."""
    corpus, E, p, v = d1
    a, c = size * (E @ p), E @ v
    found = one_layer.evaluate(corpus, a, c)
    assert not found.A.any()
    assert found.log_scale < -600
    with mpmath.workdps(int(2 * size) + 40):
        want = exact_model(corpus, a, c).A
        largest = max(abs(x) for x in want)
        ratios = np.array([float(x / largest) for x in want])
        np.testing.assert_allclose(found.A_hat / np.abs(found.A_hat).max(), ratios, rtol=1e-11)
        log_size = float(mpmath.log(largest))
    assert found.log_scale + math.log(np.abs(found.A_hat).max()) == pytest.approx(log_size, rel=1e-14)


def test_a_tie_in_value_with_the_top_token_keeps_its_tiny_term() -> None:
    # Token 1 has the top token's value: its term is -Q_1 (c - f) with c - f about exp(-900).
    corpus = hm.Corpus.from_sequences([[0, 1, 2]], [1])
    a, c = np.array([1000.0, 999.0, 100.0]), np.array([1.0, 1.0, 0.0])
    found = one_layer.evaluate(corpus, a, c)
    with mpmath.workdps(900):
        want = exact_model(corpus, a, c).A
        ratios = [float(x / want[2]) for x in want]
    np.testing.assert_allclose(found.A_hat / found.A_hat[2], ratios, rtol=1e-12)
    assert ratios[1] < -0.1


def test_counts_of_any_kind() -> None:
    made = hm.Corpus.from_sequences([[0, 1, 1], [1, 1, 2]], [1, -1])
    by_hand = replace(made, counts=made.counts.astype(np.uint8))
    found, want = (one_layer.evaluate(each, [1.0, 0.0, 2.0], [1.0, 0.0, -1.0]) for each in (by_hand, made))
    assert found.A.tolist() == want.A.tolist()


@pytest.mark.parametrize("evaluate", [one_layer._evaluate_moderate, one_layer._evaluate_anywhere])
def test_many_copies_outweigh_a_larger_logit(evaluate: Any) -> None:
    """The top token is the one with the largest mass: relative to another, these values would cancel."""
    M, c = np.array([[1, 10**12]]), np.array([0.0, 1.0])
    for gap, order in itertools.product([8.0, 50.0], [[0, 1], [1, 0]]):
        with mpmath.workdps(60):
            Q = mpmath.exp(gap) / (mpmath.exp(gap) + 10**12)
            want = float((1 - Q) * Q / (1 + mpmath.exp(1 - Q)))
        a = np.array([gap, 0.0])
        found = evaluate(hm.Corpus.from_counts(M[:, order], [1]), a[order], c[order])
        np.testing.assert_allclose(found.A, np.array([want, -want])[order], rtol=3e-14)
        assert found.f[0] == pytest.approx(float(1 - Q), rel=3e-14)


def test_huge_values_underflow_nowhere() -> None:
    corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    found = one_layer.evaluate(corpus, [0.0, 0.0, 0.0], [4000.0, 2000.0, -6000.0])
    assert found.loss == 0.0
    assert found.log_g.tolist() == [-3000.0, -2000.0]
    assert found.log_scale_C == pytest.approx(-2000.0 - math.log(2))
    np.testing.assert_allclose(found.C_hat, [0, 0.5, 0.5], atol=1e-300)


def test_nothing_to_choose_is_an_exact_zero() -> None:
    corpus = hm.Corpus.from_sequences([[0, 0], [1, 2]], [1, -1])
    for scale in (1.0, 1000.0):
        found = one_layer.evaluate(corpus, [scale, 0.0, -scale], [3.0, 2.0, 2.0])
        assert not found.A_hat.any()
        assert not found.A.any()
    assert found.log_scale == -math.inf


def test_refusals(d1: Instance) -> None:
    corpus, E, p, v = d1
    with pytest.raises(ValueError, match="a must have shape"):
        one_layer.evaluate(corpus, [1.0], [1.0] * 4)
    with pytest.raises(ValueError, match="c must be finite"):
        one_layer.evaluate(corpus, [1.0] * 4, [math.nan] * 4)
    with pytest.raises(ValueError, match="v must have shape"):
        one_layer.gradients(corpus, E, p, v[:2])
    with pytest.raises(ValueError, match="W must have shape"):
        one_layer.key_query_gradients(corpus, E, p, np.eye(2), v)
