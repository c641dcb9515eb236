"""Papers A and C: what is said to fail is proved, and what only looks so is left undecided."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.nexttoken import Samples, named_sentences
from hardmax.nexttoken.stages import gradient_ov
from hardmax.nexttoken.training import train
from hardmax.papers.checking.check import check_statement, statements
from hardmax.papers.checking.instances import instances
from hardmax.papers.checking.proof import at_precision, length
from hardmax.papers.next_token import convergence, stage1
from hardmax.papers.next_token.instances import rare_sentence
from hardmax.papers.trained_embeddings import first_step, gradients
from hardmax.papers.trained_embeddings import instances as examples
from hardmax.papers.trained_embeddings.common import draw_first_step, late_enough
from hardmax.problem.readouts import star_table


@pytest.mark.parametrize(
    "instance",
    [each for each in instances() if each.id[0] in "AC" and each.expected == "fails"],
    ids=lambda each: f"{each.id}: {each.name}",
)
def test_what_fails_has_a_proof(instance: Any) -> None:
    found = instance.run()
    assert found.verdict == "fails"
    assert any(word in found.proof for word in ("rational", "ball arithmetic", "|W_kq| <= t eta"))


def test_a_frequency_is_no_probability() -> None:
    """Five draws of which one is bad are no proof; eight norms beyond 2 with probability e^-4 each are."""
    bad = check_statement("A-EVT-14", examples.slack_corpus(), d=2, reading="paper")
    assert bad.measured["probability at most"] == pytest.approx((1 - math.exp(-4)) ** 8, rel=1e-12)
    assert at_precision(128, lambda: first_step.most_likely(7, 2, 0.1)) < 0.9
    unlucky = [
        check_statement("A-EVT-14", examples.two_by_two(), d=256, draws=1, rng=seed) for seed in range(120)
    ]
    assert {each.verdict for each in unlucky} <= {"holds", "undecided"}
    assert "undecided" in [each.verdict for each in unlucky]


def test_the_first_step_in_balls_is_that_in_floats() -> None:
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    for d in (1024, 10**60):
        drawn = draw_first_step(corpus, d=d, first_rate=3.0)
        again = at_precision(
            1024, lambda drawn=drawn: first_step.first_step_in_balls(corpus, drawn.start, 3.0)
        )
        sizes = [float(length(row)) for row in again["err_E"]]
        assert sizes == pytest.approx(drawn.errors.token_errors.tolist(), rel=1e-13)
        assert float(length(again["err_p"])) == pytest.approx(drawn.errors.cls_error, rel=1e-13)
        logits, values = again["E"] @ again["p"], again["E"][:, -1]
        assert float(first_step.loss_in_balls(corpus, logits, values)) == pytest.approx(
            drawn.after.loss(corpus), rel=1e-13
        )


def test_every_important_token_raises_the_loss_somewhere() -> None:
    corpus, (E, v) = examples.three_tokens(), examples.identity_embeddings([0.0, 0.0, 1.0, -1.0])
    points = [np.array([0.0, 0.0, 1.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0])]
    proof, share = gradients.raised_somewhere(corpus, points, E, v, (0, 1))
    assert (proof is not None, share) == (True, 1.0)
    # Without the second point token 1 pulls down everywhere: no proof, and half of the tokens.
    assert gradients.raised_somewhere(corpus, points[:1], E, v, (0, 1)) == (None, 0.5)


def test_a_flow_that_is_cut_short_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = examples.designated_problem()
    best = hm.max_margin(problem, [0, 0, 0])
    assert late_enough(problem, best, 1.0).holds is None
    assert late_enough(problem, best, 1e8).holds
    monkeypatch.setattr("hardmax.papers.trained_embeddings.theorem5.FAR", 1.0)
    found = check_statement("A-THM-5S", problem)
    assert found.verdict == "undecided"
    assert found.measured["1 - cos"] > 1e-8


def test_erratum_5_says_where_it_is_proved() -> None:
    claim = statements()["A-ERR-5"].claim
    assert "at infinite width and wherever p_hat.v = 0" in claim
    assert "Nothing is proved at the lemma's finite widths" in claim
    found = check_statement("A-ERR-5", examples.two_by_two(), reading="paper")
    assert Fraction(found.slack).limit_denominator(1000) == Fraction(22, 129) / Fraction(2, 3) - 1


def test_proposition_1_says_how_far_steps_were_taken() -> None:
    assert "up to t = 1,000" in statements()["C-PROP-1"].claim
    taken = [
        check_statement("C-PROP-1", named_sentences("C-EX-1"), steps=steps).measured[
            "steps taken, then the closed form"
        ]
        for steps in (900, 10**6)
    ]
    assert taken == [900, 1000]


def test_rare_queries_are_left_behind() -> None:
    bound = convergence.left_behind(rare_sentence())
    assert float(bound.lower()) == pytest.approx(1 - 1 / math.sqrt(2), abs=1e-12)
    usual = train(Samples.from_sentences(named_sentences("C-EX-1")), steps=900, rate=0.025)
    assert not convergence.left_behind(usual) > arb(0)


def test_gradients_of_stage_1_in_balls() -> None:
    n, W = np.array([1, 2, 0]), np.random.default_rng(0).normal(size=(3, 3))
    unit, _ = gradient_ov(n, W)
    ratio = -float(np.vdot(star_table(n), unit))
    _, star, G = stage1.gradient_in_balls(n, W)
    assert float(-(star @ G)) == pytest.approx(ratio, rel=1e-14)
    assert ratio > stage1.SHARP


@pytest.mark.parametrize("V", [2, 4, 100])
def test_corollary_1_asks_for_many_steps(V: int) -> None:
    assert [stage1.asked_of_stage_1(V, T, 0.2 / math.sqrt(V)) for T in (10, 10**13)] == [False, True]
