"""Beyond the assumptions: confused tokens, two deciding ones, Assumption 3 violated, any W_ov (C-EXT)."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nexttoken.literal import literal_gradient

from hardmax.nexttoken import Samples, named_sentences
from hardmax.nexttoken.observables import loss, target_masses
from hardmax.nexttoken.stages import Pairs, StageTwo
from hardmax.nexttoken.star import KqStar, late_of
from hardmax.nexttoken.training import train
from hardmax.nexttoken.unmerged import TableModel
from hardmax.problem.readouts import OutputValue


def samples_of(name):
    return Samples.from_sentences(named_sentences(name))


def run(name, margin, rate, steps, **options):
    samples = samples_of(name)
    n = Pairs.of(samples).collocation
    return train(samples, W_ov=OutputValue.aligned(n, margin), rate=rate, steps=steps, **options)


def column(training, query):
    words = list(training.samples.vocabulary)
    return dict(zip(words, training.W_kq.toarray()[:, words.index(query)], strict=True))


@pytest.mark.slow
def test_confused_but_acyclic_goes_to_the_qp_direction():
    """C-EXT-1: order r > p > q under q, column (1, 0, -1)."""
    end = run("C-EXT-1", 5.0, 0.05, 40_000)
    star = dict(zip(end.samples.vocabulary, end.pairs.table(end.star.values)[:, 2], strict=True))
    assert star == pytest.approx({"r": 1, "p": 0, "q": -1}, abs=1e-12)
    assert end.star.exact is None
    assert end.misalignment_kq == pytest.approx(2.4e-8, rel=0.01)
    assert end.late.predicted_misalignment(2000.0, end.a) == pytest.approx(end.misalignment_kq, rel=1e-4)
    assert end.signed_steps == 0


@pytest.mark.slow
def test_two_deciding_types_in_a_sentence_do_not_go_to_the_solution():
    """C-EXT-2: the heavier type takes all, the cosine tends to 0.9354, the excess loss still vanishes."""
    end = run("C-EXT-2", 5.0, 0.05, 20_000)
    assert end.signed_steps == 20_000
    assert 1 - end.misalignment_kq == pytest.approx(0.9354, abs=1e-3)
    under_a = column(end, "a")
    assert under_a["a"] == pytest.approx(-under_a["y"], rel=0.01)
    assert abs(under_a["b"]) < 0.01 * under_a["a"]
    assert end.log_excess_loss < -900
    assert end.late is None


def test_assumption_3_violated_switches_and_recovers():
    """C-EXT-3: after one step a non-optimal token is ahead of the optimal one; later all is well."""
    first = run("C-EXT-3", 300.0, 0.02, 1)
    under_h = column(first, "h")
    assert under_h["s"] == pytest.approx(0.0076, abs=5e-5)
    assert under_h["o"] == pytest.approx(0.0042, abs=5e-5)
    assert first.signed_steps == 1
    end = run("C-EXT-3", 300.0, 0.02, 1000, record=10)
    assert 1 - end.misalignment_kq == pytest.approx(0.985, abs=1e-3)
    assert 0 < end.signed_steps < 1000
    masses = np.array([target_masses(end.pairs, a) for a in end.points])
    assert (np.diff(masses, axis=0) >= -1e-15).all()


@pytest.mark.slow
@pytest.mark.parametrize("margin, expected", [(2.0, 2.41e-8), (9.0, 2.61e-8)])
def test_slack_relations_go_to_the_true_solution(oracles, margin, expected):
    """C-CEX-P2: to the block solution, not to the formula as printed."""
    case = oracles["c"]["C-ORC-5_slack_edge_noninjective"]
    end = run("C-CEX-P2", margin, 0.05, 100_000)
    assert str(end.star.norm_squared) == case["true_norm2"]
    assert end.misalignment_kq == pytest.approx(expected, rel=2e-3)
    assert end.late.predicted_misalignment(5000.0, end.a) == pytest.approx(end.misalignment_kq, rel=1e-3)
    printed = end.pairs.table(end.star.values)
    words = case["vocabulary"]
    for word, value in case["paper_formula_column_q"].items():
        printed[words.index(word), words.index("q")] = float(Fraction(value))
    away = end.W_kq.toarray() / end.norm_kq - printed / np.linalg.norm(printed)
    assert 0.5 * np.vdot(away, away) == pytest.approx(7.09e-3, rel=0.01)


def test_pulls_that_cancel_are_a_stationary_point():
    """C-ERR-02: AB -> A has no deciding token, and at zero A and B pull equally."""
    samples = samples_of("C-ERR-02")
    run = train(samples, steps=5)
    assert (run.event, run.steps) == ("stationary point", 0)
    pairs = Pairs.of(samples)
    stage = StageTwo(pairs, OutputValue.aligned(pairs.collocation, 2.0))
    assert stage.direction(np.zeros(pairs.P)).log_norm == -np.inf
    assert not stage.gradient(np.zeros(pairs.P)).any()


def test_unreachable_targets_and_missing_next_tokens():
    """Sentences that W_ov cannot explain have the gradient of the literal formula all the same."""
    draw = np.random.default_rng(3)
    samples = Samples.from_sentences(["a b c a", "b a d c", "c d d a b", "d a c"])
    pairs = Pairs.of(samples)
    assert not pairs.is_reachable
    W_ov = OutputValue.aligned(pairs.collocation, 3.0)
    stage = StageTwo(pairs, W_ov)
    for size in (0.0, 1.0, 3.0):
        a = size * draw.standard_normal(pairs.P)
        found = stage.direction(a)
        dense = literal_gradient(samples, np.eye(4), W_ov.table, pairs.table(a))
        assert found.method == "signed"
        np.testing.assert_allclose(pairs.table(found.gradient), dense, atol=1e-14)
    end = train(samples, steps=200, stage1=20)
    assert np.isnan(end.excess_loss)
    assert np.isnan(end.best_loss)
    assert end.loss < train(samples, steps=0, stage1=20).loss


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), margin=st.floats(0.1, 20.0), size=st.floats(0.0, 3.0))
def test_any_data_has_the_literal_gradient(seed, margin, size):
    """Random sentences: nondeterministic, unreachable, with tokens that have no n(x)."""
    draw = np.random.default_rng(seed)
    raw = [draw.integers(0, 4, size=draw.integers(2, 7)).tolist() for _ in range(5)]
    samples = Samples.from_sentences(raw, vocabulary="abcd")
    pairs = Pairs.of(samples)
    if not pairs.n or (pairs.collocation < 0).all():
        return
    W_ov = OutputValue.aligned(pairs.collocation, margin)
    a = size * draw.standard_normal(pairs.P)
    dense = literal_gradient(samples, np.eye(4), W_ov.table, pairs.table(a))
    for each in (W_ov, OutputValue.of_table(pairs.collocation, W_ov.table)):
        found = StageTwo(pairs, each).gradient(a)
        np.testing.assert_allclose(pairs.table(found), dense, atol=1e-14 * margin)
    model = TableModel.of(samples, pairs.table(a), W_ov.table)
    assert loss(pairs, W_ov, a) == pytest.approx(model.loss, rel=1e-12)


def test_contradicting_orders_have_no_limit(oracles):
    case = next(c for c in oracles["c"]["C-ORC-7_violations"] if c["name"] == "confused_cyclic")
    samples = Samples.from_sentences([" ".join(s) for s in case["raw_sentences"]])
    star = KqStar.of(Pairs.of(samples))
    assert star.values is None
    assert "query 'B'" in star.reason
    assert late_of(star) is None
    end = train(samples, steps=50)
    assert np.isnan(end.misalignment_kq)
    with pytest.raises(ValueError, match="contradict"):
        _ = star.support
    with pytest.raises(ValueError, match="no W_kq"):
        end.predict("A B", limit=True)


def test_any_table_in_training():
    samples = samples_of("C-EX-1")
    n = Pairs.of(samples).collocation
    aligned = OutputValue.aligned(n, 2.0)
    one = train(samples, W_ov=aligned, steps=300, rate=0.05)
    other = train(samples, W_ov=OutputValue.of_table(n, aligned.table), steps=300, rate=0.05)
    assert other.signed_steps == 300
    np.testing.assert_allclose(one.a, other.a, atol=1e-13)
    assert one.loss == pytest.approx(other.loss, rel=1e-13)
    assert np.isnan(other.excess_loss)
