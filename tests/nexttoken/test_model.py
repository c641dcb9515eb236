"""Forward pass and gradients (5), (6) against the oracles, the literal formula and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nexttoken.literal import literal_gradient

from hardmax.nexttoken import Samples, generate, named_sentences
from hardmax.nexttoken.generators import generate_by_rejection
from hardmax.nexttoken.stages import Pairs, descend_stage_1, gradient_ov, misalignment_constant, stage_1
from hardmax.nexttoken.unmerged import TableModel
from hardmax.problem.readouts import OutputValue, star_norm, star_table


def numbers(rows):
    return np.array(rows, dtype=np.float64)


def test_generic_gradients_of_the_oracle(oracles):
    case = oracles["c"]["C-ORC-3_generic_gradient"]
    samples = Samples.from_sentences(case["raw_sentences"])
    model = TableModel.of(samples, numbers(case["W_kq_times10"]) / 10, numbers(case["W_ov_times10"]) / 10)
    assert model.loss == pytest.approx(float(case["loss"]), rel=1e-14)
    np.testing.assert_allclose(model.gradient_kq, numbers(case["grad_W_kq"]), atol=1e-15)
    np.testing.assert_allclose(model.gradient_ov, numbers(case["grad_W_ov_full_loss"]), atol=1e-15)
    for i in range(samples.n):
        key = str([int(x) for x in samples.sentence(i).split()])
        inside = slice(samples.offsets[i], samples.offsets[i + 1])
        masses = model.attention[[i]].toarray()[0, samples.tokens[inside]]
        np.testing.assert_allclose(masses, numbers(case["attention"][key]), rtol=1e-14)
        np.testing.assert_allclose(model.outputs[i], numbers(case["outputs"][key]), rtol=1e-14)


@given(seed=st.integers(0, 10**6), size=st.floats(0.1, 3.0))
def test_gradients_are_the_literal_formula_and_finite_differences(seed, size):
    draw = np.random.default_rng(seed)
    samples = Samples.from_sentences(generate_by_rejection(5, steps=40, rng=seed))
    A, B = size * draw.standard_normal((2, 5, 5))
    model = TableModel.of(samples, A, B)
    np.testing.assert_allclose(
        model.gradient_kq, literal_gradient(samples, np.eye(5), B, A), atol=1e-14 * (1 + size**2)
    )
    step = draw.standard_normal((5, 5))
    h = 1e-5
    for gradient, move in ((model.gradient_kq, (step, 0 * step)), (model.gradient_ov, (0 * step, step))):
        ends = [TableModel.of(samples, A + s * move[0], B + s * move[1]).loss for s in (h, -h)]
        assert np.vdot(gradient, step) == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-8)


@given(seed=st.integers(0, 10**6))
def test_merging_sentences_changes_nothing(seed):
    draw = np.random.default_rng(seed)
    raw = [[int(x) for x in draw.integers(0, 3, size=5)] for _ in range(6)]
    samples = Samples.from_sentences(raw, vocabulary=["a", "b", "c"])
    A, B = draw.standard_normal((2, 3, 3))
    one, other = TableModel.of(samples, A, B), TableModel.of(samples.merged(), A, B)
    assert one.loss == pytest.approx(other.loss, rel=1e-14)
    np.testing.assert_allclose(one.gradient_ov, other.gradient_ov, atol=1e-15)
    np.testing.assert_allclose(one.gradient_kq, literal_gradient(samples, np.eye(3), B, A), atol=1e-15)


def test_single_tokens_attend_to_themselves_and_do_not_pull():
    samples = Samples.from_sentences(["a b", "b a"])
    model = TableModel.of(samples, np.zeros((2, 2)), star_table([1, 0]))
    assert not model.gradient_kq.any()
    assert not Pairs.of(samples).n


def test_pairs_know_their_place():
    pairs = Pairs.of(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]))
    assert [pairs.position[x, q] for x, q in zip(pairs.token, pairs.query, strict=True)] == [*range(9)]
    assert (1, 3) not in pairs.position  # V never meets the query P
    A = np.random.default_rng(0).standard_normal((4, 4))
    assert pairs.table(pairs.values(A))[2, 3] == A[2, 3] == pairs.values(A)[pairs.position[2, 3]]


class TestStage1:
    def test_closed_form_is_the_oracle(self, oracles):
        case = oracles["c"]["C-ORC-2_first_steps_example1"]
        n = Pairs.of(Samples.from_trie(_trie("C-EX-1"))).collocation
        for t, value in case["L0"].items():
            assert stage_1(n, int(t), 0.1).stage_1_loss == pytest.approx(float(value), rel=1e-14)
        np.testing.assert_allclose(stage_1(n, 1, 0.1).table, numbers(case["W_ov_1"]), rtol=1e-13)
        assert stage_1(n, 20, 0.1).margin == pytest.approx(float(case["Delta_T"]), rel=1e-15)

    def test_figure_2(self, oracles):
        case = oracles["c"]["C-ORC-9_fig2_V20"]
        n = Pairs.of(Samples.from_sentences(case["raw_sentences"])).collocation
        rate = 0.2 / np.sqrt(20)
        closed, steps = stage_1(n, 900, rate), descend_stage_1(n, 900, rate)
        assert closed.stage_1_loss == pytest.approx(float(case["L0"]["900"]), rel=1e-12)
        assert steps.stage_1_loss == pytest.approx(float(case["L0"]["900"]), rel=1e-10)
        assert (closed.norm, closed.misalignment_ov) == (pytest.approx(900 * rate, rel=1e-13), 0.0)
        assert steps.misalignment_ov < 1e-24
        assert float(case["limit_loss"]) == pytest.approx(np.log1p(19 * np.exp(-closed.margin)), rel=1e-13)

    def test_large_margins_keep_their_direction(self):
        """Naive float64 gives 0.96199 for the cosine and 80.19 for the norm here."""
        end = descend_stage_1([1, 2, 3, 0], 900, 0.1)
        assert end.misalignment_ov < 1e-24
        assert end.norm == pytest.approx(90, rel=1e-12)
        unit, log_norm = gradient_ov([1, 2, 3, 0], 5000 * star_table([1, 2, 3, 0]))
        np.testing.assert_allclose(unit, -star_table([1, 2, 3, 0]) / np.sqrt(3), atol=1e-15)
        assert log_norm == pytest.approx(-5000 + np.log(3 * 4 / 3 * np.sqrt(3)), rel=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [0.1, 1.0])
    def test_random_start_leaves_the_column_means(self, size):
        start = size * np.random.default_rng(0).standard_normal((4, 4))
        end = descend_stage_1([1, 2, 3, 0], 10_000, 0.1, start=start)
        np.testing.assert_allclose(end.table.sum(axis=0), start.sum(axis=0), atol=1e-10)
        assert end.misalignment_ov * 1e8 / misalignment_constant(start, 0.1) == pytest.approx(1, abs=5e-3)

    def test_tokens_without_a_next_token_stay_zero(self):
        end = descend_stage_1([1, -1, 0], 5, 0.1)
        assert not end.table[:, 1].any()
        np.testing.assert_allclose(end.table, stage_1([1, -1, 0], 5, 0.1).table, atol=1e-15)
        assert star_norm([1, -1, 0]) == pytest.approx(np.linalg.norm(star_table([1, -1, 0])))

    def test_nothing_to_learn_is_said(self):
        with pytest.raises(ValueError, match="gradient 0"):
            stage_1([-1, -1], 3, 0.1)
        with pytest.raises(ValueError, match="gradient 0"):
            descend_stage_1([-1, -1], 3, 0.1)

    def test_bad_arguments_are_named(self):
        with pytest.raises(ValueError, match="collocation must list"):
            OutputValue.aligned([3, 0], 1.0)
        with pytest.raises(ValueError, match="margin"):
            OutputValue.aligned([1, 0], -1.0)
        assert np.isnan(OutputValue.aligned([1, 0], 0.0).misalignment_ov)


def _trie(name):
    from hardmax.data.sentences.samples import Trie

    return Trie.build(named_sentences(name))


def test_dense_gradient_of_generated_data():
    samples = Samples.from_sentences(generate(rng=3).sentences)
    A = np.random.default_rng(0).standard_normal((20, 20))
    B = OutputValue.aligned(Pairs.of(samples).collocation, 4.0).table
    model = TableModel.of(samples, A, B)
    np.testing.assert_allclose(model.gradient_kq, literal_gradient(samples, np.eye(20), B, A), atol=1e-16)
    np.testing.assert_allclose(model.gradient_kq.sum(axis=0), 0, atol=1e-16)
    unit, log_norm = gradient_ov(Pairs.of(samples).collocation, B)
    columns = np.exp(B) / np.exp(B).sum(axis=0)
    columns[Pairs.of(samples).collocation, np.arange(20)] -= 1
    np.testing.assert_allclose(unit * np.exp(log_norm), columns, atol=1e-14)
    assert OutputValue.of_table(Pairs.of(samples).collocation, B).stage_1_loss == pytest.approx(
        20 * np.log1p(19 * np.exp(-4))
    )
