"""W_kq*, the late residual and its threshold (C-DEF-KQSTAR, C-THM-ASY)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.margin.closed_forms import kq_star
from hardmax.nexttoken import Samples, generate, named_sentences
from hardmax.nexttoken.relations import orders
from hardmax.nexttoken.stages import Pairs
from hardmax.nexttoken.star import KqStar, late_of
from hardmax.nexttoken.training import train
from hardmax.problem.readouts import OutputValue

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]


def pairs_of(sentences, **options):
    return Pairs.of(Samples.from_sentences(sentences, **options))


def test_example_1(oracles):
    case = oracles["c"]["C-ORC-1_example1"]
    star = KqStar.of(pairs_of(EXAMPLE_1, vocabulary=case["vocabulary"]))
    expected = [[Fraction(x) for x in row] for row in case["W_kq_star_rows_token_cols_query"]]
    for x, q, value in zip(star.pairs.token, star.pairs.query, star.exact, strict=True):
        assert value == expected[x][q]
    assert star.norm_squared == Fraction(13, 6)
    late = late_of(star)
    rate = oracles["c"]["C-ORC-8_asymptotic_rate_example1"]
    assert late.norm_squared == pytest.approx(float(rate["R_perp_norm2"]), rel=1e-14)
    np.testing.assert_allclose(star.pairs.table(late.R), np.array(rate["R_perp"], dtype=float), atol=1e-15)
    assert late.eta_c == pytest.approx(2 * math.sqrt(13 / 6))


@pytest.mark.slow
def test_rate_of_example_1(oracles):
    case = oracles["c"]["C-ORC-8_asymptotic_rate_example1"]["check"]
    pairs = pairs_of(EXAMPLE_1)
    W_ov = OutputValue.aligned(pairs.collocation, 2 / math.sqrt(3))
    run = train(pairs.samples, W_ov=W_ov, rate=case["eta"], steps=case["t"])
    ratio = run.misalignment_kq / run.late.predicted_misalignment(case["eta"] * case["t"])
    assert ratio == pytest.approx(case["ratio_measured_over_law"], abs=1e-8)


def test_figure_2_norms(oracles):
    case = oracles["c"]["C-ORC-9_fig2_V20"]
    star = KqStar.of(pairs_of(case["raw_sentences"]))
    assert star.norm_squared == Fraction(case["W_kq_star_norm2"])
    assert late_of(star).norm_squared == pytest.approx(7.0995, abs=5e-5)
    assert star.is_star


def test_slack_edges(oracles):
    case = oracles["c"]["C-ORC-5_slack_edge_noninjective"]
    text = named_sentences("C-CEX-P2")
    star = KqStar.of(pairs_of([text.words(i) for i in range(text.n)], vocabulary=case["vocabulary"]))
    assert star.norm_squared == Fraction(case["true_norm2"])
    words = case["vocabulary"]
    column = {
        words[x]: w
        for x, q, w in zip(star.pairs.token, star.pairs.query, star.exact, strict=True)
        if words[q] == "q"
    }
    assert column == {word: Fraction(w) for word, w in case["true_W_kq_star_column_q"].items()}
    assert not star.is_star
    assert len(star.above) - len(star.support) == 1
    late = late_of(star)
    assert late.span.shape[1] == len(star.support) - 1
    assert late.frozen(late.R) == pytest.approx(0, abs=1e-12)


@given(seed=st.integers(0, 10**6))
@pytest.mark.no_cover
def test_sparse_values_are_the_dense_ones(seed):
    samples = Samples.from_sentences(generate(7, permutation="uniform", rng=seed).sentences)
    star = KqStar.of(Pairs.of(samples))
    dense = kq_star(orders(samples).edges(), samples.V).fractions
    assert star.norm_squared == (dense**2).sum()
    assert (star.pairs.table(star.values) == dense.astype(float)).all()


@given(seed=st.integers(0, 10**6))
def test_star_residual_minimises_F(seed):
    """The closed form makes omega e^-R proportional to the multipliers 1/(m+1)."""
    star = KqStar.of(pairs_of(generate(8, lag0=0.7, rng=seed).sentences))
    if not star.pairs.n:
        return
    late = late_of(star)
    assert abs(late.R @ star.values) < 1e-12
    m = np.bincount(star.above)[star.above]
    pull = np.log(late.omega) - (late.R[star.above] - late.R[star.below]) + np.log(m + 1)
    np.testing.assert_allclose(pull, pull[0], atol=1e-12)


@pytest.mark.slow
def test_descent_swings_just_above_the_threshold():
    """The addendum: at 0.97 eta_c the ratio is 1.0000, at 1.03 eta_c it oscillates with period 2."""
    samples = Samples.from_sentences(EXAMPLE_1)
    pairs = Pairs.of(samples)
    late = late_of(KqStar.of(pairs))
    for factor, swings in ((0.97, False), (1.03, True)):
        eta = factor * late.eta_c
        run = train(
            samples,
            W_ov=OutputValue.aligned(pairs.collocation, 2.0),
            rate=eta,
            steps=4000,
            record=[3998, 3999],
        )
        last = [late.beside(a) for a in run.points[-3:]]
        ratio = run.misalignment_kq / late.predicted_misalignment(run.norm_kq)
        assert (np.linalg.norm(last[2] - last[1]) > 0.05) == swings
        assert np.linalg.norm(last[2] - last[0]) < 1e-3
        assert (abs(ratio - 1) < 1e-3) != swings


def test_one_query_has_its_own_threshold():
    one = late_of(KqStar.of(pairs_of(["a b b", "b a"])))
    assert one.eta_c == math.inf  # a single relation has nothing to swing
    assert one.norm_squared == pytest.approx(0, abs=1e-30)
    star = KqStar.of(pairs_of(["a b c d d", "b c", "c d", "d a"]))
    assert star.is_star
    assert np.isfinite(late_of(star).eta_c)


def test_misalignment_of_nothing_is_undefined():
    star = KqStar.of(pairs_of(EXAMPLE_1))
    assert math.isnan(star.cosine_distance(np.zeros(star.pairs.P)))
    assert star.cosine_distance(3 * star.values) < 1e-30
    with pytest.raises(ValueError, match="multiple of"):
        late_of(star).log_excess(OutputValue.of_table([1, 2, 3, 0], np.eye(4)), 0.0)
