"""Rows that no batch needs for a while: many steps of AdamW in one formula, against the steps one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings.minibatch import train_embeddings
from hardmax.embeddings.minibatch.kernels import REST, extend_rests
from hardmax.embeddings.minibatch.train import OneLayerModel, epoch_batches, renumbered


def summed_up(rule: AdamW, first: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The scalars of some steps in a row, and what `extend_rests` makes of them."""
    k_at = np.array([rule.scalars(first + i, rule.lr) for i in range(steps)])
    rests = np.zeros((steps, REST))
    for last in range(steps):
        extend_rests(k_at, last, rests)
    return k_at, rests


@given(
    first=st.integers(1, 5000),
    steps=st.integers(1, 40),
    betas=st.tuples(st.floats(0.0, 0.99), st.floats(0.5, 0.9999)),
    decay=st.floats(0.0, 1.0),
    size=st.floats(-12, 2),
)
@settings(max_examples=60, deadline=None)
def test_the_series_and_its_remainder_enclose_the_steps(first, steps, betas, decay, size):
    rule = AdamW(0.1, betas=betas, weight_decay=decay)
    k_at, rests = summed_up(rule, first, steps)
    m, s, x = 1.0, 10.0**size, 0.7
    root = math.sqrt(s) * k_at[0, 5]
    u = 1 / (root + rule.eps)
    series = u * sum(c * (root * u) ** n for n, c in enumerate(rests[0, 4:]))
    beyond = u * rests[0, 3] * rests[0, 4]
    end, fade, fade2 = x, 1.0, 1.0
    for i, (keep, _, _, _, rate, scale, eps) in enumerate(k_at):
        fade, fade2 = betas[0] ** i, betas[1] ** i
        end = keep * end - rate * fade * m / (math.sqrt(fade2 * s) * scale + eps)
    moved = rests[0, 0] * x - end
    slack = 1e-12 * (series + beyond)
    assert series - slack <= moved <= series + beyond + slack + 1e-15
    assert rests[0, 1] == pytest.approx(fade, rel=1e-12)
    assert rests[0, 2] == pytest.approx(fade2, rel=1e-12)


def test_late_in_training_the_series_is_exact_to_rounding():
    for precision, first in ((2.0**-24, 250), (2.0**-53, 10**5)):
        _, rests = summed_up(AdamW(1e-2), first, 20)
        assert (rests[:, 3] <= precision).all()
    assert summed_up(AdamW(1e-2), 1, 20)[1][0, 3] > 1e-3  # at first it is not, and is not used


def rare_tokens() -> hm.Corpus:
    """Six tokens, of which 0 to 2 are in one sequence of 40 each."""
    rng = np.random.default_rng(8)
    sequences = [[0, 3], [1, 4], [2, 5], *rng.integers(3, 6, (37, 3)).tolist()]
    return hm.Corpus.from_sequences(sequences, rng.choice([-1, 1], 40))


def test_rows_move_as_if_all_moved_at_every_step():
    corpus, step, epochs = rare_tokens(), AdamW(0.01, weight_decay=0.3), 40
    start = hm.embeddings.initial_vectors(corpus.S, 5, rng=1)
    got = train_embeddings(corpus, 5, step, epochs=epochs, batch=1, rng=5, start=start, dtype="float64")
    seed = int(np.random.default_rng(5).integers(2**63))
    x = [np.array(each) for each in start]
    first, second = ([np.zeros_like(each) for each in x] for _ in range(2))
    count = 0
    for epoch in range(epochs):
        for part in epoch_batches(corpus, 1, seed, epoch):
            count += 1
            keep, gain, hold, gain2, rate, scale, eps = step.scalars(count, step.lr)
            for y, g, m, s in zip(x, hm.embeddings.one_layer.gradients(part, *x), first, second, strict=True):
                m += gain * (g - m)
                s *= hold
                s += gain2 * g * g
                y *= keep
                y -= rate * (m / (np.sqrt(s) * scale + eps))
    for ours, theirs in zip((got.E, got.p, got.v), x, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_many_missed_steps_at_once_equal_a_visit_at_each(kind):
    """A row that is brought up to date by `observe` after each step takes none of them together."""
    corpus = rare_tokens()
    start = hm.embeddings.initial_vectors(corpus.S, 40, rng=1)
    batches = list(epoch_batches(corpus, 1, 0, 0))
    ends = []
    for every in (1, 40):
        with OneLayerModel(*start, AdamW(0.01, weight_decay=0.01), kind, 1) as model:
            model.steps = 10**5  # late: the series is used
            for count, part in enumerate(batches):
                model.step(part, 0.01)
                if count % every == every - 1:
                    model.observe()
            ends.append(model.arrays())
    tolerance = {"float32": 2e-6, "float64": 1e-14}[kind]
    for name in ("E", "vectors", "E_first", "E_second"):
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=0, atol=tolerance)


def test_a_step_under_way_in_other_threads_does_not_reach_into_what_is_restored():
    corpus = rare_tokens()
    start = hm.embeddings.initial_vectors(corpus.S, 256, rng=1)  # two tiles
    ends = []
    for strayed in (False, True):
        with OneLayerModel(*start, AdamW(0.01), "float32", 2) as model:
            model.observe()
            held = model.arrays()
            if strayed:
                model.step(corpus, 0.01)
                model.restore(held)
            model.step(corpus, 0.01)
            model.observe()
            ends.append(model.arrays())
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_renumbered_tokens(tokens):
    rows, places = renumbered(np.array(tokens, np.intp), 31)
    expected, inverse = np.unique(tokens, return_inverse=True)
    assert rows.tolist() == expected.tolist()
    assert places.tolist() == inverse.tolist()
