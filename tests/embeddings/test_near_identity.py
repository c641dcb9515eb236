"""The structured form: equal to the Gram matrix where that has digits, and to mpmath where it has none."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings.first_step import StructuredState, draw_initial, infinite_width
from hardmax.embeddings.gram import GramState
from hardmax.embeddings.theorem5 import strong_conditions, theorem_5_thresholds
from hardmax.margin.closed_forms import important_only

from .conftest import exact_model


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_inner_products_are_those_of_the_vectors(seed: int, d: int) -> None:
    state = draw_initial(5, d, rng=seed)
    made = GramState.from_vectors(state.E, state.p, state.v)
    np.testing.assert_allclose(state.gram.matrix, made.matrix, rtol=0, atol=1e-13)
    np.testing.assert_allclose(state.a, state.E @ state.p, rtol=0, atol=1e-13)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 30, 10**6, 10**44]))
def test_first_step_equals_the_gram_recursion(seed: int, d: int) -> None:
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=seed)
    start = draw_initial(corpus.S, d, rng=seed)
    state, errors = start.first_step(corpus, 64.0)
    want = start.gram.step(corpus, 64.0)
    size = np.abs(want.matrix).max()
    np.testing.assert_allclose(state.gram.matrix, want.matrix, rtol=0, atol=1e-12 * size)
    assert errors.largest <= errors.bound(d) or d < 256


def test_first_step_at_a_width_that_rounding_cannot_see() -> None:
    """c and a after the step, each small entry to its own last digits, against 150 digits."""
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=1)
    start = draw_initial(corpus.S, 10**60, rng=2)
    first_rate = 576.0
    state, _ = start.first_step(corpus, first_rate)
    with mpmath.workdps(150):
        eye = mpmath.eye(corpus.S + 1)
        stack = [
            [mpmath.mpf(x) + eye[i, j] for j, x in enumerate(row)]
            for i, row in enumerate(start.noise.tolist())
        ]
        last = [*start.c.tolist(), start.rho]
        stack = [[*row, mpmath.mpf(x)] for row, x in zip(stack, last, strict=True)]
        E, p = stack[:-1], stack[-1]
        point = exact_model(corpus, [mpmath.fdot(row, p) for row in E], start.c)
        moved = [
            [
                x - first_rate * (A * y + (C if j == len(p) - 1 else 0))
                for j, (x, y) in enumerate(zip(row, p, strict=True))
            ]
            for row, A, C in zip(E, point.A, point.C, strict=True)
        ]
        p1 = [
            y - first_rate * mpmath.fdot(point.A, column)
            for y, column in zip(p, zip(*E, strict=True), strict=True)
        ]
        a1 = np.array([float(mpmath.fdot(row, p1) * 10**25) for row in moved])
        c1 = np.array([float(row[-1] * 10**25) for row in moved])
        rho1 = float(p1[-1] * 10**25)
    np.testing.assert_allclose(state.c * 1e25, c1, rtol=1e-14)
    np.testing.assert_allclose(state.a * 1e25, a1, rtol=1e-12)
    assert state.rho * 1e25 == pytest.approx(rho1, rel=1e-13)


def test_infinite_width() -> None:
    corpus = hm.embeddings.assumption_4_corpus(6, 4, rng=0)
    state, errors = StructuredState.infinite(corpus.S).first_step(corpus, 2304.0)
    limit = infinite_width(corpus, 2304.0)
    np.testing.assert_array_equal(state.c, limit.c)
    np.testing.assert_array_equal(state.E[:, :-2], limit.E[:, :-1])
    assert errors.largest == 0.0
    assert state.loss(corpus) == pytest.approx(
        hm.embeddings.one_layer.evaluate(corpus, limit.a, limit.c).loss
    )


@pytest.mark.compiled
def test_theorem_5_at_its_width_for_a_hundred_sequences() -> None:
    """At (100, 50): the first step, the conditions of A-THM-5S and the limit that they imply."""
    corpus = hm.embeddings.assumption_4_corpus(100, 50, rng=0)
    limits = theorem_5_thresholds(100, 50, corpus.S, delta=0.01)
    assert f"{float(limits.width):.2e}" == "3.60e+143"
    start = draw_initial(corpus.S, limits.width, rng=1)
    state, errors = start.first_step(corpus, float(limits.first_rate))
    assert start.initial_event(limits.width, 0.01).holds
    assert errors.largest < 1e-25 * errors.bound(limits.width)
    # n/2 tokens of each sign occur once, so that c = +-2 n T
    stars = corpus.important
    np.testing.assert_allclose(np.abs(state.c[stars]), 1e4, rtol=1e-14)
    others = np.setdiff1d(np.arange(corpus.S), stars)
    assert 0.0 < np.abs(state.c[others]).max() < 1e-60
    assert np.linalg.svd(state.E, compute_uv=False)[-1] == pytest.approx(1.0, abs=1e-9)
    problem = state.problem(corpus)
    designated = [int(np.flatnonzero(np.isin(tokens, stars))[0]) for tokens in problem.split(problem.tokens)]
    conditions = strong_conditions(problem, designated, state.p)
    assert conditions.holds
    assert conditions.lead == pytest.approx(1e4, rel=1e-12)
    best = hm.max_margin(problem, designated)
    sequences = [tokens.tolist() for tokens in problem.split(problem.tokens)]
    form = important_only(sequences, [tokens[t] for tokens, t in zip(sequences, designated, strict=True)])
    assert form.is_max_margin
    low, high = best.margin_interval
    assert low <= float(form.norm_squared) ** -0.5 <= high < low * (1 + 1e-8)


def test_the_identity_survives_where_the_gram_matrix_loses_it() -> None:
    """With c = 1e9 nothing of the identity is left in K, and the rows are as good as ever."""
    state = StructuredState(np.zeros((4, 4)), np.array([1e9, -1e9, 0.0]), 0.0)
    assert np.linalg.eigvalsh(state.gram.K[:2, :2])[0] != pytest.approx(1.0, abs=0.5)
    assert np.linalg.svd(state.E, compute_uv=False)[-1] == pytest.approx(1.0, abs=1e-6)


def test_refusals() -> None:
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=1)
    with pytest.raises(ValueError, match="corpus must have the 3 tokens"):
        StructuredState.infinite(3).first_step(corpus, 1.0)
