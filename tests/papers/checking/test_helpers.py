"""Parts that several statements use: radii, lost attention, closed forms, printed bounds, and examples."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.directions.direction import local_constants
from hardmax.margin.closed_forms import Block
from hardmax.nexttoken import Samples, named_sentences
from hardmax.nexttoken.unmerged import TableModel
from hardmax.papers.checking.check import Unmet, statements, subject_of
from hardmax.papers.checking.common import late_radius, log_lost, unit_length, with_copies
from hardmax.papers.checking.instances import kind_of
from hardmax.papers.checking.proof import balls
from hardmax.papers.geometry import instances as of_d
from hardmax.papers.geometry.common import separable
from hardmax.papers.max_margin import instances as of_b
from hardmax.papers.max_margin.local import radius_for
from hardmax.papers.max_margin.paths import morse_quotient, path_bound
from hardmax.papers.next_token import instances as of_c
from hardmax.papers.next_token.columns import multipliers
from hardmax.papers.next_token.loss import vacuity
from hardmax.papers.next_token.printed import TextSizes, first_time, proposition_1, theorem_1
from hardmax.papers.next_token.stage1 import gradient_in_balls
from hardmax.papers.next_token.stage2 import projection
from hardmax.papers.trained_embeddings import instances as of_a
from hardmax.papers.trained_embeddings.common import (
    derivatives,
    draw_first_step,
    fixed_embeddings,
    late_enough,
)

FIG8 = hm.data.example("B-FIG-8")


def test_statements_name_their_data():
    assert subject_of(statements()["B-THM-3"]).__name__ == "Problem"
    assert [kind_of(id) for id in ("B-THM-2", "A-LEM-2", "C-THM-1")] == ["problem", "corpus", "sentences"]


def test_radii_and_lost_attention():
    assert late_radius(FIG8, 0.5) == pytest.approx(52.3, abs=0.05)
    assert unit_length(hm.Problem([[[-1.0], [-1.0]]], [[1.0, 2.0]])) == 1.0
    assert with_copies(hm.Problem([[[1.0], [0.0], [1.0]]], [[1.0, 0.0, 1.0]]), [(0,)]) == [(0, 2)]
    assert log_lost(FIG8, [1000.0, 3000.0], [[0], [0]]).tolist() == [-1000.0, -1000.0]
    constants = local_constants(FIG8, hm.max_margin(FIG8, [0, 1]))
    assert [radius_for(FIG8, constants, pi) for pi in (1.0, 1e-3)] == pytest.approx([799.0, 2.57e9], rel=2e-3)
    best = hm.max_margin(FIG8)
    path = hm.limits.regularization_path(FIG8, [300.0])
    assert path.cosine_distance(best, 0) < path_bound(FIG8, best, 300.0) < 0.03
    assert [late_enough(FIG8, best, R).holds for R in (1e1, 1e3)] == [None, True]


def test_two_attractors_and_the_saddle_between_them():
    assert morse_quotient([0, 0, 1]) == [1, 0]


def test_separable_ends_the_test_where_nothing_separates():
    assert separable(hm.data.example("skew"), "linf").margin == 3.0
    with pytest.raises(Unmet) as stop:
        separable(hm.data.example("cycle", "logistic"), "l2")
    assert [each.id for each in stop.value.hypotheses] == ["selection separable"]


def test_embeddings_after_the_first_step():
    corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    E, v = fixed_embeddings(corpus, first_rate=16)
    assert (E @ v).tolist() == [2.0, -2.0, 0.0]
    drawn = draw_first_step(corpus)
    assert len(str(drawn.d)) == 45
    assert drawn.after.c == pytest.approx([8.0, -8.0, 0.0], abs=1e-8)
    twice = hm.Corpus.from_sequences([[0, 1, 1], [1, 1, 2]], [1, -1])
    A, _ = derivatives(twice, balls([0, 0, 0]), balls([3, 0, -3]))
    assert [float(x) for x in A] == pytest.approx([-0.089647, 0.179294, -0.089647], abs=5e-7)


def test_closed_forms_of_stage_2():
    model = TableModel.of(
        Samples.from_sentences(["a b b", "b a"]), np.zeros((2, 2)), np.array([[-1, 1], [1, -1.0]])
    )
    assert projection(model, np.array([1, 0]), 2.0, np.array([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(
        -1 / 6
    )
    _, star, G = gradient_in_balls(np.array([1, 0]), np.zeros((2, 2)))
    assert [float(x) for x in G] == [0.5, -0.5, -0.5, 0.5] == [-float(x) for x in star]
    third = Fraction(1, 3)
    edges = [("o", "x"), ("o", "y")]
    assert multipliers(edges, Block(("o",), ("x", "y"))) == dict.fromkeys(edges, third)
    edges = [("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")]
    assert multipliers(edges, Block(("a", "b"), ("x", "y", "z"))) is None


def test_printed_bounds():
    assert TextSizes(V=20, N=46, L=7, star=8.51667**0.5).star_ov ** 2 == pytest.approx(19)
    assert 1 - proposition_1(TextSizes(20, 46, 7, 2.918), 900, 0.2 / 20**0.5) == pytest.approx(
        -257.2, abs=0.05
    )
    allowed = theorem_1(TextSizes(20, 46, 7, (511 / 60) ** 0.5), 900, 0.05 / 20**0.5)
    assert allowed == pytest.approx(1.99e9, rel=3e-3)
    assert [first_time(100.0, 1), first_time(1.0, 1)] == pytest.approx([647.278, 1.0], abs=5e-4)
    bounds = vacuity({"Example 1": named_sentences("C-EX-1")})
    first, last = bounds[0], bounds[-1]
    assert (first.value, first.truth) == pytest.approx((-3.08, 1.0), abs=5e-3)
    assert (last.value, last.truth) == pytest.approx((56.4, 8.14e-23), rel=1e-3)
    assert [each.from_time for each in bounds[:5]] == pytest.approx(
        [4.6e3, 1.2e4, 1.8e6, 1.3e10, 1.2e12], rel=0.05
    )


def test_examples_are_what_they_say():
    path = hm.flow(of_b.opposed())
    assert (path.event, path.p.round(5).tolist()) == ("stationary point", [-0.69209])
    tied = hm.flow(of_b.tied_winners(), start=[1.0, 0.0], until_norm=1e6)
    assert tied.cosine_distance([1.0, 0.0]) < 1e-10
    assert list(hm.attractors(of_b.tied_winners())) == []
    assert hm.max_margin(of_d.half_opposed()).status == "infeasible"
    assert hm.max_margin(of_d.on_a_line(), norm="linf").margin == pytest.approx(0.407)
    sizes = [(of_c.drawn(name).n, of_c.drawn(name).raw_length) for name in ("short", "long", "derangement")]
    assert sizes == [(46, 7), (107, 12), (39, 6)]
    assert of_c.rare_sentence().misalignment_kq == pytest.approx(0.29289, abs=5e-6)
    bad = hm.flow(of_a.bad_basin(), start=20 * of_a.BAD / (of_a.BAD @ of_a.BAD) ** 0.5)
    assert bad.cosine_distance(of_a.BAD) < 1e-9
