"""Embedding space: any orthonormal embedding trains the same model; the unmerged chain rule."""

import numpy as np
import pytest
from tests.nexttoken.literal import literal_gradient

import hardmax as hm
from hardmax.nexttoken import Samples, named_sentences
from hardmax.nexttoken.stages import descend_stage_1
from hardmax.nexttoken.training import train
from hardmax.nexttoken.unmerged import (
    Embedded,
    Unmerged,
    orthonormal_embedding,
    train_jointly,
    train_unmerged,
)

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]


@pytest.fixture
def samples():
    return Samples.from_sentences(EXAMPLE_1)


def test_training_in_embedding_space_is_training_of_the_tables(samples):
    """C-DEF-INDEX: d = 6, V = 4, 50 + 50 steps."""
    E = orthonormal_embedding(4, 6, rng=0)
    W_ov = descend_stage_1([1, 2, 3, 0], 50, 0.1).table @ E.T
    W_kq = np.zeros((6, 6))
    for _ in range(50):
        G = literal_gradient(samples, E, W_ov, W_kq)
        W_kq -= 0.05 * G / np.linalg.norm(G)
    run = train(samples, stage1=50, steps=50, first_rate=0.1, rate=0.05)
    np.testing.assert_allclose(W_kq, E @ run.W_kq.toarray() @ E.T, atol=1e-13)
    assert np.linalg.norm(W_kq) == pytest.approx(run.norm_kq, rel=1e-13)
    assert Embedded(samples, E, W_kq, W_ov).model.loss == pytest.approx(run.loss, rel=1e-12)


@pytest.mark.parametrize("is_orthonormal", [True, False])
def test_gradients_hold_for_any_embedding(samples, is_orthonormal):
    draw = np.random.default_rng(1)
    E = orthonormal_embedding(4, 5, rng=2) if is_orthonormal else draw.standard_normal((5, 4))
    W_kq, W_ov = draw.standard_normal((5, 5)), draw.standard_normal((4, 5))
    weights = Embedded(samples, E, W_kq, W_ov)
    np.testing.assert_allclose(weights.gradient_kq, literal_gradient(samples, E, W_ov, W_kq), atol=1e-14)
    step, h = draw.standard_normal((4, 5)), 1e-5
    ends = [Embedded(samples, E, W_kq, W_ov + s * step).model.loss for s in (h, -h)]
    assert np.vdot(weights.gradient_ov, step) == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-9)


def test_unmerged_chain_rule_against_finite_differences(samples):
    weights = Unmerged.random(samples, orthonormal_embedding(4, 5, rng=3), 3, 2, scale=0.7, rng=4)
    names, draw, h = ("W_k", "W_q", "W_v", "W_o"), np.random.default_rng(5), 1e-5
    for name, G in zip(names, weights.gradients, strict=True):
        step = draw.standard_normal(G.shape)
        ends = [
            Unmerged(
                samples, weights.E, **{n: getattr(weights, n) + (s * step if n == name else 0) for n in names}
            ).merged.model.loss
            for s in (h, -h)
        ]
        assert np.vdot(G, step) == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=2e-9)


def test_an_embedding_needs_room():
    with pytest.raises(ValueError, match="d must be at least V = 4"):
        orthonormal_embedding(4, 3, rng=0)


def test_joint_training_falls_and_turns_towards_the_same_limits(samples):
    short, long = (train_jointly(samples, steps, 0.1) for steps in (200, 2000))
    assert (np.diff(long.losses) < 0).all()
    assert long.losses[-1] < 1e-3
    assert long.misalignment_kq < short.misalignment_kq < 0.2
    assert long.misalignment_ov < 0.1
    assert hm.loss(long.problem, long.p) == pytest.approx(long.losses[-1], rel=1e-9)
    assert not np.isnan(train_jointly(samples, 1, 0.1).misalignment_ov)
    assert np.isnan(train_jointly(samples, 1, 0.1).misalignment_kq)  # the first step leaves W_kq at zero


def test_joint_training_does_not_see_an_orthonormal_embedding(samples):
    plain = train_jointly(samples, 50, 0.1)
    turned = train_jointly(samples, 50, 0.1, E=orthonormal_embedding(4, 6, rng=1))
    np.testing.assert_allclose(plain.losses, turned.losses, rtol=1e-12)


def test_unmerged_training_falls(samples):
    start = Unmerged.random(samples, np.eye(4), 4, 4, scale=0.1, rng=0)
    run = train_unmerged(start, 400, 0.1)
    assert run.losses[-1] < 0.05 * run.losses[0]
    assert run.misalignment_kq < 0.5
    zero = Unmerged(samples, np.eye(4), *(np.zeros((4, 4)) for _ in range(4)))
    still = train_unmerged(zero, 3, 0.1)
    assert (still.event, still.times.tolist(), still.p_norm) == ("stationary point", [0], 0.0)


def test_named_example_is_example_1():
    assert [" ".join(named_sentences("C-EX-1").words(i)) for i in range(4)] == EXAMPLE_1
