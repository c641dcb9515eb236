"""The two-layer model against its oracle, the definition on positions, and finite differences."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings.two_layer import TwoLayerGradients, TwoLayerNetwork

from .conftest import Instance, numbers


def test_oracle(oracles: dict, d1: Instance) -> None:
    """A-ORC-3; its gradients were differentiated numerically, about 20 digits of them printed."""
    want = oracles["a"]["two_layer_D1"]
    found = TwoLayerNetwork().gradients(*d1)
    assert TwoLayerNetwork().epsilon == float(want["eps"])
    np.testing.assert_allclose(found.f, numbers(want["f"]), rtol=1e-12)
    assert found.loss == pytest.approx(float(want["loss"]), rel=1e-12)
    for name in "Epv":
        expected = numbers(want[f"grad_{name}"])
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(TwoLayerNetwork().predict(*d1), found.f)


def on_positions(E: np.ndarray, X: np.ndarray, p: np.ndarray, v: np.ndarray, model: TwoLayerNetwork) -> float:
    """Equation (36) as written, with a T x T softmax."""
    rows = E[X]
    weights = np.exp(rows @ rows.T)
    Z = weights / weights.sum(axis=1, keepdims=True) @ rows + rows
    Z = (Z - Z.mean(axis=1, keepdims=True)) / np.sqrt(Z.var(axis=1, keepdims=True) + model.epsilon)
    if model.gain is not None:
        Z = Z * model.gain + model.bias
    q = np.exp(Z @ p)
    return float(q @ (Z @ v) / q.sum())


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=7), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_counts_stand_for_positions(sequences: list[list[int]], seed: int, affine: bool) -> None:
    rng = np.random.default_rng(seed)
    corpus = hm.Corpus.from_sequences(sequences, rng.choice([-1, 1], size=len(sequences)))
    E, p, v = rng.normal(size=(corpus.S, 4)), rng.normal(size=4), rng.normal(size=4)
    model = (
        TwoLayerNetwork(gain=rng.normal(size=4), bias=rng.normal(size=4))
        if affine
        else TwoLayerNetwork(epsilon=1e-3)
    )
    want = [on_positions(E, X, p, v, model) for X in corpus.sequences()]
    np.testing.assert_allclose(model.predict(corpus, E, p, v), want, rtol=1e-11, atol=1e-12)


def exact_loss(corpus: hm.Corpus, parts: dict[str, list[Any]], epsilon: float) -> Any:
    """The loss in mpmath numbers, from flat parameters."""
    d = len(parts["p"])
    total = mpmath.mpf(0)
    for X, y in zip(corpus.sequences(), corpus.labels.tolist(), strict=True):
        rows = [parts["E"][s * d : (s + 1) * d] for s in X]
        a, c = [], []
        for row in rows:
            w = [mpmath.exp(mpmath.fdot(row, other)) for other in rows]
            z = [row[j] + mpmath.fdot(w, [r[j] for r in rows]) / mpmath.fsum(w) for j in range(d)]
            mean = mpmath.fsum(z) / d
            spread = mpmath.sqrt(mpmath.fsum((x - mean) ** 2 for x in z) / d + epsilon)
            pairs = zip(z, parts["gain"], parts["bias"], strict=True)
            out = [(x - mean) / spread * gain + bias for x, gain, bias in pairs]
            a.append(mpmath.fdot(out, parts["p"]))
            c.append(mpmath.fdot(out, parts["v"]))
        e = [mpmath.exp(x) for x in a]
        total += mpmath.log(1 + mpmath.exp(-y * mpmath.fdot(e, c) / mpmath.fsum(e)))
    return total / corpus.n


def test_finite_differences_with_gain_and_bias(d1: Instance) -> None:
    corpus, E, p, v = d1
    gain, bias = np.array([1.5, -0.5, 2.0]), np.array([0.25, 0.5, -1.0])
    found = TwoLayerNetwork(gain=gain, bias=bias).gradients(corpus, E, p, v)
    arrays = {"E": E.ravel(), "p": p, "v": v, "gain": gain, "bias": bias}
    with mpmath.workdps(40):
        parts = {name: [mpmath.mpf(x) for x in array.tolist()] for name, array in arrays.items()}
        h = mpmath.mpf(10) ** -12
        assert found.loss == pytest.approx(float(exact_loss(corpus, parts, 1e-5)), rel=1e-13)
        for name, array in arrays.items():
            slopes = []
            for i in range(array.size):
                moved = [{**parts, name: list(parts[name])} for _ in range(2)]
                moved[0][name][i] += h
                moved[1][name][i] -= h
                up, down = (exact_loss(corpus, each, 1e-5) for each in moved)
                slopes.append(float((up - down) / (2 * h)))
            np.testing.assert_allclose(getattr(found, name).ravel(), slopes, rtol=1e-11, atol=1e-15)


def test_a_descent_step_lowers_the_loss_and_saturation_is_no_trouble() -> None:
    corpus = hm.embeddings.KLevel.surrogate().draw(16, rng=0)
    E, p, v = hm.embeddings.initial_vectors(corpus.S, 16, rng=1)
    model = TwoLayerNetwork()
    found = model.gradients(corpus, E, p, v)
    E, p, v = (x - 0.1 * slope for x, slope in zip((E, p, v), (found.E, found.p, found.v), strict=True))
    assert model.gradients(corpus, E, p, v).loss < found.loss
    huge = model.gradients(corpus, 40 * E, 500 * p, v)
    assert all(np.isfinite(getattr(huge, name)).all() for name in ("f", "E", "p", "v"))


def test_one_distinct_token_has_no_gradient_by_p() -> None:
    corpus = hm.Corpus.from_sequences([[0, 0, 0]], [1])
    found: TwoLayerGradients = TwoLayerNetwork().gradients(corpus, [[1.0, 2.0, 4.0]], [1, 0, 0], [0, 0, 1])
    assert not found.p.any()
    assert found.v.any()


def test_refusals(d1: Instance) -> None:
    with pytest.raises(ValueError, match="gain must have shape"):
        TwoLayerNetwork(gain=np.ones(2)).predict(*d1)
    with pytest.raises(ValueError, match="epsilon must be a positive number"):
        TwoLayerNetwork(epsilon=0.0)
