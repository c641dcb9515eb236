"""Full-batch descent on the vectors against A-ORC-9 and paper B's descent on p."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings.one_layer import descend_embeddings

from .conftest import Instance, numbers

TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def test_oracle_one_step(oracles: dict, d1: Instance) -> None:
    """The step with eta = 2 of A-ORC-1, v fixed and v trained."""
    want = oracles["a"]["one_layer_D1"]["gd_step_eta2"]
    fixed = descend_embeddings(*d1, steps=1, rate=2)
    np.testing.assert_allclose(fixed.E, numbers(want["E1"]), **TIGHT)
    np.testing.assert_allclose(fixed.p, numbers(want["p1"]), **TIGHT)
    np.testing.assert_array_equal(fixed.v, d1.v)
    assert fixed.losses[-1] == pytest.approx(float(want["loss_after_v_fixed"]), rel=1e-12)
    trained = descend_embeddings(*d1, steps=1, rate=2, train="Epv")
    np.testing.assert_allclose(trained.v, numbers(want["v1_if_v_trained"]), **TIGHT)
    assert trained.losses[-1] == pytest.approx(float(want["loss_after_v_trained"]), rel=1e-12)
    for run, key in ((fixed, "gram_v_fixed"), (trained, "gram_v_trained")):
        np.testing.assert_allclose(run.a[-1], numbers(want[key]["a"]), **TIGHT)
        np.testing.assert_allclose(run.c[-1], numbers(want[key]["c"]), **TIGHT)
        assert run.p @ run.v == pytest.approx(float(want[key]["rho"]), rel=1e-12)
        assert run.v @ run.v == pytest.approx(float(want[key]["nu"]), rel=1e-12)
    np.testing.assert_allclose(fixed.E @ fixed.E.T, numbers(want["gram_v_fixed"]["K"]), **TIGHT)


@pytest.mark.parametrize(
    "train, key", [("Ep", "joint_E_p_100steps_eta0.1"), ("Epv", "joint_E_p_v_100steps_eta0.1")]
)
def test_oracle_joint(oracles: dict, d1: Instance, train: str, key: str) -> None:
    want = oracles["a"]["trajectories_D1"][key]
    run = descend_embeddings(*d1, steps=100, rate=0.1, train=train)
    assert run.losses[-1] == pytest.approx(float(want["loss"]), rel=1e-12)
    np.testing.assert_allclose(run.p, numbers(want["p"]), rtol=1e-12)
    np.testing.assert_allclose(run.a[-1], numbers(want["a"]), rtol=1e-12)
    np.testing.assert_allclose(run.c[-1], numbers(want["c"]), rtol=1e-12)
    if train == "Ep":
        np.testing.assert_allclose(run.E[0], numbers(want["E0row"]), rtol=1e-12)
        np.testing.assert_array_equal(run.v, d1.v)
    else:
        np.testing.assert_allclose(run.v, numbers(want["v"]), rtol=1e-12)
    assert run.beta is None


def test_oracle_p_only(oracles: dict, d1: Instance) -> None:
    want = oracles["a"]["trajectories_D1"]["p_only_200steps_eta0.5"]
    corpus, E, p, v = d1
    run = descend_embeddings(corpus, E, p, v, steps=200, rate=0.5, train=["p"])
    assert run.losses[-1] == pytest.approx(float(want["loss"]), rel=1e-12)
    np.testing.assert_allclose(run.p, numbers(want["p"]), rtol=1e-12)
    np.testing.assert_allclose(run.beta, numbers(want["beta"]), rtol=1e-11)
    assert run.beta.sum() == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(p + E.T @ run.beta, run.p, rtol=1e-12)
    np.testing.assert_array_equal(run.E, E)
    # The same descent by the machinery of paper B.
    path = hm.train(corpus.problem(E, v), hm.optim.GD(0.5), steps=200, start=p)
    np.testing.assert_allclose(path.p, run.p, rtol=1e-11)


def test_what_flow_conserves_drifts_with_the_step(d1: Instance) -> None:
    """E'E - pp' - vv' is constant under the flow (A-RED-5), so descent moves it by O(rate)."""

    def drift(rate: float) -> float:
        run = descend_embeddings(*d1, steps=round(1 / rate), rate=rate, train="Epv")
        ends = [E.T @ E - np.outer(p, p) - np.outer(v, v) for E, p, v in ((run.E, run.p, run.v), d1[1:])]
        return float(np.abs(ends[0] - ends[1]).max())

    coarse, fine = drift(1e-2), drift(1e-3)
    assert 5 < coarse / fine < 20
    assert fine < 1e-4


def test_records_and_given_vectors_are_left_alone(d1: Instance) -> None:
    before = [x.copy() for x in d1[1:]]
    run = descend_embeddings(*d1, steps=10, rate=0.1, record=[3, 7])
    assert run.times.tolist() == [0, 3, 7, 10]
    assert run.losses.shape == (4,)
    np.testing.assert_allclose(run.a[-1], run.E @ run.p, rtol=1e-15)
    for now, then in zip(d1[1:], before, strict=True):
        np.testing.assert_array_equal(now, then)
    only_v = descend_embeddings(*d1, steps=1, rate=0.1, train=["v"])
    np.testing.assert_array_equal(only_v.p, d1.p)


@pytest.mark.parametrize("train", ["", "x", ["E", "q"]])
def test_refusals(d1: Instance, train: str) -> None:
    with pytest.raises(ValueError, match="train must name some of"):
        descend_embeddings(*d1, steps=1, rate=0.1, train=train)
