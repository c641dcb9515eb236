"""Descent by inner products: A-ORC-1, A-ORC-9, the same path as vectors, and the closed form A-RED-1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import initial_vectors, one_layer
from hardmax.embeddings.first_step import infinite_width
from hardmax.embeddings.gram import GramState, descend_gram
from hardmax.embeddings.one_layer import descend_embeddings

from .conftest import Instance, numbers

SUBSETS = ["E", "p", "v", "Ep", "Ev", "pv", "Epv"]


def start_of(instance: Instance) -> GramState:
    return GramState.from_vectors(instance.E, instance.p, instance.v)


@pytest.mark.parametrize("train, key", [("Ep", "gram_v_fixed"), ("Epv", "gram_v_trained")])
def test_oracle_one_step(oracles: dict, d1: Instance, train: str, key: str) -> None:
    want = oracles["a"]["one_layer_D1"]["gd_step_eta2"]
    after = start_of(d1).step(d1.corpus, 2.0, train)
    assert {"a", "c", "rho", "nu"} <= want[key].keys()
    for name, value in want[key].items():
        np.testing.assert_allclose(getattr(after, name), numbers(value), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "train, key", [("Ep", "joint_E_p_100steps_eta0.1"), ("Epv", "joint_E_p_v_100steps_eta0.1")]
)
def test_oracle_joint(oracles: dict, d1: Instance, train: str, key: str) -> None:
    """A-ORC-9: a hundred steps at 60 digits."""
    want = oracles["a"]["trajectories_D1"][key]
    run = descend_gram(d1.corpus, start_of(d1), steps=100, rate=0.1, train=train)
    assert run.losses[-1] == pytest.approx(float(want["loss"]), rel=1e-12)
    np.testing.assert_allclose(run.a[-1], numbers(want["a"]), rtol=1e-12)
    np.testing.assert_allclose(run.c[-1], numbers(want["c"]), rtol=1e-12)
    p = numbers(want["p"])
    assert run.state.pi == pytest.approx(p @ p, rel=1e-12)
    assert run.beta is None
    if train == "Ep":
        E0 = numbers(want["E0row"])
        assert run.state.K[0, 0] == pytest.approx(E0 @ E0, rel=1e-12)
        assert run.state.rho == pytest.approx(p @ d1.v, rel=1e-12)
    else:
        v = numbers(want["v"])
        assert run.state.rho == pytest.approx(p @ v, rel=1e-12)
        assert run.state.nu == pytest.approx(v @ v, rel=1e-12)


def test_oracle_p_only(oracles: dict, d1: Instance) -> None:
    want = oracles["a"]["trajectories_D1"]["p_only_200steps_eta0.5"]
    start = start_of(d1)
    run = descend_gram(d1.corpus, start, steps=200, rate=0.5, train=["p"])
    assert run.losses[-1] == pytest.approx(float(want["loss"]), rel=1e-12)
    assert run.beta is not None
    np.testing.assert_allclose(run.beta, numbers(want["beta"]), rtol=1e-11)
    p = numbers(want["p"])
    assert run.state.pi == pytest.approx(p @ p, rel=1e-12)
    # A-RED-4: everything from beta
    np.testing.assert_allclose(run.state.a, start.a + start.K @ run.beta, rtol=1e-12)
    expected = start.pi + 2 * run.beta @ start.a + run.beta @ start.K @ run.beta
    assert run.state.pi == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(run.state.K, start.K)


@pytest.mark.parametrize("train", SUBSETS)
def test_same_path_as_vectors(train: str) -> None:
    """A thousand small steps: the inner products of the vectors, to 1e-12."""
    corpus = hm.embeddings.assumption_4_corpus(8, 5, rng=0)
    E, p, v = initial_vectors(corpus.S, 40, rng=1)
    direct = descend_embeddings(corpus, E, p, v, steps=1000, rate=0.05, train=train)
    reduced = descend_gram(corpus, GramState.from_vectors(E, p, v), steps=1000, rate=0.05, train=train)
    np.testing.assert_allclose(reduced.losses, direct.losses, rtol=1e-12)
    end = GramState.from_vectors(direct.E, direct.p, direct.v)
    assert np.abs(reduced.state.matrix - end.matrix).max() < 1e-12 * np.abs(end.matrix).max()
    np.testing.assert_array_equal(reduced.state.K, reduced.state.K.T)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(SUBSETS))
def test_closed_recursion(seed: int, train: str) -> None:
    """One step is G <- (I - eta B) G (I - eta B)' with the rows of B of frozen blocks zero (A-RED-1)."""
    rng = np.random.default_rng(seed)
    S, d = int(rng.integers(2, 7)), int(rng.integers(1, 9))
    corpus = hm.Corpus.from_sequences(
        rng.integers(0, S, size=(5, 4)), rng.choice([-1, 1], size=5), [str(s) for s in range(S)]
    )
    state = GramState.from_vectors(rng.normal(size=(S, d)), rng.normal(size=d), rng.normal(size=d))
    rate = float(rng.uniform(0.01, 3.0))
    point = one_layer.evaluate(corpus, state.a, state.c)
    B = np.zeros((S + 2, S + 2))
    if "E" in train:
        B[:S, S], B[:S, S + 1] = point.A, point.C
    if "p" in train:
        B[S, :S] = point.A
    if "v" in train:
        B[S + 1, :S] = point.C
    move = np.eye(S + 2) - rate * B
    want = move @ state.matrix @ move.T
    np.testing.assert_allclose(
        state.step(corpus, rate, train).matrix, want, rtol=0, atol=1e-13 * np.abs(want).max()
    )


def test_infinite_width() -> None:
    corpus = hm.embeddings.assumption_4_corpus(6, 4, rng=0)
    after, limit = GramState.infinite(corpus.S).step(corpus, 64.0), infinite_width(corpus, 64.0)
    np.testing.assert_allclose(after.K, limit.K, rtol=0, atol=1e-13 * limit.K.max())
    np.testing.assert_allclose(after.c, limit.c, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(after.a, limit.a)
    assert (after.pi, after.rho, after.nu) == (1.0, 0.0, 1.0)


def test_key_query_alone_is_p_with_another_rate(d1: Instance) -> None:
    """A-DEF-2: with p fixed, W moves u = W' p as p would move with the rate times |p|^2."""
    corpus, E, p, v = d1
    W = np.array([[1.0, 0.5, 0.0], [-0.25, 1.0, 1 / 3], [0.5, 0.0, -1.0]])
    start = GramState.from_vectors(E, W.T @ p, v)
    run = descend_gram(corpus, start, steps=50, rate=0.1 * float(p @ p), train=["p"])
    for _ in range(50):
        W = W - 0.1 * one_layer.key_query_gradients(corpus, E, p, W, v).W
    np.testing.assert_allclose(run.state.a, E @ W.T @ p, rtol=1e-12)


def test_measures(d1: Instance) -> None:
    state = start_of(d1)
    theta = np.array([1.0, -2.0, 0.5, 3.0])
    q = d1.E.T @ theta
    want = d1.p @ q / np.linalg.norm(d1.p) / np.linalg.norm(q)
    assert state.cosine(theta) == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(state.token_norms, np.linalg.norm(d1.E, axis=1), rtol=1e-14)
    assert state.p_norm == pytest.approx(np.linalg.norm(d1.p), rel=1e-14)
    assert state.v_norm == pytest.approx(np.linalg.norm(d1.v), rel=1e-14)
    E, p, v = state.vectors()
    assert E.shape == (4, 3)  # as many coordinates as the vectors need
    np.testing.assert_allclose(GramState.from_vectors(E, p, v).matrix, state.matrix, atol=1e-14)


def test_flow_of_p_is_that_of_paper_b(d1: Instance) -> None:
    """Vectors recovered from inner products give the same flow, in other coordinates."""
    corpus, E, p, v = d1
    rows, start, head = start_of(d1).vectors()
    there = hm.flow(corpus.problem(E, v), until_norm=50.0, start=p)
    here = hm.flow(corpus.problem(rows, head), until_norm=50.0, start=start)
    assert here.times[-1] == pytest.approx(there.times[-1], rel=1e-9)
    np.testing.assert_allclose(rows @ here.p, E @ there.p, rtol=1e-8)


def test_records_and_refusals(d1: Instance) -> None:
    start = start_of(d1)
    run = descend_gram(d1.corpus, start, steps=10, rate=0.1, record=[3, 7])
    assert run.times.tolist() == [0, 3, 7, 10]
    np.testing.assert_array_equal(run.a[-1], run.state.a)
    with pytest.raises(ValueError, match="train must name some of"):
        start.step(d1.corpus, 0.1, "x")
    with pytest.raises(ValueError, match="state must hold the 4 tokens"):
        descend_gram(d1.corpus, GramState.infinite(3), steps=1, rate=0.1)
    with pytest.raises(ValueError, match="theta must give"):
        start.cosine(np.zeros(4))
    with pytest.raises(ValueError, match="must be positive semidefinite"):
        GramState(np.eye(1), np.array([5.0]), np.zeros(1), 1.0, 0.0, 1.0).vectors()
