"""Algorithm 1: the oracles step by step, the facts of C-LEM-5 to 7, and where naive float64 fails."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.nexttoken import Samples, generate
from hardmax.nexttoken.observables import _sentence_losses, accuracy, loss, target_masses
from hardmax.nexttoken.stages import Pairs
from hardmax.nexttoken.training import train
from hardmax.nexttoken.unmerged import TableModel
from hardmax.papers.next_token.convergence import naive_descent
from hardmax.problem.readouts import OutputValue, best_loss

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]
ETA = 0.05 / np.sqrt(20)


def numbers(rows):
    return np.array(rows, dtype=np.float64)


@pytest.fixture(scope="module")
def figure_2(oracles):
    return Samples.from_sentences(oracles["c"]["C-ORC-9_fig2_V20"]["raw_sentences"])


def test_first_steps_of_example_1(oracles):
    """C-ORC-2: weights, losses, gradients and cosines to 25 digits."""
    case = oracles["c"]["C-ORC-2_first_steps_example1"]
    samples = Samples.from_sentences(EXAMPLE_1)
    run = train(samples, stage1=20, steps=3, first_rate=0.1, rate=0.025, record=1)
    seen = run.observe()
    for k, expected in enumerate(case["stage2"]):
        a = run.points[k]
        np.testing.assert_allclose(run.pairs.table(a), numbers(expected["W_kq"]), atol=1e-16)
        found = run.stage.direction(a)
        np.testing.assert_allclose(run.pairs.table(found.gradient), numbers(expected["grad"]), atol=1e-15)
        assert np.exp(seen.log_gradient[k]) == pytest.approx(float(expected["grad_norm"]), rel=1e-13)
        assert seen.loss[k] == pytest.approx(float(expected["loss"]), rel=1e-13)
        assert seen.norm[k] == pytest.approx(float(expected["norm"]), rel=1e-13)
        if expected["cos"] is not None:
            assert 1 - seen.misalignment[k] == pytest.approx(float(expected["cos"]), rel=1e-12)
    assert run.best_loss == pytest.approx(float(case["limit_loss"]), rel=1e-14)
    np.testing.assert_allclose(run.W_kq.toarray(), run.pairs.table(run.a))


def test_figure_2_run(oracles, figure_2):
    """C-ORC-9: 900 + 900 steps at |V| = 20."""
    case = oracles["c"]["C-ORC-9_fig2_V20"]["stage2"]
    run = train(figure_2, record=[1, 10, 100])
    seen = run.observe()
    for k, t in enumerate(("0", "1", "10", "100", "900")):
        assert seen.loss[k] == pytest.approx(float(case[t]["loss"]), rel=1e-12)
        assert seen.norm[k] == pytest.approx(float(case[t]["norm"]), rel=1e-12)
        assert seen.target_mass[k].min() == pytest.approx(float(case[t]["min_opt_weight"]), rel=1e-12)
        if case[t]["cos"]:
            assert 1 - seen.misalignment[k] == pytest.approx(float(case[t]["cos"]), rel=1e-12)
    assert (seen.accuracy[0], seen.accuracy[1]) == (pytest.approx(4 / 26), 1.0)
    assert run.misalignment_ov == 0.0
    assert run.norm_ov == pytest.approx(900 * 0.2 / np.sqrt(20))
    assert run.loss - run.excess_loss == pytest.approx(run.best_loss, rel=1e-12)


@pytest.mark.slow
@pytest.mark.no_cover
def test_law_of_the_late_phase_and_naive_float64_beside_it(figure_2):
    """C-THM-ASY within 0.1 % at t = 2e5; the printed formula in float64 is noise from t = 1e4 on."""
    run = train(figure_2, steps=200_000, record=[1000, 10_000, 30_000, 100_000])
    ratio = {
        int(t): run.star.cosine_distance(a) / run.late.predicted_misalignment(ETA * t)
        for t, a in zip(run.times[1:], run.points[1:], strict=True)
    }
    assert ratio[200_000] == pytest.approx(1.0002, abs=1e-4)
    assert ratio[100_000] == pytest.approx(1.0005, abs=1e-4)
    assert ratio[30_000] == pytest.approx(1.0016, abs=1e-4)
    assert ratio[10_000] == pytest.approx(1.0043, abs=1e-4)
    assert ETA * 200_000 - run.norm_kq == pytest.approx(0.277, abs=1e-3)
    assert np.linalg.norm(run.late.beside(run.a) - run.late.R) < 1e-9
    B = run.W_ov.table
    early = naive_descent(figure_2, B, ETA, 1000)
    assert np.abs(early - run.pairs.table(run.points[1])).max() < 1e-13
    assert np.abs(naive_descent(figure_2, B, ETA, 10_000) - run.pairs.table(run.points[2])).max() > 1


@pytest.mark.slow
def test_excess_loss_law(figure_2):
    run = train(figure_2, steps=5000, record=[900, 3000])
    seen = run.observe()
    law = [run.late.log_excess(run.W_ov, m) for m in seen.log_off_mass[1:]]
    ratios = np.exp(seen.log_excess[1:] - law)
    np.testing.assert_allclose(ratios, [1.285, 1.00009, 1.00000004], rtol=5e-6, atol=5e-4)
    assert ratios[1] == pytest.approx(1.00009, abs=5e-6)
    assert ratios[2] - 1 == pytest.approx(4e-8, rel=0.1)
    late = train(figure_2, steps=30_000, record=[10_000])
    slope = np.diff(late.observe().log_excess[1:])[0] / 20_000
    assert slope == pytest.approx(-3.8310e-3, rel=1e-4)
    assert late.late.excess_rate(late.rate) == pytest.approx(-3.8311e-3, rel=1e-4)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), margin=st.floats(0.2, 30.0))
def test_facts_of_realizable_training(seed, margin):
    """C-LEM-5, 6: signs, monotone masses, dominance, accuracy 1 from step 1, sandwich of the norm."""
    samples = Samples.from_sentences(generate(8, lag0=0.6, rng=seed).sentences)
    pairs = Pairs.of(samples)
    if not pairs.n:
        return
    run = train(samples, W_ov=OutputValue.aligned(pairs.collocation, margin), rate=0.05, steps=40, record=4)
    seen = run.observe()
    assert run.signed_steps == 0
    assert (np.diff(seen.target_mass, axis=0) >= -1e-15).all()
    assert (seen.accuracy[1:] == 1).all()
    assert (np.diff(seen.loss) <= 1e-15).all()
    assert (seen.gradient_star <= -np.sqrt(0.5) + 1e-12).all()
    t = seen.times[1:]
    assert (seen.norm[1:] <= t * 0.05 * (1 + 1e-12)).all()
    assert (seen.norm[1:] >= t * 0.05 / (np.sqrt(2) * run.star.norm) * (1 - 1e-12)).all()
    columns = np.add.reduceat(run.points, np.flatnonzero(np.diff(pairs.query, prepend=-1)), axis=1)
    np.testing.assert_allclose(columns, 0, atol=1e-13)
    optimal = np.isin(np.arange(pairs.P), run.star.above)
    assert (run.a[optimal] > 0).all()
    assert (run.a[~optimal] < 0).all()


def test_one_step_is_enough_for_accuracy(figure_2):
    run = train(figure_2, steps=1)
    assert accuracy(run.pairs, run.points[0]) < 1
    assert accuracy(run.pairs, run.a) == 1
    assert (target_masses(run.pairs, run.a) > target_masses(run.pairs, run.points[0])).all()


@pytest.mark.slow
def test_record_start_and_progress(figure_2):
    calls = []
    run = train(figure_2, steps=2500, progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1] == (2500, 2500)
    assert run.times[0] == 0
    assert run.times[-1] == 2500
    assert 40 < len(run.times) <= 61
    again = train(figure_2, steps=1500, start=train(figure_2, steps=1000).a)
    np.testing.assert_array_equal(again.a, run.a)
    table = train(figure_2, steps=1500, start=train(figure_2, steps=1000).W_kq.toarray())
    np.testing.assert_array_equal(table.a, run.a)
    with pytest.raises(ValueError, match="never meet"):
        train(figure_2, start=np.ones((20, 20)))
    assert train(figure_2, steps=0).times.tolist() == [0]


def test_loss_without_attention():
    """Single tokens only: the loss is L*, whatever W_kq is."""
    samples = Samples.from_sentences(["a b", "b a"])
    pairs = Pairs.of(samples)
    W_ov = OutputValue.aligned(pairs.collocation, 3.0)
    assert loss(pairs, W_ov, np.zeros(0)) == pytest.approx(np.log1p(np.exp(-3)))
    table = OutputValue.of_table(pairs.collocation, W_ov.table)
    assert loss(pairs, table, np.zeros(0)) == pytest.approx(np.log1p(np.exp(-3)))


@pytest.mark.parametrize("margin", [0.7, 12.0, 800.0])
def test_losses_in_all_forms_agree(figure_2, margin):
    """The excess form, the grouped logits and the dense model give the same loss."""
    pairs = Pairs.of(figure_2)
    a = 2 * np.random.default_rng(1).standard_normal(pairs.P)
    W_ov = OutputValue.aligned(pairs.collocation, margin)
    by_excess = loss(pairs, W_ov, a)
    dense = TableModel.of(figure_2, pairs.table(a), W_ov.table).loss
    grouped = np.exp(pairs.log_weight) @ _sentence_losses(pairs, W_ov, a)
    alone = 1 - np.exp(pairs.log_weight).sum()
    assert by_excess == pytest.approx(dense, rel=1e-12)
    assert grouped + alone * best_loss(20, margin) == pytest.approx(dense, rel=1e-12)


def test_conditions_on_the_steps(figure_2):
    run = train(figure_2, steps=1, rate=7.0, first_rate=3.0)
    broken = [name for name, (step, bound) in run.conditions.items() if not step <= bound]
    assert broken == ["eta0 <= |W_ov*|/2", "eta <= |W_kq*|/e", "eta < eta_c"]
    assert train(figure_2, steps=1).conditions["eta < eta_c"][1] == pytest.approx(2 * np.sqrt(511 / 60))


def test_errors_name_what_is_wrong(figure_2):
    with pytest.raises(ValueError, match="W_ov is 0"):
        train(figure_2, stage1=0)
    with pytest.raises(ValueError, match="no sentence has two distinct tokens"):
        train(Samples.from_sentences(["a b", "b a"]))
    with pytest.raises(ValueError, match="rate must be a positive number"):
        train(figure_2, rate=-1)


@pytest.mark.slow
def test_large_margins_and_long_runs_stay_exact(figure_2):
    """Delta above 300 takes the sentences' weights into exponents; the limit does not depend on Delta."""
    n = Pairs.of(figure_2).collocation
    for margin in (300.0, 301.0, 5000.0):
        run = train(figure_2, W_ov=OutputValue.aligned(n, margin), steps=20_000, rate=0.05)
        ratio = run.misalignment_kq / run.late.predicted_misalignment(run.norm_kq)
        assert ratio == pytest.approx(1, abs=0.02)
    one = train(figure_2, W_ov=OutputValue.aligned(n, 300.0), steps=200, rate=0.05)
    other = train(figure_2, W_ov=OutputValue.aligned(n, np.nextafter(300.0, 301)), steps=200, rate=0.05)
    np.testing.assert_allclose(one.a, other.a, atol=1e-10)
