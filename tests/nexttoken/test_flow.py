"""Stage 2 as a flow: it is what small steps tend to, and it reaches t = 1e12."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.nexttoken import Samples, named_sentences
from hardmax.nexttoken.training import train, train_by_flow

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]


@pytest.fixture(scope="module")
def samples():
    return Samples.from_sentences(EXAMPLE_1)


def test_small_steps_tend_to_the_flow(samples):
    flow = train_by_flow(samples, 40.0, rate=0.05, stage1=20, first_rate=0.1)
    errors = []
    for k in (1, 2, 4):
        steps = train(samples, steps=40 * k, rate=0.05 / k, stage1=20, first_rate=0.1)
        errors.append(float(np.linalg.norm(steps.a - flow.a)))
    assert errors[0] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)  # first order in the step
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)


@pytest.mark.slow
def test_to_1e12(samples):
    run = train_by_flow(samples, 1e12, rate=0.025)
    assert run.clock == "flow"
    assert run.norm_kq == pytest.approx(2.5e10, rel=1e-9)
    assert run.misalignment_kq / run.late.predicted_misalignment(2.5e10) == pytest.approx(1, abs=1e-5)
    assert run.misalignment_kq == pytest.approx(4.01e-22, rel=1e-3)
    assert run.log_excess_loss == pytest.approx(-2.5e10 / run.star.norm, rel=1e-8)
    middle = int(np.argmin(np.abs(run.times - 1e8)))
    distance = np.linalg.norm(run.late.beside(run.points[middle]) - run.late.R)
    assert distance < 1e-9
    assert np.linalg.norm(run.late.beside(run.a) - run.late.R) < 1e-7
    queries = np.flatnonzero(np.diff(run.pairs.query, prepend=-1))
    np.testing.assert_allclose(np.add.reduceat(run.a, queries), 0, atol=1e-7)


@pytest.mark.slow
def test_figure_2_to_1e12(oracles):
    data = Samples.from_sentences(oracles["c"]["C-ORC-9_fig2_V20"]["raw_sentences"])
    run = train_by_flow(data, 1e12, record=[900.0, 1e5])
    eta = run.rate
    assert run.times.tolist() == [0, 900, 1e5, 1e12]
    assert float(np.sqrt(run.points[1] @ run.points[1])) == pytest.approx(9.98115646, abs=1e-3)
    assert run.star.cosine_distance(run.points[2]) / run.late.predicted_misalignment(
        eta * 1e5
    ) == pytest.approx(1.0005, abs=1e-4)
    assert run.misalignment_kq / run.late.predicted_misalignment(eta * 1e12) == pytest.approx(1, abs=1e-5)
    assert eta * 1e12 - run.norm_kq == pytest.approx(0.277, abs=1e-2)


TEXT = named_sentences("C-EXT-2")
OTHER = {  # two deciding tokens in a sentence, and a flux that changes sign: where `train` takes signed steps
    "C-EXT-2": Samples.from_sentences([TEXT.words(i) for i in range(TEXT.n)]),
    "Assumption 3 violated": Samples.from_sentences([[*"ho", *20 * "sh", "s"], [*"oshs"], [*"sh"]]),
}


@pytest.mark.parametrize("name", OTHER)
def test_beyond_the_edge_form_it_is_the_flow_of_any_problem(name):
    far = train_by_flow(OTHER[name], 20.0, rate=0.01, stage1=10_000)
    steps = train(OTHER[name], steps=800, rate=0.00025, stage1=10_000)
    assert steps.signed_steps > 0
    assert far.cosine_distance(steps.final) < 2e-8  # of the order of the rate squared
    assert far.norm_kq == pytest.approx(steps.norm_kq, abs=2e-4)
    same = hm.flow(far.problem, clock="arc length", until_length=0.2)
    assert far.cosine_distance(same.final[: len(far.final)]) < 1e-15


def test_record_must_lie_before_the_end(samples):
    with pytest.raises(ValueError, match="record must be times"):
        train_by_flow(samples, 10.0, record=[20.0])


def test_short_flow_has_unit_speed(samples):
    run = train_by_flow(samples, 1.0, rate=0.01)
    assert run.times.tolist() == [0, 1]
    assert run.norm_kq == pytest.approx(0.01, rel=1e-4)
