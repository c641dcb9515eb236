"""`samples.model` calls what is behind it: the same numbers, and errors that name the remedy."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.optim import GD, Normalized
from hardmax.nexttoken import Samples
from hardmax.nexttoken.relations import collocation, complete
from hardmax.nexttoken.stages import descend_stage_1
from hardmax.nexttoken.training import train as train_stages
from hardmax.nexttoken.training import train_by_flow
from hardmax.nexttoken.unmerged import Unmerged, train_jointly, train_unmerged


@pytest.fixture
def samples():
    return Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])


def test_two_stages(samples):
    model = samples.model()
    ours, theirs = hm.train(model, model.optimizers, steps=50), train_stages(samples, steps=50)
    np.testing.assert_array_equal(ours.a, theirs.a)
    by_block = {"W_ov": Normalized(0.3), "W_kq": Normalized(0.1)}
    ours = hm.train(model, by_block, steps=50, output_steps=10, record=[20])
    theirs = train_stages(samples, steps=50, stage1=10, rate=0.1, first_rate=0.3, record=[20])
    np.testing.assert_array_equal(ours.points, theirs.points)
    assert ours.W_ov.margin == theirs.W_ov.margin
    one = hm.train(model, Normalized(0.1), steps=5)
    assert (one.rate, one.first_rate) == (0.1, 0.1)


def test_output_alone_joint_and_unmerged(samples):
    n = complete(collocation(samples))
    ours = hm.train(samples.model(blocks=("W_ov",)), Normalized(0.1), steps=20)
    np.testing.assert_allclose(ours.table, descend_stage_1(n, 20, 0.1).table)
    ours = hm.train(samples.model(joint=True), Normalized(0.1), steps=20)
    np.testing.assert_array_equal(ours.losses, train_jointly(samples, 20, 0.1).losses)
    weights = Unmerged.random(samples, np.eye(samples.V), 4, 4, scale=0.1, rng=0)
    ours = hm.train(samples.model(weights=weights), Normalized(0.1), steps=20)
    np.testing.assert_array_equal(ours.losses, train_unmerged(weights, 20, 0.1).losses)


def test_flow(samples):
    ours = hm.flow(samples.model(), until=1e6)
    np.testing.assert_array_equal(ours.points, train_by_flow(samples, 1e6).points)
    ours = hm.flow(samples.model(), until=1e6, optimizer=Normalized(0.1))
    theirs = train_by_flow(samples, 1e6, rate=0.1, first_rate=0.1)
    np.testing.assert_array_equal(ours.points, theirs.points)


def test_refusals(samples):
    model = samples.model()
    with pytest.raises(ValueError, match="optimizer must have the blocks"):
        hm.train(model, {"p": Normalized(0.1)}, steps=1)
    with pytest.raises(ValueError, match="blocks must be"):
        samples.model(blocks=("W_kq",))
    with pytest.raises(ValueError, match="E requires joint=True"):
        samples.model(E=np.eye(4))
    with pytest.raises(TypeError, match="after is for Normalized steps on all sentences; give checkpoint="):
        hm.train(model, GD(0.1), steps=2, after=1)
    with pytest.raises(TypeError, match=r"hm\.flow follows W_kq"):
        hm.flow(samples.model(joint=True), until=1e3)
    with pytest.raises(TypeError, match="optimizer of W_ov must be Normalized with one learning rate"):
        hm.flow(model, until=1e3, optimizer=GD(0.1))
